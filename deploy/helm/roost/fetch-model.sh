cd /models
files() { echo "$MODEL_FILES" | grep .; }
case $MODEL_URL in
  hf://* | s3://* | gs://*) want=$MODEL_URL ;;
  *) want=${MODEL_SHA256:-$(files | sha256sum | cut -c1-64)} ;;
esac
if [ "$(cat fetched 2>/dev/null)" = "$want" ]; then exit 0; fi
rm -f fetched
mkdir -p model
fail() { echo "$MODEL_URL: $1" >&2; exit 1; }
# A file, because others can see arguments. curl gives it to no other host that an answer may name.
: >/tmp/header
if [ -n "$MODEL_TOKEN" ]; then echo "Authorization: Bearer $MODEL_TOKEN" >/tmp/header; fi
get() { curl --fail --silent --show-error --location --retry 4 --header @/tmp/header "$@"; }
# is_whole SUM FILE, with SUM a sha256, or git:SHA1 as git names a file.
is_whole() {
  [ -f "$2" ] || return 1
  case $1 in
    git:*) [ "$({ printf 'blob %s\0' "$(wc -c <"$2" | tr -d ' ')"; cat "$2"; } | sha1sum | cut -c1-40)" = "${1#git:}" ] ;;
    *) [ "$(sha256sum <"$2" | cut -c1-64)" = "$1" ] ;;
  esac
}
# fetch SUM NAME URL: a file that is there stays; one that was cut off goes on where it ended.
fetch() {
  if is_whole "$1" "model/$2"; then return; fi
  part=model/$2.part
  mkdir -p "$(dirname "$part")"
  for pause in 1 2 4 8 0; do
    if is_whole "$1" "$part"; then break; fi
    begun=$(cat "$part" 2>/dev/null | wc -c)
    code=0
    get --continue-at - --output "$part" "$3" || code=$?
    if [ $code = 0 ]; then break; fi
    # 22: the store refuses it, or perhaps its rest alone. 33: it gives no rests.
    if [ $code = 22 ] && [ "$begun" -eq 0 ] || [ $pause = 0 ]; then fail "$2 can not be fetched"; fi
    if [ $code = 22 ] || [ $code = 33 ]; then rm -f "$part"; fi
    sleep $pause
  done
  if ! is_whole "$1" "$part"; then rm -f "$part"; fail "$2 is not the file of its checksum"; fi
  mv "$part" "model/$2"
}
# What an earlier model had and this one has not makes room: first, because a disk may not hold both.
keep() {
  find model -type f | while read -r file; do
    name=${file#model/}
    grep -qxF "${name%.part}" /tmp/names || rm "$file"
  done
  find model -depth -type d ! -path model -exec rmdir {} \; 2>/dev/null || true
}
# all BASE: the files that /tmp/list names, each below BASE.
all() {
  sed 's/^[^ ]*  *//' /tmp/list >/tmp/names
  keep
  while read -r sum name; do fetch "$sum" "$name" "$1/$name"; done </tmp/list
}
case $MODEL_URL in
  hf://*)
    # ORGANISATION/NAME@REVISION of a hub. It tells of each large file the sha256, of each small one git's name.
    hub=${HF_ENDPOINT:-https://huggingface.co}
    id=${MODEL_URL#hf://}
    case $id in *@*) revision=${id##*@} ;; *) revision=main ;; esac
    id=${id%@*}
    get "$hub/api/models/$id/revision/$revision" >/tmp/answer
    commit=$(sed 's/": /":/g' /tmp/answer | grep -o '"sha":"[0-9a-f]*"' | head -n 1 | cut -d '"' -f 4)
    [ -n "$commit" ] || fail "the hub names no commit of $revision"
    get "$hub/api/models/$id/tree/$commit?recursive=true" >/tmp/answer
    sed 's/": /":/g; s/{"type":/\
&/g' /tmp/answer | grep '^{"type":"file"' | while read -r entry; do
      name=$(echo "$entry" | sed 's/.*"path":"\([^"]*\)".*/\1/')
      case $name in
        */* | consolidated*) continue ;;
        *.json | *.safetensors | *.jinja | *.model | *.txt | *.tiktoken) ;;
        *) continue ;;
      esac
      sum=$(echo "$entry" | sed -n 's/.*"lfs":{[^}]*"oid":"\([0-9a-f]*\)".*/\1/p')
      [ -n "$sum" ] || sum=$(echo "$entry" | sed 's/.*"oid":"\([0-9a-f]*\)".*/git:\1/')
      echo "$sum  $name"
    done >/tmp/list
    grep -q '  config.json$' /tmp/list || fail "there is no config.json"
    all "$hub/$id/resolve/$commit"
    ;;
  s3://* | gs://*)
    # rclone takes the pod's identity or variables of its own, tries again, and checks what came by the store's checksums.
    command -v rclone >/dev/null || fail "needs rclone: give fetch-model an image that has it"
    case $MODEL_URL in s3://*) store=":s3,env_auth=true,provider=${RCLONE_S3_PROVIDER:-AWS}:" ;; *) store=:gcs,env_auth=true: ;; esac
    rclone --config "" --retries 5 sync "$store${MODEL_URL#*://}" model
    ;;
  *)
    if [ -n "$MODEL_FILES" ]; then
      # Files of a store, below the address.
      files >/tmp/list
      all "$MODEL_URL"
    else
      # An archive is unpacked and summed up as it comes; it never lies on the disk itself.
      : >/tmp/names
      keep
      rm -f /tmp/copy
      mkfifo /tmp/copy
      sha256sum </tmp/copy >/tmp/sum &
      get "$MODEL_URL" | tee /tmp/copy | { tar -xf - -C model; cat >/dev/null; }
      wait
      [ "$(cut -c1-64 /tmp/sum)" = "$MODEL_SHA256" ] || fail "not the archive of MODEL_SHA256"
    fi
    ;;
esac
echo "$want" >fetched

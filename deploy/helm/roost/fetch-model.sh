cd /models
files() { echo "$MODEL_FILES" | grep .; }
want=${MODEL_SHA256:-$(files | sha256sum | cut -c1-64)}
if [ "$(cat fetched 2>/dev/null)" = "$want" ]; then exit 0; fi
# Other weights, or what is left of a fetch that was cut off, make room.
rm -rf fetched model
mkdir model
# A file, because others can see arguments. curl gives it to no other host that an answer may name.
: >/tmp/header
if [ -n "$MODEL_TOKEN" ]; then echo "Authorization: Bearer $MODEL_TOKEN" >/tmp/header; fi
get() { curl --fail --silent --show-error --location --header @/tmp/header "$1"; }
if [ -n "$MODEL_FILES" ]; then
  # Files of a hub or a bucket, below the address.
  files | while read -r sum name; do
    mkdir -p "model/$(dirname "$name")"
    get "$MODEL_URL/$name" >"model/$name"
  done
  (cd model && files | sha256sum -c)
else
  # An archive is unpacked and summed up as it comes; it never lies on the disk itself.
  rm -f /tmp/copy
  mkfifo /tmp/copy
  sha256sum </tmp/copy >/tmp/sum &
  get "$MODEL_URL" | tee /tmp/copy | { tar -xf - -C model; cat >/dev/null; }
  wait
  if [ "$(cut -c1-64 /tmp/sum)" != "$MODEL_SHA256" ]; then echo "$MODEL_URL: not the archive of MODEL_SHA256" >&2; exit 1; fi
fi
echo "$want" >fetched

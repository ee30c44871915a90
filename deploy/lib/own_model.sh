# Sourced: serves the user's model. Needs cluster.sh, and disk: the folder of its blocks, or nothing.

# chat_example MODEL QUESTION, completion_example MODEL PROMPT: set example_path and example_body to a valid request.
chat_example() {
  example_path=/v1/chat/completions
  example_body='{"model": "'$1'", "messages": [{"role": "user", "content": "'$2'"}], "max_tokens": 64}'
}
completion_example() {
  example_path=/v1/completions
  example_body='{"model": "'$1'", "prompt": "'$2'", "max_tokens": 64}'
}

# ask_example: sends the example and prints the answer.
ask_example() {
  local status
  status=$(curl -sS -o "$figures/answer.json" -w '%{http_code}' "$url$example_path" \
    -H 'Content-Type: application/json' -d "$example_body")
  cat "$figures/answer.json"
  echo
  [ "$status" = 200 ] || fail "the first request was answered with status $status"
}

# print_metrics: prints where the daemons' metrics are, one command per line.
print_metrics() {
  local log
  echo "  curl $metrics/metrics"
  for log in "$logs"/worker-*.log; do
    echo "  curl $(sed -n 's/.*worker ready .*metrics=\([^ ]*\).*/\1/p' "$log" | head -n 1)"
  done
}

# measure_model FOLDER WORKERS: prints the memory that the model needs, and sets memory_line. On CUDA each worker has a
# device, and the one with the least free memory counts.
measure_model() {
  local flags=(--workers "$2") free_mib
  if [ "$backend" = cuda ]; then
    free_mib=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits | sort -n | head -n 1)
    flags=(--backend cuda --memory-bytes $((free_mib * 1024 * 1024)))
  fi
  "$bin/roostctl" memory --model "$1" "${flags[@]}" >"$figures/memory.txt" || fail "$1 can not be served"
  sed '$d' "$figures/memory.txt"
  memory_line=$(tail -n 1 "$figures/memory.txt")
}
memory_figure() { printf '%s\n' "$memory_line" | sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }

# check_model FOLDER: ends the script if this is no model folder, before anything is built for it.
check_model() {
  case "$1" in
    synthetic:*) ;;
    *) [ -f "$1/config.json" ] || fail "$1 is no model folder on this host: it has no config.json" ;;
  esac
}

# serve_model FOLDER: starts one worker on the CPU, with $threads or all cores, or one worker per CUDA device. Sets name.
serve_model() {
  local workers=1 number context tokens flags=() more=
  [ "$backend" = cpu ] || workers=$device_count
  say "$1: $workers worker(s)"
  measure_model "$1" "$workers"
  name=$(basename "${1#synthetic:}" | tr "\"'\\\\" -)  # safe in the JSON of the example
  context=$(memory_figure context_tokens)
  tokens=$(memory_figure kv_tokens)
  [ "$tokens" -ge "$context" ] || context=$tokens
  [ "$backend" = cuda ] || flags=(--kv-memory "$(memory_figure kv_memory)" --threads "${threads:-0}")
  [ -z "$disk" ] || flags+=(--disk-cache "$disk" --disk-cache-bytes 4GiB)
  logs=$figures/cluster
  mkdir "$logs"
  start_router "$http" "$link_address"
  for ((number = 0; number < workers; ++number)); do
    start_worker "worker-$number" $number "$1" --served-model-name "$name" --max-context-tokens "$context" "${flags[@]}"
  done
  await_workers "$workers" 600
  # Whole blocks are kept on disk, so the prompt has some.
  [ -z "$disk" ] || more=' Say where you come from, what you know of, and what I should ask you first. Say it in a few plain words.'
  if [ "$(memory_figure chat)" = yes ]; then
    chat_example "$name" "Who are you?$more"
  else
    completion_example "$name" "Once upon a time$more"
  fi
  say 'a first request'
  ask_example
  [ -z "$disk" ] || tell_disk
}

# tell_disk: waits until the blocks of the example are on disk, and says what came from there.
tell_disk() {
  local worker deadline=$((SECONDS + 10)) blocks=0 restored
  worker=$(print_metrics | tail -n 1 | cut -d ' ' -f 4)
  while ((SECONDS < deadline)); do
    blocks=$(metric_of "$worker" roost_worker_disk_blocks)
    [ "$blocks" = 0 ] || break
    sleep 0.1
  done
  restored=$(metric_of "$worker" 'roost_worker_arrived_blocks_total.*source="disk"')
  if [ "$restored" -gt 0 ]; then
    echo "The disk answered: $restored KV blocks of the prompt came from $disk."
  else
    echo "$disk has $blocks KV blocks now: the next start with the same request answers from there."
  fi
}

# metric_of URL NAME: its value, as a whole number.
metric_of() { curl -sS "$1" | sed -n "s/^$2.* \([0-9]*\)[.0-9]*$/\1/p" | head -n 1; }

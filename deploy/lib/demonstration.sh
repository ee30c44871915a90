# Sourced: asks the same questions under two routing policies, and prints the results as a table and as bars. Needs
# cluster.sh and figures, a folder.
#
# Fourteen documents of about 2,600 tokens, four questions on each in a shuffled order, four at a time. A worker's
# cache holds seven documents and their questions. So two workers together hold all documents if each document stays on
# one worker, and they do not if each worker gets all documents in turn.

document_count=14
question_count=56
kv_blocks=1248  # of 16 tokens
demo_load=(--prompts deploy/demo-prompts --documents "$document_count" --conversations "$question_count"
           --turns 1 --concurrency 4 --max-tokens 8 --brief)

# start_demo POLICY HTTP_ADDRESS LINK_ADDRESS: starts a router and two workers with empty caches. Their logs have their
# own folder.
start_demo() {
  local number
  logs=$figures/$1
  mkdir "$logs"
  start_router "$2" "$3" --policy "$1"
  for number in 0 1; do
    start_worker "worker-$number" $number deploy/demo-model --threads 1 --kv-blocks $kv_blocks
  done
  await_workers 2 60
}

# run_demo_load POLICY [FLAG…]: prints a row of the table; the line of key=value pairs goes to $figures/POLICY.txt.
run_demo_load() {
  local bench code=0
  "$bin/roostctl" bench --router "$url" --label "$1" "${demo_load[@]}" "${@:2}" >"$logs/bench.txt" &
  bench=$!
  pids+=("$bench")
  wait "$bench" || code=$?
  unset 'pids[-1]'
  sed '$d' "$logs/bench.txt"
  tail -n 1 "$logs/bench.txt" >"$figures/$1.txt"
  return $code
}

# figure POLICY NAME: prints a number from that policy's run.
figure() { sed -n "s/.* $2=\([^ ]*\).*/\1/p" "$figures/$1.txt"; }

# bar VALUE MOST: a bar of at most 40 characters.
bar() {
  local block='#' length
  [ "$(locale charmap 2>/dev/null)" != UTF-8 ] || block='█'
  length=$(awk "BEGIN { n = int($1 / $2 * 40 + 0.5); print n < 1 ? 1 : n }")
  printf "%0.s$block" $(seq "$length")
}

quotient() { awk "BEGIN { if ($2 > 0) printf \"%.1f\", $1 / $2; else print \"-\" }"; }

# print_bars: prints the two runs next to each other.
print_bars() {
  local policy most
  most=$(printf '%s\n' "$(figure round-robin ttft_p50_ms)" "$(figure cache-aware ttft_p50_ms)" | sort -g | tail -n 1)
  printf '\nMedian time to the first token\n'
  for policy in round-robin cache-aware; do
    printf '  %-12s %s %.1f ms\n' $policy "$(bar "$(figure $policy ttft_p50_ms)" "$most")" \
      "$(figure $policy ttft_p50_ms)"
  done
  printf 'Prompt tokens found in a cache\n'
  for policy in round-robin cache-aware; do
    printf '  %-12s %s %.0f %%\n' $policy "$(bar "$(figure $policy cached_ratio)" 1)" \
      "$(awk "BEGIN { print 100 * $(figure $policy cached_ratio) }")"
  done
  ttft_gain=$(quotient "$(figure round-robin ttft_p50_ms)" "$(figure cache-aware ttft_p50_ms)")
  cached_gain=$(quotient "$(figure cache-aware cached_ratio)" "$(figure round-robin cached_ratio)")
  printf '\nCache-aware routing: first token %s x sooner, %s x as many prompt tokens from caches.\n' \
    "$ttft_gain" "$cached_gain"
}

# compare_policies: runs both and keeps the cache-aware cluster running. Ends the script if an answer is missing or
# differs.
compare_policies() {
  start_demo round-robin 127.0.0.1:0 tcp://127.0.0.1:0
  run_demo_load round-robin --table-header || fail 'round-robin: not every answer came'
  stop_cluster
  start_demo cache-aware "$http" "$link_address"
  run_demo_load cache-aware || fail 'cache-aware: not every answer came'
  # On a CPU an answer has the same bits on every worker and with every cache state.
  if [ "$backend" = cpu ] && [ "$(figure round-robin answers)" != "$(figure cache-aware answers)" ]; then
    fail 'the two policies got different answers'
  fi
  print_bars
  chat_example demo-model 'Who comes here at this hour?'
}

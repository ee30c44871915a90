#!/usr/bin/env bash
# From nothing to a running cluster: installs packages, builds, starts one router and two workers with the demo model
# on loopback, sends a demonstration load under two routing policies and prints a table. Then the cluster stays up
# until Ctrl-C.
#
#   ./deploy/quickstart.sh           the cluster listens on http://127.0.0.1:8000 and stays up
#   ./deploy/quickstart.sh --once    stops after the table; exits 0 only if every answer came, at least half of the
#                                    prompt tokens came from caches, and a warm prompt's first token took less than
#                                    half of a cold one's time
set -euo pipefail
cd "$(dirname "$0")/.."

once=false
case "${1:-}" in
  '') ;;
  --once) once=true ;;
  *) echo "usage: $0 [--once]" >&2; exit 64 ;;
esac

say() { printf '\n== %s\n' "$*"; }

say 'packages and build'
./deploy/packages.sh build
# Tests are configured only where their packages are; the daemons need none of them.
[ -f build/release/build.ninja ] || cmake --preset release -DROOST_BUILD_TESTS=OFF >/dev/null
cmake --build --preset release --target roost-router roost-worker roostctl
bin=build/release/bin

logs=$(mktemp -d "${TMPDIR:-/tmp}/roost-quickstart.XXXXXX")
pids=()

stop_cluster() {
  local pid
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  pids=()
}
trap stop_cluster EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# await FILE PATTERN PID: waits until PATTERN is in FILE, and prints what its first group matched.
await() {
  local deadline=$((SECONDS + 60)) found
  while ((SECONDS < deadline)); do
    found=$(sed -n "s/.*$2.*/\1/p" "$1" | head -n 1)
    [ -n "$found" ] && { echo "$found"; return; }
    kill -0 "$3" 2>/dev/null || break
    sleep 0.05
  done
  echo "quickstart: $1 does not say '$2':" >&2
  tail -n 5 "$1" >&2
  return 1
}

# await_workers COUNT LOGS: waits until the router has so many workers that are ready.
await_workers() {
  local deadline=$((SECONDS + 60))
  while ((SECONDS < deadline)); do
    [ "$("$bin/roostctl" status --router "$url" | grep -c ' ready  *exact ')" -lt "$1" ] || return 0
    sleep 0.05
  done
  echo "quickstart: the workers are not ready after a minute:" >&2
  tail -n 5 "$2"/*.log >&2
  return 1
}

http=127.0.0.1:8000
link=tcp://127.0.0.1:7001
if $once; then http=127.0.0.1:0 link=tcp://127.0.0.1:0; fi

# start_cluster POLICY: sets url.
start_cluster() {
  local bound worker
  "$bin/roost-router" --policy "$1" --http-address "$http" --link-address "$link" --drain-announce-seconds 0 \
    2>"$logs/router-$1.log" &
  pids=($!)
  url=$(await "$logs/router-$1.log" 'router ready .*http=\([^ ]*\)' "${pids[0]}")
  bound=$(await "$logs/router-$1.log" 'router ready .*link=\([^ ]*\)' "${pids[0]}")
  for worker in worker-a worker-b; do
    "$bin/roost-worker" --model deploy/demo-model --worker-id "$worker" --router "$bound" --threads 1 \
      2>"$logs/$worker-$1.log" &
    pids+=($!)
  done
  await_workers 2 "$logs"
}

# bench POLICY [FLAG…]: prints a row of the table; its last line of key=value pairs stays in $figures.
bench() {
  local out
  out=$("$bin/roostctl" bench --router "$url" --prompts deploy/demo-prompts --label "$1" "${@:2}")
  printf '%s\n' "$out" | sed '$d'
  figures=$(printf '%s\n' "$out" | tail -n 1)
}
figure() { printf '%s\n' "$figures" | sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }

say 'one router, two workers, the demo model: the same load under two policies'
start_cluster round-robin
bench round-robin --table-header
stop_cluster
start_cluster cache-aware
bench cache-aware

requests=$(figure requests) failed=$(figure failed) ratio=$(figure cached_ratio)
cold=$(figure ttft_cold_ms) warm=$(figure ttft_warm_ms)
echo
echo "A prompt of about 1,500 tokens, sent alone: first token after $cold ms cold, $warm ms warm."

if ! $once; then
  cat <<TEXT

The cluster is up. Try:

  curl -N $url/v1/chat/completions -H 'Content-Type: application/json' -d '{
    "model": "demo-model", "messages": [{"role": "user", "content": "Who comes here at this hour?"}], "max_tokens": 64, "stream": true}'

  $bin/roostctl status --router $url
  curl $url/metrics

Logs are in $logs. Ctrl-C stops it.
TEXT
  wait
  exit
fi

stop_cluster
if [ "$failed" != 0 ] || ! awk "BEGIN { exit !($ratio >= 0.5 && $warm < $cold / 2) }"; then
  echo "quickstart: FAILED requests=$requests failed=$failed cached_ratio=$ratio ttft_cold_ms=$cold ttft_warm_ms=$warm" >&2
  exit 1
fi
rm -rf "$logs"
echo "quickstart: ok requests=$requests cached_ratio=$ratio ttft_cold_ms=$cold ttft_warm_ms=$warm"

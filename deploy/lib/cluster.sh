# Sourced: starts and stops a cluster on this machine. Needs: bin, the folder of the programs; logs, the folder for
# their logs; admin_address and metrics_address, of the router; backend and device_count of backend.sh.

pids=()  # of the processes started here; the router's is the first
names=() # of these processes, by pid; each has a log of this name

stop_cluster() {
  local pid
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  pids=()
}

# watch_cluster: waits until no process is left, and says of each which ends that it did.
watch_cluster() {
  local pid status left
  while [ ${#pids[@]} -gt 0 ]; do
    wait -n "${pids[@]}" 2>/dev/null || true  # one has ended
    left=()
    for pid in "${pids[@]}"; do
      if kill -0 "$pid" 2>/dev/null; then
        left+=("$pid")
        continue
      fi
      status=0
      wait "$pid" || status=$?
      echo "quickstart: ${names[$pid]} ended with status $status; see $logs/${names[$pid]}.log" >&2
    done
    pids=("${left[@]}")
  done
}

# check_free HOST:PORT VARIABLE: ends the script if something listens there.
check_free() {
  if (exec 3<>"/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null; then
    echo "quickstart: something listens on $1 already; $2 names another address" >&2
    exit 1
  fi
}

# await FILE PATTERN PID: waits until PATTERN is in FILE, and prints the match of its first group.
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

# start_router HTTP_ADDRESS LINK_ADDRESS [FLAG…]: sets url, admin, metrics and link.
start_router() {
  local log=$logs/router.log
  "$bin/roost-router" --http-address "$1" --link-address "$2" --admin-address "$admin_address" \
    --metrics-address "$metrics_address" --drain-announce-seconds 0 --log-format text "${@:3}" 2>"$log" &
  pids=($!)
  names[$!]=router
  url=$(await "$log" 'router ready .*http=\([^ ]*\)' "${pids[0]}")
  admin=$(await "$log" 'router ready .*admin=\([^ ]*\)' "${pids[0]}")
  metrics=$(await "$log" 'router ready .*metrics=\([^ ]*\)' "${pids[0]}")
  link=$(await "$log" 'router ready .*link=\([^ ]*\)' "${pids[0]}")
}

# start_worker NAME NUMBER MODEL [FLAG…]: starts one more worker for $link. Its number chooses its device, in rotation.
# ROOST_METRICS_ADDRESS is the router's here, and the worker would read it too.
start_worker() {
  local device=()
  [ "$backend" = cpu ] || device=(--device $(($2 % device_count)))
  "$bin/roost-worker" --worker-id "$1" --model "$3" --router "$link" --backend "$backend" "${device[@]}" \
    --metrics-address 127.0.0.1:0 --log-format text "${@:4}" 2>"$logs/$1.log" &
  pids+=($!)
  names[$!]=$1
}

# await_workers COUNT SECONDS: waits until the router has this many ready workers.
await_workers() {
  local deadline=$((SECONDS + $2)) pid
  while ((SECONDS < deadline)); do
    [ "$("$bin/roostctl" status --admin "$admin" | grep -c ' ready  *exact ')" -lt "$1" ] || return 0
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || break 2; done
    sleep 0.05
  done
  echo "quickstart: $1 workers are not ready:" >&2
  tail -n 5 "$logs"/*.log >&2
  return 1
}

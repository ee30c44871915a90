#!/usr/bin/env bash
# From nothing to a running cluster: installs packages, builds, starts a router and workers on loopback, shows the
# effect of cache-aware routing on a load, and keeps the cluster running until Ctrl-C.
#
#   ./deploy/quickstart.sh                    the demo model, two workers, the same load under two routing policies
#   ./deploy/quickstart.sh --model DIR        your model instead: checks its folder and memory, serves it; or
#                                             synthetic:PRESET, a known shape with random weights (synthetic:small)
#   ./deploy/quickstart.sh … --threads N      threads of your model's worker on the CPU; by default one for each processor
#                                             that it may use. Give fewer where builds or other programs run beside it
#   ./deploy/quickstart.sh … --disk-cache DIR  your model's worker, on the CPU, also keeps KV blocks in this folder, up to 4 GiB:
#                                             the next start answers from there, and says so
#   ./deploy/quickstart.sh … --once           stops at the end; exits with 0 only if all answers were complete and right
#   ./deploy/quickstart.sh … --backend cpu    cpu or cuda; by default cuda where there are a CUDA toolkit and a GPU
#
# The router listens on ROOST_HTTP_ADDRESS, by default 127.0.0.1:8000, ROOST_ADMIN_ADDRESS (127.0.0.1:8001) and
# ROOST_METRICS_ADDRESS (127.0.0.1:8002), and takes workers on ROOST_LINK_ADDRESS (tcp://127.0.0.1:7001); with --once on
# free ports. ROOST_BIN names a folder with programs that are built.
set -euo pipefail
called_from=$PWD
cd "$(dirname "$0")/.."
. deploy/lib/backend.sh
. deploy/lib/cluster.sh
. deploy/lib/demonstration.sh
. deploy/lib/own_model.sh

once=false
model=
backend_wanted=auto
threads=
disk=
describe() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' deploy/quickstart.sh; }
usage() {
  echo "quickstart: $1; --help says what there is" >&2
  exit 64
}
while [ $# -gt 0 ]; do
  case "$1" in
    --once) once=true ;;
    --model)
      [ -n "${2:-}" ] || usage '--model needs a folder'
      model=$2
      [[ $model = synthetic:* ]] || model=$(cd "$called_from" && realpath -ms "$model")
      shift
      ;;
    --backend)
      [[ ${2:-} =~ ^(auto|cpu|cuda)$ ]] || usage '--backend needs auto, cpu or cuda'
      backend_wanted=$2
      shift
      ;;
    --threads)
      [[ ${2:-} =~ ^[1-9][0-9]{0,3}$ ]] || usage '--threads needs a number'
      threads=$2
      shift
      ;;
    --disk-cache)
      [ -n "${2:-}" ] || usage '--disk-cache needs a folder'
      disk=$(cd "$called_from" && realpath -ms "$2")
      shift
      ;;
    --help | -h)
      describe
      exit
      ;;
    *) usage "$1 is not known" ;;
  esac
  shift
done

[ -z "$threads" ] || [ -n "$model" ] || usage '--threads is for --model; workers of the demo model have one thread each'

[ -z "$disk" ] || [ -n "$model" ] || usage '--disk-cache is for --model'

say() { printf '\n== %s\n' "$*"; }
fail() { echo "quickstart: FAILED $*" >&2; exit 1; }

http=${ROOST_HTTP_ADDRESS:-127.0.0.1:8000}
link_address=${ROOST_LINK_ADDRESS:-tcp://127.0.0.1:7001}
admin_address=${ROOST_ADMIN_ADDRESS:-127.0.0.1:8001}
metrics_address=${ROOST_METRICS_ADDRESS:-127.0.0.1:8002}
if $once; then
  http=127.0.0.1:0 admin_address=127.0.0.1:0 metrics_address=127.0.0.1:0 link_address=tcp://127.0.0.1:0
else
  check_free "$http" ROOST_HTTP_ADDRESS
  check_free "$admin_address" ROOST_ADMIN_ADDRESS
  check_free "$metrics_address" ROOST_METRICS_ADDRESS
  check_free "${link_address#tcp://}" ROOST_LINK_ADDRESS
fi
[ -z "$model" ] || check_model "$model"
choose_backend "$backend_wanted"
[ -z "$disk" ] || [ "$backend" = cpu ] || usage '--disk-cache needs --backend cpu'
if [ -n "${ROOST_BIN:-}" ]; then
  bin=$(cd "$called_from" && realpath -ms "$ROOST_BIN")
else
  bin=build/release/bin
  say 'packages and build'
  build_programs
fi
say "backend: $backend ($backend_reason)"

figures=$(mktemp -d "${TMPDIR:-/tmp}/roost-quickstart.XXXXXX")
trap stop_cluster EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
started=$SECONDS

if [ -n "$model" ]; then
  serve_model "$model"
  result="model=$name"
else
  say "one router, two workers, the demo model: $question_count questions on $document_count documents, twice"
  compare_policies
  result="requests=$question_count ttft_gain=$ttft_gain cached_gain=$cached_gain answers=$(figure cache-aware answers)"
fi
echo "That took $((SECONDS - started)) s."

if $once; then
  stop_cluster
  rm -rf "$figures"
  echo "quickstart: ok $result backend=$backend"
  exit
fi
cat <<TEXT

The cluster is up. Try:

  curl $url$example_path -H 'Content-Type: application/json' -d '$example_body'

See the workers, their load and what their caches hold; and why the last requests went to their workers:

  $bin/roostctl status --admin $admin
  $bin/roostctl explain --last 3 --admin $admin

Metrics are in the format of Prometheus; dashboards/*.json show them in Grafana:

$(print_metrics)

Logs are in $logs. Ctrl-C stops it.
TEXT
watch_cluster

#!/usr/bin/env bash
# Checks and measures a CUDA device within a fixed time, with a pack that gpu.sh made. gpu_lease.py has the stages.
#
#   ./tests/bench/gpu_lease.sh PACK OUT SECONDS [--only STAGE,STAGE]
#
# OUT gets log, stages.jsonl and figures.json; a second run into the same folder adds to them.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/bench/gpu_pack.sh

[ $# -ge 3 ] || { sed -n '2,6s/^# \?//p' "$0" >&2; exit 64; }
pack=$1 out=$2 seconds=$3
shift 3
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
open_gpu_pack "$pack" "$folder"
python3 tests/bench/gpu_lease.py "$folder/bin" "$out" "$seconds" "$@"

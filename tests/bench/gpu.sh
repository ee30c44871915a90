#!/usr/bin/env bash
# Checks and measures this machine's CUDA device, or packs what does so on another machine.
#
#   ./tests/bench/gpu.sh OUT                  builds, packs, and runs every stage of gpu_lease.sh with results in OUT
#   ./tests/bench/gpu.sh --pack FILE.tar.gz   builds and packs; gpu_lease.sh runs it
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/bench/gpu_pack.sh

[ $# -gt 0 ] || { sed -n '2,5s/^# \?//p' "$0" >&2; exit 64; }
if [ "$1" = --pack ]; then
  [ $# -eq 2 ] || { echo "gpu.sh: --pack FILE.tar.gz" >&2; exit 64; }
  build_gpu_programs
  make_gpu_pack "$2"
  exit
fi
case "$1" in -*) echo "gpu.sh: unknown flag $1" >&2; exit 64 ;; esac
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
build_gpu_programs
make_gpu_pack "$scratch/pack.tar.gz"
./tests/bench/gpu_lease.sh "$scratch/pack.tar.gz" "$1" 3600 --only all

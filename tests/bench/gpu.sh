#!/usr/bin/env bash
# Measures a CUDA device on a release build: one line per figure, figure <name> <value> <unit>, beside the ceilings of the
# same run, and the same as JSON. Exits with 77 where there is no device.
#
#   ./tests/bench/gpu.sh [gpu_figures.json]
set -euo pipefail
cd "$(dirname "$0")/../.."

./deploy/packages.sh test >&2
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
{
  cmake --preset release -DROOST_BUILD_TESTS=ON -DROOST_CUDA=ON
  cmake --build --preset release --target roost_gpu_bench roost_cuda
} >&2
exec build/release/bin/roost_gpu_bench "${1:-gpu_figures.json}"

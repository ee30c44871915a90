#!/usr/bin/env bash
# Measures on a release build, and prints one line per figure: figure <name> <value> <unit>.
#
#   ./tests/bench.sh             every figure
#   ./tests/bench.sh seed        benchmarks whose names contain "seed": the runs of roostctl generate
#   ./tests/bench.sh --quick …   runs each once with small sizes, to check that it runs
set -euo pipefail
cd "$(dirname "$0")/.."

./deploy/packages.sh test >&2
{
  cmake --preset release -DROOST_BUILD_TESTS=ON
  cmake --build --preset release --target roost_bench
} >&2
exec build/release/bin/roost_bench "$@"

#!/usr/bin/env bash
# The time of a model's steps beside other processes, under a CPU quota, and beside a second model, as ratios to the
# quiet machine, in turns within one run: a line each, figure <name> <value> <unit>. For arguments see neighbours.py.
set -euo pipefail
cd "$(dirname "$0")/../.."

./deploy/packages.sh test >&2
{
  cmake --preset release -DROOST_BUILD_TESTS=ON
  cmake --build --preset release --target roost_stepper
} >&2
exec python3 tests/bench/neighbours.py "$@"

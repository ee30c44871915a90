#!/usr/bin/env bash
# Every test in the release build, with all its seeds: also those that take minutes each (packages and images, clients from the
# Python package index, command lines of agents, pods in network namespaces, scaling, the quickstart, each benchmark once,
# 10,000 simulated clusters, planted faults), and the races between threads of CUDA kernels; then the fuzz targets' corpora with
# checks of each pointer, which the asan preset leaves out. More than an hour on two cores.
#
#   ./tests/nightly.sh               everything
#   ./tests/nightly.sh -L nightly    arguments go to ctest: here what takes minutes alone
set -euo pipefail
cd "$(dirname "$0")/.."

./deploy/packages.sh test
cmake --preset release -DROOST_BUILD_TESTS=ON -DROOST_TEST_LABELS=
cmake --build --preset release
echo "nightly.sh: built in $SECONDS s"
export ROOST_NIGHT=1
# Spoilt pulls and killed workers, of which CI tries a few.
export ROOST_TRANSFER_ROUNDS=100 ROOST_APART_ROUNDS=20
# Other seeds of whole models each night.
export ROOST_TRAVEL_SEEDS=40 ROOST_TRAVEL_FIRST_SEED=$(($(date +%s) / 86400 * 40))
echo "nightly.sh: blocks travel with seeds from $ROOST_TRAVEL_FIRST_SEED on"
code=0
python3 tests/run_ctest.py build/release --no-tests=error --timeout 1800 --parallel "$(nproc)" "$@" || code=$?
[ $# -gt 0 ] || ROOST_PRESET=fuzz ./tests/run.sh -L fuzz || code=$?
echo "nightly.sh: all of it in $SECONDS s"
exit "$code"

#!/usr/bin/env bash
# Builds Roost and runs every test. On a fresh Debian 12, as root or with sudo, it first installs what it needs.
#
#   ./tests/run.sh               everything
#   ./tests/run.sh -L unit       arguments go to ctest: here the tests of one label
#   ROOST_PRESET=asan ./tests/run.sh -L 'unit|sim'    another preset of CMakePresets.json
#
# Tests on real tokenizers, chat templates and traces look for them in ROOST_SHARED (default ../shared) and skip
# visibly without them.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${ROOST_PRESET:-release}
./deploy/packages.sh test
# The quickstart may have configured the release build without tests.
cmake --preset "$preset" -DROOST_BUILD_TESTS=ON
cmake --build --preset "$preset"
echo "run.sh: built $preset in $SECONDS s"
exec ctest --preset "$preset" --no-tests=error --timeout 600 --parallel "$(nproc)" "$@"

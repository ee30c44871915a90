#!/usr/bin/env bash
# Builds Roost and runs its tests. On a fresh Debian 12, as root or with sudo, it first installs what it needs.
#
#   ./tests/run.sh               the programs, what compares implementations bit for bit, real daemons, rules: some minutes
#   ./tests/run.sh --all         these, and all other tests under the address and the thread sanitizer
#   ./tests/run.sh -L unit       arguments go to ctest: here the tests of one label. Labels that the release build does not
#                                have (unit, model, sim, simt, threads, fuzz) are built in dev
#   ROOST_PRESET=asan ./tests/run.sh -L sim      another preset of CMakePresets.json
#
# What takes minutes each is left to tests/nightly.sh. Tests on real tokenizers, chat templates and traces look for them in
# ROOST_SHARED (default ../shared) and skip visibly without them.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --all ]; then
  shift
  for preset in asan tsan release; do ROOST_PRESET=$preset "$0" "$@"; done
  exit
fi

# The regular expression for labels among the arguments.
wanted=
for ((i = 1; i < $#; i++)); do
  next=$((i + 1))
  case "${!i}" in -L | --label-regex) wanted=${!next} ;; esac
done

# The labels of programs that the expression names: their targets are built instead of everything, in dev if the release
# build has none of them.
targets=()
preset=${ROOST_PRESET:-release}
if [ -n "$wanted" ]; then
  in_release=no
  for label in $(sed -n 's/^set(program_labels \(.*\))$/\1/p' tests/CMakeLists.txt); do
    [[ $label =~ $wanted ]] || continue
    targets+=("tests_$label")
    case "$label" in unit | threads | model | sim | simt | fuzz) ;; *) in_release=yes ;; esac
  done
  [ ${#targets[@]} -gt 0 ] || in_release=yes
  [ -n "${ROOST_PRESET:-}" ] || [ $in_release = yes ] || preset=dev
  [ $in_release = no ] || targets=()
fi

./deploy/packages.sh test
# The quickstart may have configured the release build without tests.
cmake --preset "$preset" -DROOST_BUILD_TESTS=ON
cmake --build --preset "$preset" ${targets[@]:+--target "${targets[@]}"}
echo "run.sh: built $preset in $SECONDS s"
python3 tests/run_ctest.py "build/$preset" --no-tests=error --timeout 600 --parallel "$(nproc)" -LE nightly "$@"

#!/usr/bin/env bash
# Runs two public benchmarks of the Python package index against Roost: aiperf 0.13 and cache-pressure 0.6. Prints their
# own words for what they saw, as figures. Needs a release build; takes some ten minutes and installs 1 GB.
#
#   tests/clients/benches.sh                       both, before two demo workers and before two doubles of vLLM
#   tests/clients/benches.sh --cluster doubles     before one of them; --policy round-robin: with another policy too
#
# If the package index can not be reached and nothing is installed yet, nothing runs: exit code 77.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export ROOST_BIN=${ROOST_BIN:-$(cd "$here/../.." && pwd)/build/release/bin}

. "$here/../support/python_environment.sh"

for program in roost-router roost-worker; do
  [ -x "$ROOST_BIN/$program" ] || { echo "benches.sh: $ROOST_BIN/$program is not built" >&2; exit 1; }
done
folder=$(python_environment benches "$here/requirements-benches.txt")
exec /usr/bin/python3 "$here/benches.py" --programs "$folder/bin" "$@"

#!/usr/bin/env bash
# The cost of a chat to Roost's router and to SMG's, in CPU time, measured in one run. Needs a release build with
# tests. SMG comes from the Python package index; without it only Roost is measured, and a line says so.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=${ROOST_SMG_VENV:-build/smg-venv}
if [[ ! -x $venv/bin/smg ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet smg >&2 || true
fi
if [[ -x $venv/bin/smg ]]; then
  exec python3 tests/bench/router_cost.py --smg "$venv/bin/smg"
fi
echo "skipped: SMG, since the Python package index does not give it"
exec python3 tests/bench/router_cost.py

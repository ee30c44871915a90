#!/usr/bin/env bash
# Draws the pictures of dashboards/README.md: runs a cluster for some minutes under load, errors, an overload and a kill,
# asks its Prometheus for every panel, and writes dashboards/pictures/*.png.
#
#   ./tests/dashboards/draw.sh
#   ./tests/dashboards/draw.sh --quick     a short run, into a folder of its own, to see that it works
#
# It needs the built daemons and packages of the Python package index; without a network it is skipped: exit code 77.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/python_environment.sh"
environment=$(python_environment dashboards "$here/requirements.txt")
export ROOST_BIN=${ROOST_BIN:-$here/../../build/release/bin}
exec "$environment/bin/python" "$here/draw.py" "$@"

#!/usr/bin/env bash
# Measures Roost and other routers before two doubles of vLLM (vllm_bench.py --doubles): minutes, and no engine to
# install. Needs a release build.
#
#   tests/engines/doubles.sh                both loads, one of each router
#   tests/engines/doubles.sh --routers 2    two of each
#
# If the package index can not be reached and nothing is installed yet, nothing runs: exit code 77.
set -euo pipefail
cd "$(dirname "$0")/../.."

. tests/support/python_environment.sh
peers=$(python_environment peers tests/engines/requirements-peers.txt)
exec "$peers/bin/python" tests/engines/vllm_bench.py --doubles --peers "$peers" "$@"

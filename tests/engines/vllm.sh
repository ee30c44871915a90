#!/usr/bin/env bash
# Runs workers beside real vLLM on a CPU: the whole suite of adapter_suite.py, twice. Outside CI: it installs 6 GB from
# the Python package index and takes half an hour. Needs a release build.
#
#   tests/engines/vllm.sh                       both models
#   tests/engines/vllm.sh DemoModelTest …       arguments go to unittest
#   tests/engines/vllm.sh --layouts             other cache layouts, kinds of models and names instead (vllm_layouts_test.py)
#   tests/engines/vllm.sh --connector           prompts and answers at different engines instead (vllm_connector_test.py)
#   tests/engines/vllm.sh --bench               measures beside other routers instead (vllm_bench.py)
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(tests/engines/vllm_environment.sh)
if [[ ${1:-} == --bench ]]; then
  shift
  . tests/support/python_environment.sh
  peers=$(python_environment peers tests/engines/requirements-peers.txt)
  exec "$folder/bin/python" tests/engines/vllm_bench.py --peers "$peers" "$@"
fi
if [[ ${1:-} == --layouts || ${1:-} == --connector ]]; then
  kind=${1#--}
  shift
  [[ $kind == layouts ]] || "$folder/bin/python" -m pip install --quiet --no-deps -r tests/engines/requirements-nixl.txt
  exec "$folder/bin/python" "tests/engines/vllm_${kind}_test.py" -v "$@"
fi
exec "$folder/bin/python" tests/engines/vllm_test.py -v "$@"

#!/usr/bin/env bash
# Runs workers beside llama.cpp's own server, with the demo model. Outside CI: it installs 150 MB from the Python package
# index. Needs a release build.
#
#   tests/engines/llama_cpp.sh              the tests
#   tests/engines/llama_cpp.sh --record     writes recordings/llama.cpp anew
#   tests/engines/llama_cpp.sh --texts 500  greedy texts through slots, disk and moves beside a fresh server's
#   tests/engines/llama_cpp.sh --cost 60    what router and worker add to chats, and what saves and restores cost others
#   tests/engines/llama_cpp.sh --sessions   chat sessions before two servers, by who chooses the server: figures, eight minutes
#   tests/engines/llama_cpp.sh --sessions --promises 2000 [CASE …]   how often the prompts find what the router promised
set -euo pipefail
cd "$(dirname "$0")/../.."

. tests/support/python_environment.sh
folder=$(python_environment llama tests/engines/requirements-llama.txt)
export ROOST_LLAMA_PYTHON="$folder/bin/python"
if [ "${1:-}" = --texts ]; then exec /usr/bin/python3 tests/engines/slot_texts.py "${2:-500}"; fi
if [ "${1:-}" = --cost ]; then exec /usr/bin/python3 tests/engines/slot_cost.py "${2:-60}"; fi
if [ "${1:-}" = --sessions ]; then exec /usr/bin/python3 tests/engines/slot_sessions.py "${@:2}"; fi
exec /usr/bin/python3 tests/engines/llama_cpp_test.py "$@"

#!/usr/bin/env bash
# Runs third-party clients against the built daemons: the official openai and anthropic packages, LangChain, LiteLLM,
# schemathesis, and with --load the load generator guidellm.
#
#   tests/clients/run.sh                 all tests but those of the load generator
#   tests/clients/run.sh --load          with the load generator, which installs 600 MB more
#   tests/clients/run.sh --commands      with the command lines of coding agents, which install 900 MB more
#   tests/clients/run.sh --matrix        all of it, and writes the matrix in router/api/README.md
#   tests/clients/run.sh -k stream       other arguments go to pytest
#
# The packages go into a virtual environment under ROOST_CLIENTS_CACHE (default ~/.cache/roost), one for each list of
# versions. If the package index can not be reached and nothing is cached, the tests are skipped: exit code 77.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export ROOST_BIN=${ROOST_BIN:-$root/build/release/bin}

. "$here/../support/python_environment.sh"

load=no
commands=no
matrix=no
arguments=()
for argument in "$@"; do
  case "$argument" in
    --load) load=yes ;;
    --commands) commands=yes ;;
    --matrix) load=yes commands=yes matrix=yes ;;
    *) arguments+=("$argument") ;;
  esac
done

for program in roost-router roost-worker roost-scripted-worker roostctl; do
  [ -x "$ROOST_BIN/$program" ] || { echo "run.sh: $ROOST_BIN/$program is not built" >&2; exit 1; }
done
clients=$(python_environment clients "$here/requirements.txt")
if [ "$load" = yes ]; then
  ROOST_GUIDELLM=$(python_environment guidellm "$here/requirements-load.txt")/bin/guidellm
  export ROOST_GUIDELLM
fi
if [ "$commands" = yes ]; then
  ROOST_COMMANDS=$(python_environment commands "$here/requirements-commands.txt")
  export ROOST_COMMANDS
fi
[ "$matrix" = no ] || export ROOST_CLIENT_RESULTS=${ROOST_CLIENT_RESULTS:-$(mktemp)}
cd "$here"
code=0
"$clients/bin/python" -m pytest "${arguments[@]}" || code=$?
[ "$matrix" = no ] || "$clients/bin/python" matrix.py "$ROOST_CLIENT_RESULTS" "$root/router/api/README.md"
exit "$code"

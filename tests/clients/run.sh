#!/usr/bin/env bash
# Runs third-party clients against the built daemons: the official openai and anthropic packages, LangChain, LiteLLM,
# schemathesis, and with --load the load generator guidellm.
#
#   tests/clients/run.sh                 all tests but those of the load generator
#   tests/clients/run.sh --load          with the load generator, which installs 600 MB more
#   tests/clients/run.sh --matrix        all of it, and writes the matrix in router/api/README.md
#   tests/clients/run.sh -k stream       other arguments go to pytest
#
# The packages go into a virtual environment under ROOST_CLIENTS_CACHE (default ~/.cache/roost), one for each list of
# versions. If the package index can not be reached and nothing is cached, the tests are skipped: exit code 77.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${ROOST_CLIENTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roost}
export ROOST_BIN=${ROOST_BIN:-$root/build/release/bin}
skipped=77

# environment NAME FILE: makes a virtual environment with the packages of FILE, and prints its folder.
environment() {
  local folder="$cache/$1-$(sha256sum "$2" | cut -c1-12)"
  mkdir -p "$cache"
  exec 9>"$folder.lock"
  flock 9
  if [ ! -e "$folder/complete" ]; then
    rm -rf "$folder"
    /usr/bin/python3 -m venv "$folder"
    # Without retries, an offline machine fails fast.
    if ! "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 1 --no-deps --requirement "$2" >&2; then
      rm -rf "$folder"
      return 1
    fi
    touch "$folder/complete"
  fi
  exec 9>&-
  echo "$folder"
}

is_offline() { ! /usr/bin/python3 -m pip download --quiet --retries 1 --no-deps --dest "$(mktemp -d)" iniconfig >/dev/null 2>&1; }

install() {
  if environment "$@"; then return; fi
  if is_offline; then
    echo "run.sh: SKIPPED: the package index can not be reached, and $2 is not installed yet" >&2
    exit "$skipped"
  fi
  exit 1
}

load=no
matrix=no
arguments=()
for argument in "$@"; do
  case "$argument" in
    --load) load=yes ;;
    --matrix) load=yes matrix=yes ;;
    *) arguments+=("$argument") ;;
  esac
done

for program in roost-router roost-worker roost-scripted-worker roostctl; do
  [ -x "$ROOST_BIN/$program" ] || { echo "run.sh: $ROOST_BIN/$program is not built" >&2; exit 1; }
done
clients=$(install clients "$here/requirements.txt")
if [ "$load" = yes ]; then
  ROOST_GUIDELLM=$(install guidellm "$here/requirements-load.txt")/bin/guidellm
  export ROOST_GUIDELLM
fi
[ "$matrix" = no ] || export ROOST_CLIENT_RESULTS=${ROOST_CLIENT_RESULTS:-$(mktemp)}
cd "$here"
code=0
"$clients/bin/python" -m pytest "${arguments[@]}" || code=$?
[ "$matrix" = no ] || "$clients/bin/python" matrix.py "$ROOST_CLIENT_RESULTS" "$root/router/api/README.md"
exit "$code"

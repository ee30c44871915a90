#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over the sources of the daemons and tools. A file that passed is
# checked again only when it, a file that it includes, or the checks change.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ -f build/tidy/build.ninja ] || cmake --preset tidy >/dev/null
# Generated files must be there before they, and those that include them, are read.
cmake --build build/tidy --target roost_schema roost_console_files >/dev/null
stamps=${XDG_CACHE_HOME:-$HOME/.cache}/roost-tidy
mkdir -p "$stamps"

# A line per compiled file: its name, and its compile command as CMake wrote it, changed to preprocess: the output
# holds every header. Most compiled files are several sources in one.
commands=$(mktemp)
trap 'rm -f "$commands"' EXIT
python3 -c '
import json, os, shlex
for entry in json.load(open("build/tidy/compile_commands.json")):
    words = shlex.split(entry["command"])
    words = words[: words.index("-o")] + ["-E", "-P", entry["file"]]
    name = os.path.relpath(entry["file"])
    if not any(part in name for part in ("schema/", "roost_precompiled")):
        print(name, shlex.join(words))' >"$commands"

check_one() {
  local file=$1 command key
  command=$(sed -n "s|^$file ||p" "$commands")
  key=$({ cat .clang-tidy; eval "$command"; } | sha256sum | cut -d' ' -f1)
  [ -e "$stamps/$key" ] && return 0
  clang-tidy-14 -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option "$file" 2>/dev/null || return 1
  touch "$stamps/$key"
}
export -f check_one
export commands stamps
cut -d' ' -f1 "$commands" | xargs -P "${ROOST_TIDY_JOBS:-$(nproc)}" -n 1 bash -c 'check_one "$0"'

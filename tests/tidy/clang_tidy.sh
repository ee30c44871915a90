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

# Most compiled files are several sources in one; small ones of a folder are put together here, because half of the time goes
# to headers. (So a name in an anonymous namespace must be the only one there.)
# A line for each file: its name, and its compile command as CMake wrote it, changed to preprocess: the output holds every header.
commands=$(mktemp)
trap 'rm -f "$commands"' EXIT
python3 -c '
import collections, json, pathlib, re, shlex
build = pathlib.Path("build/tidy").resolve()
together = build / "together"
together.mkdir(exist_ok=True)
entries, small = [], collections.defaultdict(list)
for entry in json.loads((build / "compile_commands.json").read_text()):
    text = pathlib.Path(entry["file"]).read_text()
    includes = re.findall("^#include \"/.*", text, re.MULTILINE) if "/Unity/" in entry["file"] else []
    if any(part in entry["file"] for part in ("/schema/", "roost_precompiled")):
        continue
    if 0 < len(includes) < 8:
        small[pathlib.Path(entry["file"]).relative_to(build).parts[0]].append((entry, includes))
    else:
        entries.append(entry)
for folder, members in small.items():
    for first in range(0, len(members), 8):
        part = members[first : first + 8]
        file = together / f"{folder}_{first // 8}.cc"
        text = "\n".join(include for _, includes in part for include in includes) + "\n"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        words = [shlex.split(entry["command"].replace("-isystem ", "-isystem")) for entry, _ in part]
        words = [command[: command.index("-o")] for command in words]
        flags = dict.fromkeys(word for command in words for word in command[1:])
        command = shlex.join([words[0][0], *flags, "-o", "none.o", "-c", str(file)])
        entries.append({"directory": str(build), "command": command, "file": str(file)})
(together / "compile_commands.json").write_text(json.dumps(entries))
for entry in entries:
    words = shlex.split(entry["command"])
    print(entry["file"], shlex.join([*words[: words.index("-o")], "-E", "-P", entry["file"]]))' >"$commands"

check_one() {
  local file=$1 command key
  command=$(sed -n "s|^$file ||p" "$commands")
  key=$({ cat .clang-tidy; eval "$command"; } | sha256sum | cut -d' ' -f1)
  [ -e "$stamps/$key" ] && return 0
  clang-tidy-14 -p build/tidy/together --quiet --extra-arg=-Wno-unknown-warning-option "$file" 2>/dev/null || return 1
  touch "$stamps/$key"
}
export -f check_one
export commands stamps
cut -d' ' -f1 "$commands" | xargs -P "${ROOST_TIDY_JOBS:-$(nproc)}" -n 1 bash -c 'check_one "$0"'

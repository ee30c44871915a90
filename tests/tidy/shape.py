"""Counts what a reader of the tree stumbles over: headers that one file uses, which could be a part of it, and folders with
many files. Run it by hand:

    python3 tests/tidy/shape.py             the counts
    python3 tests/tidy/shape.py --list      and which these are: the header, its lines, its user, the tests that include it
"""

import collections
import pathlib
import subprocess
import sys

from layers_test import ALLOWED, INCLUDE, ROOT, sources

MANY_FILES = 40


def users_of_headers(folders):
    """Included name -> the files of these folders that include it."""
    users = collections.defaultdict(set)
    for folder in folders:
        for path in sources(folder):
            for include in INCLUDE.findall(path.read_text()):
                users[include].add(str(path.relative_to(ROOT)))
    return users


def own_sources(header):
    return {str(pathlib.Path(header).with_suffix(suffix)) for suffix in (".cc", ".cu")}


def headers_with_one_user(folders):
    """(header, its only user or "", the tests that include it). A header's own source is no user of it."""
    users, tests = users_of_headers(folders), users_of_headers(["tests"])
    for folder in folders:
        for path in sources(folder):
            header = str(path.relative_to(ROOT))
            others = users[header] - own_sources(header)
            if path.suffix in {".h", ".cuh"} and len(others) <= 1:
                yield header, "".join(others), sorted(tests[header])


def large_folders():
    """(files, folder) of the folders outside tests with more than MANY_FILES files of their own, the largest first."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    counts = collections.Counter(str(pathlib.PurePath(name).parent) for name in listed if name and not name.startswith("tests/"))
    return [(count, folder) for folder, count in counts.most_common() if count > MANY_FILES]


def main():
    found = list(headers_with_one_user([*ALLOWED, "deploy"]))
    untested = [header for header, _, tests in found if not tests]
    print(f"headers with one user: {len(found)}, of which no test includes {len(untested)}")
    if "--list" in sys.argv:
        for header, user, tests in found:
            lines = len((ROOT / header).read_text().splitlines())
            print(f"  {header} {lines} <- {user or 'nothing'}; {' '.join(tests) or 'no test'}")
    folders = large_folders()
    print(f"folders above {MANY_FILES} files: {len(folders)}: " + ", ".join(f"{folder} {count}" for count, folder in folders))


if __name__ == "__main__":
    main()

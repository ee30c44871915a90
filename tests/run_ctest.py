"""Runs ctest in a build folder, and tells what a reader of its last lines wants to know: what was skipped, and what is flaky.

    python3 tests/run_ctest.py build/release [arguments of ctest]

A test that drives daemons (label integration, clients or kube) or threads and fails is run once more, by itself, unless it
crashed or a sanitizer reported something. If it passes then it is flaky: the run is green, and the name belongs into
tests/flaky.txt with the cause. A name that is there already makes the run red, because its cause was to be mended. Flaky
names are written to flaky.txt in the build folder, too.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

RUN_AGAIN = {"integration", "clients", "kube", "threads"}
CRASHED = re.compile(r"Sanitizer|runtime error:|terminate called|check failed")
LISTED = pathlib.Path(__file__).resolve().parent / "flaky.txt"


def listed_names(path=LISTED):
    """Names in the first column of the list; `#` begins a comment."""
    lines = path.read_text().splitlines()
    return [line.split("|")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def ctest(build, *arguments, **options):
    return subprocess.run(["ctest", "--test-dir", str(build), "--output-on-failure", *arguments], check=False, **options)


def labels_of(build):
    """Name -> labels of each test."""
    told = json.loads(ctest(build, "--show-only=json-v1", capture_output=True, text=True).stdout)
    found = {}
    for test in told["tests"]:
        labels = [each["value"] for each in test.get("properties", []) if each["name"] == "LABELS"]
        found[test["name"]] = set(labels[0]) if labels else set()
    return found


def failed_names(build):
    path = build / "Testing/Temporary/LastTestsFailed.log"
    return [line.split(":", 1)[1] for line in path.read_text().splitlines()] if path.exists() else []


def outputs(build):
    """Name -> output of each test of the last run."""
    path = build / "Testing/Temporary/LastTest.log"
    text = path.read_text(errors="replace") if path.exists() else ""
    sections = re.split(r"^\d+/\d+ Testing: ", text, flags=re.MULTILINE)[1:]
    return dict(section.split("\n", 1) for section in sections)


def skipped_cases(build):
    """Reason (of GoogleTest's cases) or program (of Python's) -> number of cases that were skipped."""
    skipped = collections.Counter()
    for name, output in outputs(build).items():
        skipped.update(each.strip() for each in re.findall(r": Skipped\n(.*)\n(?:.*\n)?\[  SKIPPED \]", output))
        for count in re.findall(r"^OK \(skipped=(\d+)\)$", output, re.MULTILINE):
            skipped[name] += int(count)
    return skipped


def run(build, arguments, listed):
    """Returns the exit code and the flaky names."""
    (build / "Testing/Temporary/LastTestsFailed.log").unlink(missing_ok=True)
    code = ctest(build, *arguments).returncode
    for reason, count in skipped_cases(build).most_common():
        print(f"skipped: {count} x {reason}")
    failed = failed_names(build)
    if code == 0 or not failed:
        return code, []
    told = outputs(build)  # which the next call of ctest writes anew
    labels = labels_of(build)
    # A test whose output is lost may have crashed: it stays red.
    again = [name for name in failed if labels[name] & RUN_AGAIN and name in told and not CRASHED.search(told[name])]
    flaky = [name for name in again if ctest(build, "-R", f"^{re.escape(name)}$").returncode == 0]
    for name in flaky:
        known = name in listed
        print(f"flaky: {name} failed, and passed by itself" + (": in tests/flaky.txt before, so this run is red" if known else ""))
    is_green = set(flaky) == set(failed) and not set(flaky) & set(listed)
    return (0 if is_green else code), flaky


def main():
    build = pathlib.Path(sys.argv[1])
    code, flaky = run(build, sys.argv[2:], listed_names())
    (build / "flaky.txt").write_text("".join(f"{name}\n" for name in flaky))
    sys.exit(code)


if __name__ == "__main__":
    main()

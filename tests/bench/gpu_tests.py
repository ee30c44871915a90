#!/usr/bin/env python3
"""Runs a program of GoogleTest on a device, each suite in a process of its own, so that one that ends takes no other with it.

    gpu_tests.py PROGRAM [--only REGEX] [--without REGEX] [--may-skip REGEX]

The patterns of --only and --without are of suites' names. A skipped test counts as failed, unless its reason matches
--may-skip: a measurement that was asked for is not done by skipping it. Exits with 1 if anything failed.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def suites(program):
    """Names of its suites, without the dot; those of parameters as Prefix/Suite."""
    done = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True)
    lines = (line.partition("#")[0].rstrip() for line in done.stdout.splitlines())
    return [line[:-1] for line in lines if line.endswith(".") and not line.startswith(" ")]


def skipped(output):
    """Pairs of a skipped test and its reason. GoogleTest prints the reason before the line [  SKIPPED ]."""
    pairs = []
    reason = []
    for line in output.splitlines():
        if line.startswith("[ RUN"):
            reason = []
        found = re.match(r"\[  SKIPPED \] (\S+) \(", line)
        if found:
            pairs.append((found.group(1), " ".join(reason)))
        reason.append(line)
    return pairs


def problems_of(program, suite, may_skip):
    """Lines about what went wrong in a suite; empty if nothing did."""
    command = [program, f"--gtest_filter={suite}.*"]
    environment = {**os.environ, "ROOST_SOURCE_DIR": str(ROOT)}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)
    print(done.stdout, end="", flush=True)
    problems = [f"{name} was skipped: {reason}" for name, reason in skipped(done.stdout)
                if not (may_skip and re.search(may_skip, reason))]
    failed = re.findall(r"^\[  FAILED  \] (\S+) \(", done.stdout, re.MULTILINE)
    problems += [f"{name} failed" for name in failed]
    if done.returncode != 0 and not failed:
        problems.append(f"{suite} ended with {done.returncode}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--without")
    parser.add_argument("--may-skip")
    options = parser.parse_args()
    names = [name for name in suites(options.program) if re.search(options.only, name)]
    if options.without:
        names = [name for name in names if not re.search(options.without, name)]
    if not names:
        print(f"gpu_tests.py: {options.program} has no such suite", file=sys.stderr)
        return 1
    problems = [line for name in names for line in problems_of(options.program, name, options.may_skip)]
    for line in problems:
        print(f"gpu_tests.py: {line}", flush=True)
    print(f"gpu_tests.py: {len(names)} suites, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

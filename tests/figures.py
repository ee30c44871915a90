#!/usr/bin/env python3
"""Measures, and writes the values and the commit into the rows of these figures in tests/results/figures.md.

    tests/figures.py index         runs ./tests/bench.sh index and prints the changes that it would make
    tests/figures.py index --write

Rows begin with | `figure` | value | `commit` |. A figure without a row is printed, and gets no row.
"""
import argparse
import re
import subprocess
import sys

import page_tables

PAGE = page_tables.ROOT / "tests/results/figures.md"
ROW = re.compile(r"^\| `(\w+)` \| [^|]* \| [^|]* \|", re.MULTILINE)


def measured(output):
    """Figure -> value and unit."""
    lines = re.findall(r"^figure (\S+) (\S+) (.+)$", output, re.MULTILINE)
    return {name: f"{float(value):.3g} {unit}" for name, value, unit in lines}


def replaced(text, values, commit):
    def row(match):
        name = match.group(1)
        return f"| `{name}` | {values[name]} | `{commit}` |" if name in values else match.group(0)

    return ROW.sub(row, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filter", nargs="?", default="", help="of the benchmarks' names")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    command = [page_tables.ROOT / "tests/bench.sh", options.filter]
    values = measured(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    text = PAGE.read_text()
    rows = set(ROW.findall(text))
    for name, value in values.items():
        print(f"{name} {value}" + ("" if name in rows else " (has no row)"))
    if options.write:
        PAGE.write_text(replaced(text, values, page_tables.commit()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures, and writes the values and the commit into the rows of these figures in tests/results/figures.tsv.

    tests/figures.py index         runs ./tests/bench.sh index and prints the changes that it would make
    tests/figures.py index --write

A figure without a row is printed, and gets no row: add figure, value, commit and what it is by hand, separated by tabs.
"""
import argparse
import re
import subprocess
import sys

import page_tables

DATA = page_tables.data("figures")
ROW = re.compile(r"^(\w+)\t[^\t]*\t\w*\t", re.MULTILINE)


def measured(output):
    """Figure -> value and unit."""
    lines = re.findall(r"^figure (\S+) (\S+) (.+)$", output, re.MULTILINE)
    return {name: f"{float(value):.3g} {unit}" for name, value, unit in lines}


def replaced(text, values, commit):
    def row(match):
        name = match.group(1)
        return f"{name}\t{values[name]}\t{commit}\t" if name in values else match.group(0)

    return ROW.sub(row, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filter", nargs="?", default="", help="of the benchmarks' names")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    command = [page_tables.ROOT / "tests/bench.sh", options.filter]
    values = measured(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    text = DATA.read_text()
    rows = set(ROW.findall(text))
    for name, value in values.items():
        print(f"{name} {value}" + ("" if name in rows else " (has no row)"))
    if options.write:
        DATA.write_text(replaced(text, values, page_tables.commit()))
        page_tables.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes measured tables into pages. A table is between two markers, with the script's name and its own.

    <!-- tests/evictions.py hits -->
    | load | …
    <!-- end hits -->

The rest of the page is not changed.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def markers(script, name):
    return f"<!-- tests/{script}.py {name} -->", f"<!-- end {name} -->"


def replaced(text, script, name, table):
    """The page's text with this table at its place. Ends the program if the page has no such place."""
    begin, end = markers(script, name)
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"the page needs '{begin}' and '{end}', each once")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table.strip()}\n{end}{rest.split(end)[1]}"


def write(page, script, name, table):
    page.write_text(replaced(page.read_text(), script, name, table))


def commit():
    """The commit that is measured, as a page names it."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

"""Writes the matrix of clients and features into a page, from the record of a test run.

    matrix.py RESULTS.json PAGE.md
"""

import json
import pathlib
import sys

from features import CLIENTS, FEATURES, ONLY, PACKAGES, REASONS

BEGIN = "<!-- clients: begin, written by tests/clients/run.sh --matrix -->"
END = "<!-- clients: end -->"
HEADING = "## Clients that work\n\n"


# Features that only these clients are tested with have no row in the table.
OWN = {"load", "the document", "whole sessions", "all tools"}


def cell(results, client, feature):
    """yes, no, or why there is no test."""
    found = [r for r in results if r["client"] == client and feature in r["names"]]
    outcomes = {r["outcome"] for r in found}
    if "failed" in outcomes:
        return "**no**"
    if "passed" in outcomes:
        return "yes"
    if found:
        return "not run: " + found[0]["reason"]
    return REASONS.get((client, feature), "not tested")


def versions():
    """The pinned versions of the packages."""
    here = pathlib.Path(__file__).parent
    lines = [line for path in sorted(here.glob("requirements*.txt")) for line in path.read_text().splitlines()]
    return dict(line.split("==") for line in lines if "==" in line)


def table(results):
    columns = [client for client in CLIENTS if client not in ONLY]
    rows = [feature for feature in FEATURES if feature not in OWN]
    known = versions()
    lines = ["| | " + " | ".join(f"{client} {known[client]}" for client in columns) + " |"]
    lines.append("| --- |" + " --- |" * len(columns))
    for feature in rows:
        lines.append(f"| {feature} | " + " | ".join(cell(results, client, feature) for client in columns) + " |")
    lines.append("")
    for client, names in ONLY.items():
        told = ", ".join(f"{name}: {cell(results, client, name)}" for name in names)
        lines.append(f"- {client} {known.get(PACKAGES.get(client, client), '')}: {told}")
    return "\n".join(lines)


def write(page, text):
    block = f"{BEGIN}\n{text}\n{END}\n"
    old = page.read_text() if page.exists() else "# The router's API\n\n"
    if BEGIN in old:
        before, rest = old.split(BEGIN)
        new = before + block + rest.split(END + "\n")[1]
    else:
        new = old.rstrip("\n") + "\n\n" + HEADING + block
    page.write_text(new)


def main():
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())
    write(pathlib.Path(sys.argv[2]), table(results))


if __name__ == "__main__":
    main()

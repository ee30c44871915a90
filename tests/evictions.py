#!/usr/bin/env python3
"""Hits by eviction policy, and the time that they save: the first tables of tests/results/evictions.tsv.

    tests/evictions.py             measures (./tests/bench.sh eviction, some minutes) and prints the tables
    tests/evictions.py --write     keeps them, for the page of results too

Needs the traces of ROOST_SHARED (default ../shared).
"""
import argparse
import re
import subprocess
import sys

import page_tables

KINDS = ("hits", "time")  # as in the benchmark's figures and of the tables
POLICIES = {
    "lru": "LRU",
    "equal-costs": "class-aware, equal costs",
    "class-aware": "class-aware",
    "foresight": "foresight",
}
# As the benchmark names them.
LOADS = {
    "conversation": "Mooncake conversation, first 20 min",
    "synthetic": "Mooncake synthetic, a quarter",
    "agents_48": "coding agents (Weka), 48 sessions",
    "agents_168": "coding agents, 168 sessions",
    "chat": "generated chats",
    "shared_prefix": "generated shared prefixes",
    "tenant_users": "generated tenants and users",
    "no_reuse": "generated, no reuse",
}


def size(kilotokens):
    return f"{kilotokens / 1000:g}M" if kilotokens >= 1000 else f"{kilotokens}k"


def cells(output, kind):
    """(load, kilotokens) -> policy -> percent, in the order of the benchmark."""
    found = {}
    pattern = rf"^figure eviction_{kind}_(\w+)_(\d+)k_([\w-]+) (\S+) %"
    for load, kilotokens, policy, value in re.findall(pattern, output, re.M):
        found.setdefault((load, int(kilotokens)), {})[policy] = float(value)
    return found


def table(output, kind):
    rows = [
        [LOADS[load], size(kilotokens), *(f"{of[policy]:.1f}" for policy in POLICIES)]
        for (load, kilotokens), of in cells(output, kind).items()
    ]
    return page_tables.Table(kind, [f"Commit {page_tables.commit()}."], ["load", "pool", *POLICIES.values()], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    command = [page_tables.ROOT / "tests/bench.sh", "eviction"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    for kind in KINDS:
        page_tables.finish(options.write, "evictions", table(output, kind))
    return 0


if __name__ == "__main__":
    sys.exit(main())

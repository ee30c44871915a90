#!/usr/bin/env python3
"""Makes the table of hit rates by eviction policy of tests/results/evictions.md.

    tests/evictions.py             measures (./tests/bench.sh eviction, some minutes) and prints the table
    tests/evictions.py --write     writes it into the page

Needs the traces of ROOST_SHARED (default ../shared).
"""
import argparse
import re
import subprocess
import sys

import page_tables

PAGE = page_tables.ROOT / "tests/results/evictions.md"
PLACES = [(PAGE, "hits")]
POLICIES = ("lru", "class-aware", "foresight")
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


def cells(output):
    """(load, kilotokens) -> policy -> hits in percent, in the order of the benchmark."""
    found = {}
    for load, kilotokens, policy, value in re.findall(r"^figure eviction_(\w+)_(\d+)k_([\w-]+) (\S+) %", output, re.M):
        found.setdefault((load, int(kilotokens)), {})[policy] = float(value)
    return found


def table(output):
    lines = [
        "| load | pool, tokens | LRU | **class-aware** | foresight |",
        "| --- |" + " --- |" * (len(POLICIES) + 1),
    ]
    for (load, kilotokens), hits in cells(output).items():
        row = [f"**{hits[policy]:.1f}**" if policy == "class-aware" else f"{hits[policy]:.1f}" for policy in POLICIES]
        lines.append(f"| {LOADS[load]} | {size(kilotokens)} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    command = [page_tables.ROOT / "tests/bench.sh", "eviction"]
    made = table(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    made = f"`tests/evictions.py --write`, commit {page_tables.commit()}.\n\n{made}"
    if options.write:
        page_tables.write(PAGE, "evictions", "hits", made)
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Makes the simulation tables of router/route/README.md (every policy on every trace, with 4, 8 and 16 workers and three
sizes of cache) and the one of README.md (a few policies and one cluster of each trace).

    tests/simulations.py [--traces conversation,weka] [--policies cache-aware,llm-d] [--seed 1]   prints tables
    tests/simulations.py --write [--traces conversation,weka]     writes them into the pages; that of README.md only with all traces

One configuration for all: roostctl simulate's defaults, which are roost-worker's. Needs the release build and the traces of
ROOST_SHARED (default ../shared). About a quarter of an hour on two cores. Exits with 1 where a request was refused.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import page_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOSTCTL = ROOT / "build/release/bin/roostctl"
TRACES = pathlib.Path(os.environ.get("ROOST_SHARED", ROOT.parent / "shared")) / "traces"
WORKERS = (4, 8, 16)
PAGE = ROOT / "router/route/README.md"
FIRST_PAGE = ROOT / "README.md"

# Name: file, format, utilisation, tokens of cache in all workers together, title. The names are the places on the page.
LOADS = {
    "conversation": ("mooncake_conv_first20min.jsonl", "mooncake", 0.8, (4e6, 8e6, 16e6), "Mooncake conversation"),
    "synthetic": ("mooncake_synth_family_q0.jsonl", "mooncake", 0.6, (1e6, 2e6, 4e6), "Mooncake synthetic"),
    "weka": ("weka_sessions_q0.jsonl", "weka", 0.6, (6e6, 8e6, 16e6), "coding agents (Weka)"),
    "taubench": ("taubench_airline_even_tasks.jsonl", "taubench", 0.6, (256e3, 512e3, 1024e3), "tau-bench"),
}
PLACES = [*((PAGE, load) for load in LOADS), (FIRST_PAGE, "summary")]
OWN_POLICY = "cache-aware"  # stands out
# Of the first page: 8 workers with the middle size of cache.
SUMMARY_POLICIES = (OWN_POLICY, "llm-d", "lmetric", "sglang", "session", "round-robin")
SUMMARY_WORKERS = 8


def simulate(load, workers, total_tokens, options):
    file, form, utilisation, _, _ = LOADS[load]
    command = [ROOSTCTL, "simulate", "--trace", TRACES / file, "--format", form, "--workers", workers, "--cache-tokens",
               int(total_tokens / workers), "--utilisation", utilisation, "--policy", options.policies, "--seed", options.seed,
               "--json"]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return {line["policy"]: line for line in map(json.loads, result.stdout.splitlines())}


def size(tokens):
    return f"{tokens / 1e6:g}M" if tokens >= 1e6 else f"{tokens / 1e3:g}k"


def cell(line):
    times = " / ".join(f"{line[f'ttft_{key}_s']:.3g}" for key in ("mean", "p50", "p99"))
    return f"{times}, {100 * line['hit_ratio']:.1f}, {line['imbalance']:.2f}"


def columns_of(load):
    return [(workers, total) for total in LOADS[load][3] for workers in WORKERS]


def table(load, cells, measured):
    """Folded, since it is long. `measured` says with which seed and commit."""
    columns = columns_of(load)
    lines = [
        f"<details><summary>{LOADS[load][4]}, load {LOADS[load][2]}: 4, 8 and 16 workers, three sizes of cache</summary>",
        "",
        measured,
        "",
        "| policy | " + " | ".join(f"{workers} × {size(total / workers)}" for workers, total in columns) + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for policy in cells[columns[0]]:
        name = f"**`{policy}`**" if policy == OWN_POLICY else f"`{policy}`"
        lines.append(f"| {name} | " + " | ".join(cell(cells[column][policy]) for column in columns) + " |")
    return "\n".join([*lines, "", "</details>"])


def summary_column(load):
    return SUMMARY_WORKERS, LOADS[load][3][1]


def summary(cells_of, measured):
    """`cells_of` has the cells of every load."""
    heads = [f"{LOADS[load][4]}, load {LOADS[load][2]}, {SUMMARY_WORKERS} × {size(summary_column(load)[1] / SUMMARY_WORKERS)}"
             for load in cells_of]
    lines = ["| policy | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for policy in SUMMARY_POLICIES:
        name = f"**`{policy}`**" if policy == OWN_POLICY else f"`{policy}`"
        lines_of = (cells[summary_column(load)][policy] for load, cells in cells_of.items())
        row = (f"{line['ttft_mean_s']:.3g} / {line['ttft_p99_s']:.3g}, {100 * line['hit_ratio']:.0f} %" for line in lines_of)
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    return "\n".join([*lines, "", measured])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", default=",".join(LOADS))
    parser.add_argument("--policies", default="all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write and options.policies != "all":
        parser.error("--write needs all policies: their rows stand in one table")
    measured = f"Seed {options.seed}, commit {page_tables.commit()}."
    refused = 0
    cells_of = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for load in options.traces.split(","):
            columns = columns_of(load)
            runs = pool.map(lambda column, load=load: simulate(load, *column, options), columns)
            cells = cells_of[load] = dict(zip(columns, runs))
            if options.write:
                page_tables.write(PAGE, "simulations", load, table(load, cells, measured))
            else:
                print(table(load, cells, measured), flush=True)
            refused += sum(line["refused"] for lines in cells.values() for line in lines.values())
    if options.write and set(cells_of) == set(LOADS):
        page_tables.write(FIRST_PAGE, "simulations", "summary", summary(cells_of, measured))
    if refused:
        print(f"{refused} requests were refused", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Simulates the policies on recorded and generated loads; tests/results/simulations.tsv has what they made of them.

    tests/simulations.py [--traces conversation,weka] [--policies cache-aware,llm-d] [--seed 1]    clusters of 4, 8 and 16 workers
    tests/simulations.py --paired [--cells NAMES] [--seeds 8] [--kept FILE]    differences to the default on the same seeds
    tests/simulations.py --capacities [--cells NAMES] [--seed 1]    the highest load that each policy serves well
    tests/simulations.py --several-routers [--seeds 8]    the default with 1 to 16 routers
    tests/simulations.py --links [--cells NAMES] [--seeds 8] [--kept FILE]    workers that fetch from each other
    tests/simulations.py --disks [--cells NAMES] [--seeds 8] [--kept FILE]    workers with disks, beside larger pools

Prints the tables. --write keeps them instead, and writes what tests/results/README.md and README.md show of them. One
configuration for all: roostctl simulate's defaults, which are roost-worker's, and the costs that --costs names. Needs the
release build and the traces of ROOST_SHARED (default ../shared). Exits with 1 if a request was refused.

--paired plays every policy on 8 workers, on the traces, also at and beyond saturation, and on the generated loads. --cells
picks loads by their names, separated by commas. With --kept an interrupted run continues: FILE has a line for each finished
simulation. A kept line counts for the program that wrote it, so begin a new file after a change.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys
import typing

import page_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOSTCTL = ROOT / "build/release/bin/roostctl"
TRACES = pathlib.Path(os.environ.get("ROOST_SHARED", ROOT.parent / "shared")) / "traces"
WORKERS = (4, 8, 16)


class Load(typing.NamedTuple):
    title: str
    flags: dict  # of roostctl simulate
    utilisation: float = 0  # 0: the flags have a rate
    total_tokens: tuple = ()  # tokens of cache, in all workers together


def trace_load(title, file, form, utilisation, total_tokens):
    return Load(title, {"trace": TRACES / file, "format": form}, utilisation, total_tokens)


# The names are those of the tables.
LOADS = {
    "conversation": trace_load(
        "Mooncake conversation", "mooncake_conv_first20min.jsonl", "mooncake", 0.8, (4e6, 8e6, 16e6)
    ),
    "synthetic": trace_load("Mooncake synthetic", "mooncake_synth_family_q0.jsonl", "mooncake", 0.6, (1e6, 2e6, 4e6)),
    "weka": trace_load("coding agents (Weka)", "weka_sessions_q0.jsonl", "weka", 0.6, (6e6, 8e6, 16e6)),
    "taubench": trace_load("tau-bench", "taubench_airline_even_tasks.jsonl", "taubench", 0.6, (256e3, 512e3, 1024e3)),
}


# The KV that fits beside the weights of an 8B model in 80 GB, and a batch that fills it.
DEVICE = {"kv-tokens": 400_000, "max-running-requests": 256}


def generated_load(title, generator, rate, seconds, **more):
    return Load(title, {"generate": generator, "rate": rate, "seconds": seconds, **DEVICE, **more})


GENERATED_LOADS = {
    "one system prompt": generated_load("one system prompt for all", "system-prompt", 60, 120),
    "ten system prompts": generated_load("ten system prompts by Zipf's law", "zipf-systems", 60, 120),
    "restart": generated_load("one system prompt, one worker restarts", "system-prompt", 60, 120, **{"restart-at": 0.4}),
    "reasoning": generated_load("one system prompt, reasoning answers", "reasoning", 2.5, 900),
}
ALL_LOADS = {**LOADS, **GENERATED_LOADS}
# Loads of the paired runs: title, load, utilisation, tokens of cache in all 8 workers together.
PAIRED_CELLS = [
    *((f"conversation {utilisation}", "conversation", utilisation, 8e6) for utilisation in (0.6, 0.8, 0.95, 1.1)),
    ("synthetic 0.6", "synthetic", 0.6, 8e6),
    ("coding agents 0.6", "weka", 0.6, 16e6),
    ("tau-bench 0.6", "taubench", 0.6, 512e3),
    *((name, name, 0, 0) for name in GENERATED_LOADS),
]
PAIRED_WORKERS = 8
ROUTER_COUNTS = (1, 2, 4, 16)
# Gbit/s of each worker's link, and the loads on which blocks travel.
LINK_RATES = (0, 10, 25, 100)
LINK_CELLS = [
    ("conversation 0.8", "conversation", 0.8, 8e6),
    ("conversation 0.95", "conversation", 0.95, 8e6),
    ("coding agents 0.6, 8 × 1M", "weka", 0.6, 8e6),
    ("synthetic 0.6", "synthetic", 0.6, 8e6),
    ("tau-bench 0.6", "taubench", 0.6, 512e3),
]
# Small pools, with nothing beside them, with a disk of four pools, and four times as large.
DISK_CELLS = [
    ("conversation 0.8, 8 × 250k", "conversation", 0.8, 2e6),
    ("coding agents 0.8, 8 × 250k", "weka", 0.8, 2e6),
]
DISK = {"disk-tokens": 1_000_000, "disk-gbps": 50}
MEMORIES = {
    "pool": (1, {}),
    "pool and disk of four": (1, {**DISK, "disk-write-rate": 0}),
    "pool and disk of four, 40 MB/s": (1, DISK),
    "pool of four": (4, {}),
}
OWN_POLICY = page_tables.OWN_POLICY
# The loads that have a capacity. Of conversation and synthetic more than 3 % of the prompts take longer than the first limit
# on idle workers, and more of coding agents; tau-bench is so short that it keeps the limits when all of it comes at once.
CAPACITY_CELLS = ("one system prompt", "ten system prompts")
# The search takes some 10 runs for each.
CAPACITY_POLICIES = (OWN_POLICY, "least-requests", "lmetric", "dynamo", "sglang", "session", "llm-d", "round-robin")


def simulate(load, workers, total_tokens, policies, seed, program=ROOSTCTL, routers=1, costs=None, capacity=False):
    flags = {**load.flags, "workers": workers, "policy": policies, "seed": seed, "routers": routers}
    if load.utilisation:
        flags["utilisation"] = load.utilisation
    if total_tokens:
        flags["cache-tokens"] = int(total_tokens / workers)
    if costs:
        flags["costs"] = costs
    switches = ["--capacity"] if capacity else []
    command = [str(program), "simulate", "--json", *switches, *(f"--{flag}={value}" for flag, value in flags.items())]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line["policy"]: line for line in map(json.loads, result.stdout.splitlines())}


def size(tokens):
    return f"{tokens / 1e6:g}M" if tokens >= 1e6 else f"{tokens / 1e3:g}k"


def cluster(column):
    workers, total_tokens = column
    return f"{workers} × {size(total_tokens / workers)}"


def columns_of(load):
    return [(workers, total) for total in load.total_tokens for workers in WORKERS]


class Figure(typing.NamedTuple):
    name: str  # of its column
    key: str  # of roostctl simulate's JSON
    scale: float = 1


FIGURES = (
    Figure("ttft_mean_s", "ttft_mean_s"),
    Figure("ttft_p50_s", "ttft_p50_s"),
    Figure("ttft_p99_s", "ttft_p99_s"),
    Figure("itl_mean_ms", "itl_mean_s", 1e3),
    Figure("itl_p99_ms", "itl_p99_s", 1e3),
    Figure("whole_mean_s", "whole_mean_s"),
    Figure("whole_p99_s", "whole_p99_s"),
    Figure("goodput_rps", "goodput_rps"),
    Figure("hits_percent", "hit_ratio", 100),
    Figure("imbalance", "imbalance"),
)
DISK_FIGURES = (*FIGURES, Figure("time_hits_percent", "time_hit_ratio", 100), Figure("restored_percent", "restored_share", 100))
LINK_FIGURES = (*FIGURES, Figure("pulls", "pulls"), Figure("pulled_percent", "pulled_share", 100))


def figures_of(lines, figures=FIGURES):
    return [{figure.name: figure.scale * line.get(figure.key, 0) for figure in figures} for line in lines]


class KeptRuns:
    """Results by key, written to a file one by one, so that a long measurement can be continued."""

    def __init__(self, path):
        self.path = path
        self.results = {}
        if path and path.exists():
            self.results = {tuple(key): results for key, results in map(json.loads, path.read_text().splitlines())}

    def run(self, key, play):
        if key not in self.results:
            self.results[key] = play()
            if self.path:
                with self.path.open("a") as file:
                    file.write(json.dumps([key, self.results[key]]) + "\n")
        return self.results[key]


def play_cell(kept, cell, options, seed, policies, **flags):
    """`flags` are more flags of roostctl simulate, without dashes."""
    title, name, utilisation, total_tokens = cell
    load = ALL_LOADS[name]
    load = load._replace(utilisation=utilisation, flags={**load.flags, **flags})
    key = (title, *flags.values(), seed)
    return kept.run(key, lambda: simulate(load, PAIRED_WORKERS, total_tokens, policies, seed, costs=options.costs))


def chosen_cells(options, cells=PAIRED_CELLS):
    if not options.cells:
        return cells
    names = options.cells.split(",")
    unknown = {name for name in names if not any(cell[0].startswith(name) for cell in cells)}
    if unknown:
        raise SystemExit(f"--cells: there is no {', '.join(sorted(unknown))}")
    return [cell for cell in cells if cell[0] in names or cell[0].split(",")[0] in names]


def costs_text(options):
    return f", costs {options.costs}" if options.costs else ""


def finish(options, name, heads, lines_of, seeds, figures=FIGURES):
    """Keeps or prints a table of the results in `lines_of`, seed by seed; the number of refused requests."""
    note = f"{seeds}{costs_text(options)}, commit {page_tables.commit()}."
    runs_of = {key: figures_of(lines, figures) for key, lines in lines_of.items()}
    page_tables.finish(options.write, "simulations", page_tables.compared(name, note, heads, runs_of))
    return sum(line["refused"] for lines in lines_of.values() for line in lines)


def run_paired(options, pool):
    kept = KeptRuns(options.kept)
    cells = chosen_cells(options)
    jobs = [(cell, seed) for seed in range(1, options.seeds + 1) for cell in cells]
    results = list(pool.map(lambda job: play_cell(kept, job[0], options, job[1], options.policies), jobs))
    lines_of = {(cell[0], policy): [] for cell in cells for policy in results[0]}
    for (cell, _), result in zip(jobs, results):
        for policy, line in result.items():
            lines_of[cell[0], policy].append(line)
    name = "paired " + (options.costs or "default")
    return finish(options, name, ("load", "policy"), lines_of, f"Seeds 1 to {options.seeds}")


def run_capacities(options, pool):
    """The highest load, in requests per second, of which 99 % keep both limits. It has one column for each load."""
    cells = [cell for title, *cell in chosen_cells(options) if options.cells or title in CAPACITY_CELLS]
    policies = CAPACITY_POLICIES if options.policies == "all" else options.policies.split(",")

    def play(search):
        (name, utilisation, total_tokens), policy = search
        load = ALL_LOADS[name]._replace(utilisation=utilisation)
        (line,) = simulate(
            load, PAIRED_WORKERS, total_tokens, policy, options.seed, costs=options.costs, capacity=True
        ).values()
        return f"{line['capacity_rps']:.3g}"

    found = list(pool.map(play, itertools.product(cells, policies)))
    note = f"Seed {options.seed}{costs_text(options)}, commit {page_tables.commit()}."
    heads = ["policy", *(ALL_LOADS[cell[0]].title for cell in cells)]
    lines = [[policy, *found[i :: len(policies)]] for i, policy in enumerate(policies)]
    page_tables.finish(options.write, "simulations", page_tables.Table("capacity", [note], heads, lines))
    return 0


def run_routers(options, pool):
    cells = chosen_cells(options)
    jobs = list(itertools.product(cells, ROUTER_COUNTS, range(1, options.seeds + 1)))

    def play(job):
        (_, name, utilisation, total_tokens), count, seed = job
        load = ALL_LOADS[name]._replace(utilisation=utilisation)
        return simulate(load, PAIRED_WORKERS, total_tokens, OWN_POLICY, seed, routers=count, costs=options.costs)

    lines_of = {}
    for (cell, count, _), result in zip(jobs, pool.map(play, jobs)):
        lines_of.setdefault((cell[0], str(count)), []).append(result[OWN_POLICY])
    return finish(options, "routers", ("load", "routers"), lines_of, f"Seeds 1 to {options.seeds}")


def run_links(options, pool):
    kept = KeptRuns(options.kept)
    cells = chosen_cells(options, LINK_CELLS)
    jobs = list(itertools.product(cells, LINK_RATES, range(1, options.seeds + 1)))

    def play(job):
        cell, rate, seed = job
        policies = OWN_POLICY if rate else f"{OWN_POLICY},pooled"
        return play_cell(kept, cell, options, seed, policies, **{"link-gbps": rate})

    lines_of = {(cell[0], link): [] for cell in cells for link in (*(f"{rate} Gbit/s" for rate in LINK_RATES), "pooled")}
    for (cell, rate, _), result in zip(jobs, pool.map(play, jobs)):
        for policy, line in result.items():
            lines_of[cell[0], f"{rate} Gbit/s" if policy == OWN_POLICY else policy].append(line)
    return finish(options, "links", ("load", "link"), lines_of, f"Seeds 1 to {options.seeds}", LINK_FIGURES)


def run_disks(options, pool):
    kept = KeptRuns(options.kept)
    cells = chosen_cells(options, DISK_CELLS)
    jobs = list(itertools.product(cells, MEMORIES, range(1, options.seeds + 1)))

    def play(job):
        (title, name, utilisation, total_tokens), memory, seed = job
        pools, flags = MEMORIES[memory]
        cell = (f"{title}, {memory}", name, utilisation, pools * total_tokens)
        return play_cell(kept, cell, options, seed, OWN_POLICY, **flags)[OWN_POLICY]

    lines_of = {(cell[0], memory): [] for cell in cells for memory in MEMORIES}
    for (cell, memory, _), line in zip(jobs, pool.map(play, jobs)):
        lines_of[cell[0], memory].append(line)
    return finish(options, "disks", ("load", "memory"), lines_of, f"Seeds 1 to {options.seeds}", DISK_FIGURES)


def run_tables(options, pool):
    refused = 0
    for name in options.traces.split(","):
        load = LOADS[name]

        def play(column, load=load):
            return simulate(load, *column, options.policies, options.seed, costs=options.costs)

        columns = columns_of(load)
        lines_of = {}
        for column, result in zip(columns, pool.map(play, columns)):
            lines_of |= {(cluster(column), policy): [line] for policy, line in result.items()}
        refused += finish(options, name, ("cluster", "policy"), lines_of, f"Seed {options.seed}")
    return refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", default=",".join(LOADS))
    parser.add_argument("--policies", default="all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--paired", action="store_true")
    parser.add_argument("--capacities", action="store_true")
    parser.add_argument("--several-routers", action="store_true")
    parser.add_argument("--links", action="store_true")
    parser.add_argument("--disks", action="store_true")
    parser.add_argument("--cells")
    parser.add_argument("--costs", help="of roostctl simulate; by default its default")
    parser.add_argument("--seeds", type=int, choices=sorted(page_tables.T_95), default=8)
    parser.add_argument("--kept", type=pathlib.Path)
    options = parser.parse_args()
    if options.write and (options.cells or options.policies != "all"):
        parser.error("--write needs all policies and cells: they are one table")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        run = run_tables
        if options.paired:
            run = run_paired
        elif options.capacities:
            run = run_capacities
        elif options.several_routers:
            run = run_routers
        elif options.links:
            run = run_links
        elif options.disks:
            run = run_disks
        refused = run(options, pool)
    if refused:
        print(f"{refused} requests were refused", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())

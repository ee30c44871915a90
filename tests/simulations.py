#!/usr/bin/env python3
"""Makes the simulation tables of router/route/simulation.md and README.md.

    tests/simulations.py [--traces conversation,weka] [--policies cache-aware,llm-d] [--seed 1]    prints tables
    tests/simulations.py --write [--traces conversation,weka]    writes them into the pages
    tests/simulations.py --paired [--seeds 8] [--kept FILE] [--write]    the table of differences on the same seeds
    tests/simulations.py --several-routers [--seeds 8] [--write]    the default with 1 to 16 routers

router/route/simulation.md has every policy on every trace, with 4, 8 and 16 workers and three sizes of cache; README.md has
a few policies and one cluster of each trace, and is written only when all traces are played. One configuration for all:
roostctl simulate's defaults, which are roost-worker's. Needs the release build and the traces of ROOST_SHARED (default
../shared). About a quarter of an hour on two cores. Exits with 1 if a request was refused.

--paired compares every policy with the default on 8 workers, also at and beyond saturation: the same seeds for both,
the mean difference in per cent and its 95 % interval. About half an hour on two cores. With --kept an interrupted run
continues: FILE has a line for each finished simulation. A kept line counts for the program that wrote it, so begin
a new file after a change.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
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
    file: str
    format: str
    utilisation: float
    total_tokens: tuple  # tokens of cache, in all workers together


# The names are those of the markers on the page.
LOADS = {
    "conversation": Load(
        "Mooncake conversation", "mooncake_conv_first20min.jsonl", "mooncake", 0.8, (4e6, 8e6, 16e6)
    ),
    "synthetic": Load("Mooncake synthetic", "mooncake_synth_family_q0.jsonl", "mooncake", 0.6, (1e6, 2e6, 4e6)),
    "weka": Load("coding agents (Weka)", "weka_sessions_q0.jsonl", "weka", 0.6, (6e6, 8e6, 16e6)),
    "taubench": Load("tau-bench", "taubench_airline_even_tasks.jsonl", "taubench", 0.6, (256e3, 512e3, 1024e3)),
}
# Columns of the table of differences: title, load, utilisation, tokens of cache in all 8 workers together.
PAIRED_CELLS = [
    *((f"conversation {utilisation}", "conversation", utilisation, 8e6) for utilisation in (0.6, 0.8, 0.95, 1.1)),
    ("synthetic 0.6", "synthetic", 0.6, 8e6),
    ("coding agents 0.6", "weka", 0.6, 16e6),
    ("tau-bench 0.6", "taubench", 0.6, 512e3),
]
PAIRED_WORKERS = 8
ROUTER_COUNTS = (1, 2, 4, 16)
# Student's t for 95 %, by the number of pairs.
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 12: 2.201, 16: 2.131}
PAGE = ROOT / "router/route/simulation.md"
FIRST_PAGE = ROOT / "README.md"
PLACES = [*((PAGE, name) for name in LOADS), (PAGE, "paired"), (PAGE, "routers"), (FIRST_PAGE, "summary")]
OWN_POLICY = "cache-aware"
# The tables of the first page: these policies, on this many workers with the middle cache size.
SUMMARY_POLICIES = (OWN_POLICY, "llm-d", "lmetric", "sglang", "session", "round-robin")
SUMMARY_WORKERS = 8


def simulate(load, workers, total_tokens, policies, seed, program=ROOSTCTL, routers=1):
    flags = {
        "trace": TRACES / load.file,
        "format": load.format,
        "workers": workers,
        "cache-tokens": int(total_tokens / workers),
        "utilisation": load.utilisation,
        "policy": policies,
        "seed": seed,
        "routers": routers,
    }
    command = [str(program), "simulate", "--json", *(f"--{flag}={value}" for flag, value in flags.items())]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line["policy"]: line for line in map(json.loads, result.stdout.splitlines())}


def size(tokens):
    return f"{tokens / 1e6:g}M" if tokens >= 1e6 else f"{tokens / 1e3:g}k"


def cluster(column):
    workers, total_tokens = column
    return f"{workers} × {size(total_tokens / workers)}"


def columns_of(load):
    return [(workers, total) for total in load.total_tokens for workers in WORKERS]


def name_of(policy):
    return f"**`{policy}`**" if policy == OWN_POLICY else f"`{policy}`"


def cell(line):
    times = " / ".join(f"{line[f'ttft_{key}_s']:.3g}" for key in ("mean", "p50", "p99"))
    return f"{times}, {100 * line['hit_ratio']:.1f}, {line['imbalance']:.2f}"


def short_cell(line):
    return f"{line['ttft_mean_s']:.3g} / {line['ttft_p99_s']:.3g}, {100 * line['hit_ratio']:.0f} %"


def rows(heads, cells):
    """A table: `cells` has a policy and its cells for each row."""
    lines = ["| policy | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    lines += [f"| {name_of(policy)} | " + " | ".join(row) + " |" for policy, row in cells]
    return "\n".join(lines)


def table(load, results, measured):
    """A folded table, because it is long. `measured` names the seed and the commit."""
    columns = columns_of(load)
    cells = ((policy, [cell(results[column][policy]) for column in columns]) for policy in results[columns[0]])
    title = f"{load.title}, load {load.utilisation}: 4, 8 and 16 workers, three sizes of cache"
    body = rows([cluster(column) for column in columns], cells)
    return f"<details><summary>{title}</summary>\n\n{measured}\n\n{body}\n\n</details>"


def summary_column(load):
    return SUMMARY_WORKERS, load.total_tokens[1]


def summary(results_of, measured):
    """`results_of` has the results of every load, by name."""
    loads = [(LOADS[name], results[summary_column(LOADS[name])]) for name, results in results_of.items()]
    heads = [f"{load.title}, load {load.utilisation}, {cluster(summary_column(load))}" for load, _ in loads]
    cells = ((policy, [short_cell(result[policy]) for _, result in loads]) for policy in SUMMARY_POLICIES)
    return f"{rows(heads, cells)}\n\n{measured}"


class KeptRuns:
    """Results by cell and seed, written to a file one by one, so that a long measurement can be continued."""

    def __init__(self, path):
        self.path = path
        self.lines = {}
        if path and path.exists():
            for line in map(json.loads, path.read_text().splitlines()):
                self.lines[line["title"], line["seed"]] = line["results"]

    def run(self, cell, policies, seed):
        title, name, utilisation, total_tokens = cell
        if (title, seed) not in self.lines:
            load = LOADS[name]._replace(utilisation=utilisation)
            results = simulate(load, PAIRED_WORKERS, total_tokens, policies, seed)
            self.lines[title, seed] = results
            if self.path:
                with self.path.open("a") as file:
                    file.write(json.dumps({"title": title, "seed": seed, "results": results}) + "\n")
        return self.lines[title, seed]


def difference(others, own):
    """The mean of the differences in per cent, pair by pair, and half of its 95 % interval."""
    percents = [100 * (other / mine - 1) for other, mine in zip(others, own)]
    half = T_95[len(percents)] * statistics.stdev(percents) / len(percents) ** 0.5
    return statistics.mean(percents), half


def difference_cell(runs, policy):
    """`runs` has the results of one cell, seed by seed."""

    def values(key, name):
        return [run[name][key] for run in runs]

    parts = []
    for key in ("ttft_mean_s", "ttft_p99_s"):
        if policy == OWN_POLICY:
            parts.append(f"{statistics.mean(values(key, policy)):.3g}")
            continue
        mean, half = difference(values(key, policy), values(key, OWN_POLICY))
        digits = 1 if abs(mean) < 5 and half < 5 else 0
        parts.append(f"{mean:+.{digits}f} ± {half:.{digits}f}")
    return " / ".join(parts)


def paired_table(runs_of, measured):
    """`runs_of` has the runs of every cell by its title, seed by seed."""
    first = next(iter(runs_of.values()))[0]
    cells = ((policy, [difference_cell(runs, policy) for runs in runs_of.values()]) for policy in first)
    return f"{rows(list(runs_of), cells)}\n\n{measured}"


def run_paired(options, pool):
    kept = KeptRuns(options.kept)
    jobs = [(cell, seed) for seed in range(1, options.seeds + 1) for cell in PAIRED_CELLS]
    results = list(pool.map(lambda job: kept.run(job[0], options.policies, job[1]), jobs))
    runs_of = {cell[0]: [] for cell in PAIRED_CELLS}
    for (cell, _), result in zip(jobs, results):
        runs_of[cell[0]].append(result)
    made = paired_table(runs_of, f"Seeds 1 to {options.seeds}, commit {page_tables.commit()}.")
    if options.write:
        page_tables.write(PAGE, "simulations", "paired", made)
    else:
        print(made)
    return sum(line["refused"] for result in results for line in result.values())


def routers_table(runs_of, measured):
    """`runs_of` has, by a cell's title, the runs of each number of routers, seed by seed."""

    def text(runs):
        return " / ".join(f"{statistics.mean(run[key] for run in runs):.3g}" for key in ("ttft_mean_s", "ttft_p99_s"))

    heads = [f"{count} router{'s' if count > 1 else ''}" for count in ROUTER_COUNTS]
    lines = ["| load | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    lines += [f"| {title} | " + " | ".join(map(text, by_count)) + " |" for title, by_count in runs_of.items()]
    return "\n".join(lines) + f"\n\n{measured}"


def run_routers(options, pool):
    seeds = range(1, options.seeds + 1)
    runs_of = {}
    for title, name, utilisation, total_tokens in PAIRED_CELLS:
        load = LOADS[name]._replace(utilisation=utilisation)

        def play(job, load=load, total_tokens=total_tokens):
            count, seed = job
            return simulate(load, PAIRED_WORKERS, total_tokens, OWN_POLICY, seed, routers=count)[OWN_POLICY]

        jobs = [(count, seed) for count in ROUTER_COUNTS for seed in seeds]
        runs = list(pool.map(play, jobs))
        runs_of[title] = [runs[i : i + len(seeds)] for i in range(0, len(runs), len(seeds))]
    made = routers_table(runs_of, f"Seeds 1 to {options.seeds}, commit {page_tables.commit()}.")
    if options.write:
        page_tables.write(PAGE, "simulations", "routers", made)
    else:
        print(made)
    return sum(run["refused"] for by_count in runs_of.values() for runs in by_count for run in runs)


def run_tables(options, pool):
    measured = f"Seed {options.seed}, commit {page_tables.commit()}."
    results_of = {}
    for name in options.traces.split(","):
        load = LOADS[name]

        def play(column, load=load):
            return simulate(load, *column, options.policies, options.seed)

        results_of[name] = dict(zip(columns_of(load), pool.map(play, columns_of(load))))
        made = table(load, results_of[name], measured)
        if options.write:
            page_tables.write(PAGE, "simulations", name, made)
        else:
            print(made, flush=True)
    if options.write and set(results_of) == set(LOADS):
        page_tables.write(FIRST_PAGE, "simulations", "summary", summary(results_of, measured))
    lines = (line for results in results_of.values() for by_policy in results.values() for line in by_policy.values())
    return sum(line["refused"] for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", default=",".join(LOADS))
    parser.add_argument("--policies", default="all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--paired", action="store_true")
    parser.add_argument("--several-routers", action="store_true")
    parser.add_argument("--seeds", type=int, choices=sorted(T_95), default=8)
    parser.add_argument("--kept", type=pathlib.Path)
    options = parser.parse_args()
    if options.write and options.policies != "all":
        parser.error("--write needs all policies: their rows stand in one table")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        run = run_paired if options.paired else run_routers if options.several_routers else run_tables
        refused = run(options, pool)
    if refused:
        print(f"{refused} requests were refused", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())

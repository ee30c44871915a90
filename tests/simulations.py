#!/usr/bin/env python3
"""Makes the simulation tables of tests/results/simulations.md and README.md.

    tests/simulations.py [--traces conversation,weka] [--policies cache-aware,llm-d] [--seed 1]    prints tables
    tests/simulations.py --write [--traces conversation,weka]    writes them into the pages
    tests/simulations.py --paired [--cells NAMES] [--seeds 8] [--kept FILE] [--write]    differences on the same seeds
    tests/simulations.py --capacities [--cells NAMES] [--seed 1] [--write]    the highest load that each policy serves well
    tests/simulations.py --several-routers [--seeds 8] [--write]    the default with 1 to 16 routers
    tests/simulations.py --links [--cells NAMES] [--seeds 8] [--kept FILE] [--write]    workers that fetch from each other

tests/results/simulations.md has every policy on every trace, with 4, 8 and 16 workers and three sizes of cache, and the paired
differences; README.md has a few policies and loads of the latter. One configuration for all:
roostctl simulate's defaults, which are roost-worker's, and the costs that --costs names. Needs the release build and the
traces of ROOST_SHARED (default ../shared). Exits with 1 if a request was refused.

--paired compares every policy with the default on 8 workers, on the traces, also at and beyond saturation, and on the
generated loads: the same seeds for both, the mean difference in per cent and its 95 % interval. --cells picks columns by
their names, separated by commas. With --kept an interrupted run continues: FILE has a line for each finished simulation. A
kept line counts for the program that wrote it, so begin a new file after a change.
"""
import argparse
import concurrent.futures
import itertools
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
    flags: dict  # of roostctl simulate
    utilisation: float = 0  # 0: the flags have a rate
    total_tokens: tuple = ()  # tokens of cache, in all workers together


def trace_load(title, file, form, utilisation, total_tokens):
    return Load(title, {"trace": TRACES / file, "format": form}, utilisation, total_tokens)


# The names are those of the markers on the page.
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
# Columns of the table of differences: title, load, utilisation, tokens of cache in all 8 workers together.
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
# Student's t for 95 %, by the number of pairs.
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 12: 2.201, 16: 2.131}
PAGE = ROOT / "tests/results/simulations.md"
FIRST_PAGE = ROOT / "README.md"
PLACES = [*((PAGE, name) for name in LOADS), (PAGE, "paired default"), (PAGE, "paired free-decode"), (PAGE, "capacity"), (PAGE, "routers"), (PAGE, "links"), (FIRST_PAGE, "summary")]
OWN_POLICY = "cache-aware"
# The table of the first page: these policies and columns of the paired runs.
SUMMARY_POLICIES = (OWN_POLICY, "lmetric", "sglang", "llm-d", "dynamo", "least-requests")
SUMMARY_CELLS = ("one system prompt", "ten system prompts", "reasoning", "conversation 0.8", "synthetic 0.6", "coding agents 0.6",
                 "tau-bench 0.6")  # fmt: skip
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


def name_of(policy):
    return f"**`{policy}`**" if policy == OWN_POLICY else f"`{policy}`"


class Figure(typing.NamedTuple):
    title: str
    key: str  # of roostctl simulate's JSON
    scale: float = 1


# One column each, in this order.
FIGURES = (
    Figure("TTFT mean, s", "ttft_mean_s"),
    Figure("p99", "ttft_p99_s"),
    Figure("ITL mean, ms", "itl_mean_s", 1e3),
    Figure("p99", "itl_p99_s", 1e3),
    Figure("answer mean, s", "whole_mean_s"),
    Figure("p99", "whole_p99_s"),
    Figure("goodput, /s", "goodput_rps"),
    Figure("hits, %", "hit_ratio", 100),
)


def cell(line):
    ttft = " / ".join(f"{line[f'ttft_{key}_s']:.3g}" for key in ("mean", "p50", "p99"))
    itl = " / ".join(f"{1e3 * line[f'itl_{key}_s']:.3g}" for key in ("mean", "p99"))
    whole = " / ".join(f"{line[f'whole_{key}_s']:.3g}" for key in ("mean", "p99"))
    good = f"{line['goodput_rps']:.3g}"
    return f"{ttft}; {itl}; {whole}; {good}; {100 * line['hit_ratio']:.1f}, {line['imbalance']:.2f}"


CELL_KEY = (
    "Cells: mean / p50 / p99 time to first token in s; mean / p99 time between tokens in ms; mean / p99 time of the whole "
    "answer in s; goodput in requests/s (first token within 2 s, 50 ms between tokens); hits in per cent, imbalance."
)


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
    return f"<details><summary>{title}</summary>\n\n{CELL_KEY} {measured}\n\n{body}\n\n</details>"


def summary(runs_of, measured):
    """`runs_of` has the runs by the title of their cell, seed by seed."""

    def text(runs, policy):
        def mean(key, scale=1):
            return f"{scale * statistics.mean(run[policy][key] for run in runs):.3g}"

        whole = f"{mean('whole_mean_s')} / {mean('whole_p99_s')}"
        return f"{whole}; {mean('ttft_mean_s')}; {mean('itl_mean_s', 1e3)}; {mean('goodput_rps')}"

    cells = ((policy, [text(runs_of[title], policy) for title in SUMMARY_CELLS]) for policy in SUMMARY_POLICIES)
    return f"{rows(SUMMARY_CELLS, cells)}\n\n{measured}"


class KeptRuns:
    """Results by cell and seed, written to a file one by one, so that a long measurement can be continued."""

    def __init__(self, path):
        self.path = path
        self.lines = {}
        if path and path.exists():
            for line in map(json.loads, path.read_text().splitlines()):
                self.lines[line["title"], line["seed"]] = line["results"]

    def run(self, cell, options, seed, more=None, policies=None):
        """`more` has further flags of roostctl simulate, which are part of the title."""
        title, name, utilisation, total_tokens = cell
        for flag, value in (more or {}).items():
            title += f", {flag} {value}"
        if (title, seed) not in self.lines:
            load = ALL_LOADS[name]
            load = load._replace(utilisation=utilisation, flags={**load.flags, **(more or {})})
            policies = policies or options.policies
            results = simulate(load, PAIRED_WORKERS, total_tokens, policies, seed, costs=options.costs)
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


def difference_text(runs, policy, figure):
    """`runs` has the results of one cell, seed by seed. The default's value; of another policy the difference to it."""

    def values(name):
        return [run[name][figure.key] for run in runs]

    own = values(OWN_POLICY)
    if policy == OWN_POLICY or min(own) == 0:
        return f"{figure.scale * statistics.mean(values(policy)):.3g}"
    mean, half = difference(values(policy), own)
    digits = 1 if abs(mean) < 5 and half < 5 else 0
    return f"{mean:+.{digits}f} ± {half:.{digits}f}"


def paired_tables(runs_of, measured):
    """A table for each cell: `runs_of` has the runs by its title, seed by seed."""
    heads = [figure.title for figure in FIGURES]
    parts = []
    for title, runs in runs_of.items():
        cells = ((policy, [difference_text(runs, policy, figure) for figure in FIGURES]) for policy in runs[0])
        parts.append(f"**{title}**\n\n{rows(heads, cells)}")
    return "\n\n".join(parts) + f"\n\n{measured}"


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


def run_paired(options, pool):
    kept = KeptRuns(options.kept)
    cells = chosen_cells(options)
    jobs = [(cell, seed) for seed in range(1, options.seeds + 1) for cell in cells]
    results = list(pool.map(lambda job: kept.run(job[0], options, job[1]), jobs))
    runs_of = {cell[0]: [] for cell in cells}
    for (cell, _), result in zip(jobs, results):
        runs_of[cell[0]].append(result)
    measured = f"Seeds 1 to {options.seeds}{costs_text(options)}, commit {page_tables.commit()}."
    made = paired_tables(runs_of, measured)
    if options.write:
        page_tables.write(PAGE, "simulations", "paired " + (options.costs or "default"), made)
        if not options.costs:
            page_tables.write(FIRST_PAGE, "simulations", "summary", summary(runs_of, measured))
    else:
        print(made)
    return sum(line["refused"] for result in results for line in result.values())


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
        return line

    found = list(pool.map(play, itertools.product(cells, policies)))
    results = [dict(zip(policies, found[start : start + len(policies)])) for start in range(0, len(found), len(policies))]
    lines = ((policy, [f"{result[policy]['capacity_rps']:.3g}" for result in results]) for policy in policies)
    measured = f"Seed {options.seed}{costs_text(options)}, commit {page_tables.commit()}."
    titles = [ALL_LOADS[cell[0]].title for cell in cells]
    made = f"{rows(titles, lines)}\n\n{measured}"
    if options.write:
        page_tables.write(PAGE, "simulations", "capacity", made)
    else:
        print(made)
    return 0


def routers_table(runs_of, measured):
    """`runs_of` has, by a cell's title, the runs of each number of routers, seed by seed."""

    def text(runs):
        keys = ("ttft_mean_s", "ttft_p99_s", "whole_mean_s", "goodput_rps")
        return " / ".join(f"{statistics.mean(run[key] for run in runs):.3g}" for key in keys)

    heads = [f"{count} router{'s' if count > 1 else ''}" for count in ROUTER_COUNTS]
    lines = ["| load | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    lines += [f"| {title} | " + " | ".join(map(text, by_count)) + " |" for title, by_count in runs_of.items()]
    return "\n".join(lines) + f"\n\n{measured}"


def run_routers(options, pool):
    seeds = range(1, options.seeds + 1)
    runs_of = {}
    for title, name, utilisation, total_tokens in chosen_cells(options):
        load = ALL_LOADS[name]._replace(utilisation=utilisation)

        def play(job, load=load, total_tokens=total_tokens):
            count, seed = job
            result = simulate(
                load, PAIRED_WORKERS, total_tokens, OWN_POLICY, seed, routers=count, costs=options.costs
            )
            return result[OWN_POLICY]

        jobs = [(count, seed) for count in ROUTER_COUNTS for seed in seeds]
        runs = list(pool.map(play, jobs))
        runs_of[title] = [runs[i : i + len(seeds)] for i in range(0, len(runs), len(seeds))]
    made = routers_table(runs_of, f"Seeds 1 to {options.seeds}, commit {page_tables.commit()}.")
    if options.write:
        page_tables.write(PAGE, "simulations", "routers", made)
    else:
        print(made)
    return sum(run["refused"] for by_count in runs_of.values() for runs in by_count for run in runs)


def closed_text(without, with_links, pooled, figure):
    """The share of the gap between the means without links and of the pool that links close, in per cent."""
    own, linked, least = (statistics.mean(run[figure.key] for run in runs) for runs in (without, with_links, pooled))
    return f"{100 * (own - linked) / (own - least):.0f}" if least < own else "no gap"


def links_tables(runs_of, measured):
    """`runs_of` has, by a cell's title, the runs of each rate and of "pooled", seed by seed."""
    gaps = [figure for figure in FIGURES if figure.key in ("ttft_mean_s", "whole_mean_s")]
    heads = [*(figure.title for figure in FIGURES), "pulls", "pulled, % of prompts", "gap closed, %: TTFT / answer"]
    lines_of = lambda cells: "\n".join("| " + " | ".join(cell) + " |" for cell in cells)
    parts = []
    for title, by_rate in runs_of.items():
        without = by_rate[0]

        def texts(runs):
            for figure in FIGURES:
                own = [run[figure.key] for run in without]
                mean, half = difference([run[figure.key] for run in runs], own)
                digits = 1 if abs(mean) < 5 and half < 5 else 0
                yield f"{mean:+.{digits}f} ± {half:.{digits}f}"

        cells = [["0", *(f"{f.scale * statistics.mean(run[f.key] for run in without):.3g}" for f in FIGURES), "", "", ""]]
        for rate in LINK_RATES[1:]:
            runs = by_rate[rate]
            pulls = f"{statistics.mean(run['pulls'] for run in runs):.0f}"
            share = f"{100 * statistics.mean(run['pulled_share'] for run in runs):.2g}"
            closed = " / ".join(closed_text(without, runs, by_rate["pooled"], figure) for figure in gaps)
            cells.append([f"{rate}", *texts(runs), pulls, share, closed])
        cells.append(["`pooled`", *texts(by_rate["pooled"]), "", "", ""])
        head = lines_of([["Gbit/s", *heads], ["---"] * (len(heads) + 1)])
        parts.append(f"**{title}**\n\n{head}\n{lines_of(cells)}")
    return "\n\n".join(parts) + f"\n\n{measured}"


def run_links(options, pool):
    kept = KeptRuns(options.kept)
    cells = chosen_cells(options, LINK_CELLS)
    seeds = range(1, options.seeds + 1)
    jobs = [(cell, rate, seed) for seed in seeds for cell in cells for rate in LINK_RATES]

    def play(job):
        cell, rate, seed = job
        policies = OWN_POLICY if rate else f"{OWN_POLICY},pooled"
        return kept.run(cell, options, seed, {"link-gbps": rate}, policies)

    results = list(pool.map(play, jobs))
    runs_of = {cell[0]: {key: [] for key in (*LINK_RATES, "pooled")} for cell in cells}
    for (cell, rate, _), result in zip(jobs, results):
        for policy, line in result.items():
            runs_of[cell[0]][rate if policy == OWN_POLICY else policy].append(line)
    measured = f"Seeds 1 to {options.seeds}{costs_text(options)}, commit {page_tables.commit()}."
    made = links_tables(runs_of, measured)
    if options.write:
        page_tables.write(PAGE, "simulations", "links", made)
    else:
        print(made)
    return sum(line["refused"] for result in results for line in result.values())


def run_tables(options, pool):
    measured = f"Seed {options.seed}{costs_text(options)}, commit {page_tables.commit()}."
    results_of = {}
    for name in options.traces.split(","):
        load = LOADS[name]

        def play(column, load=load):
            return simulate(load, *column, options.policies, options.seed, costs=options.costs)

        results_of[name] = dict(zip(columns_of(load), pool.map(play, columns_of(load))))
        made = table(load, results_of[name], measured)
        if options.write:
            page_tables.write(PAGE, "simulations", name, made)
        else:
            print(made, flush=True)
    lines = (line for results in results_of.values() for by_policy in results.values() for line in by_policy.values())
    return sum(line["refused"] for line in lines)


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
    parser.add_argument("--cells")
    parser.add_argument("--costs", help="of roostctl simulate; by default its default")
    parser.add_argument("--seeds", type=int, choices=sorted(T_95), default=8)
    parser.add_argument("--kept", type=pathlib.Path)
    options = parser.parse_args()
    if options.write and (options.cells or options.policies != "all"):
        parser.error("--write needs all policies and cells: they stand in one table")
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
        refused = run(options, pool)
    if refused:
        print(f"{refused} requests were refused", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())

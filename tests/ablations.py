#!/usr/bin/env python3
"""The effect of each term and constant of the decision; tests/results/ablations.tsv has the tables.

    tests/ablations.py [--rows delay,pace] [--seeds 8]    prints the tables of these rows; by default of all
    tests/ablations.py --write [--kept FILE]    keeps them, for the page of results too; with --kept an interrupted run continues

A row is a change of the source (ROWS): one term left out, or one constant halved or doubled. The script applies it to a
copy of the tree in build/ablations, builds roostctl there, and plays the same seeds with and without the change, on the
clusters of tests/simulations.py --paired; rows of blocks that travel on those of --links. Needs the traces of ROOST_SHARED
(default ../shared). A row of eight seeds takes about half a minute on two cores, half of it for the build. --kept FILE has a line for each finished simulation.
Programs and lines of another commit are not used; commit a change before you measure it.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import typing

import page_tables
import simulations

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build/ablations"
TREE = PLACE / "tree"
AS_IS = "as it is"
LINK_GBPS = 100


class Cell(typing.NamedTuple):
    title: str
    load: str
    utilisation: float
    total_tokens: float  # of cache, in all workers together
    link_gbps: float = 0

    @property
    def name(self):
        return f"{self.title}, {self.link_gbps} Gbit/s" if self.link_gbps else self.title


class Table(typing.NamedTuple):
    head: str  # of the column of changes
    cells: list


PAIRED = [Cell(*cell) for cell in simulations.PAIRED_CELLS]
TABLES = {
    "terms": Table("without", PAIRED),
    "constants": Table("with", PAIRED),
    "links": Table("displaced is, for what comes", [Cell(*cell, LINK_GBPS) for cell in simulations.LINK_CELLS]),
}


class Change(typing.NamedTuple):
    file: str  # in router/route
    old: str  # occurs there once
    new: str


class Row(typing.NamedTuple):
    table: str
    title: str
    changes: tuple


def without(title, file, old, new):
    return Row("terms", title, (Change(file, old, new),))


def constant(name, file, old, *values):
    """`old` has {} in place of the value, which is the first of `values`."""
    return [
        Row("constants", f"`{name}` {value}", (Change(file, old.format(values[0]), old.format(value)),))
        for value in values[1:]
    ]


ROWS = {
    "queue": without("the queue's order: `queue` counts all", "cost.cc", ".tokens_before = before,", ".tokens_before = queued,"),
    "decode": without("`decode`", "cost.cc", "terms.decode_seconds = ", "terms.decode_seconds = 0 * "),
    "answer": without("`answer`", "cost.cc", "answer_seconds_ = overlap", "answer_seconds_ = 0 * overlap"),
    "stall": without("`stall`", "cost.cc", "terms.stall_seconds = ", "terms.stall_seconds = 0 * "),
    "delay": without("`delay`", "cost.cc", "terms.delay_seconds = ", "terms.delay_seconds = 0 * "),
    "impatience": without("`delay`: late prompts count more", "prompt_queue.h", "kMaxImpatience = 19;", "kMaxImpatience = 0;"),
    "busy": without("`congestion`: ρ", "cost.cc", "kPriceOfAMiss / (1 - std::clamp(speed.busy_share, 0.0, kMaxBusyShare))", "kPriceOfAMiss"),
    "miss": without("`congestion`: twice", "cost.cc", "kPriceOfAMiss / (1 - std::clamp", "1 / (1 - std::clamp"),
    "pace": without("`pace`", "cost.cc", "WithoutNoise(slowness) / slowness", "WithoutNoise(slowness) / WithoutNoise(slowness)"),
    "ties": without("ties", "cache_aware.h", "kTieSeconds = 0.02", "kTieSeconds = 0"),
    "copies": without("copies", "replication.cc", "block_count == 0 ||", "block_count == 0 || block_count > 0 ||"),
}  # fmt: skip
_DISPLACED = "terms.displaced_seconds = (terms.congestion - 1 + stalled / kPriceOfAMiss) * computing_seconds;"
ROWS["displaced"] = Row("links", "left out", (Change("cost.cc", _DISPLACED, "static_cast<void>(computing_seconds);"),))
for _name, _file, _old, *_values in (
    ("kMaxBusyShare", "cost.cc", "kMaxBusyShare = {};", "0.97", "0.9", "0.98"),
    ("kPriceOfAMiss", "cost.cc", "kPriceOfAMiss = {};", "2", "1.5", "4"),
    ("kSpeedNoise", "cost.cc", "kSpeedNoise = {};", "1.5", "1.25", "2"),
    ("kStallShare", "cost.cc", "kStallShare = {};", "0.4", "0.2", "0.8"),
    ("kPatienceSeconds", "prompt_queue.h", "kPatienceSeconds = {};", "0.5", "0.25", "1"),
    ("kMaxImpatience", "prompt_queue.h", "kMaxImpatience = {};", "19", "9", "39"),
    ("kTieSeconds", "cache_aware.h", "kTieSeconds = {};", "0.02", "0.01", "0.04"),
    ("kTieShare", "cache_aware.h", "kTieShare = {};", "0.1", "0.05", "0.2"),
    ("kHalfLife", "busy_share.h", "kHalfLife = std::chrono::seconds({});", "20", "10", "40"),
    ("kRecentTime", "faded_sum.h", "kRecentTime = std::chrono::seconds({});", "60", "30", "120"),
    ("kLeastLoadedCount", "candidates.h", "kLeastLoadedCount = {};", "4", "1", "2"),
    ("kKeptHolders", "candidates.h", "kKeptHolders = {};", "12", "6"),
    ("kSets", "replication.h", "kSets = {};", "256", "32"),
):
    for _row in constant(_name, _file, _old, *_values):
        ROWS[_row.title] = _row


def changed(text, change):
    if text.count(change.old) != 1:
        raise ValueError(f"router/route/{change.file} has {text.count(change.old)} times, not once: {change.old}")
    return text.replace(change.old, change.new)


def copy_tree():
    """Writes only files that differ, so that little is compiled again."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        target = TREE / name
        if (ROOT / name).is_dir():  # a link to a folder
            continue
        source = (ROOT / name).read_bytes()
        if not target.exists() or target.read_bytes() != source:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source)
            target.chmod((ROOT / name).stat().st_mode)


def run_cmake(*arguments):
    """Runs in the copy. Its output is shown if it fails."""
    done = subprocess.run(["cmake", *arguments], cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout)


def build(name, row):
    """The program of this row; the unchanged tree is a row without changes."""
    program = PLACE / "bin" / page_tables.commit() / name.replace(" ", "_").replace("/", "of")
    if program.exists():
        return program
    copy_tree()
    for change in row.changes:
        path = TREE / "router/route" / change.file
        path.write_text(changed(path.read_text(), change))
    if not (TREE / "build/release/build.ninja").exists():
        run_cmake("--preset", "release")
    run_cmake("--build", "--preset", "release", "--target", "roostctl")
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(TREE / "build/release/bin/roostctl", program)
    return program


def play(kept, name, program, cell, seed):
    load = simulations.ALL_LOADS[cell.load]
    more = {"link-gbps": cell.link_gbps} if cell.link_gbps else {}
    load = load._replace(utilisation=cell.utilisation, flags={**load.flags, **more})
    workers, policy = simulations.PAIRED_WORKERS, simulations.OWN_POLICY
    key = (page_tables.commit(), name, cell.name, seed)
    return kept.run(key, lambda: simulations.simulate(load, workers, cell.total_tokens, policy, seed, program)[policy])


def measure(names, seeds, kept):
    """Results by row and cell, seed by seed; of the unchanged tree for the cells of all these rows."""
    results = {}
    tables = {row.table for row in map(ROWS.get, names)}
    all_cells = list(dict.fromkeys(cell for table in sorted(tables) for cell in TABLES[table].cells))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in [AS_IS, *names]:
            row = ROWS.get(name, Row("", AS_IS, ()))
            program = build(name, row)
            cells = TABLES[row.table].cells if name in ROWS else all_cells
            jobs = [(cell, seed) for cell in cells for seed in range(1, seeds + 1)]
            done = pool.map(lambda job, n=name, p=program: play(kept, n, p, *job), jobs)
            for (cell, _), result in zip(jobs, done):
                results.setdefault((name, cell.name), []).append(result)
    return results


def table(name, rows, results, note):
    """The rows of this table, each beside the decision as it is."""
    head, cells = TABLES[name]
    rows = {AS_IS: AS_IS, **{row: ROWS[row].title for row in rows if ROWS[row].table == name}}
    runs_of = {
        (cell.title, title): simulations.figures_of(results[row, cell.name]) for cell in cells for row, title in rows.items()
    }
    return page_tables.compared(name, note, ("load", head), runs_of)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seeds", type=int, choices=sorted(page_tables.T_95), default=8)
    parser.add_argument("--kept", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = options.rows.split(",")
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; there are: {', '.join(ROWS)}")
    results = measure(rows, options.seeds, simulations.KeptRuns(options.kept))
    note = f"Seeds 1 to {options.seeds}, commit {page_tables.commit()}."
    for name in TABLES:
        if any(ROWS[row].table == name for row in rows):
            page_tables.finish(options.write, "ablations", table(name, rows, results, note))


if __name__ == "__main__":
    main()

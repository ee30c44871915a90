#!/usr/bin/env python3
"""Keeps what scripts measure as data, and writes tables of these data into pages.

    tests/page_tables.py            writes each table of tests/results/README.md and README.md anew from the data
    tests/page_tables.py check      exits with 1 if one of them says something else than the data

tests/results/<script>.tsv has the tables of a script, with an empty line between two. Lines that begin with # are the
table's name, and then what it was measured with; columns are separated by tabs:

    # paired default
    # Seeds 1 to 4, commit 27dde40e.
    load	policy	ttft_mean_s	ttft_mean_s %
    conversation 0.6	cache-aware	0.522
    conversation 0.6	lmetric		+10 ± 2

A column `figure %` is the difference to the first row of the same load in per cent, seed by seed, with its 95 % interval.
In a page a table is between two markers; the rest of the page is not changed:

    <!-- tests/simulations.py answers -->
    <!-- end answers -->
"""
import pathlib
import statistics
import subprocess
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests/results"
PAGE = RESULTS / "README.md"
FIRST_PAGE = ROOT / "README.md"
OWN_POLICY = "cache-aware"
# Student's t for 95 %, by the number of pairs.
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 12: 2.201, 16: 2.131}


class Table(typing.NamedTuple):
    name: str
    notes: list  # lines: seeds, commit, machine
    heads: list
    rows: list  # of texts

    def text(self):
        lines = [f"# {line}" for line in (self.name, *self.notes)]
        return "\n".join([*lines, *("\t".join(row).rstrip("\t") for row in (self.heads, *self.rows))]) + "\n"

    def by(self, *heads):
        """The rows as dictionaries, by their texts in the columns `heads`."""
        rows = [dict(zip(self.heads, [*row, *[""] * len(self.heads)])) for row in self.rows]
        return {tuple(row[head] for head in heads): row for row in rows}


def parse(text):
    tables = {}
    for part in text.strip("\n").split("\n\n"):
        lines = part.split("\n")
        notes = [line[2:] for line in lines if line.startswith("# ")]
        heads, *rows = [line.split("\t") for line in lines[len(notes) :]]
        tables[notes[0]] = Table(notes[0], notes[1:], heads, rows)
    return tables


def data(script):
    return RESULTS / f"{script}.tsv"


def tables(script):
    return parse(data(script).read_text())


def keep(script, table):
    """Replaces the table of this name in the script's data, and writes what the pages show of it."""
    kept = {**tables(script), table.name: table}
    data(script).write_text("\n".join(each.text() for each in kept.values()))
    write_pages()


def finish(write, script, table):
    if write:
        keep(script, table)
    else:
        print(table.text(), flush=True)


def difference(others, own):
    """The mean of the differences in per cent, pair by pair, and half of its 95 % interval; "" where there was nothing."""
    if min(own) == 0:
        return ""
    percents = [100 * (other / mine - 1) for other, mine in zip(others, own)]
    mean = statistics.mean(percents)
    half = T_95[len(percents)] * statistics.stdev(percents) / len(percents) ** 0.5
    digits = 1 if abs(mean) < 5 and half < 5 else 0
    return f"{mean:+.{digits}f} ± {half:.{digits}f}"


def compared(name, note, heads, runs_of):
    """Means over the seeds, and differences to the first of the same load. `runs_of` has, by (load, what is compared), a
    dictionary of figures for each seed."""
    first_of = {}
    rows = []
    for (load, what), runs in runs_of.items():
        first = first_of.setdefault(load, runs)
        columns = {figure: [run[figure] for run in runs] for figure in runs[0]}
        row = [load, what, *(f"{statistics.mean(values):.3g}" for values in columns.values())]
        if runs is not first and len(runs) > 1:
            row += [difference(values, [run[figure] for run in first]) for figure, values in columns.items()]
        rows.append(row)
    some_runs = next(iter(runs_of.values()))
    differences = [f"{figure} %" for figure in some_runs[0]] if len(some_runs) > 1 else []
    return Table(name, [note], [*heads, *some_runs[0], *differences], rows)


def markers(script, name):
    return f"<!-- tests/{script}.py {name} -->", f"<!-- end {name} -->"


def replaced(text, script, name, table):
    """The page's text with this table at its place. Ends the program if the page has no such place."""
    begin, end = markers(script, name)
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"the page needs '{begin}' and '{end}', each once")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table.strip()}\n{end}{rest.split(end)[1]}"


def commit():
    """The commit that is measured, as data name it."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def markdown(heads, rows):
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def grid(table, row_head, rows, column_head, columns, text):
    """A table of `rows` and `columns`, whose first head says what it was measured with."""
    cells = table.by(row_head, column_head)
    lines = [[row, *(text(cells[row, column]) if (row, column) in cells else "" for column in columns)] for row in rows]
    return markdown([" ".join(table.notes), *columns], lines)


def values(table, head):
    """The texts in this column, each once."""
    column = table.heads.index(head)
    return list(dict.fromkeys(row[column] for row in table.rows))


def later(text):
    """A difference, bold where it is beyond its interval."""
    mean, _, half = text.partition(" ± ")
    return f"**{text}**" if half and float(mean) > float(half) else text


# The page of results shows these of the policies, README.md the first six on a few loads.
POLICIES = (OWN_POLICY, "lmetric", "sglang", "llm-d", "dynamo", "least-requests", "round-robin")
SUMMARY_LOADS = ("one system prompt", "conversation 0.8", "coding agents 0.6", "tau-bench 0.6")
SUMMARY_HEADS = {"whole_mean_s": "answer, s", "ttft_mean_s": "first token, s", "goodput_rps": "goodput, /s"}


def summary():
    table = tables("simulations")["paired default"]
    rows = table.by("load", "policy")
    lines = [
        [f"**`{policy}`**" if policy == OWN_POLICY else f"`{policy}`",
         *(rows[load, policy][figure] for load in SUMMARY_LOADS for figure in SUMMARY_HEADS)]
        for policy in POLICIES[:6]
    ]  # fmt: skip
    whole, *others = SUMMARY_HEADS.values()
    heads = [head for load in SUMMARY_LOADS for head in (f"{load}: {whole}", *others)]
    return f"{markdown(['policy', *heads], lines)}\n\n{' '.join(table.notes)}"


def answers():
    def text(row):
        if row["policy"] == OWN_POLICY:
            return f"{row['whole_mean_s']} s; {row['goodput_rps']}/s"
        return f"{later(row['whole_mean_s %'])}; {row['goodput_rps %']}"

    table = tables("simulations")["paired default"]
    return grid(table, "load", [load for load in values(table, "load") if load != "restart"], "policy", POLICIES, text)


def links():
    def text(row):
        return f"{row['whole_mean_s %']}; {row['ttft_mean_s %']}"

    table = tables("simulations")["links"]
    return grid(table, "load", values(table, "load"), "link", values(table, "link")[1:], text)


def terms():
    table = tables("ablations")["terms"]
    rows = [row for row in values(table, "without") if row != "as it is"]
    return grid(table, "without", rows, "load", values(table, "load"), lambda row: later(row["whole_mean_s %"]))


def daemons():
    def text(row):
        return f"{row['whole_mean_s']} s" if row["policy"] == OWN_POLICY else later(row["whole_mean_s %"])

    kept = [table for name, table in tables("loads").items() if table.heads[:2] == ["load", "policy"]]
    one = kept[0]._replace(notes=["load"], rows=[row for table in kept for row in table.rows])
    return grid(one, "load", values(one, "load"), "policy", POLICIES, text)


def dynamo():
    def text(row):
        return f"{row['ttft_mean_s']} s; {row['whole_mean_s']} s; {row['hits_percent']} %"

    table = tables("dynamo_replay")["dynamo"]
    return grid(table, "arrivals", values(table, "arrivals"), "router", values(table, "router"), text)


def evictions():
    table = tables("evictions")["time"]
    lines = []
    for load in values(table, "load"):
        if load in ("generated chats", "generated, no reuse"):
            continue
        of = [row for row in table.by("load", "pool").values() if row["load"] == load]
        lines.append([load, *(" · ".join(row[head] for row in of) for head in table.heads[1:])])
    return markdown([" ".join(table.notes), *table.heads[1:]], lines)


# What the page shows of the figures: a row's title and its figures.
SHOWN_FIGURES = {
    "router: a decision over 256 workers with its lookup, median and p99": ("decide_p50_us", "decide_p99_us"),
    "router: taking in a worker's report": ("report_us",),
    "router: processor time of a chat of 1,000 tokens; SMG 1.13 in turn": ("router_cpu_ms_per_request", "smg_cpu_ms_per_request"),
    "router: throughput of a core with TLS over without": ("http_tls_throughput_ratio",),
    "router: tokens lost of 5,000 streams at once; memory of a stream": ("streams_5000_lost_tokens", "stream_bytes_each"),
    "worker: the engine's part of a step of 64 and 256 requests": ("engine_step_us_64", "engine_step_us_256"),
    "worker: cache match a block, eviction in a pool of a million": ("cache_match_ns_per_block", "cache_evict_ns_1m"),
    "worker: 1,020 tokens fetched from a worker, from the disk after kill -9, over computing them": ("transfer_request_pulled_over_computed", "disk_restart_ttft_over_computed"),
    "CPU: prefill of the demo model, one thread; a step of Qwen3-0.6B's shape": ("model_prefill_demo_1t", "model_decode_step_qwen3_0_6b_2t"),
    "CPU: that step beside a busy process; llama.cpp's": ("neighbours_decode_normal_priority", "neighbours_other_decode_normal_priority"),
    "a tenant's p99 beside one with 100 clients, over without": ("fairness_p99_ttft_ratio",),
    "failed requests while workers and routers are scaled, rolled and lost": ("scale_failed_requests", "rollout_failed_requests"),
}


def figures():
    rows = {name: row for table in tables("figures").values() if "figure" in table.heads for (name,), row in table.by("figure").items()}
    lines = []
    for title, names in SHOWN_FIGURES.items():
        commits = dict.fromkeys(rows[name]["commit"] for name in names)
        lines.append([title, " · ".join(rows[name]["value"] for name in names), " ".join(f"`{each}`" for each in commits)])
    return markdown(["", "value", "commit"], lines)


def vllm():
    table = tables("figures")["vllm"]
    return markdown(table.heads, table.rows)


PLACES = (
    (FIRST_PAGE, "simulations", "summary", summary),
    (PAGE, "simulations", "answers", answers),
    (PAGE, "ablations", "terms", terms),
    (PAGE, "simulations", "links", links),
    (PAGE, "loads", "daemons", daemons),
    (PAGE, "dynamo_replay", "dynamo", dynamo),
    (PAGE, "evictions", "time", evictions),
    (PAGE, "figures", "figures", figures),
    (PAGE, "figures", "vllm", vllm),
)


def written(page):
    """The page's text with its tables as the data have them."""
    text = page.read_text()
    for place, script, name, made in PLACES:
        if place == page:
            text = replaced(text, script, name, made())
    return text


def write_pages():
    for page in (PAGE, FIRST_PAGE):
        page.write_text(written(page))


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        sys.exit(any(page.read_text() != written(page) for page in (PAGE, FIRST_PAGE)))
    write_pages()

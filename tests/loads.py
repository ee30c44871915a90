#!/usr/bin/env python3
"""Real daemons under loads with long answers: what each policy makes of them.

    tests/loads.py [--loads system-prompt,restart] [--policies cache-aware,least-requests] [--seeds 3] [--capacity] [--write]

For each load and seed, one policy after the other: a router and --workers workers of one thread, and roostctl bench
with a load of --rate requests per second for --seconds. The loads are those of roostctl bench, with their lengths times
--scale, so that the model holds them: system-prompt, zipf-systems, agents, documents, reasoning; restart, which is
system-prompt while worker-a restarts in the middle; and conversation, a part of Mooncake's trace of that name (from
ROOST_SHARED, default ../shared), another part for each seed. With --costs the workers compute nothing and take the time of
that profile of roostctl simulate (roost-paced-worker), so several plays fit on one machine: --at-once. Prints a table for each load: means over the seeds. Needs the release
build. With several seeds, the time of an answer and goodput of each policy have their difference to the first policy's
on the same seeds, in per cent with 95 % intervals. --capacity searches the highest rate of which 99 % are good instead, with
one seed. --write keeps each load's table in tests/results/loads.tsv, for the page of results too, unless an answer failed.
Exits with 1 then.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "integration")]

import page_tables  # noqa: E402
from cluster import BIN, DEMO_MODEL, Cluster  # noqa: E402

WORKLOADS = {name: name for name in ("system-prompt", "zipf-systems", "agents", "documents", "reasoning")}
WORKLOADS |= {"restart": "system-prompt"}
CONVERSATION = "conversation"
TRACE = pathlib.Path(os.environ.get("ROOST_SHARED", page_tables.ROOT.parent / "shared")) / "traces/mooncake_conv_first20min.jsonl"
LOADS = (*WORKLOADS, CONVERSATION)
POLICIES = "cache-aware,least-requests,lmetric,dynamo,sglang,llm-d,round-robin"


def figures_of(run):
    """The figures of a run of roostctl bench."""
    ttft, itl, whole = run["ttft_seconds"], run["itl_seconds"], run["total_seconds"]
    return {
        "ttft_mean_ms": 1e3 * ttft["mean"], "ttft_p99_ms": 1e3 * ttft["p99"], "itl_mean_ms": 1e3 * itl["mean"],
        "itl_p99_ms": 1e3 * itl["p99"], "whole_mean_s": whole["mean"], "whole_p99_s": whole["p99"],
        "goodput_rps": run["good_per_second"], "tokens_per_s": run["output_tokens_per_second"],
        "hits_percent": 100 * run["cached_ratio"],
    }  # fmt: skip


def start_worker(cluster, name, options):
    costs = ["--costs", options.costs] if options.costs else []
    return cluster.start_worker(name, "--kv-blocks", str(options.kv_blocks), *costs, model=options.model)


def restart(cluster, workers, options):
    """Lets worker-a end its requests, and starts it anew."""
    workers[0].stop()
    start_worker(cluster, "worker-a", options)


def window(seed, options, folder):
    """The trace's part for a seed, as a file of its own, and its speed at --rate."""
    lines = TRACE.read_text().splitlines()
    count = round(options.rate * options.seconds)
    first = (seed - 1) * count
    if first + count > len(lines):
        raise SystemExit(f"{TRACE} has {len(lines)} requests: too few for seed {seed} with {count} of them")
    lines = lines[first : first + count]
    path = pathlib.Path(folder) / "window.jsonl"
    path.write_text("\n".join(lines) + "\n")
    span = (json.loads(lines[-1])["timestamp"] - json.loads(lines[0])["timestamp"]) / 1e3
    return ["--trace", path, "--speed", str(span / options.seconds)]


def offered(load, seed, options, folder):
    """The flags of roostctl bench that say what comes when."""
    if load == CONVERSATION:
        return window(seed, options, folder)
    return ["--workload", WORKLOADS[load], "--rate", str(options.rate), "--seconds", str(options.seconds), "--scale",
            str(options.scale), "--warm-up", "4"]  # fmt: skip


def play(load, policy, seed, options):
    """The run of roostctl bench, as its JSON has it."""
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        router = cluster.start_router("--policy", policy)
        names = [f"worker-{chr(ord('a') + i)}" for i in range(options.workers)]
        workers = [start_worker(cluster, name, options) for name in names]
        router.wait_for_workers(len(workers))
        command = [
            BIN / "roostctl", "bench", "--router", router.url, *offered(load, seed, options, folder), "--ignore-eos",
            "--json", "-", "--slo-ttft-ms", str(options.slo_ttft_ms), "--slo-itl-ms", str(options.slo_itl_ms),
            "--seed", str(seed), *(["--capacity"] if options.capacity else []),
        ]  # fmt: skip
        timer = None
        if load == "restart":
            timer = threading.Timer(options.seconds / 2, restart, (cluster, workers, options))
            timer.start()
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if timer:
            timer.join()
        if told.returncode not in (0, 1):
            raise SystemExit(told.stderr)
        return json.loads(told.stdout)["runs"][0]


def table(load, runs_of, note):
    """`runs_of` has the runs by policy, seed by seed."""
    figures = {(load, policy): list(map(figures_of, runs)) for policy, runs in runs_of.items()}
    made = page_tables.compared(load, note, ("load", "policy"), figures)
    made.heads.append("requests at each")
    for row, runs in zip(made.rows, runs_of.values()):
        names = sorted({name for run in runs for name in run["share_by_worker"]})
        shares = [f"{100 * statistics.mean(run['share_by_worker'].get(name, 0) for run in runs):.0f} %" for name in names]
        row += [""] * (len(made.heads) - 1 - len(row)) + [" ".join(shares)]
    return made


def measured(load, options):
    """What a table was measured with, and at which commit."""
    seeds = f"Seeds 1 to {options.seeds}" if options.seeds > 1 else "Seed 1"
    offered_load = f"{options.rate:g} requests/s for {options.seconds:g} s"
    if load != CONVERSATION:
        offered_load += f", lengths times {options.scale:g}"
    cache = f"{options.workers} workers of {options.kv_blocks:,} blocks"
    what = f"costs of `{options.costs}`" if options.costs else f"model {pathlib.Path(options.model).name}"
    return f"{seeds}, {offered_load}, {cache}, {what}, commit {page_tables.commit()}."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", default=DEMO_MODEL, help="a folder, or synthetic:qwen3-0.6b")
    parser.add_argument("--costs", default="", help="of roostctl simulate: workers that compute nothing, in their time")
    parser.add_argument("--kv-blocks", type=int, default=4096, help="of each worker")
    parser.add_argument("--rate", type=float, default=6)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1, help="plays side by side; with --costs, whose workers need little")
    parser.add_argument("--slo-ttft-ms", type=float, default=2000)
    parser.add_argument("--slo-itl-ms", type=float, default=50)
    parser.add_argument("--capacity", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write and options.capacity:
        parser.error("--write writes tables of times, not capacities")
    loads, policies = options.loads.split(","), options.policies.split(",")
    unknown = set(loads) - set(LOADS)
    if unknown:
        parser.error(f"no such load: {', '.join(sorted(unknown))}; there are: {', '.join(LOADS)}")
    failed = 0
    for load in loads:
        if options.capacity:
            capacities = {policy: play(load, policy, 1, options)["capacity_per_second"] for policy in policies}
            print(load, *(f"{policy} {rate:.3g}/s" for policy, rate in capacities.items()), flush=True)
            continue
        plays = [(policy, seed) for seed in range(1, options.seeds + 1) for policy in policies]
        with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
            runs = list(pool.map(lambda each: play(load, *each, options), plays))
        runs_of = {policy: runs[first :: len(policies)] for first, policy in enumerate(policies)}
        failed_here = sum(run["failed"] for runs in runs_of.values() for run in runs)
        failed += failed_here
        page_tables.finish(options.write and not failed_here, "loads", table(load, runs_of, measured(load, options)))
    if failed:
        print(f"{failed} answers failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

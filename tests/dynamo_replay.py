#!/usr/bin/env python3
"""Dynamo's own router and mock engine beside ours, on a Mooncake trace in virtual time.

    pip download --no-deps --only-binary=:all: --python-version 3.11 ai-dynamo-runtime==1.6.1
    unzip ai_dynamo_runtime-1.6.1-*.whl -d PACKAGE
    tests/dynamo_replay.py PACKAGE [--speeds 1,6,8] [--write]

Their program (run_mocker_trace_replay) plays the conversation trace of ROOST_SHARED (default ../shared) with round robin
and with its KV router; roostctl simulate plays it with round robin and our policies, with the mock's costs and limits: 8
workers of 1,953 blocks of 512 tokens, 64 sequences, 8,192 tokens a step, first come first served, least recently used
leaves first. Exits with 1 if the two programs differ by more than 5 % in round robin's mean times: then one of them does
not simulate what the other does, and the other rows say nothing. --write keeps the table
in tests/results/dynamo_replay.tsv, for the page of results too.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import typing

import page_tables
import simulations

TRACE = simulations.TRACES / "mooncake_conv_first20min.jsonl"
WORKERS = 8
BLOCK_TOKENS = 512
BLOCKS = 1953
SEQUENCES = 64
STEP_TOKENS = 8192
ENGINE = {
    "backend": "vllm", "block_size": BLOCK_TOKENS, "num_gpu_blocks": BLOCKS, "max_num_batched_tokens": STEP_TOKENS,
    "max_num_seqs": SEQUENCES, "enable_prefix_caching": True, "speedup_ratio": 1.0,
}  # fmt: skip
OUR_FLAGS = {
    "trace": TRACE, "format": "mooncake", "utilisation": 0, "workers": WORKERS, "costs": "dynamo-mocker",
    "kv-tokens": BLOCKS * BLOCK_TOKENS, "max-running-requests": SEQUENCES, "max-batch-tokens": STEP_TOKENS,
    "short-step-tokens": 0, "max-waiting-requests": 100_000, "worker-schedule": "fcfs", "first-token-target-ms": 0,
    "eviction": "lru",
}  # fmt: skip
THEIR_MODES = ("round_robin", "kv_router")
OUR_POLICIES = ("round-robin", "cache-aware", "dynamo")
MOST_DIFFERENCE = 0.05


class Row(typing.NamedTuple):
    """Seconds, but for the time between tokens in ms and the share of prompt tokens that were cached."""

    ttft_mean: float
    ttft_p99: float
    itl_mean: float
    whole_mean: float
    whole_p99: float
    hits: float


HEADS = ("ttft_mean_s", "ttft_p99_s", "itl_mean_ms", "whole_mean_s", "whole_p99_s", "hits_percent")


def play_theirs(package, mode, speed):
    """In a process of its own: the package logs to the standard output and keeps threads."""
    code = (
        "import json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import dynamo._core as core\n"
        "request = json.loads(sys.argv[2])\n"
        "report = core.run_mocker_trace_replay(request.pop('traces'), **request).summary\n"
        "print('summary ' + json.dumps(report() if callable(report) else report))\n"
    )
    engine = {**ENGINE, "emit_kv_events": mode == "kv_router"}
    request = {
        "traces": [str(TRACE)], "extra_engine_args": {"engine": engine, "num_gpu_blocks_is_explicit": True},
        "num_workers": WORKERS, "router_mode": mode, "trace_block_size": BLOCK_TOKENS, "arrival_speedup_ratio": speed,
    }  # fmt: skip
    command = [sys.executable, "-c", code, str(package), json.dumps(request)]
    quiet = {**os.environ, "DYN_LOG": "error", "RUST_LOG": "error"}
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=quiet).stdout
    summary = json.loads(next(line for line in told.splitlines() if line.startswith("summary ")).split(" ", 1)[1])
    return Row(
        summary["mean_ttft_ms"] / 1e3, summary["p99_ttft_ms"] / 1e3, summary["mean_tpot_ms"],
        summary["mean_e2e_latency_ms"] / 1e3, summary["p99_e2e_latency_ms"] / 1e3, summary["prefix_cache_reused_ratio"],
    )  # fmt: skip


def play_ours(speed):
    flags = {**OUR_FLAGS, "speed": speed, "policy": ",".join(OUR_POLICIES)}
    command = [str(simulations.ROOSTCTL), "simulate", "--json", "--recorded-ticks"]
    command += [f"--{flag}={value}" for flag, value in flags.items()]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {
        line["policy"]: Row(
            line["ttft_mean_s"], line["ttft_p99_s"], 1e3 * line["itl_mean_s"], line["whole_mean_s"], line["whole_p99_s"],
            line["hit_ratio"],
        )
        for line in map(json.loads, told.splitlines())
    }  # fmt: skip


def differences(ours, theirs):
    """The deviations of round robin's mean times, in the order of `HEADS`."""
    pairs = ((ours.ttft_mean, theirs.ttft_mean), (ours.itl_mean, theirs.itl_mean), (ours.whole_mean, theirs.whole_mean))
    return [own / other - 1 for own, other in pairs]


def table(results, note):
    """`results` has, by speed, the rows of both programs by the names of their policies."""
    rows = []
    for speed, (theirs, ours) in results.items():
        named = {f"Dynamo 1.6.1 {mode}": row for mode, row in theirs.items()}
        named |= {f"ours {policy}": row for policy, row in ours.items()}
        for name, row in named.items():
            rows.append([f"×{speed:g}", name, *(f"{value:.3g}" for value in row[:-1]), f"{100 * row.hits:.1f}"])
    return page_tables.Table("dynamo", [note], ["arrivals", "router", *HEADS], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("--speeds", default="1,6,8")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results = {}
    worst = 0.0
    for speed in map(float, options.speeds.split(",")):
        theirs = {mode: play_theirs(options.package, mode, speed) for mode in THEIR_MODES}
        ours = play_ours(speed)
        results[speed] = theirs, ours
        worst = max([worst, *map(abs, differences(ours["round-robin"], theirs["round_robin"]))])
    note = f"Round robin's means differ by at most {100 * worst:.1f} %. Commit {page_tables.commit()}."
    page_tables.finish(options.write, "dynamo_replay", table(results, note))
    if worst > MOST_DIFFERENCE:
        print("the two programs do not agree on round robin", file=sys.stderr)
    return 1 if worst > MOST_DIFFERENCE else 0


if __name__ == "__main__":
    sys.exit(main())

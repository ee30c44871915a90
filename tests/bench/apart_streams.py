#!/usr/bin/env python3
"""Streams beside long prompts: the time that they spend in long gaps with a prefill and a decode worker, beside two workers that
do both, in turns on the same machine.

    apart_streams.py [--quick] [--rounds N] [--seconds S] [--streams N] [--prompt-words N]

ROOST_BIN names the folder of the programs. Workers of one thread each with a model of Qwen3-0.6B's shape, or the demo model with
--quick; steps take at most 128 tokens. Long prompts come as often as keeps one worker busy for 45 % of the time. A gap is long
above three times the median between tokens of streams alone, at the same kind of fleet. Prints `figure <name> <value> <unit>`:
medians of each round's figures, and of ratios within a round.
"""

import argparse
import collections
import http.client
import itertools
import json
import pathlib
import statistics
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cluster

BUSY = 0.45  # of a worker's time goes to long prompts
LONG_GAP = 3  # median gaps
STREAM_TOKENS = 220
FLEETS = {"both": ("both", "both"), "apart": ("prefill", "decode")}


class Fleet:
    def __init__(self, daemons, options, roles):
        self.options = options
        self.router = daemons.start_router()
        model = cluster.DEMO_MODEL if options.quick else "synthetic:qwen3-0.6b"
        for number, role in enumerate(roles):
            daemons.start_worker(f"{role}-{number}", "--role", role, "--max-batch-tokens", "128", "--served-model-name",
                                 "demo-model", "--kv-blocks", "1024", model=model)
        self.router.wait_for_workers(len(roles))
        self.router.learn_rates()
        self.numbers = itertools.count()

    def tokens(self, prompt, max_tokens):
        """The time of each token, and of the request's begin before them."""
        body = {"model": "demo-model", "prompt": prompt, "max_tokens": max_tokens, "stream": True, "ignore_eos": True}
        connection = http.client.HTTPConnection(urllib.parse.urlparse(self.router.url).netloc, timeout=600)
        times = [time.monotonic()]
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(answer.read().decode())
        for line in answer:
            if line.startswith(b"data: {") and b'"text":"' in line:
                times.append(time.monotonic())
        connection.close()
        return times

    def long_prompt(self):
        return cluster.text(self.options.prompt_words, f"long {next(self.numbers)}")

    def seconds_of_long_prompt(self):
        times = self.tokens(self.long_prompt(), 2)
        return times[1] - times[0]

    def run(self, seconds, long_interval):
        """Streams for so long, with a long prompt each interval, if there is one: the times of all streams' tokens."""
        end = time.monotonic() + seconds
        streams, long_ones, threads = [], [], []

        def stream():
            while time.monotonic() < end:
                streams.append(self.tokens(cluster.text(8, f"stream {next(self.numbers)}"), STREAM_TOKENS))

        def long_one():
            times = self.tokens(self.long_prompt(), 8)
            long_ones.append(times)

        for _ in range(self.options.streams):
            threads.append(threading.Thread(target=stream))
        for thread in threads:
            thread.start()
        while long_interval and time.monotonic() + long_interval < end:
            time.sleep(long_interval)
            threads.append(threading.Thread(target=long_one))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return streams, long_ones


def gaps_of(streams):
    """Between the tokens; the first token's time is no gap."""
    return [after - before for times in streams for before, after in zip(times[1:], times[2:])]


def measure(options, roles):
    with cluster.Cluster() as daemons:
        fleet = Fleet(daemons, options, roles)
        for _ in range(3):  # its speed, and that of what travels
            alone = fleet.seconds_of_long_prompt()
        step = statistics.median(gaps_of(fleet.run(options.seconds / 6, None)[0]))
        begin = time.monotonic()
        streams, long_ones = fleet.run(options.seconds, alone / BUSY)
        taken = time.monotonic() - begin
        decisions = fleet.router.decisions(500)
        went = sum(1 for each in decisions if each["apart"])
        together = collections.Counter(each["together"] for each in decisions if each["together"])
    gaps = gaps_of(streams)
    long_gaps = [gap for gap in gaps if gap > LONG_GAP * step]
    tokens = sum(len(times) - 1 for times in streams)
    first_gaps = [times[2] - times[1] for times in long_ones]
    figures = {"share": sum(long_gaps) / sum(gaps), "tokens": tokens / taken, "longest": max(gaps), "step": step,
               "ttft": statistics.mean(times[1] - times[0] for times in long_ones), "handover": statistics.median(first_gaps)}
    print(roles, f"{len(long_ones)} long prompts of {alone:.2f} s, {went} apart, {dict(together)};", {name: round(value, 4) for name, value in figures.items()})
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--prompt-words", type=int, default=90, help="of about six tokens")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 6
    rounds = [{name: measure(options, roles) for name, roles in FLEETS.items()} for _ in range(options.rounds)]
    for name in FLEETS:
        for key, unit in (("share", "x"), ("tokens", "tokens/s"), ("longest", "s"), ("ttft", "s"), ("handover", "s")):
            print(f"figure apart_streams_{name}_{key} {statistics.median(each[name][key] for each in rounds):.3g} {unit}")
    for key in ("share", "tokens"):
        ratios = [each["apart"][key] / max(each["both"][key], 1e-9) for each in rounds]
        print(f"figure apart_streams_{key}_over_both {statistics.median(ratios):.3g} x")


if __name__ == "__main__":
    main()

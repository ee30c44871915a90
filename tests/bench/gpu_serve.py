#!/usr/bin/env python3
"""A router and a CUDA worker serve the demo model, and answer as a router and a CPU worker do.

    gpu_serve.py [--bin FOLDER] [--backend cuda|cpu]

Checks short greedy texts, what a repeated prompt finds cached, many streams behind one prefix, the hit rate that /metrics
tells, and the end at SIGTERM. Prints a line for each check. Exits with 1 if one failed.
"""

import argparse
import concurrent.futures
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cluster

PROMPTS = ("Who comes here?", "ROMEO:", "The king", "My lord,", "What news", "Speak,", "JULIET:\nO", "Good night", "I am", "Once more")
# bf16 rounds another token to be the likeliest now and then, and the text goes on from there.
LEAST_EQUAL_TEXTS = 9
TEXT_TOKENS = 12
STREAMS = 64
STREAM_TOKENS = 32
PREFIX_WORDS = 300


class Checks:
    def __init__(self):
        self.failed = 0

    def check(self, holds, what):
        self.failed += 0 if holds else 1
        print(f"gpu_serve.py: {'ok' if holds else 'FAILED'}: {what}", flush=True)


def greedy(router, prompt, tokens=TEXT_TOKENS, **fields):
    return router.completion(prompt, max_tokens=tokens, temperature=0, ignore_eos=True, **fields)


def texts_of(backend):
    with cluster.Cluster() as daemons:
        router = daemons.start_router()
        daemons.start_worker("reference", "--backend", backend, "--compute-dtype", "f32")
        router.wait_for_workers(1)
        return [greedy(router, prompt).text() for prompt in PROMPTS]


def stream(router, prompt):
    """Seconds to the end of a streamed answer, its cached tokens, and its output tokens."""
    begin = time.monotonic()
    answer = greedy(router, prompt, STREAM_TOKENS, stream=True, stream_options={"include_usage": True})
    if answer.status != 200 or not answer.done:
        raise AssertionError(f"a stream ended with {answer.status}: {answer.body[-200:]}")
    return time.monotonic() - begin, answer.cached_tokens(), answer.usage()["completion_tokens"]


def check_texts(checks, router, wanted):
    texts = [greedy(router, prompt).text() for prompt in PROMPTS]
    equal = sum(text == other for text, other in zip(texts, wanted))
    checks.check(equal >= LEAST_EQUAL_TEXTS, f"{equal} of {len(PROMPTS)} greedy texts are the CPU's")
    for text, other in zip(texts, wanted):
        if text != other:
            print(f"gpu_serve.py: {text!r} is {other!r} on the CPU")


def check_cached(checks, router):
    prompt = cluster.text(60, "asked twice")
    greedy(router, prompt)
    usage = greedy(router, prompt).usage()
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    checks.check(cached == usage["prompt_tokens"] - 1, f"asked again, {cached} of {usage['prompt_tokens']} tokens are cached")


def check_streams(checks, router):
    prefix = cluster.text(PREFIX_WORDS, "shared")
    greedy(router, prefix)
    prompts = [f"{prefix} {cluster.text(8, i)}" for i in range(STREAMS)]
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
        results = list(pool.map(lambda prompt: stream(router, prompt), prompts))
    seconds = time.monotonic() - begin
    tokens = sum(count for _, _, count in results)
    checks.check(tokens == STREAMS * STREAM_TOKENS, f"{STREAMS} streams gave {tokens} tokens")
    least = min(cached for _, cached, _ in results)
    checks.check(least >= PREFIX_WORDS, f"each found at least {least} tokens cached")
    slowest, median = max(time for time, _, _ in results), statistics.median(time for time, _, _ in results)
    print(f"gpu_serve.py: {tokens / seconds:.0f} tokens/s, a stream took {median:.3f} s (median), {slowest:.3f} s (most)")


def check_metrics(checks, router):
    prompt = router.metric("roost_router_prompt_tokens_total")
    cached = router.metric("roost_router_cached_tokens_total")
    rate = cached / prompt if prompt else 0
    checks.check(rate > 0.8, f"the router tells a hit rate of {rate:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=cluster.BIN)
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    cluster.BIN = options.bin.resolve()
    cluster.DEADLINE_SECONDS = 30
    checks = Checks()
    wanted = texts_of("cpu")
    with cluster.Cluster() as daemons:
        router = daemons.start_router()
        worker = daemons.start_worker("tested", "--backend", options.backend)
        print(f"gpu_serve.py: {worker.wait_for_log('compute device')}")
        router.wait_for_workers(1)
        check_texts(checks, router, wanted)
        check_cached(checks, router)
        check_streams(checks, router)
        check_metrics(checks, router)
        code = worker.stop()
        checks.check(code == 0, f"SIGTERM ends the worker with {code}")
        if checks.failed:
            print("\n".join(worker.lines[-20:]))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

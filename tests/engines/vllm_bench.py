"""Roost's router before two real vLLM engines, beside other routers before the same engines, in one run (vllm.sh --bench).

Conversations with shared system prompts, several at a time, whose turns together need more blocks than one engine has,
and fewer than two have. Between two runs both engines forget everything. Prints, per router, the mean and the 99th
percentile of the time to the first token as clients see it, and the cached share of the prompt tokens as the engines
count them. Figures are medians over the rounds.

    vllm_bench.py [--rounds 3] [--peers FOLDER]     FOLDER: a virtual environment with smg and vllm-router, made if missing
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import foreign_suite
import vllm_engine
from foreign_suite import DEMO_MODEL, wait_until
from vllm_test import RealEngine

from cluster import Cluster  # noqa: E402  foreign_suite knows where it is

SYSTEMS, CONVERSATIONS, TURNS, AT_ONCE = 6, 30, 5, 6
SYSTEM_WORDS, TURN_WORDS, ANSWER_TOKENS = 400, 70, 24  # a word has some 1.5 tokens
BLOCKS = 421  # of an engine; the conversations need some 700
CONTEXT = 4096
PROMPTS = vllm_engine.ROOT / "deploy/demo-prompts"
PEERS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "roost/peers/v"


def conversations(seed):
    """Lists of turns. The first turn begins with a system prompt that others share. Texts, because SMG takes no tokens."""
    draw = random.Random(seed)
    words = " ".join(path.read_text() for path in sorted(PROMPTS.glob("*.txt"))).split()

    def text(count):
        return " ".join(draw.choices(words, k=count)) + "\n"

    systems = [text(SYSTEM_WORDS) for _ in range(SYSTEMS)]
    return [[systems[i % SYSTEMS] + text(TURN_WORDS), *(text(TURN_WORDS) for _ in range(TURNS - 1))]
            for i in range(CONVERSATIONS)]


def first_token(address, prompt):
    """Seconds to the first text, and the whole answer."""
    connection = http.client.HTTPConnection(address, timeout=300)
    body = {"model": "demo-model", "prompt": prompt, "temperature": 0, "max_tokens": ANSWER_TOKENS, "ignore_eos": True,
            "stream": True}
    try:
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise AssertionError(f"{response.status} {response.read()[:500]}")
        seconds, answer = None, ""
        for event in foreign_suite.events_of(response):
            for choice in event["choices"]:
                seconds = seconds or (time.monotonic() - begin if choice["text"] else None)
                answer += choice["text"]
        return seconds, answer
    finally:
        connection.close()


def load(address, seed):
    """Runs all conversations, AT_ONCE at a time, their turns taken in turn. Returns the times to first tokens."""
    chats = [{"history": "", "turns": list(turns)} for turns in conversations(seed)]
    times = []

    def ask(chat):
        chat["history"] += chat["turns"].pop(0)
        seconds, answer = first_token(address, chat["history"])
        chat["history"] += answer
        times.append(seconds)

    draw = random.Random(seed)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as clients:
        for _ in range(TURNS):
            draw.shuffle(chats)
            list(clients.map(ask, chats))
    return times


# ---- routers ----


@contextlib.contextmanager
def roost(engines):
    with Cluster() as cluster:
        router = cluster.start_router()
        for i, engine in enumerate(engines):
            cluster.start_worker(f"beside-{i}", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{engine.port}",
                                 "--engine-events", engine.events, "--engine-replay", engine.replay)
        router.wait_for_workers(len(engines))
        yield router.address


def accepts(address, engines):
    with contextlib.suppress(OSError, AssertionError, http.client.HTTPException):
        return first_token(address, f"Hello, {len(engines)} engines.")[0] is not None
    return False


@contextlib.contextmanager
def other(command, engines, log):
    port, metrics = vllm_engine.free_port(), vllm_engine.free_port()
    urls = [f"http://127.0.0.1:{engine.port}" for engine in engines]
    with open(log, "wb") as output:
        process = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics),
                                    "--worker-urls", *urls], stdout=output, stderr=subprocess.STDOUT)
    try:
        address = f"127.0.0.1:{port}"
        wait_until(lambda: accepts(address, engines), f"an answer of {command}", 60)
        yield address
    finally:
        process.terminate()
        process.wait()


def peers(folder):
    if not (folder / "bin/smg").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "-q", "smg", "vllm-router"], check=True)
    smg, vllm_router = str(folder / "bin/smg"), str(folder / "bin/vllm-router")
    return {"round_robin": [vllm_router, "--policy", "round_robin"],
            "vllm_router": [vllm_router, "--policy", "cache_aware"],
            "smg": [smg, "launch", "--policy", "cache_aware"]}


# ---- one run ----


def count(engines, name):
    return sum(engine.vllm.metric(name) for engine in engines)


def forget(engines):
    for engine in engines:
        wait_until(lambda engine=engine: engine.running() == 0, "an idle engine")
        status, answer = engine.vllm.call("POST", "/reset_prefix_cache")
        assert status == 200 and "false" not in answer.lower(), answer


def run(address, engines, seed):
    queries, hits = (count(engines, f"vllm:prefix_cache_{what}_total") for what in ("queries", "hits"))
    times = sorted(load(address, seed))
    queries = count(engines, "vllm:prefix_cache_queries_total") - queries
    hits = count(engines, "vllm:prefix_cache_hits_total") - hits
    return {"mean": statistics.mean(times), "p99": times[int(0.99 * (len(times) - 1))], "cached": hits / queries}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=pathlib.Path, default=PEERS)
    options = parser.parse_args()
    commands = peers(options.peers)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        flags = ("--num-gpu-blocks-override", str(BLOCKS), "--max-model-len", str(CONTEXT))
        # Each engine has a core of its own: threads of both on the same cores wait for each other at every barrier.
        engines = [RealEngine(DEMO_MODEL, f"{folder}/engine-{i}.log", flags, {"VLLM_CPU_OMP_THREADS_BIND": str(i)})
                   for i in range(2)]
        for engine in engines:
            ends.callback(engine.stop)
        starts = {"roost": lambda: roost(engines)}
        for name, command in commands.items():
            starts[name] = lambda name=name, command=command: other(command, engines, f"{folder}/{name}.log")
        for engine in engines:  # their first steps take long
            load(f"127.0.0.1:{engine.port}", "warm-up")
        results = {name: [] for name in starts}
        for seed in range(options.rounds):
            names = list(starts)
            for name in names[seed % len(names):] + names[:seed % len(names)]:
                with starts[name]() as address:
                    forget(engines)
                    results[name].append(run(address, engines, seed))
                    print(f"# round {seed} {name} {results[name][-1]}", flush=True)
    report(results)


def report(results):
    for name, rounds in results.items():
        for key, unit, factor in (("mean", "ms", 1000), ("p99", "ms", 1000), ("cached", "share", 1)):
            value = statistics.median(one[key] for one in rounds) * factor
            what = "cached" if key == "cached" else f"ttft_{key}"
            print(f"figure vllm_{name}_{what}_{unit} {value:.3g} {unit}")


if __name__ == "__main__":
    main()

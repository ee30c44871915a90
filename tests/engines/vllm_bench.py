"""Roost's router before two vLLM engines, beside other routers before the same engines, in one run (vllm.sh --bench).

Two loads. Conversations with shared system prompts and short answers, several at a time, whose turns together need more
blocks than one engine has, and fewer than two have. And long answers to questions behind one system prompt that all
share. Between two runs both engines forget everything. Prints, per router, what clients see: the mean and the 99th
percentile of the time to the first token, the mean time of a whole answer and between two tokens; and the cached share
of the prompt tokens as the engines count them. Figures are medians over the rounds.

    vllm_bench.py --peers FOLDER [--rounds 3] [--routers 2] [--doubles] [--load NAME] [--router NAME]

FOLDER: a virtual environment with requirements-peers.txt. --routers 2: two of each router before the same engines, and
clients ask them in turn. --doubles: before doubles of vLLM (vllm_double.py --paced) instead of real engines; run it with
the Python of that environment, as doubles.sh does.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import pathlib
import random
import statistics
import subprocess
import tempfile
import threading
import time

import adapter_suite
import vllm_engine
from adapter_suite import BLOCK_TOKENS, DEMO_MODEL, wait_until
from adapter_test import DoubleEngine
from vllm_test import RealEngine

from cluster import BIN, Cluster, Daemon  # noqa: E402  adapter_suite knows where it is

SYSTEMS, CONVERSATIONS, TURNS, AT_ONCE = 6, 30, 5, 6
SYSTEM_WORDS, TURN_WORDS, ANSWER_TOKENS = 400, 70, 24  # a word has some 1.5 tokens
LONG_QUESTIONS, LONG_AT_ONCE, LONG_ANSWER_TOKENS = 48, 12, 300
BLOCKS = 421  # of an engine; the conversations need some 700
CONTEXT = 4096
# A step of a double: as that of an 8B model on an H100, but for prompts, which take ten times as long.
DOUBLE_FLAGS = ("--paced", "--prefill-us", "400", "--token-ms", "7", "--token-us-per-request", "400", "--tokenizer",
                str(DEMO_MODEL / "tokenizer.json"), "--max-context", str(CONTEXT), "--blocks", str(BLOCKS), "--topic", "",
                "--render")
PROMPTS = vllm_engine.ROOT / "deploy/demo-prompts"


def conversations(seed):
    """Lists of turns. The first turn begins with a system prompt that others share. Texts, because SMG takes no tokens."""
    draw = random.Random(seed)
    words = " ".join(path.read_text() for path in sorted(PROMPTS.glob("*.txt"))).split()

    def text(count):
        return " ".join(draw.choices(words, k=count)) + "\n"

    systems = [text(SYSTEM_WORDS) for _ in range(SYSTEMS)]
    return [[systems[i % SYSTEMS] + text(TURN_WORDS), *(text(TURN_WORDS) for _ in range(TURNS - 1))]
            for i in range(CONVERSATIONS)]


def ask(address, prompt, tokens):
    """Seconds to the first text and to the end, and the answer."""
    connection = http.client.HTTPConnection(address, timeout=300)
    body = {"model": "demo-model", "prompt": prompt, "temperature": 0, "max_tokens": tokens, "ignore_eos": True,
            "stream": True}
    try:
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise AssertionError(f"{response.status} {response.read()[:500]}")
        seconds, answer = None, ""
        for event in adapter_suite.events_of(response):
            for choice in event["choices"]:
                seconds = seconds or (time.monotonic() - begin if choice["text"] else None)
                answer += choice["text"]
        return seconds, time.monotonic() - begin, answer
    finally:
        connection.close()


class Turns:
    """Chooses the router that is asked next."""

    def __init__(self, addresses):
        self.addresses = itertools.cycle(addresses)
        self.lock = threading.Lock()

    def next(self):
        with self.lock:
            return next(self.addresses)


def short_answers(routers, seed):
    """Runs all conversations, AT_ONCE at a time, their turns taken in turn. Returns times to the first token and whole."""
    chats = [{"history": "", "turns": list(turns)} for turns in conversations(seed)]
    times = []

    def ask_next(chat):
        chat["history"] += chat["turns"].pop(0)
        first, whole, answer = ask(routers.next(), chat["history"], ANSWER_TOKENS)
        chat["history"] += answer
        times.append((first, whole))

    draw = random.Random(seed)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as clients:
        for _ in range(TURNS):
            draw.shuffle(chats)
            list(clients.map(ask_next, chats))
    return times


def long_answers(routers, seed):
    """Questions behind one system prompt, LONG_AT_ONCE at a time."""
    chats = conversations(seed)
    system = chats[0][0]
    questions = [system + turn for chat in chats for turn in chat[1:]][:LONG_QUESTIONS]
    with concurrent.futures.ThreadPoolExecutor(LONG_AT_ONCE) as clients:
        answers = list(clients.map(lambda prompt: ask(routers.next(), prompt, LONG_ANSWER_TOKENS), questions))
    return [(first, whole) for first, whole, _ in answers]


LOADS = {"short": (short_answers, ANSWER_TOKENS), "long": (long_answers, LONG_ANSWER_TOKENS)}


# ---- routers ----


@contextlib.contextmanager
def roost(engines, count):
    with contextlib.ExitStack() as ends:
        routers = [ends.enter_context(Cluster()).start_router() for _ in range(count)]
        workers = ends.enter_context(Cluster())
        for i, engine in enumerate(engines):
            workers.daemons.append(Daemon(
                [BIN / "roost-worker", "--model", DEMO_MODEL, "--worker-id", f"beside-{i}", "--log-format", "json",
                 "--router", ",".join(router.link for router in routers), "--engine", "vllm", "--engine-url",
                 f"http://127.0.0.1:{engine.port}", "--engine-events", engine.events, "--engine-replay", engine.replay]))
        for router in routers:
            router.wait_for_workers(len(engines))
        yield [router.address for router in routers]


def accepts(address):
    with contextlib.suppress(OSError, AssertionError, http.client.HTTPException):
        return ask(address, "Hello, engines.", 2)[0] is not None
    return False


@contextlib.contextmanager
def other(commands, log):
    """Starts a command for each of the ports that it is asked for."""
    processes = []
    try:
        with open(log, "wb") as output:
            for command in commands.values():
                processes.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))
        addresses = [f"127.0.0.1:{port}" for port in commands]
        for address in addresses:
            wait_until(lambda address=address: accepts(address), f"an answer of {log}", 60)
        yield addresses
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def url(engine):
    return f"http://127.0.0.1:{engine.port}"


def peers(folder):
    """By name, a function from engines and ports to the command for each port."""
    smg, vllm_router = str(folder / "bin/smg"), str(folder / "bin/vllm-router")

    def plain(*command):
        def commands(engines, ports):
            return {port: [*command, "--host", "127.0.0.1", "--port", str(port), "--prometheus-port",
                           str(vllm_engine.free_port()), "--worker-urls", *map(url, engines)] for port in ports}
        return commands

    def kv_aware(engines, ports):
        """Hears the events of an empty topic, vLLM's default, and asks the engines for each prompt's tokens."""
        sources = ["--kv-event-model", "demo-model", "--kv-event-block-size", str(BLOCK_TOKENS)]
        for engine in engines:
            sources += ["--kv-event-source", f"{url(engine)}={engine.events}"]
            sources += ["--kv-event-replay-source", f"{url(engine)}={engine.replay}"]
        return plain(vllm_router, "--policy", "kv_aware", *sources)(engines, ports)

    def dynamo(engines, ports):
        selector = [str(folder / "bin/python"), str(pathlib.Path(__file__).parent / "dynamo_selector.py"), "--tokenizer",
                    str(DEMO_MODEL / "tokenizer.json"), "--block-size", str(BLOCK_TOKENS)]
        for engine in engines:
            selector += ["--worker", f"{url(engine)}={engine.events},{engine.replay}"]
        syncs = {port: vllm_engine.free_port() for port in ports}
        commands = {}
        for port, own in syncs.items():
            others = [f"--sync-peer={sync}" for sync in syncs.values() if sync != own]
            commands[port] = [*selector, "--port", str(port), *([f"--sync={own}", *others] if others else [])]
        return commands

    return {"round_robin": plain(vllm_router, "--policy", "round_robin"),
            "vllm_router": plain(vllm_router, "--policy", "cache_aware"),
            "kv_aware": kv_aware,
            "smg": plain(smg, "launch", "--policy", "cache_aware"),
            "dynamo": dynamo}


# ---- one run ----


def count(engines, name):
    return sum(engine.vllm.metric(name) for engine in engines)


def forget(engines):
    for engine in engines:
        wait_until(lambda engine=engine: engine.running() == 0, "an idle engine")
        status, answer = engine.vllm.call("POST", "/reset_prefix_cache")
        assert status == 200 and "false" not in answer.lower(), answer


def run(addresses, engines, load, seed):
    queries, hits = (count(engines, f"vllm:prefix_cache_{what}_total") for what in ("queries", "hits"))
    ask_all, tokens = LOADS[load]
    begin = time.monotonic()
    times = ask_all(Turns(addresses), seed)
    seconds = time.monotonic() - begin
    firsts = sorted(first for first, _ in times)
    queries = count(engines, "vllm:prefix_cache_queries_total") - queries
    hits = count(engines, "vllm:prefix_cache_hits_total") - hits
    return {"ttft_mean": statistics.mean(firsts), "ttft_p99": firsts[int(0.99 * (len(firsts) - 1))],
            "answer_mean": statistics.mean(whole for _, whole in times),
            "between_tokens_mean": statistics.mean((whole - first) / (tokens - 1) for first, whole in times),
            "tokens_per_s": tokens * len(times) / seconds, "cached": hits / queries}


class BenchedDouble:
    """A double with what the bench asks of a real engine."""

    def __init__(self):
        self.double = DoubleEngine(*DOUBLE_FLAGS)
        self.vllm = self
        self.port, self.events, self.replay = self.double.port, self.double.events, self.double.replay
        self.running = self.double.running

    def stop(self):
        self.double.kill()

    def call(self, method, path):
        return 200, self.double.request(method, path)

    def metric(self, name):
        lines = [line for line in self.double.request("GET", "/metrics").splitlines() if line.startswith(f"{name}{{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def start_engines(folder, doubles):
    if doubles:
        return [BenchedDouble() for _ in range(2)]
    flags = ("--num-gpu-blocks-override", str(BLOCKS), "--max-model-len", str(CONTEXT))
    # Each engine has a core of its own: threads of both on the same cores wait for each other at every barrier.
    engines = [RealEngine(DEMO_MODEL, f"{folder}/engine-{i}.log", flags, {"VLLM_CPU_OMP_THREADS_BIND": str(i)})
               for i in range(2)]
    for engine in engines:  # their first steps take long
        short_answers(Turns([f"127.0.0.1:{engine.port}"]), "warm-up")
    return engines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first-round", type=int, default=0, help="its number is its seed, and turns the order of routers")
    parser.add_argument("--routers", type=int, default=1)
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--doubles", action="store_true")
    parser.add_argument("--load", choices=LOADS, action="append")
    parser.add_argument("--router", action="append", help="only this one; may be repeated")
    options = parser.parse_args()
    commands = peers(options.peers)
    if not options.doubles:  # these two were tried with doubles alone; real engines here publish under a topic
        del commands["kv_aware"], commands["dynamo"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        engines = start_engines(folder, options.doubles)
        for engine in engines:
            ends.callback(engine.stop)
        starts = {"roost": lambda: roost(engines, options.routers)}
        for name, command in commands.items():
            starts[name] = lambda name=name, command=command: other(
                command(engines, [vllm_engine.free_port() for _ in range(options.routers)]), f"{folder}/{name}.log")
        starts = {name: start for name, start in starts.items() if name in (options.router or starts)}
        results = {(load, name): [] for load in options.load or LOADS for name in starts}
        for seed in range(options.first_round, options.first_round + options.rounds):
            names = list(starts)
            for name in names[seed % len(names):] + names[:seed % len(names)]:
                with starts[name]() as addresses:
                    for load in options.load or LOADS:
                        forget(engines)
                        results[load, name].append(run(addresses, engines, load, seed))
                        print(f"# round {seed} {load} {name} {results[load, name][-1]}", flush=True)
    report(results)


UNITS = {"ttft_mean": ("ms", 1000), "ttft_p99": ("ms", 1000), "answer_mean": ("ms", 1000),
         "between_tokens_mean": ("ms", 1000), "tokens_per_s": ("tokens/s", 1), "cached": ("share", 1)}


def report(results):
    for (load, name), rounds in results.items():
        for key, (unit, factor) in UNITS.items():
            value = statistics.median(one[key] for one in rounds) * factor
            print(f"figure vllm_{load}_{name}_{key} {value:.3g} {unit}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Blocks between CUDA workers on one card.

    gpu_travel.py [--bin FOLDER] [--module FILE] [--small] first-token [--list | NAME …]
    gpu_travel.py [--bin FOLDER] [--module FILE] [--small] [--seconds N] soak | kill

first-token: a prompt of 8,192 tokens (Qwen3-0.6B's shape) that another worker holds, from the order to fetch it to the first
token; the rate of the fetch; and the share of its time that a bare TCP stream of as many bytes takes. Prints
`figure <name> <value> <unit>`.

soak: clients ask two workers of the demo model, whose pools are too small, while orders have prompts fetched and erased. Tokens
are compared with those of the same prompt asked alone, up to the first that is not clear. kill: the same, and a worker is killed
in the middle and started again. Each request must be answered, blocks must travel, requests must be preempted, and in the end
nothing may be left over. Exits with 1 if not.

--small: as the SIMT shim computes it, which --module names (tests/support/simt/backend_module.cc).
"""

import argparse
import pathlib
import random
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cluster
import transfers

FIGURES = ("gpu_travel_first_token", "gpu_travel_fetch", "gpu_travel_fetch_sockets_share")
CLEAR = 0.5  # by so much must the likeliest token's log probability exceed the next one's
WORKERS = ("worker-a", "worker-b")
MOST_SECONDS_MORE = 120  # on a slow machine, until the least has happened


class Sizes:
    """Of a card, or of what the shim computes in seconds."""

    def __init__(self, small):
        self.model = cluster.DEMO_MODEL if small else "synthetic:qwen3-0.6b"
        self.long_words = 20 if small else 1364  # 6 tokens each for the synthetic tokenizer
        self.long_flags = ["--kv-blocks", 64 if small else 1200]
        self.seconds = 8 if small else 40
        self.clients = 3 if small else 24
        self.prompts = 4 if small else 48
        self.prompt_words = 16 if small else 150  # about 4 and 38 blocks
        self.tokens = 20 if small else 96
        self.preempts = not small  # few steps need not
        self.soak_flags = ["--kv-blocks", 12 if small else 384, "--max-running-requests", 4 if small else 24]
        self.flags = ["--max-batch-tokens", 64, "--transfer-memory", "4MiB", "--max-context-tokens", 512] if small else []


class Fleet:
    """A router and two workers on one device."""

    def __init__(self, daemons, module, model, flags):
        self.daemons, self.model = daemons, model
        self.flags = ["--backend", "cuda", "--served-model-name", "model", *(["--cuda-module", module] if module else []), *flags]
        self.router = daemons.start_router()
        self.workers = {}
        for name in WORKERS:
            self.start(name)
        self.router.wait_for_workers(len(WORKERS))

    def start(self, name):
        self.workers[name] = self.daemons.start_worker(name, *map(str, self.flags), model=self.model)

    def post(self, verb, **body):
        return self.router.request("POST", f"/admin/v1/{verb}", body)

    def warm(self, prompt, worker, source):
        return self.post("warm", model="model", prompt=prompt, workers=[worker], **{"from": source})

    def ask(self, prompt, tokens):
        answer = self.router.completion(prompt, model="model", max_tokens=tokens, temperature=0, ignore_eos=True, logprobs=2)
        if answer.status != 200:
            raise AssertionError(f"{answer.status}: {answer.body[:300]}")
        return answer

    def total(self, name, **labels):
        return sum(transfers.metric_of(worker, f"roost_worker_{name}", **labels) for worker in self.workers.values())

    def expect_clean_ends(self):
        for name, labels in (("transfer_memory_bytes", {}), ("transfer_readers", {}), ("blocks", {"state": "referenced"})):
            cluster.wait_until(lambda: self.total(name, **labels) == 0, f"that no {name} are left")  # noqa: B023
        for name, worker in self.workers.items():
            code = worker.stop()
            if code != 0:
                raise AssertionError(f"SIGTERM ends {name} with {code}: {worker.lines[-5:]}")


# ---- the first token of a prompt that is fetched ----


def bare_stream_seconds(count):
    """Of so many bytes over loopback, between threads."""
    listener = socket.create_server(("127.0.0.1", 0))
    piece = bytes(1 << 20)

    def send():
        with socket.create_connection(listener.getsockname()) as near:
            for left in range(count, 0, -len(piece)):
                near.sendall(memoryview(piece)[:left])

    sender = threading.Thread(target=send)
    sender.start()
    far, _ = listener.accept()
    begin = time.monotonic()
    into = bytearray(len(piece))
    with far, listener:
        while far.recv_into(into):
            pass
    sender.join()
    return time.monotonic() - begin


def first_token(fleet, sizes):
    """Name -> (value, unit)."""
    rounds = []
    for number in range(3):
        prompt = cluster.text(sizes.long_words, f"long {number}")
        fleet.post("cordon", worker="worker-b")
        begin = time.monotonic()
        fleet.ask(prompt, 1)
        computed = time.monotonic() - begin
        fleet.post("uncordon", worker="worker-b")
        fleet.post("cordon", worker="worker-a")
        begin = time.monotonic()
        [warmed] = fleet.warm(prompt, "worker-b", "worker-a").json()["workers"]
        answer = fleet.ask(prompt, 1)
        seconds = time.monotonic() - begin
        fleet.post("uncordon", worker="worker-a")
        pull = warmed.get("pull", {})
        if pull.get("outcome") != "complete" or answer.cached_tokens() == 0:
            raise AssertionError(f"the prompt was not fetched: {warmed}, {answer.usage()}")
        share = bare_stream_seconds(pull["bytes"]) / pull["seconds"]
        rounds.append((seconds, pull["bytes"] / pull["seconds"] / 1e6, share))
        print(f"{pull['blocks']} blocks, {pull['bytes']} bytes in {pull['seconds']:.3f} s; first token {seconds:.3f} s, computed "
              f"{computed:.3f} s", flush=True)
    seconds, rate, share = sorted(rounds)[1]
    return dict(zip(FIGURES, ((seconds, "s"), (rate, "MB/s"), (share, "ratio"))))


# ---- churn ----


def steps_of(answer):
    """(token, the lead of the likeliest over the next one) of each token."""
    told = answer.json()["choices"][0]["logprobs"]
    leads = []
    for top in told["top_logprobs"]:
        best = sorted(top.values(), reverse=True)
        leads.append(best[0] - best[1] if len(best) > 1 else float("inf"))
    return list(zip(told["tokens"], leads))


def compare(wanted, got):
    """The number of tokens up to the first that is not clear; raises if a clear one differs."""
    for index, ((token, lead), (other, _)) in enumerate(zip(wanted, got)):
        if token == other:
            continue
        if lead >= CLEAR:
            raise AssertionError(f"token {index} is {other!r}, not {token!r}, by {lead:.2f}")
        return index
    if len(wanted) != len(got):
        raise AssertionError(f"{len(got)} tokens of {len(wanted)}")
    return len(wanted)


class Soak:
    def __init__(self, fleet, sizes, seconds):
        self.fleet, self.sizes, self.seconds = fleet, sizes, seconds
        self.prompts = [cluster.text(sizes.prompt_words, f"soak {number}") for number in range(sizes.prompts)]
        self.wanted = [steps_of(fleet.ask(prompt, sizes.tokens)) for prompt in self.prompts]
        self.errors = []
        self.answers = self.compared = 0
        self.lock = threading.Lock()
        self.stopping = threading.Event()

    def guard(self, work, *arguments):
        try:
            while not self.stopping.is_set():
                work(*arguments)
        except Exception as error:  # noqa: BLE001
            self.errors.append(error)
            self.stopping.set()

    def ask(self, draw):
        number = draw.randrange(len(self.prompts))
        clear = compare(self.wanted[number], steps_of(self.fleet.ask(self.prompts[number], self.sizes.tokens)))
        with self.lock:
            self.answers += 1
            self.compared += clear

    def disturb(self, draw):
        """A worker may be gone meanwhile; then the order has another outcome."""
        prompt = draw.choice(self.prompts)
        to, source = draw.sample(WORKERS, 2)
        if draw.randrange(8) == 0:
            self.fleet.post("evict", model="model", prompt=prompt, workers=[to])
        else:
            self.fleet.warm(prompt, to, source)

    def kill(self):
        """A worker that has requests."""
        cluster.wait_until(lambda: any(each["id"] == "worker-b" and each["running_requests"] for each in self.fleet.router.workers()),
                           "requests at worker-b")
        self.fleet.workers["worker-b"].kill()
        cluster.wait_until(lambda: len(self.fleet.router.workers()) == 1, "that worker-b is gone")
        self.fleet.start("worker-b")
        self.fleet.router.wait_for_workers(len(WORKERS))

    def run(self, kills):
        works = [(self.ask, random.Random(number)) for number in range(self.sizes.clients)]
        works.append((self.disturb, random.Random("orders")))
        threads = [threading.Thread(target=self.guard, args=work) for work in works]
        for thread in threads:
            thread.start()
        self.stopping.wait(self.seconds / 2)
        if kills and not self.stopping.is_set():
            self.kill()
        self.stopping.wait(self.seconds / 2)
        try:
            cluster.wait_until(lambda: self.stopping.is_set() or self.has_seen_all(), "an answer, a fetch and a preemption",
                               MOST_SECONDS_MORE)
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join()
            self.report()

    def has_seen_all(self):
        """The counts of a worker that was killed are gone with it."""
        return self.compared and self.pulled() and (self.preempted() or not self.sizes.preempts)

    def pulled(self):
        return self.fleet.total("arrived_blocks_total", source="peer")

    def preempted(self):
        return self.fleet.total("preemptions_total")

    def report(self):
        print(f"{self.answers} answers, {self.compared} tokens compared, {self.pulled():.0f} blocks fetched, "
              f"{self.preempted():.0f} preemptions", flush=True)
        if self.errors:
            raise self.errors[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=cluster.BIN)
    parser.add_argument("--module", type=pathlib.Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("stage", choices=("first-token", "soak", "kill"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.list:
        print("\n".join(FIGURES))
        return 0
    cluster.BIN = options.bin.resolve()
    sizes = Sizes(options.small)
    with cluster.Cluster() as daemons:
        if options.stage == "first-token":
            fleet = Fleet(daemons, options.module, sizes.model, [*sizes.flags, *sizes.long_flags])
            for name, (value, unit) in first_token(fleet, sizes).items():
                if not options.names or name in options.names:
                    print(f"figure {name} {value:.4g} {unit}", flush=True)
        else:
            fleet = Fleet(daemons, options.module, cluster.DEMO_MODEL, [*sizes.flags, *sizes.soak_flags])
            Soak(fleet, sizes, options.seconds or sizes.seconds).run(options.stage == "kill")
        fleet.expect_clean_ends()
    return 0


if __name__ == "__main__":
    sys.exit(main())

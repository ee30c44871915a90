#!/usr/bin/env python3
"""The harm of hostile clients to another client: the 99th percentile of its answers while each attack runs, over the
same without, in turns. Where an attack is ordinary traffic with a weapon in it (answers that are not read, hints that
would fill the caches), a third kind of turn has the same traffic without the weapon: how much of the harm is that of
any client with a key that asks for as much.

    ROOST_BIN=FOLDER attack_figures.py [--seconds S] [--turns N] [--rate R] [--list | NAME …]

Starts a real router with API keys and a worker with the demo model. A client with a key sends short completions at
fixed times, whether or not the earlier ones were answered (open loop), so that a router that stands still shows in all
of them. The attacker is a process of its own with the least priority (nice 19): its own computing takes no processor
from the client, the daemons' work for it does. `none` is the control: two quiet halves. Prints
`figure attack_<name>_p99_ratio <value> x`, `figure attack_<name>_over_unarmed_ratio <value> x`, and on standard error the
measurements, the answers to the attacker, and the processors that each process kept busy.
"""

import argparse
import collections
import dataclasses
import functools
import http.client
import json
import math
import multiprocessing
import os
import pathlib
import queue
import select
import socket
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from cluster import Cluster, text, wait_until
from keys import KeyFile, bearer

MODEL = "demo-model"
SENDERS = 48  # requests of the client that may be open at a time
WARM_SECONDS = 2  # before the first turn, with and without neighbours
SHARED_WORDS = 60  # of a system prompt before each of its questions


def percentile(values, share):
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


# ---- the client ----


class Client:
    """Sends completions at fixed times over connections that stay open."""

    def __init__(self, url, key):
        address = urllib.parse.urlparse(url)
        self.address = (address.hostname, address.port)
        self.headers = {"Content-Type": "application/json", **bearer(key)}
        self.number = 0
        self.statuses = collections.Counter()

    def ask(self, connection):
        self.number += 1
        body = {"model": MODEL, "prompt": f"{text(SHARED_WORDS, 0)} {self.number}", "max_tokens": 4, "temperature": 0,
                "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body), self.headers)
        answer = connection.getresponse()
        answer.read()
        self.statuses[answer.status] += 1

    def run(self, rate, seconds):
        """The times of the answers, from when each was due."""
        due = queue.Queue()
        took = []

        def send():
            connection = http.client.HTTPConnection(*self.address, timeout=60)
            while (at := due.get()) is not None:
                try:
                    self.ask(connection)
                except OSError as error:
                    self.statuses[type(error).__name__] += 1
                    connection.close()
                took.append(time.monotonic() - at)
            connection.close()

        threads = [threading.Thread(target=send) for _ in range(SENDERS)]
        for thread in threads:
            thread.start()
        begin = time.monotonic()
        pause = threading.Event()
        for i in range(int(rate * seconds)):
            at = begin + i / rate
            pause.wait(max(0.0, at - time.monotonic()))
            due.put(at)
        for _ in threads:
            due.put(None)
        for thread in threads:
            thread.join()
        return took


# ---- the attacks: each runs in a process of its own until that is ended ----


class Target:
    def __init__(self, router, key):
        self.url, self.admin, self.metrics, self.key = router.url, router.admin, router.metrics, key

    def post(self, path, body, read=True, receive_buffer=None):
        """The status. Without reading, the connection stays open and is the caller's."""
        address = urllib.parse.urlparse(self.url)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        stream = socket.socket()
        if receive_buffer:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        stream.settimeout(30)
        stream.connect((address.hostname, address.port))
        stream.sendall(head("POST", path, len(data), self.key) + data)
        status = stream.recv(12)[9:12].decode()
        if not read:
            return status, stream
        while stream.recv(1 << 16):
            pass
        stream.close()
        return status, None


def head(method, path, size, key=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: a", "Content-Type: application/json", f"Content-Length: {size}",
             "Connection: close"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def bodies_without_key(target):
    """257 connections at a time that send 8 MB to routes that take none, without a key."""
    address = urllib.parse.urlparse(target.url)
    streams = collections.deque()
    while True:
        method, path = (("GET", "/health"), ("OPTIONS", "/v1/completions"))[len(streams) % 2]
        stream = socket.create_connection((address.hostname, address.port), timeout=3)
        try:
            stream.sendall(head(method, path, 8_000_000) + b" " * 1_000_000)
        except OSError:
            pass  # refused
        streams.append(stream)
        yield method
        if len(streams) > 257:
            streams.popleft().close()


def idle_connections(target, count):
    """`count` idle connections at each of the admin and the metrics address; one that is closed is opened again."""
    streams = {}
    ready = select.poll()
    while True:
        for url in (target.admin, target.metrics):
            address = urllib.parse.urlparse(url)
            while sum(1 for _, of in streams.values() if of == url) < count:
                stream = socket.create_connection((address.hostname, address.port), timeout=3)
                streams[stream.fileno()] = (stream, url)
                ready.register(stream, select.POLLIN | select.POLLHUP)
                yield "opened"
        for number, _ in ready.poll(1000):
            ready.unregister(number)
            streams.pop(number)[0].close()


def schemas(target):
    """Schemas of sixty long strings, which would compile for minutes."""
    number = 0
    while True:
        number += 1
        properties = {f"k{number}_{i}": {"type": "string", "minLength": i + 1, "maxLength": 4096 - i} for i in range(60)}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        yield target.post("/v1/chat/completions", {
            "model": MODEL, "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}})[0]


def empty_grammars(target):
    """Grammars that match nothing."""
    while True:
        grammar = 'root ::= a\na ::= b | ""\nb ::= a | ""'
        yield target.post("/v1/completions", {"model": MODEL, "prompt": "hi", "max_tokens": 8, "guided_grammar": grammar})[0]


def many_blocks(target):
    """Messages of 280,000 text blocks."""
    block = b'{"type":"text","text":"a"}'
    body = (b'{"model":"demo-model","max_tokens":3,"messages":[{"role":"user","content":[' + b",".join([block] * 280_000) +
            b"]}]}")
    while True:
        yield target.post("/v1/messages", body)[0]


def large_answers(target):
    """13 KB that ask for 128 x 16 answers with 20 alternatives a token."""
    body = json.dumps({"model": MODEL, "prompt": [text(15, i) for i in range(128)], "n": 16, "max_tokens": 650,
                       "logprobs": 20, "ignore_eos": True}).encode()
    while True:
        yield target.post("/v1/completions", body)[0]


def large_bodies(target, read):
    """Answers of many megabytes. Without `read`, the client reads their first bytes alone."""
    number = 0
    streams = collections.deque()
    while True:
        prompts = [text(15, number * 1000 + i) for i in range(40)]
        number += 1
        body = {"model": MODEL, "max_tokens": 1, "temperature": 0, "prompt": prompts, "echo": True, "logprobs": 20}
        status, stream = target.post("/v1/completions", body, read, receive_buffer=None if read else 2048)
        yield status
        if read:
            continue
        streams.append(stream)
        if len(streams) > 28:
            streams.popleft().close()


def new_prompts(target, hinted):
    """Prompts that nobody sent before. Those that are `hinted` are to stay in the caches for a year."""
    number = 0
    while True:
        number += 1
        body = {"model": MODEL, "prompt": text(40, 10_000 + number), "max_tokens": 1, "session_id": f"s{number}"}
        if hinted:
            body |= {"cache": {"retention": {"priority": 100, "duration_ms": 366 * 86_400_000}}, "expect_return_ms": 600_000}
        yield target.post("/v1/completions", body)[0]


@dataclasses.dataclass
class Attack:
    """`run` yields the outcome of each of its acts, for ever; so does `unarmed`, the same traffic without the weapon."""

    run: Callable | None = None
    unarmed: Callable | None = None


ATTACKS = {
    "none": Attack(),
    "bodies_without_key": Attack(bodies_without_key),
    "idle_connections": Attack(functools.partial(idle_connections, count=64)),
    "reopened_connections": Attack(functools.partial(idle_connections, count=128)),  # over the limit
    "schemas": Attack(schemas),
    "empty_grammars": Attack(empty_grammars),
    "many_blocks": Attack(many_blocks),
    "large_answers": Attack(large_answers),
    "unread_answers": Attack(
        functools.partial(large_bodies, read=False), functools.partial(large_bodies, read=True)),
    "retention_hints": Attack(
        functools.partial(new_prompts, hinted=True), functools.partial(new_prompts, hinted=False)),
}  # fmt: skip


def act(acts, target, told):
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # also where the run has real-time priority
    os.nice(19)
    for outcome in acts(target):
        told.put(outcome)


# ---- in turns ----


class Neighbour:
    """Runs `acts`, if there are any, in a process of its own while it is entered."""

    def __init__(self, acts, target):
        self.acts, self.target, self.told, self.outcomes = acts, target, multiprocessing.Queue(), collections.Counter()

    def __enter__(self):
        if self.acts:
            self.process = multiprocessing.Process(target=act, args=(self.acts, self.target, self.told), daemon=True)
            self.process.start()
            self.count(self.told.get(timeout=60))  # it is under way

    def count(self, outcome):
        self.outcomes[outcome] += 1

    def __exit__(self, *_):
        if not self.acts:
            return
        try:
            while True:
                self.count(self.told.get_nowait())
        except queue.Empty:
            pass
        self.process.kill()
        self.process.join()
        self.told = multiprocessing.Queue()  # the killed process may have left the old one locked


class Processors:
    """The processor seconds that processes took, by kind of turn."""

    def __init__(self, pids):
        self.pids = pids
        self.taken = collections.defaultdict(collections.Counter)
        self.lasted = collections.Counter()

    def seconds(self, neighbour):
        pids = self.pids | ({"attacker": neighbour.process.pid} if neighbour.acts else {})
        return {name: self.seconds_of(pid) for name, pid in pids.items()}

    @staticmethod
    def seconds_of(pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def watch(self, kind, neighbour, run):
        before, began = self.seconds(neighbour), time.monotonic()
        result = run()
        for name, seconds in self.seconds(neighbour).items():
            self.taken[kind][name] += seconds - before[name]
        self.lasted[kind] += time.monotonic() - began
        return result

    def told(self):
        return "; ".join(
            f"{kind} " + ", ".join(f"{name} {seconds / self.lasted[kind]:.2f}" for name, seconds in taken.items())
            for kind, taken in self.taken.items())


def measure(name, options):
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        keys = KeyFile(pathlib.Path(folder))
        alice, mallory = keys.add("alice", "--tenant", "alice"), keys.add("mallory", "--tenant", "mallory")
        router = cluster.start_router("--api-keys", str(keys.path))
        worker = cluster.start_worker("worker-a", "--kv-blocks", "2048")
        client = Client(router.url, alice)
        body = {"model": MODEL, "prompt": "Who comes", "max_tokens": 1}
        wait_until(lambda: router.request("POST", "/v1/completions", body, bearer(alice)).status == 200, "an answer")
        target = Target(router, mallory)
        attacker, unarmed = Neighbour(ATTACKS[name].run, target), Neighbour(ATTACKS[name].unarmed, target)
        neighbours = {"quiet": Neighbour(None, target), "attacked": attacker}
        if unarmed.acts:
            neighbours["unarmed"] = unarmed
        for neighbour in neighbours.values():  # the cache is full then: its memory has been touched
            with neighbour:
                client.run(options.rate, min(WARM_SECONDS, options.seconds))
        client.statuses.clear()
        times = {kind: [] for kind in neighbours}
        processors = Processors({"client": os.getpid(), "router": router.process.pid, "worker": worker.process.pid})
        run = functools.partial(client.run, options.rate, options.seconds)
        for turn in range(options.turns):
            for kind, neighbour in neighbours.items():
                with neighbour:
                    times[kind] += processors.watch(kind, neighbour, run)
                threading.Event().wait(0.5)  # meanwhile the neighbour's last requests end
        if router.process.poll() is not None or worker.process.poll() is not None:
            sys.exit(f"{name}: a daemon ended")
    p99 = {kind: percentile(took, 0.99) for kind, took in times.items()}
    told = "; ".join(f"{kind} p99 {1e3 * p99[kind]:.1f} ms, median {1e3 * percentile(took, 0.5):.1f}"
                     for kind, took in times.items())
    print(f"{name}: {told}; client {dict(client.statuses)}; attacker {dict(attacker.outcomes)}, "
          f"unarmed {dict(unarmed.outcomes)}; busy processors: {processors.told()}", file=sys.stderr)
    print(f"figure attack_{name}_p99_ratio {p99['attacked'] / p99['quiet']:.2f} x", flush=True)
    if unarmed.acts:
        print(f"figure attack_{name}_over_unarmed_ratio {p99['attacked'] / p99['unarmed']:.2f} x", flush=True)
    if set(client.statuses) != {200}:
        sys.exit(f"{name}: the client got other answers than 200")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ATTACKS)}; all by default")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--seconds", type=float, default=5, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rate", type=float, default=20, help="requests of the client per second")
    options = parser.parse_args()
    if options.list:
        print("\n".join(ATTACKS))
        return 0
    for name in options.names or ATTACKS:
        if name not in ATTACKS:
            parser.error(f"there is no attack '{name}'")
        measure(name, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The harm of hostile clients to another client: the 99th percentile of its answers while each attack runs, over the
same without, in turns.

    ROOST_BIN=FOLDER attack_figures.py [--seconds S] [--turns N] [--rate R] [--list | NAME …]

Starts a real router with API keys and a worker with the demo model. A client with a key sends short completions at
fixed times, whether or not the earlier ones were answered (open loop), so that a router that stands still shows in all
of them. The attacker is a process of its own with the least priority (nice 19): its own computing takes no processor
from the client, the daemons' work for it does. `none` is the control: two quiet halves. Prints
`figure attack_<name>_p99_ratio <value> x`, and on standard error the measurements and the answers to the attacker.
"""

import argparse
import collections
import http.client
import json
import math
import multiprocessing
import os
import pathlib
import queue
import socket
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from cluster import Cluster, text, wait_until
from keys import KeyFile, bearer

MODEL = "demo-model"
SENDERS = 48  # requests of the client that may be open at a time
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


def idle_connections(target):
    """64 idle connections at the admin and the metrics address, opened again as they are closed."""
    while True:
        streams = []
        for url in (target.admin, target.metrics):
            address = urllib.parse.urlparse(url)
            for _ in range(64):
                streams.append(socket.create_connection((address.hostname, address.port), timeout=3))
        yield "opened"
        for stream in streams:
            stream.close()


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


def unread_answers(target):
    """Answers of many megabytes, of which the client reads the first bytes alone."""
    number = 0
    streams = collections.deque()
    while True:
        prompts = [text(15, number * 1000 + i) for i in range(40)]
        number += 1
        body = {"model": MODEL, "max_tokens": 1, "temperature": 0, "prompt": prompts, "echo": True, "logprobs": 20}
        status, stream = target.post("/v1/completions", body, read=False, receive_buffer=2048)
        streams.append(stream)
        yield status
        if len(streams) > 28:
            streams.popleft().close()


def retention_hints(target):
    """Prompts that are to stay in the caches for a year."""
    number = 0
    while True:
        number += 1
        hints = {"retention": {"priority": 100, "duration_ms": 366 * 86_400_000}}
        yield target.post("/v1/completions", {"model": MODEL, "prompt": text(40, 10_000 + number), "max_tokens": 1,
                                              "cache": hints, "session_id": f"s{number}", "expect_return_ms": 600_000})[0]


ATTACKS = {"none": None, "bodies_without_key": bodies_without_key, "idle_connections": idle_connections,
           "schemas": schemas, "empty_grammars": empty_grammars, "many_blocks": many_blocks,
           "large_answers": large_answers, "unread_answers": unread_answers, "retention_hints": retention_hints}


def attack(name, target, told):
    os.nice(19)
    for outcome in ATTACKS[name](target):
        told.put(outcome)


# ---- in turns ----


class Attacker:
    """Runs the attack while it is entered."""

    def __init__(self, name, target):
        self.name, self.target, self.told, self.outcomes = name, target, multiprocessing.Queue(), collections.Counter()

    def __enter__(self):
        if ATTACKS[self.name]:
            self.process = multiprocessing.Process(target=attack, args=(self.name, self.target, self.told), daemon=True)
            self.process.start()
            self.count(self.told.get(timeout=60))  # it is under way

    def count(self, outcome):
        self.outcomes[outcome] += 1

    def __exit__(self, *_):
        if not ATTACKS[self.name]:
            return
        try:
            while True:
                self.count(self.told.get_nowait())
        except queue.Empty:
            pass
        self.process.kill()
        self.process.join()
        self.told = multiprocessing.Queue()  # the killed process may have left the old one locked


def measure(name, options):
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        keys = KeyFile(pathlib.Path(folder))
        alice, mallory = keys.add("alice", "--tenant", "alice"), keys.add("mallory", "--tenant", "mallory")
        router = cluster.start_router("--api-keys", str(keys.path))
        worker = cluster.start_worker("worker-a", "--kv-blocks", "2048")
        client = Client(router.url, alice)
        body = {"model": MODEL, "prompt": "Who comes", "max_tokens": 1}
        wait_until(lambda: router.request("POST", "/v1/completions", body, bearer(alice)).status == 200, "an answer")
        client.run(options.rate, 1)
        client.statuses.clear()
        attacker = Attacker(name, Target(router, mallory))
        times = {"quiet": [], "attacked": []}
        for turn in range(options.turns):
            times["quiet"] += client.run(options.rate, options.seconds)
            with attacker:
                times["attacked"] += client.run(options.rate, options.seconds)
            threading.Event().wait(0.5)  # meanwhile the attack's last requests end
        if router.process.poll() is not None or worker.process.poll() is not None:
            sys.exit(f"{name}: a daemon ended")
    p99 = {kind: percentile(took, 0.99) for kind, took in times.items()}
    print(f"{name}: p99 {1e3 * p99['quiet']:.1f} ms quiet, {1e3 * p99['attacked']:.1f} ms attacked; median "
          f"{1e3 * percentile(times['quiet'], 0.5):.1f} and {1e3 * percentile(times['attacked'], 0.5):.1f}; client "
          f"{dict(client.statuses)}; attacker {dict(attacker.outcomes)}", file=sys.stderr)
    print(f"figure attack_{name}_p99_ratio {p99['attacked'] / p99['quiet']:.2f} x", flush=True)
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

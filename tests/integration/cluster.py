"""Real daemons on loopback for tests: starts them on free ports, talks to the router, and ends everything that it started.

    with Cluster() as cluster:
        router = cluster.start_router()
        cluster.start_worker("worker-a")
        router.wait_for_workers(1)
        answer = router.chat([{"role": "user", "content": "Who comes here?"}])
"""

import http.client
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ROOST_BIN", ROOT / "build/release/bin"))
DEMO_MODEL = ROOT / "deploy/demo-model"
# Addresses of a router's listeners for operators.
FREE_PORTS = ["--admin-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"]
DEADLINE_SECONDS = float(os.environ.get("ROOST_TEST_DEADLINE", "60"))


def text(words, seed):
    """About four tokens per word; the same seed gives the same text."""
    draw = random.Random(seed)
    return " ".join("".join(draw.choice("abcdefgh") for _ in range(5)) for _ in range(words))


def wait_until(condition, what, deadline_seconds=DEADLINE_SECONDS):
    """Calls `condition` until it returns something true, and returns that."""
    end = time.monotonic() + deadline_seconds
    pause = threading.Event()
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {deadline_seconds} s")
        pause.wait(0.02)


class Daemon:
    """A process whose JSON log lines are read as they come."""

    def __init__(self, arguments):
        self.arguments = [str(argument) for argument in arguments]
        self.process = subprocess.Popen(self.arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append("")  # the end of the log
            self.changed.notify_all()

    def wait_for_log(self, message):
        """The first log record whose msg is `message`."""
        end = time.monotonic() + DEADLINE_SECONDS
        seen = 0
        with self.changed:
            while True:
                for line in self.lines[seen:]:
                    record = json.loads(line) if line.startswith("{") else {}
                    if record.get("msg") == message:
                        return record
                    if line == "":
                        raise AssertionError(f"{self.arguments[0]} ended before '{message}': {self.lines[-6:]}")
                seen = len(self.lines)
                if not self.changed.wait(max(0.0, end - time.monotonic())):
                    raise AssertionError(f"{self.arguments[0]} did not log '{message}': {self.lines[-6:]}")

    def has_logged(self, message):
        """True if there is such a record so far."""
        with self.changed:
            return any(json.loads(line).get("msg") == message for line in self.lines if line.startswith("{"))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Sends SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_SECONDS)
        self.reader.join(DEADLINE_SECONDS)
        self.process.stderr.close()
        return code


class Answer:
    """A response that was read to its end. `events` are the JSON objects of an event stream."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body
        self.events = []
        self.done = False
        if headers.get("content-type", "").startswith("text/event-stream"):
            for line in body.split("\n"):
                if line == "data: [DONE]":
                    self.done = True
                elif line.startswith("data: "):
                    self.events.append(json.loads(line[6:]))

    def json(self):
        return json.loads(self.body)

    def text(self):
        """The generated text, streamed or not."""
        if not self.events:
            choice = self.json()["choices"][0]
            return choice["message"]["content"] if "message" in choice else choice["text"]
        parts = []
        for event in self.events:
            for choice in event.get("choices", []):
                parts.append(choice.get("text") or choice.get("delta", {}).get("content") or "")
        return "".join(parts)

    def usage(self):
        if not self.events:
            return self.json()["usage"]
        return next(event["usage"] for event in reversed(self.events) if event.get("usage"))

    def cached_tokens(self):
        return self.usage()["prompt_tokens_details"]["cached_tokens"]


class Router(Daemon):
    """`tls` is the context of its clients, for https."""

    def __init__(self, arguments, tls=None):
        super().__init__(arguments)
        self.tls = tls
        record = self.wait_for_log("router ready")
        self.url = record["http"]
        self.link = record["link"]
        self.admin = record["admin"]
        self.metrics = record["metrics"]
        self.address = urllib.parse.urlparse(self.url).netloc

    def url_of(self, path):
        """The address of the listener that has the route."""
        return self.admin if path.startswith("/admin/") else self.metrics if path == "/metrics" else self.url

    def address_of(self, path):
        return urllib.parse.urlparse(self.url_of(path)).netloc

    def connect(self, url):
        address = urllib.parse.urlparse(url).netloc
        if url.startswith("https:"):
            return http.client.HTTPSConnection(address, timeout=DEADLINE_SECONDS, context=self.tls)
        return http.client.HTTPConnection(address, timeout=DEADLINE_SECONDS)

    def request(self, method, path, body=None, headers=None):
        connection = self.connect(self.url_of(path))
        try:
            payload = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, payload, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            lower = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, lower, response.read().decode())
        finally:
            connection.close()

    def chat(self, messages, **fields):
        return self.request("POST", "/v1/chat/completions", {"messages": messages, "model": "demo-model", **fields})

    def completion(self, prompt, **fields):
        return self.request("POST", "/v1/completions", {"prompt": prompt, "model": "demo-model", **fields})

    def workers(self):
        return self.request("GET", "/admin/v1/workers").json()["workers"]

    def wait_for_workers(self, count):
        """Waits until exactly `count` workers are ready and their index is exact."""

        def settled():
            ready = [w for w in self.workers() if w["ready"] and w["index_in_sync"]]
            return len(ready) == count and len(self.workers()) == count

        wait_until(settled, f"{count} ready workers")

    def decisions(self, limit):
        """Decisions, the newest first."""
        return self.request("GET", f"/admin/v1/decisions?limit={limit}").json()["decisions"]

    def learn_rates(self):
        """Shows the router its workers' speed. Until it knows that, it lets no request wait for blocks that are being computed."""
        seeds = itertools.count()

        def knows():
            self.completion(text(100, f"{self.url} {next(seeds)}"), max_tokens=2)
            return self.decisions(1)[0]["rates_known"]

        wait_until(knows, "that the router knows rates")

    def metric(self, name, **labels):
        """The sum over the samples of `name` with these labels."""
        total = 0.0
        for line in self.request("GET", "/metrics").body.splitlines():
            match = re.match(r"([a-z_]+)(?:\{(.*)\})? (\S+)$", line)
            if not match or match.group(1) != name:
                continue
            found = dict(re.findall(r'([a-z_]+)="([^"]*)"', match.group(2) or ""))
            if all(found.get(key) == value for key, value in labels.items()):
                total += float(match.group(3))
        return total


class Cluster:
    def __init__(self):
        self.daemons = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            if daemon.process.poll() is None:
                daemon.kill()
            daemon.reader.join(DEADLINE_SECONDS)
            daemon.process.stderr.close()

    def start_router(self, *flags, http="127.0.0.1:0", link="tcp://127.0.0.1:0", tls=None):
        if "--drain-announce-seconds" not in flags:  # no probe asks for /ready
            flags = (*flags, "--drain-announce-seconds", "0")
        router = Router(
            [BIN / "roost-router", "--http-address", http, "--link-address", link, *FREE_PORTS, "--log-format", "json",
             *flags],
            tls,
        )
        self.daemons.append(router)
        self.router = router
        return router

    def start_worker(self, name, *flags, model=DEMO_MODEL):
        program = "roost-paced-worker" if "--costs" in flags else "roost-worker"
        worker = Daemon(
            [BIN / program, "--model", model, "--worker-id", name, "--router", self.router.link, "--threads", "1"]
            + ["--kv-blocks", "1024", "--log-format", "json", *flags]
        )
        self.daemons.append(worker)
        return worker

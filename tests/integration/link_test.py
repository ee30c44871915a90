"""The link between router and workers with keys: who is let in, what is refused, and what is seen on the way.

Relay stands between a worker and its router and keeps what passes. So a capture needs no privileges, and what was
captured can be sent again.
"""

import select
import signal
import socket
import struct
import subprocess
import threading
import unittest

import side_by_side
from cluster import BIN, DEADLINE_SECONDS, DEMO_MODEL, Cluster, wait_until
from link_keys import LinkKeys

PROMPT = "The canary sings of the innkeeper who counts the lanterns of the harbour twice"


class Relay:
    """Passes connections on to a router. `to_router` and `to_worker` are the bytes that passed."""

    def __init__(self, router):
        host, port = router.link.removeprefix("tcp://").split(":")
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.link = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.to_router = bytearray()
        self.to_worker = bytearray()
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def _accept(self):
        while not self.stopping.is_set():
            if not select.select([self.listener], [], [], 0.05)[0]:
                continue
            worker, _ = self.listener.accept()
            thread = threading.Thread(target=self._serve, args=(worker,))
            self.threads.append(thread)
            thread.start()

    def _serve(self, worker):
        with worker, socket.create_connection(self.target, timeout=DEADLINE_SECONDS) as router:
            ways = {worker: (router, self.to_router), router: (worker, self.to_worker)}
            while not self.stopping.is_set():
                for source in select.select(list(ways), [], [], 0.05)[0]:
                    target, record = ways[source]
                    try:
                        data = source.recv(65536)
                        target.sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
                    record += data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        self.listener.close()


GREETING_BYTES = 64


def send_again(router, data):
    """Sends captured bytes to the port for workers, as one connection. ZeroMQ wants its greeting and its first command
    to be awaited."""
    host, port = router.link.removeprefix("tcp://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS)
    command_end = command_end_of(data)
    try:
        connection.sendall(data[:GREETING_BYTES])
        answer = receive(connection, GREETING_BYTES)
        connection.sendall(data[GREETING_BYTES:command_end])
        answer += receive(connection, GREETING_BYTES + 2 - len(answer))
        receive(connection, command_end_of(answer) - len(answer))
        connection.sendall(data[command_end:])
    except OSError:
        pass  # it was cut off
    return connection


def command_end_of(data):
    return GREETING_BYTES + 2 + data[GREETING_BYTES + 1]


def receive(connection, count):
    """At least so many bytes."""
    data = b""
    while len(data) < count:
        more = connection.recv(4096)
        if not more:
            raise ConnectionError("it was cut off")
        data += more
    return data


def is_cut_off(connection):
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def runs_of(tokens, length=4):
    """As the wire writes them."""
    return [struct.pack(f"<{length}I", *tokens[i : i + length]) for i in range(len(tokens) - length + 1)]


def numbers_in(capture, numbers):
    """Those that stand in the bytes as the wire writes them."""
    return [number for number in numbers if struct.pack("<f", number) in capture]


def refused(router, reason):
    return router.metric("roost_router_link_refused_peers_total", reason=reason)


class KeysTest(unittest.TestCase):
    def run(self, result=None):
        with LinkKeys("w1", "w2") as self.keys, Cluster() as self.cluster:
            super().run(result)

    def start_router(self, *flags, **addresses):
        return self.cluster.start_router(*self.keys.router(), *flags, **addresses)

    def start_worker(self, name, *flags):
        return self.cluster.start_worker(name, *self.keys.worker(name), *flags)

    def assert_serves(self, router, worker):
        answer = router.completion(PROMPT, max_tokens=2)
        self.assertEqual((answer.status, answer.headers["x-roost-worker"]), (200, worker))

    def serve_through_relay(self, router, start):
        """Returns the relay after one answer, the prompt's tokens, and the log probabilities of the answer's tokens:
        its tokens travel one by one, and a number below a thousand is found in any bytes."""
        relay = Relay(router)
        self.addCleanup(relay.__exit__)
        router.link, real = relay.link, router.link
        start()
        router.link = real
        router.wait_for_workers(1)
        prompt = router.request("POST", "/tokenize", {"model": "demo-model", "prompt": PROMPT}).json()["tokens"]
        answer = router.completion(PROMPT, max_tokens=40, temperature=0, ignore_eos=True, logprobs=1)
        self.assertEqual(answer.status, 200, answer.body)
        logprobs = answer.json()["choices"][0]["logprobs"]["token_logprobs"]
        return relay, prompt, [number for number in logprobs if abs(number) > 0.01]

    def test_a_capture_holds_no_prompt_and_no_answer(self):
        open_router = self.cluster.start_router()
        relay, prompt, answer = self.serve_through_relay(open_router, lambda: self.cluster.start_worker("w1"))
        # The control: without keys all of it is there to read.
        self.assertGreater(len(runs_of(prompt)), 5)
        self.assertTrue(all(run in relay.to_worker for run in runs_of(prompt)))
        self.assertGreater(len(answer), 10)
        self.assertEqual(numbers_in(relay.to_router, answer), answer)
        for word in (b"demo-model", b'"vocab"'):
            self.assertIn(word, relay.to_router)

        router = self.start_router()
        relay, prompt, answer = self.serve_through_relay(router, lambda: self.start_worker("w1"))
        self.assertGreater(len(relay.to_router), 10_000)
        self.assertFalse(any(run in relay.to_worker for run in runs_of(prompt)))
        self.assertEqual(numbers_in(relay.to_router, answer), [])
        for word in (b"demo-model", b'"vocab"', self.keys.public("w1").encode()):
            self.assertNotIn(word, relay.to_router)
        self.assertEqual(sum(refused(router, reason) for reason in ("mechanism", "handshake", "unknown_key", "name")), 0)

    def test_what_was_captured_opens_nothing(self):
        open_router = self.cluster.start_router()
        first = []
        relay, _, _ = self.serve_through_relay(open_router, lambda: first.append(self.cluster.start_worker("w1")))
        copied_hello = bytes(relay.to_router)
        first[0].kill()
        wait_until(lambda: not open_router.workers(), "that the router has lost the worker")
        # The control: without keys a copy of what a worker said is a worker.
        with send_again(open_router, copied_hello):
            wait_until(lambda: [worker["id"] for worker in open_router.workers()] == ["w1"], "that the copy is taken in")

        router = self.start_router()
        relay, _, _ = self.serve_through_relay(router, lambda: self.start_worker("w1"))
        for copy, reason in ((copied_hello, "mechanism"), (bytes(relay.to_router), "handshake")):
            with send_again(router, copy) as connection:
                self.assertTrue(is_cut_off(connection))
            self.assertEqual(refused(router, reason), 1)
        self.assertEqual([worker["id"] for worker in router.workers()], ["w1"])
        self.assert_serves(router, "w1")

    def test_a_worker_without_a_key_is_refused_and_both_say_so(self):
        router = self.start_router()
        worker = self.cluster.start_worker("w1")
        self.assertIn("key", worker.wait_for_log("a router can not be linked")["reason"])
        record = router.wait_for_log("a peer is refused on the port for workers")
        self.assertEqual(record["reason"], "mechanism")
        self.assertTrue(record["peer"].startswith("127.0.0.1:"), record)
        self.assertGreaterEqual(refused(router, "mechanism"), 1)
        self.assertEqual(router.workers(), [])

    def test_a_worker_with_a_key_refuses_a_router_without_one(self):
        router = self.cluster.start_router()
        worker = self.start_worker("w1")
        worker.wait_for_log("a router can not be linked")
        self.assertIn("has none", router.wait_for_log("a connection to the port for workers is cut off")["error"])
        self.assertEqual(router.workers(), [])

    def test_an_unknown_key_is_refused_and_both_say_which(self):
        self.keys.lines["w3"] = self.keys.make("w3")
        router = self.start_router()
        worker = self.start_worker("w3")
        reason = worker.wait_for_log("a router can not be linked")["reason"]
        self.assertIn(self.keys.public("w3"), reason)
        record = router.wait_for_log("a peer is refused on the port for workers")
        self.assertEqual(record["reason"], "unknown_key")
        self.assertIn(self.keys.public("w3"), record["why"])
        self.assertGreaterEqual(refused(router, "unknown_key"), 1)
        self.assertEqual(router.workers(), [])

    def test_a_router_with_another_key_than_the_worker_was_given_is_refused(self):
        self.keys.write("others.jsonl", self.keys.make("other", "router"))
        router = self.start_router()
        worker = self.cluster.start_worker("w1", *self.keys.worker("w1", "others.jsonl"))
        self.assertIn("none of the keys", worker.wait_for_log("a router can not be linked")["reason"])
        self.assertEqual(router.wait_for_log("a peer is refused on the port for workers")["reason"], "handshake")
        self.assertGreaterEqual(refused(router, "handshake"), 1)
        self.assertEqual(router.workers(), [])

    def test_a_key_takes_no_name_that_is_not_its_own(self):
        router = self.start_router()
        self.start_worker("w1")
        router.wait_for_workers(1)
        thief = self.cluster.start_worker("w1", *self.keys.worker("w2"))
        why = f"key {self.keys.public('w2')} may not be worker 'w1'"
        self.assertIn(why, thief.wait_for_log("a router refuses this worker")["reason"])
        self.assertIn(why, router.wait_for_log("worker refused")["error"])
        self.assertGreaterEqual(refused(router, "name"), 1)
        other = self.cluster.start_worker("w2", *self.keys.worker("w2"))
        router.wait_for_workers(2)
        self.assertEqual(thief.process.poll(), None)
        self.assertEqual(other.stop(), 0)
        self.assert_serves(router, "w1")

    def test_a_key_serves_no_model_that_is_not_its_own(self):
        self.keys.lines["w3"] = self.keys.make("w3", "worker", "--models", "another,other-*")
        self.keys.write("workers.jsonl", self.keys.lines["w3"])
        router = self.start_router()
        worker = self.start_worker("w3")
        self.assertIn("may not serve model 'demo-model'", worker.wait_for_log("a router refuses this worker")["reason"])
        self.assertEqual(router.workers(), [])

    def test_a_workers_key_is_rotated_and_no_stream_of_others_drops(self):
        router = self.start_router("--policy", "round-robin")
        w1 = self.start_worker("w1")
        self.start_worker("w2")
        router.wait_for_workers(2)
        old = self.keys.lines["w1"]
        new = self.keys.make("w1-new", "worker", "--workers", "w1")
        # Both are good.
        self.keys.write("workers.jsonl", old, new, self.keys.lines["w2"])
        router.process.send_signal(signal.SIGHUP)
        router.wait_for_log("reloaded")
        (self.keys.path / "w1-new.key").rename(self.keys.path / "w1.key")
        self.assertEqual(w1.stop(), 0)
        w1 = self.start_worker("w1")
        router.wait_for_workers(2)

        # The old one goes; then the new one, while the other worker streams.
        self.keys.write("workers.jsonl", new, self.keys.lines["w2"])
        router.process.send_signal(signal.SIGHUP)
        wait_until(lambda: sum('"reloaded"' in line for line in router.lines) == 2, "a second reload")
        router.wait_for_workers(2)
        self.assertFalse(router.has_logged("a link is cut off: its key was withdrawn, or has other names now"))
        answers = []
        ask = threading.Thread(target=lambda: answers.extend(
            router.completion(f"{PROMPT} {i}", max_tokens=200, ignore_eos=True, stream=True) for i in range(2)))
        ask.start()
        wait_until(lambda: any(w["running_requests"] for w in router.workers()), "a stream")
        self.keys.write("workers.jsonl", self.keys.lines["w2"])
        router.process.send_signal(signal.SIGHUP)
        router.wait_for_log("a link is cut off: its key was withdrawn, or has other names now")
        self.assertIn("does not take", w1.wait_for_log("a router can not be linked")["reason"])
        wait_until(lambda: [w["id"] for w in router.workers()] == ["w2"], "that w1 is lost")
        ask.join()
        for answer in answers:
            self.assertTrue(answer.done, answer.body[-300:])
            self.assertNotIn("error", answer.body)
        self.assert_serves(router, "w2")

    def test_a_routers_key_is_rotated(self):
        new = self.keys.make("router-new", "router")
        router = self.start_router()
        worker = self.start_worker("w1")
        router.wait_for_workers(1)
        self.keys.write("routers.jsonl", self.keys.lines["router"], new)
        address = router.link
        router.kill()
        router = self.cluster.start_router(*self.keys.router("router-new"), link=address)
        router.wait_for_workers(1)
        self.assert_serves(router, "w1")
        # And back: the worker tries both.
        router.kill()
        router = self.start_router(link=address)
        router.wait_for_workers(1)
        self.assert_serves(router, "w1")
        self.assertFalse(worker.has_logged("a router can not be linked"), "one of the keys was good each time")

    def test_one_file_without_the_other_stops_the_start(self):
        for flags in (["--link-peers", "x"], ["--link-secret-key", "x"]):
            for command in ([BIN / "roost-router"], [BIN / "roost-worker", "--model", DEMO_MODEL]):
                done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("link-secret-key and link-peers are given together", done.stderr)

    def test_an_open_link_beyond_loopback_is_refused_by_both(self):
        router = subprocess.run([BIN / "roost-router", "--http-address", "127.0.0.1:0", "--link-address",
                                 "tcp://0.0.0.0:0"], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        self.assertEqual(router.returncode, 78)
        self.assertIn("--link-secret-key", router.stderr)
        worker = subprocess.run([BIN / "roost-worker", "--model", DEMO_MODEL, "--router", "tcp://192.0.2.1:7001"],
                                capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        self.assertEqual(worker.returncode, 64)
        self.assertIn("--link-secret-key", worker.stderr)
        # With keys neither needs to be told.
        router = self.start_router(link="tcp://0.0.0.0:0")
        router.link = router.link.replace("0.0.0.0", "127.0.0.1")
        self.start_worker("w1")
        router.wait_for_workers(1)

    def test_wrong_files_are_named_by_line(self):
        self.keys.write("workers.jsonl", self.keys.lines["w1"], '{"public_key":"short"}\n')
        done = subprocess.run([BIN / "roost-router", *self.keys.router()], capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS)
        self.assertEqual(done.returncode, 78)
        self.assertIn("workers.jsonl:3: public_key is no key", done.stderr)

    def test_no_secret_is_logged(self):
        router = self.start_router("--log-level", "debug")
        worker = self.start_worker("w1", "--log-level", "debug")
        router.wait_for_workers(1)
        self.assert_serves(router, "w1")
        for daemon, key in ((router, "router"), (worker, "w1")):
            secret = (self.keys.path / f"{key}.key").read_text().splitlines()[-1]
            self.assertEqual(len(secret), 40)
            self.assertFalse(any(secret in line for line in daemon.lines))


if __name__ == "__main__":
    side_by_side.main(2)

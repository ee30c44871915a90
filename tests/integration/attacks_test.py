"""Attacks by hostile clients and peers, against real daemons: none of it may cost others their answers.

The same by unit tests: a worker that reports progress and sends no token (tests/router/fleet/fleet_silence_test.cc);
blocks that were joined in quadratic time (tests/router/api); endless answers and control sequences
(tests/roostctl/http_client_test.cc). Other integration tests: unfinished bodies and messages (memory), workers of one
name and hung engines (upgrade), keys of the link (link).
"""

import json
import pathlib
import socket
import struct
import tempfile
import threading
import time
import unittest

from cluster import DEADLINE_SECONDS, Cluster, text, wait_until
from keys import KeyFile, bearer
from upgrade_test import StoppedThread, engine_thread
from wire_peer import COMMAND, GREETING, Tap, with_router_count, worker_kind

NOTHING = 'root ::= a\na ::= b | ""\nb ::= a | ""'  # it derives the empty text alone, in endless ways


def schema(body):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": body}}}


def strings(count, lengths):
    """An object of so many strings, with the (least, most) characters that `lengths` gives each."""
    properties = {}
    for i in range(count):
        least, most = lengths(i)
        properties[f"k{i}"] = {"type": "string", "minLength": least, "maxLength": most}
    return schema({"type": "object", "properties": properties, "required": list(properties)})


def ask_with(router, content, **fields):
    return router.chat([{"role": "user", "content": content}], max_tokens=8, temperature=0, **fields)


def ask(router, **fields):
    return ask_with(router, "hi", **fields)


class ConstraintsTest(unittest.TestCase):
    """Constraints that a client asks of its output."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster())
        cls.router = cls.cluster.start_router()
        cls.cluster.start_worker("worker-a")
        cls.router.wait_for_workers(1)

    def assert_untouched(self):
        """The worker is in service, and compiles what others want."""
        self.assertEqual([w["state"] for w in self.router.workers()], ["ready"])
        small = schema({"type": "object", "properties": {f"z{time.monotonic_ns()}": {"type": "integer"}}})
        answer = ask(self.router, **small)
        self.assertEqual(answer.status, 200, answer.body)

    def test_a_grammar_that_matches_nothing_is_the_requests_own_fault(self):
        for _ in range(5):  # three faults of a worker in a row take it out of service
            answer = self.router.completion("hi", max_tokens=8, guided_grammar=NOTHING)
            self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "guided_grammar"), answer.body)
        self.assertEqual(self.router.metric("roost_router_generations_total", status="error"), 0)
        self.assert_untouched()

    def test_schemas_that_would_compile_for_minutes_are_refused_and_nobody_waits_behind_them(self):
        answers = []

        def bomb(k):
            answers.append(ask(self.router, **strings(60, lambda i: (i + 1 + k, 4096 - i))))

        began = time.monotonic()
        threads = [threading.Thread(target=bomb, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        self.assert_untouched()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        for answer in answers:
            self.assertIn(answer.status, (200, 400), answer.body)
        print(f"three schemas of sixty long strings: {[answer.status for answer in answers]} after {took:.1f} s")
        self.assertFalse(self.router.has_logged("worker lost"))
        self.assert_untouched()

    def test_long_strings_and_counts_are_taken(self):
        for count in (128, 129, 200, 300, 4096):
            string = {"type": "string", "maxLength": count}
            for body in (string, {"type": "object", "properties": {"s": string}, "required": ["s"]},
                         {"type": "string", "pattern": f"^[a-z]{{1,{count}}}$"},
                         {"type": "array", "items": {"type": "integer"}, "maxItems": count}):
                answer = ask(self.router, **schema(body))
                self.assertEqual(answer.status, 200, f"{body}: {answer.body}")


class BodiesTest(unittest.TestCase):
    def test_bodies_of_one_key_do_not_go_before_those_of_another(self):
        """Thirty bodies of 7 MB, sent before one of 300 KB with another key."""
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(pathlib.Path(folder))
            alice, mallory = keys.add("alice"), keys.add("mallory")
            router = cluster.start_router("--api-keys", str(keys.path))
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)

            def body_of(size):
                message = {"role": "user", "content": "a " * (size // 2)}
                return json.dumps({"model": "demo-model", "max_tokens": 1, "messages": [message]}).encode()

            large, small = body_of(7_000_000), body_of(300_000)

            def ask():
                answer = router.request("POST", "/v1/chat/completions", large, bearer(mallory))
                return answer.status, time.monotonic()

            # All of the small body but its end is there before, so that no time of its way counts.
            connection = router.connect(router.url)
            self.addCleanup(connection.close)
            connection.putrequest("POST", "/v1/chat/completions")
            for name, value in {**bearer(alice), "Content-Type": "application/json", "Content-Length": str(len(small))}.items():
                connection.putheader(name, value)
            connection.endheaders(small[:-1])

            ended = []
            threads = [threading.Thread(target=lambda: ended.append(ask())) for _ in range(30)]
            began = time.monotonic()
            for thread in threads:
                thread.start()
            wait_until(lambda: ended, "the first of the large bodies")
            sent = time.monotonic()
            connection.send(small[-1:])
            status = connection.getresponse().status
            answered = time.monotonic()
            for thread in threads:
                thread.join()
            self.assertEqual(status, 400, "longer than the context")
            self.assertLessEqual({of for of, _ in ended}, {400, 429})
            before = sum(1 for of, at in ended if of == 400 and sent < at < answered)
            print(f"a body of 300 KB beside thirty of 7 MB of another key: {answered - sent:.2f} s, {before} of them ended "
                  f"meanwhile; all took {max(at for _, at in ended) - began:.1f} s")
            # In the order in which they came it would be 29.
            self.assertLess(before, 10, "it waits for those that had begun")

    def test_streams_go_on_beside_bodies_of_eight_megabytes(self):
        with Cluster() as cluster:
            router = cluster.start_router("--http-threads", "1")
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            tokens, done = [], threading.Event()  # when each came

            def read_streams():
                body = {"model": "demo-model", "prompt": "a", "max_tokens": 500, "ignore_eos": True, "stream": True}
                while not done.is_set():
                    connection = router.connect(router.url)
                    connection.request("POST", "/v1/completions", json.dumps(body),
                                       {"Content-Type": "application/json"})
                    response = connection.getresponse()
                    while response.readline():
                        tokens.append(time.monotonic())
                    connection.close()

            reader = threading.Thread(target=read_streams)
            reader.start()
            wait_until(lambda: tokens, "a stream")
            shares = []  # of each body's time, the longest in which no token came
            for seed in range(4):
                long = text(100_000, seed) * 13
                began = time.monotonic()
                self.assertEqual(ask_with(router, long).status, 400, "longer than the context")
                ended = time.monotonic()
                times = [began, *(at for at in list(tokens) if began < at < ended), ended]
                shares.append(max(b - a for a, b in zip(times, times[1:])) / (ended - began))
            done.set()
            reader.join()
            print("a stream's longest gap beside bodies of 8 MB, as shares of their times:",
                  [round(share, 2) for share in shares])
            self.assertLess(min(shares), 0.6, "the stream stood still while bodies were worked on")


class PeersTest(unittest.TestCase):
    """Input at the workers' port, and workers that do not do what they say."""

    def test_two_peers_of_one_identity_end_no_router(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            host, port = router.link.removeprefix("tcp://").rsplit(":", 1)

            def connect():
                stream = socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS)
                self.addCleanup(stream.close)
                stream.sendall(GREETING)
                self.assertTrue(stream.recv(64), "a greeting")
                ready = b"\x05READY"
                for name, value in ((b"Socket-Type", b"DEALER"), (b"Identity", b"nobody")):
                    ready += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
                stream.sendall(bytes([COMMAND, len(ready)]) + ready)
                self.assertTrue(stream.recv(4096), "its READY")
                stream.sendall(bytes([0, 1]) + b"x")
                return stream

            for _ in range(10):
                first, second = connect(), connect()
                first.sendall(5 * (bytes([0, 1]) + b"y"))
                first.close()
                second.close()
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            self.assertEqual(router.completion("Who comes", max_tokens=2).status, 200)

    def test_a_worker_that_reports_a_thousand_routers_takes_nothing_from_a_keys_limits(self):
        """As one with a stolen key of the link would. Each router applies its part of a key's limits."""
        lies = []

        def lie(name, frame):
            if name != "worker" or worker_kind(frame) != "step":
                return frame
            lies.append(time.monotonic())
            return with_router_count(frame, 1024)

        with tempfile.TemporaryDirectory() as folder:
            secret = KeyFile(pathlib.Path(folder)).add("limited", "--requests-per-minute", "600")
            with Cluster() as cluster:
                router = cluster.start_router("--api-keys", str(pathlib.Path(folder) / "keys.jsonl"))
                cluster.start_worker("worker-a")
                honest, tap = router.link, Tap(router.link, lie)
                router.link = tap.endpoint
                cluster.start_worker("worker-b")
                router.link = honest
                router.wait_for_workers(2)
                wait_until(lambda: len(lies) > 3, "some lies")
                body = {"model": "demo-model", "prompt": "Who comes", "max_tokens": 1}
                for _ in range(20):
                    answer = router.request("POST", "/v1/completions", body, bearer(secret))
                    self.assertEqual((answer.status, answer.headers["x-ratelimit-limit-requests"]), (200, "600"), answer.body)
            tap.close()

    def test_an_engine_that_hangs_in_its_first_step_keeps_no_request(self):
        with Cluster() as cluster:
            router = cluster.start_router("--stall-timeout-seconds", "2", "--policy", "round-robin")
            hung = cluster.start_worker("worker-a", "--core-dumps")
            cluster.start_worker("worker-b")
            router.wait_for_workers(2)
            with StoppedThread(engine_thread(hung.process)):
                answers = []

                def complete(i):
                    answers.append(router.completion(text(30, i), max_tokens=20, ignore_eos=True))

                threads = [threading.Thread(target=complete, args=(i,)) for i in range(6)]
                began = time.monotonic()
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                took = time.monotonic() - began
                self.assertEqual([answer.status for answer in answers], 6 * [200])
                print(f"six requests, three of them at an engine that hangs in its first step: {took:.1f} s")
                self.assertGreaterEqual(router.metric("roost_router_retries_total", reason="no_first_token"), 1)
                states = {w["id"]: w["state"] for w in router.workers()}
                self.assertNotEqual(states.get("worker-a"), "ready")
            self.assertLess(took, 60, "they do not wait for the 120 s of a first step")


class RetentionTest(unittest.TestCase):
    def test_one_tenants_hints_do_not_push_anothers_prompts_out(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(pathlib.Path(folder))
            alice, bob = keys.add("a", "--tenant", "alice"), keys.add("b", "--tenant", "bob")
            router = cluster.start_router("--api-keys", str(keys.path))
            worker = cluster.start_worker("worker-a", "--kv-blocks", "256", "--metrics-address", "127.0.0.1:0")
            router.wait_for_workers(1)

            def complete(secret, prompt, **fields):
                body = {"model": "demo-model", "prompt": prompt, "max_tokens": 2, "temperature": 0, **fields}
                answer = router.request("POST", "/v1/completions", body, bearer(secret))
                self.assertEqual(answer.status, 200, answer.body)
                return answer

            def hit_rate():
                answers = [complete(bob, text(40, i)) for i in range(8)]
                found = sum(answer.cached_tokens() for answer in answers)
                return found / sum(answer.usage()["prompt_tokens"] for answer in answers)

            hit_rate()
            self.assertGreater(hit_rate(), 0.9)
            forever = {"priority": 100, "duration_ms": 366 * 86_400_000}
            for i in range(40):
                complete(alice, text(40, 1000 + i), cache={"retention": forever})
            hit_rate()  # loads the blocks again that any flood evicts
            self.assertGreater(hit_rate(), 0.9)
            for i in range(40):
                complete(alice, text(40, 2000 + i), session_id=f"s{i}", expect_return_ms=600_000)
            hit_rate()
            self.assertGreater(hit_rate(), 0.9)
            self.assertIsNone(worker.process.poll())


if __name__ == "__main__":
    unittest.main()

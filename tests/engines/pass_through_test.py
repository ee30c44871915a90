"""Requests that engines get unread, through real daemons beside doubles of vLLM: embeddings, forms, long bodies, streams,
engines that die, clients that go."""

import concurrent.futures
import http.client
import json
import socket
import unittest
import zlib

from adapter_suite import Fleet, wait_until
from adapter_test import DoubleEngine
import side_by_side
from vllm_double import embedding_of

from cluster import Cluster  # noqa: E402  adapter_suite knows where it is
from memory_test import resident_bytes  # noqa: E402

MIB = 1 << 20


class PassThroughTest(unittest.TestCase):
    engine_kind = "vllm"

    def engine(self, *flags):
        engine = DoubleEngine(*flags)
        self.addCleanup(engine.kill)
        return engine

    def fleet(self, *engines, router_flags=(), worker_flags=()):
        fleet = Fleet(self, engines, *router_flags, worker_flags=("--engine-timeout-seconds", "2", *worker_flags))
        self.addCleanup(fleet.cluster.__exit__, None, None, None)
        fleet.cluster.__enter__()
        wait_until(lambda: [w["ready"] for w in fleet.router.workers()] == [True] * len(engines), "ready workers")
        return fleet

    def embed(self, fleet, text, model="demo-model"):
        return fleet.router.request("POST", "/v1/embeddings", {"model": model, "input": text})

    def open_socket(self, fleet, path, body, kind="application/json"):
        """A connection whose request is sent and whose answer is not read."""
        host, port = fleet.router.address.split(":")
        client = socket.create_connection((host, int(port)), timeout=60)
        self.addCleanup(client.close)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        return client

    def test_embeddings_are_the_engines(self):
        engines = [self.engine("--pooling"), self.engine("--pooling")]
        fleet = self.fleet(*engines)
        texts = [f"text {i}" for i in range(200)]
        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            answers = list(clients.map(lambda text: self.embed(fleet, text), texts))
        for text, answer in zip(texts, answers):
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.json()["data"][0]["embedding"], embedding_of(text))
        self.assertEqual({answer.headers["x-roost-worker"] for answer in answers}, {"beside-0", "beside-1"})
        modes = [(w["mode"], w["state"]) for w in fleet.router.workers()]
        self.assertEqual(modes, [("blind", "ready")] * 2)
        chat = fleet.router.chat([{"role": "user", "content": "hi"}])
        self.assertEqual(chat.status, 404, chat.body)
        metrics = fleet.router.request("GET", "/metrics").body
        self.assertTrue(f'roost_router_requests_total{{code="200",route="embeddings"}} {len(texts)}' in metrics)

    def test_an_engine_that_generates_embeds_too(self):
        for flags in ((), ("--no-docs",)):
            with self.subTest(flags):
                fleet = self.fleet(self.engine(*flags))
                self.assertEqual(self.embed(fleet, "hi").json()["data"][0]["embedding"], embedding_of("hi"))
                self.assertEqual(fleet.router.request("POST", "/rerank", {"documents": ["a", "b"]}).status, 200)
                self.assertEqual(fleet.complete([1, 2, 3]).status, 200)
                self.assertEqual(fleet.router.request("POST", "/classify", {}).status, 404)
                # A router that has just begun expects any name.
                wait_until(lambda fleet=fleet: self.embed(fleet, "hi", model="other").status == 404, "that another model is unknown")

    def test_a_name_that_the_engine_does_not_know_becomes_its_own(self):
        fleet = self.fleet(self.engine("--pooling", "--model", "intfloat/e5"))  # demo-model is the worker's name for it
        answer = self.embed(fleet, "hi")
        self.assertEqual((answer.status, answer.json()["model"]), (200, "intfloat/e5"), answer.body)

    def test_forms_go_as_they_are(self):
        fleet = self.fleet(self.engine("--pooling"), router_flags=("--max-body-bytes", "32MiB"))
        audio = bytes(range(256)) * 4096 * 3
        form = (b"--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndemo-model\r\n--B\r\n"
                b"Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + audio + b"\r\n--B--\r\n")
        answer = fleet.router.request("POST", "/v1/audio/transcriptions", form,
                                      {"Content-Type": "multipart/form-data; boundary=B"})
        self.assertEqual(answer.json(), {"text": f"{len(form)} {zlib.crc32(form)}",
                                         "type": "multipart/form-data; boundary=B"})

    def test_long_bodies_come_whole_both_ways(self):
        fleet = self.fleet(self.engine("--pooling"), router_flags=("--max-body-bytes", "32MiB", "--pass-through", "/echo"))
        body = bytes((i * 7 + i // 251) % 256 for i in range(10 * MIB))
        connection = http.client.HTTPConnection(fleet.router.address, timeout=120)
        self.addCleanup(connection.close)
        for _ in range(2):  # on one connection
            connection.request("POST", "/echo", body, {"Content-Type": "application/octet-stream"})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.getheader("Content-Type")), (200, "application/octet-stream"))
            self.assertTrue(answer.read() == body)

    def test_slow_readers_hold_no_more_than_their_credit(self):
        engine = self.engine("--pooling")
        fleet = self.fleet(engine, router_flags=("--max-body-bytes", "32MiB", "--pass-through", "/echo"))
        body = b"x" * (24 * MIB)
        warm = self.open_socket(fleet, "/echo", b"{}")
        warm.recv(100)
        # 24 MiB each way and client are under way. A body is at the router until its answer begins; the allocator may keep its
        # pages. Of answers both hold no more than their credit.
        bounds = {fleet.router.process.pid: 4 * 24 * MIB + 40 * MIB, fleet.workers["beside-0"].process.pid: 40 * MIB}
        before = {pid: resident_bytes(pid) for pid in bounds}
        clients = [self.open_socket(fleet, "/echo", body, "application/octet-stream") for _ in range(4)]
        for client in clients:
            self.assertEqual(client.recv(12), b"HTTP/1.1 200")
        self.assertEqual(engine.running(), 4)
        for pid, bound in bounds.items():
            self.assertLess(resident_bytes(pid) - before[pid], bound)
        for client in clients:
            received = 1
            while received < len(body):
                received += len(client.recv(MIB))
        wait_until(lambda: engine.running() == 0, "that all is read")

    def test_what_had_not_begun_is_answered_by_the_next_engine(self):
        engines = [self.engine("--pooling", "--pooling-ms", "3000"), self.engine("--pooling", "--pooling-ms", "100")]
        fleet = self.fleet(*engines)
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            answers = [clients.submit(self.embed, fleet, f"text {i}") for i in range(8)]
            wait_until(lambda: engines[0].running() >= 2, "requests at the engine that will die")
            engines[0].kill()
            for i, answer in enumerate(answers):
                self.assertEqual(answer.result().status, 200, answer.result().body)
                self.assertEqual(answer.result().json()["data"][0]["embedding"], embedding_of(f"text {i}"))
        engines[0].start()

    def test_an_answer_that_breaks_off_is_cut(self):
        engine = self.engine("--pooling")
        fleet = self.fleet(engine, router_flags=("--pass-through", "/drip"))
        connection = http.client.HTTPConnection(fleet.router.address, timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", "/drip", "{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        self.assertEqual(answer.readline(), b"data: 1\n")
        engine.kill()
        with self.assertRaises((http.client.HTTPException, OSError)):
            answer.read()
        engine.start()

    def test_a_client_that_goes_away_ends_the_engines_call(self):
        engine = self.engine("--pooling")
        fleet = self.fleet(engine, router_flags=("--pass-through", "/drip"))
        client = self.open_socket(fleet, "/drip", b"{}")
        self.assertIn(b"200", client.recv(1000))
        self.assertEqual(engine.running(), 1)
        client.close()
        wait_until(lambda: engine.running() == 0, "that the engine's call is closed")

    def test_a_full_engine_is_a_429(self):
        engine = self.engine("--pooling")
        fleet = self.fleet(engine, router_flags=("--pass-through", "/drip"),
                           worker_flags=("--max-running-requests", "1", "--max-waiting-requests", "1"))
        clients = [self.open_socket(fleet, "/drip", b"{}") for _ in range(2)]
        for client in clients:
            client.recv(1000)
        answer = self.embed(fleet, "hi")
        self.assertEqual(answer.status, 429, answer.body)
        for client in clients:
            client.close()
        wait_until(lambda: self.embed(fleet, "hi").status == 200, "that there is room again")

    def test_images_go_to_an_engine_and_texts_do_not(self):
        fleet = self.fleet(self.engine())
        parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
        answer = fleet.router.chat([{"role": "user", "content": parts}])
        self.assertEqual(answer.json()["choices"][0]["message"]["content"], "text image_url")
        answer = fleet.router.chat([{"role": "user", "content": parts}], stream=True)
        self.assertEqual([event["choices"][0]["delta"]["content"] for event in answer.events], ["text", "image_url"])
        self.assertTrue(answer.done)
        answer = fleet.router.chat([{"role": "user", "content": "words"}], max_tokens=2)
        self.assertEqual(answer.json()["usage"]["completion_tokens"], 2)

    def test_our_own_workers_have_none_of_these_routes(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("own")
            router.wait_for_workers(1)
            for path in ("/v1/embeddings", "/rerank", "/pooling"):
                answer = router.request("POST", path, {"model": "demo-model", "input": "x"})
                self.assertEqual(answer.status, 404)
                self.assertIn("--engine", answer.json()["error"]["message"])
            parts = [{"type": "image_url", "image_url": {"url": "data:,x"}}]
            self.assertEqual(router.chat([{"role": "user", "content": parts}]).status, 400)


if __name__ == "__main__":
    side_by_side.main(2)

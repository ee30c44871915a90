"""Failures: workers and routers that die and come back, models that can not be loaded, invalid requests."""

import fcntl
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

from cluster import BIN, DEADLINE_SECONDS, DEMO_MODEL, FREE_PORTS, ROOT, Cluster, Router, wait_until

SYSTEM = (ROOT / "deploy/demo-prompts/system-2-innkeeper.txt").read_text()


def question(text, system=SYSTEM):
    return [{"role": "system", "content": system}, {"role": "user", "content": text}]


class WorkerDeathTest(unittest.TestCase):
    def test_the_other_worker_answers_and_a_restarted_one_is_used_again(self):
        with Cluster() as cluster:
            router = cluster.start_router("--policy", "round-robin")
            victim = cluster.start_worker("worker-a")
            cluster.start_worker("worker-b")
            router.wait_for_workers(2)

            answers = []

            def ask(i):
                answers.append(router.chat(question(f"Question {i}?"), temperature=0, max_tokens=300, ignore_eos=True,
                                           stream=True))

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            wait_until(lambda: any(w["running_requests"] for w in router.workers() if w["id"] == "worker-a"),
                       "a request on worker-a")
            victim.kill()
            for thread in threads:
                thread.join()
            self.assertEqual(len(answers), 6)
            for answer in answers:
                self.assert_ended_well(answer)

            router.wait_for_workers(1)
            after = router.chat(question("And now?"), temperature=0, max_tokens=8)
            self.assertEqual((after.status, after.headers["x-roost-worker"]), (200, "worker-b"))

            cluster.start_worker("worker-a")
            router.wait_for_workers(2)
            fresh = [w for w in router.workers() if w["id"] == "worker-a"][0]
            self.assertEqual(fresh["indexed_blocks"], fresh["cached_blocks"])
            used = {router.chat(question(f"Again {i}?"), max_tokens=1).headers["x-roost-worker"] for i in range(4)}
            self.assertEqual(used, {"worker-a", "worker-b"})

    def assert_ended_well(self, answer):
        """The answer is complete, or ends with an error that says so; it is never cut off silently."""
        if answer.status != 200:
            self.assertIn("error", answer.json())
            return
        reasons = [choice.get("finish_reason") for event in answer.events for choice in event.get("choices", [])]
        errors = [event["error"] for event in answer.events if "error" in event]
        self.assertTrue(errors or "length" in reasons or "stop" in reasons, answer.body[-500:])
        self.assertTrue(answer.done)

    def test_without_any_worker_the_answer_is_503(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            self.assertEqual(router.request("GET", "/ready").status, 503)
            answer = router.chat(question("Anyone?"))
            self.assertEqual(answer.status, 503)
            self.assertIn("retry-after", answer.headers)
            self.assertIn("error", answer.json())

    def test_workers_find_a_restarted_router(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            first = router.chat(question("Before?"), temperature=0, max_tokens=4)
            router.kill()
            again = cluster.start_router(link=router.link)
            again.wait_for_workers(1)
            answer = again.chat(question("Before?"), temperature=0, max_tokens=4)
            self.assertEqual(answer.text(), first.text())
            self.assertGreater(answer.cached_tokens(), 1000, "the cache outlives the router")

    def test_sigterm_ends_streams_first_and_exits_with_zero(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            worker = cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            answers = []
            thread = threading.Thread(
                target=lambda: answers.append(router.chat(question("Long?"), max_tokens=200, ignore_eos=True)))
            thread.start()
            wait_until(lambda: router.workers()[0]["running_requests"] == 1, "a running request")
            self.assertEqual(worker.stop(), 0)
            thread.join()
            self.assertEqual(answers[0].usage()["completion_tokens"], 200)
            self.assertEqual(router.stop(), 0)

    def test_a_router_announces_its_end_and_serves_meanwhile(self):
        with Cluster() as cluster:
            router = cluster.start_router("--drain-announce-seconds", "600", "--drain-timeout-seconds", "600")
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            self.assertEqual(router.request("GET", "/ready").status, 200)
            router.process.send_signal(signal.SIGTERM)
            router.wait_for_log("router will drain")
            self.assertEqual(router.request("GET", "/ready").status, 503)
            self.assertEqual(router.chat(question("Still there?"), max_tokens=2).status, 200)
            router.process.send_signal(signal.SIGTERM)
            self.assertEqual(router.process.wait(DEADLINE_SECONDS), 0, "a second signal skips the announcement")

    def test_a_third_signal_ends_a_router_at_once(self):
        with Cluster() as cluster:
            router = cluster.start_router("--drain-announce-seconds", "600", "--drain-timeout-seconds", "600")
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            connection = http.client.HTTPConnection(router.address)
            body = {"model": "demo-model", "messages": question("Long?"), "max_tokens": 2000, "stream": True,
                    "ignore_eos": True}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            connection.getresponse().readline()
            for message in ("router will drain", "router drains", "open requests are cut off"):
                router.process.send_signal(signal.SIGTERM)
                router.wait_for_log(message)
            self.assertEqual(router.process.wait(DEADLINE_SECONDS), 1)
            connection.close()

    def test_a_client_that_leaves_frees_the_worker(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            connection = http.client.HTTPConnection(router.address)
            body = {"model": "demo-model", "messages": question("Long?"), "max_tokens": 2000, "stream": True,
                    "ignore_eos": True}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            connection.getresponse().readline()
            connection.close()
            wait_until(lambda: router.workers()[0]["running_requests"] == 0, "the end of the abandoned request")
            wait_until(lambda: router.metric("roost_router_active_requests") == 0, "no active request")
            wait_until(lambda: router.workers()[0]["in_flight_requests"] == 0, "no charge left")


class UnreadRouter(Router):
    """A router whose log goes through a pipe of one page that is not read after the ready line."""

    def __init__(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        self.process = subprocess.Popen(
            [BIN / "roost-router", "--http-address", "127.0.0.1:0", "--link-address", "tcp://127.0.0.1:0",
             *FREE_PORTS, "--log-format", "json", "--drain-announce-seconds", "0"], stderr=writer)
        os.close(writer)
        self.log = os.fdopen(reader)
        record = {}
        while record.get("msg") != "router ready":
            record = json.loads(self.log.readline())
        self.url = record["http"]
        self.link = record["link"]
        self.admin = record["admin"]
        self.metrics = record["metrics"]
        self.address = urllib.parse.urlparse(self.url).netloc


class UnreadLogTest(unittest.TestCase):
    def test_a_log_that_nobody_reads_holds_up_nobody(self):
        with Cluster() as cluster:
            router = cluster.router = UnreadRouter()
            self.addCleanup(router.log.close)
            self.addCleanup(router.process.kill)
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            for number in range(60):  # about 250 bytes each: the pipe holds 16
                self.assertEqual(router.completion(f"Who comes {number}?", max_tokens=1).status, 200)
            router.process.send_signal(signal.SIGTERM)
            self.assertEqual(router.process.wait(DEADLINE_SECONDS), 0)


class BadRequestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster())
        cls.router = cls.cluster.start_router()
        cls.cluster.start_worker("worker-a")
        cls.router.wait_for_workers(1)

    def assert_refused(self, body, status, param=None, path="/v1/chat/completions", headers=None):
        answer = self.router.request("POST", path, body, headers)
        self.assertEqual(answer.status, status, answer.body)
        error = answer.json()["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual(error["param"], param, error)
        return error

    def test_each_names_its_field(self):
        good = {"model": "demo-model", "messages": [{"role": "user", "content": "Hi"}]}
        self.assert_refused("{not json", 400)
        self.assert_refused("[]", 400)
        self.assert_refused({**good, "messages": "Hi"}, 400, "messages")
        self.assert_refused({**good, "messages": []}, 400, "messages")
        self.assert_refused({**good, "max_tokens": -1}, 400, "max_tokens")
        self.assert_refused({**good, "max_tokens": "ten"}, 400, "max_tokens")
        self.assert_refused({**good, "temperature": 9}, 400, "temperature")
        self.assert_refused({**good, "stream": "yes"}, 400, "stream")
        unknown = {**good, "model": "gpt-5"}  # 503 while the router has just begun, so that a worker may yet bring it
        wait_until(lambda: self.router.request("POST", "/v1/chat/completions", unknown).status == 404, "that it is not found")
        error = self.assert_refused(unknown, 404, "model")
        self.assertEqual(error["code"], "model_not_found")
        long = {**good, "messages": [{"role": "user", "content": "word " * 20000}]}
        self.assertEqual(self.assert_refused(long, 400, "messages")["code"], "context_length_exceeded")

    def test_oversized_body_and_headers(self):
        self.assert_refused("x" * (40 << 20), 413)
        self.assert_refused("{}", 431, headers={"x-padding": "y" * (64 << 10)})

    def test_the_router_serves_on(self):
        self.assertEqual(self.router.chat([{"role": "user", "content": "Hi"}], max_tokens=2).status, 200)


class BadModelTest(unittest.TestCase):
    def start_fails(self, spoil):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model"
            shutil.copytree(DEMO_MODEL, model)
            spoil(model)
            done = subprocess.run([BIN / "roost-worker", "--model", model, "--router", "tcp://127.0.0.1:1"],
                                  capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertGreater(done.returncode, 0, "ended by a signal")
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        self.assertEqual(len(errors), 1, done.stderr)
        return errors[0]

    def truncate(self, name, size):
        def spoil(model):
            path = model / name
            path.write_bytes(path.read_bytes()[:size])

        return spoil

    def test_truncated_files_stop_the_worker_with_one_clear_line(self):
        for name in ("model.safetensors", "tokenizer.json", "config.json"):
            for size in (0, 7, 1000):
                if (DEMO_MODEL / name).stat().st_size > size:
                    self.assertIn(name, self.start_fails(self.truncate(name, size)), f"{name} cut to {size} bytes")
        self.assertIn("model.safetensors", self.start_fails(self.truncate("model.safetensors", 2_000_000)))

    def test_a_missing_file_is_named(self):
        self.assertIn("config.json", self.start_fails(lambda model: (model / "config.json").unlink()))


if __name__ == "__main__":
    unittest.main()

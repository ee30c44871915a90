"""The HTTP endpoints of real workers: /ready says which router accepts it or why none does, also while it shuts down; TLS."""

import json
import pathlib
import re
import signal
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from certificates import Authority
from cluster import BIN, DEADLINE_SECONDS, DEMO_MODEL, Cluster, text, wait_until


def get(url, context=None):
    """Status and body."""
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def make_link_key(name, role, secret):
    """Returns its line for the peers file of the other side."""
    command = [BIN / "roostctl", "key", "link", name, "--role", role, "--out", secret]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Endpoints:
    def __init__(self, worker, context=None):
        self.context = context
        self.url = worker.wait_for_log("worker started")["metrics"].removesuffix("/metrics")

    def status(self, path):
        return get(self.url + path, self.context)[0]

    def body(self, path):
        return get(self.url + path, self.context)[1]

    def ready(self):
        status, body = get(self.url + "/ready", self.context)
        return {"code": status, **json.loads(body)}

    def wait_for(self, status):
        return wait_until(lambda: (now := self.ready())["status"] == status and now, f"that the worker is {status}")

    def refusals(self, reason):
        found = re.search(rf'^roost_worker_refusals_total{{[^}}]*reason="{reason}"}} (\d+)', self.body("/metrics"), re.M)
        return int(found.group(1))


def lines_of(daemon, message):
    with daemon.changed:
        return [line for line in daemon.lines if line.startswith("{") and json.loads(line)["msg"] == message]


class WorkerHttpTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())

    def test_ready_follows_the_router(self):
        router = self.cluster.start_router()
        worker = self.cluster.start_worker("worker-a")
        endpoints = Endpoints(worker)
        ready = endpoints.wait_for("ready")
        self.assertEqual((ready["code"], ready["routers"]), (200, [{"router": router.link, "state": "up"}]))
        worker.wait_for_log("worker ready")
        for path in ("/health", "/livez", "/version", "/metrics"):
            self.assertEqual(endpoints.status(path), 200, path)
        self.assertEqual(endpoints.status("/nothing"), 404)
        self.assertNotIn("exposer_", endpoints.body("/metrics"))
        router.kill()
        gone = endpoints.wait_for("connecting")
        self.assertEqual(gone["code"], 503)
        self.assertIn(router.link, gone["reason"])
        self.assertEqual(endpoints.status("/livez"), 200)

    def test_a_second_process_of_a_name_knows_it_and_says_so_once(self):
        router = self.cluster.start_router()
        self.cluster.start_worker("worker-a")
        router.wait_for_workers(1)
        second = self.cluster.start_worker("worker-a")
        endpoints = Endpoints(second)
        refused = endpoints.wait_for("refused")
        self.assertEqual(refused["code"], 503)
        for word in (router.link, "another process serves under the name worker-a", "--worker-id"):
            self.assertIn(word, refused["reason"])
        wait_until(lambda: endpoints.refusals("name_taken") >= 4, "that it was refused again and again")
        self.assertEqual(len(lines_of(second, "a router refuses this worker")), 1)
        self.assertEqual(len(lines_of(router, "worker refused")), 1)
        self.assertFalse(second.has_logged("worker ready"))
        self.assertEqual(endpoints.status("/livez"), 200)

    def test_a_worker_whose_keys_do_not_fit_knows_it(self):
        with tempfile.TemporaryDirectory() as folder:
            secret, peers = pathlib.Path(folder) / "router.key", pathlib.Path(folder) / "peers.jsonl"
            peers.write_text(make_link_key("w1", "worker", pathlib.Path(folder) / "w1.key"))
            make_link_key("router", "router", secret)
            self.cluster.start_router("--link-secret-key", secret, "--link-peers", peers)
            worker = self.cluster.start_worker("worker-a")
            endpoints = Endpoints(worker)
            self.assertIn("--link-secret-key", endpoints.wait_for("refused")["reason"])
            self.assertGreaterEqual(endpoints.refusals("handshake"), 1)

    def test_sigterm_ends_readiness_at_once_and_not_the_answers(self):
        router = self.cluster.start_router()
        worker = self.cluster.start_worker("worker-a")
        router.wait_for_workers(1)
        endpoints = Endpoints(worker)
        endpoints.wait_for("ready")
        connection = router.connect(router.url)
        self.addCleanup(connection.close)
        body = {"model": "demo-model", "prompt": text(50, "drain"), "max_tokens": 1500, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        self.addCleanup(response.close)
        self.assertTrue(response.readline().startswith(b"data: "))
        worker.process.send_signal(signal.SIGTERM)
        draining = endpoints.wait_for("draining")
        self.assertEqual(draining["code"], 503)
        self.assertEqual(endpoints.status("/livez"), 200)
        wait_until(lambda: router.workers()[0]["state"] == "draining", "that the router knows")
        late = router.completion("Who?", max_tokens=2)
        self.assertEqual(late.status, 503, "its model is away, and may come back")
        self.assertGreaterEqual(int(late.headers["retry-after"]), 1)
        self.assertIn(b'"finish_reason":"length"', response.read())
        self.assertEqual(worker.process.wait(DEADLINE_SECONDS), 0)

    def test_beyond_loopback_it_needs_client_certificates_or_the_operators_word(self):
        done = subprocess.run([BIN / "roost-worker", "--model", DEMO_MODEL, "--metrics-address", "0.0.0.0:0"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 64)
        for word in ("metrics-address", "0.0.0.0:0", "--tls-client-ca", "--insecure-bind"):
            self.assertIn(word, done.stderr)

    def test_tls_and_a_certificate_that_is_replaced(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            authority = Authority(folder, "authority")
            used = authority.issue("used")
            self.cluster.start_router()
            worker = self.cluster.start_worker("worker-a", "--tls-cert", used.certificate, "--tls-key", used.key)
            endpoints = Endpoints(worker, authority.client_context())
            self.assertTrue(endpoints.url.startswith("https://"))
            endpoints.wait_for("ready")
            expiry = re.search(r"^roost_worker_tls_certificate_expiry_timestamp_seconds\S* (\S+)", endpoints.body("/metrics"), re.M)
            self.assertGreater(float(expiry.group(1)), time.time())
            with self.assertRaises(urllib.error.URLError):
                get(endpoints.url + "/health", ssl.create_default_context())
            other = Authority(folder, "another")
            replacement = other.issue("replacement")
            replacement.key.replace(used.key)
            replacement.certificate.replace(used.certificate)
            worker.process.send_signal(signal.SIGHUP)
            endpoints.context = other.client_context()
            worker.wait_for_log("reloaded")
            self.assertEqual(endpoints.status("/health"), 200)


if __name__ == "__main__":
    unittest.main()

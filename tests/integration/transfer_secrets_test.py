"""Secrets and tickets of transfers are in nothing that daemons show: logs, metrics, recordings, answers to operators."""

import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.parse
import urllib.request

from cluster import BIN, Cluster, text
from link_keys import LinkKeys

# A secret has 64 hexadecimal digits and a ticket 74. So has the digest of a model or tokenizer, which is no secret.
LONG_DIGITS = re.compile(r"[0-9a-fA-F]{64,}")
ANSWERS = ("workers", "models", "decisions?limit=100", "prefixes?model=demo-model&top=100")


class TransferSecretsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.shown = {}  # by where it was seen

    def roostctl(self, router, *arguments):
        told = subprocess.run([BIN / "roostctl", *arguments, "--admin", router.admin], capture_output=True, text=True,
                              check=False)
        self.shown[f"roostctl {arguments[0]}"] = told.stdout + told.stderr
        return told.stdout

    def page(self, url):
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.shown[url] = answer.read().decode()

    def gather(self, name, router_flags, worker_flags):
        """What a router and two workers show of a pull, and the long digits in it."""
        self.shown = {}
        recording = self.folder / f"{name}.jsonl"
        debug = ("--log-level", "debug")
        with Cluster() as cluster:
            router = cluster.start_router("--record", recording, *debug, *router_flags)
            workers = [cluster.start_worker(worker, *debug, *worker_flags(worker)) for worker in ("worker-a", "worker-b")]
            router.wait_for_workers(2)
            prompt = text(200, self.id())
            warm = ["warm", "--model", "demo-model", "--prompt", prompt, "--workers"]
            self.roostctl(router, *warm, "worker-a")
            self.assertIn("pulled from worker-a", self.roostctl(router, *warm, "worker-b"))
            answer = router.completion(prompt, temperature=0, max_tokens=4)
            self.assertEqual(answer.status, 200)
            for verb in ("status", "prefixes"):
                self.roostctl(router, verb)
            self.roostctl(router, "explain", answer.json()["id"])
            self.roostctl(router, "match", "--model", "demo-model", "--prompt", prompt)
            for path in ANSWERS:
                self.shown[path] = router.request("GET", f"/admin/v1/{path}").body
            self.assertIn('"transfer":{"address":"127.0.0.1:', self.shown["workers"])
            self.shown["metrics"] = router.request("GET", "/metrics").body
            for worker in workers:
                address = urllib.parse.urlparse(worker.wait_for_log("worker started")["metrics"]).netloc
                for path in ("metrics", "ready", "version", "health"):
                    self.page(f"http://{address}/{path}")
            daemons = [router, *workers]
            for daemon in daemons:
                daemon.stop()
            for number, daemon in enumerate(daemons):
                self.shown[f"log {number}"] = "\n".join(daemon.lines)
        self.shown["recording"] = recording.read_text()
        self.assertTrue(self.shown["recording"])
        return {digits for page in self.shown.values() for digits in LONG_DIGITS.findall(page)}

    def test_none_is_shown(self):
        public = self.gather("plain", [], lambda worker: [])  # without keys there is no secret
        with LinkKeys("worker-a", "worker-b") as keys:
            told = self.gather("keys", keys.router(), keys.worker)
        self.assertEqual(told - public, set())


if __name__ == "__main__":
    unittest.main()

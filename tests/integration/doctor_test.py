"""roostctl doctor and top against real daemons."""

import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import tempfile
import termios
import threading
import unittest

from certificates import Authority
from cluster import BIN, DEADLINE_SECONDS, DEMO_MODEL, Cluster, wait_until


class DoctorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.other = cls.cluster.start_router()
        cls.router = cls.cluster.start_router("--show-prefix-text")
        links = f"{cls.router.link},{cls.other.link}"
        cls.workers = [cls.cluster.start_worker(name, "--router", links) for name in ("worker-a", "worker-b")]
        for router in (cls.router, cls.other):
            router.wait_for_workers(2)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def doctor(self, *flags, code=0, router=None):
        router = router or self.router
        told = subprocess.run([BIN / "roostctl", "doctor", "--router", router.url, "--admin", router.admin, "--metrics",
                               router.metrics, "--json", *flags], capture_output=True, text=True, timeout=120, check=False)
        if code is not None:
            self.assertEqual(told.returncode, code, told.stdout + told.stderr)
        return json.loads(told.stdout)["findings"]

    def of(self, findings, check):
        return [finding for finding in findings if finding["check"] == check]

    def test_a_healthy_deployment_has_no_warning(self):
        worker_metrics = [worker.wait_for_log("worker ready")["metrics"] for worker in self.workers]
        findings = self.doctor("--model-folder", DEMO_MODEL, "--more-routers", self.other.url, "--more-admins",
                               self.other.admin, "--worker-metrics", ",".join(worker_metrics), code=None)
        # The limit of open files is the machine's business.
        bad = [finding for finding in findings
               if finding["severity"] in ("warning", "failure") and finding["check"] != "limits"]
        self.assertEqual(bad, [])
        self.assertEqual({finding["subject"] for finding in self.of(findings, "worker")}, {"worker-a", "worker-b"})
        tokenizers = self.of(findings, "tokenizer")
        self.assertEqual(len(tokenizers), 2)
        for finding in tokenizers:
            self.assertIn("the same block hashes", finding["what"])
        self.assertIn("as expected", self.of(findings, "hits")[0]["what"])
        self.assertEqual({finding["severity"] for finding in self.of(findings, "clock")}, {"ok"})
        self.assertIn("knows the same 2 workers", self.of(findings, "routers")[0]["what"])

    def test_workers_with_more_threads_than_processors_are_told(self):
        processors = os.cpu_count()
        with Cluster() as cluster:
            router = cluster.start_router()
            first = cluster.start_worker("first", "--threads", str(processors))
            router.wait_for_workers(1)
            self.assertEqual(self.of(self.doctor(router=router, code=None), "threads"), [])
            second = cluster.start_worker("second", "--threads", str(processors + 1))
            router.wait_for_workers(2)
            (found,) = self.of(self.doctor("--no-requests", router=router, code=None), "threads")
            self.assertEqual(found["severity"], "warning")
            self.assertIn(f"2 workers of its machine compute with {2 * processors + 1} threads on {processors} processors",
                          found["what"])
            for worker in (first, second):
                told = worker.wait_for_log("workers share processors and compute with more threads than there are: all "
                                           "of them get slower")
                self.assertEqual((told["threads"], told["processors"]), (2 * processors + 1, processors))

    def test_it_says_what_is_wrong_and_what_to_do(self):
        with Cluster() as cluster:
            lonely = cluster.start_router()
            findings = self.doctor("--no-requests", code=2, router=lonely)
            self.assertEqual(self.of(findings, "workers")[0]["what"], "knows no worker")
            self.assertIn("--link-address", self.of(findings, "workers")[0]["advice"])
            self.assertEqual(self.of(findings, "model")[0]["what"], "the router serves no model yet")
            findings = self.doctor("--more-admins", lonely.admin, "--no-requests", code=2)
            self.assertIn("do not know the same workers: worker-a, worker-b", self.of(findings, "routers")[0]["what"])

    def test_another_folder_reads_the_prompt_differently(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "model"
            copy.mkdir()
            for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
                if (DEMO_MODEL / name).exists():
                    (copy / name).write_text((DEMO_MODEL / name).read_text())
            tokenizer = json.loads((copy / "tokenizer.json").read_text())
            tokenizer["model"]["merges"] = tokenizer["model"]["merges"][: len(tokenizer["model"]["merges"]) // 2]
            (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
            findings = self.doctor("--model-folder", copy, "--no-requests", code=2)
        self.assertIn("reads the prompt differently", self.of(findings, "tokenizer")[0]["what"])

    def test_keys_and_certificates_are_looked_at(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            authority = Authority(folder, "ca")
            server = authority.issue("server")  # for one day
            keys = pathlib.Path(folder) / "keys.jsonl"
            made = subprocess.run([BIN / "roostctl", "key", "new", "oncall"], capture_output=True, text=True, check=True)
            keys.write_text(made.stdout)
            secret = pathlib.Path(folder) / "secret"
            secret.write_text(made.stderr.strip().splitlines()[-1] + "\n")
            router = cluster.start_router("--tls-cert", server.certificate, "--tls-key", server.key, "--api-keys", keys, "--admin-keys",
                                          keys, tls=authority.client_context())
            common = ["--ca-file", authority.certificate, "--no-requests"]
            findings = self.doctor(*common, "--api-key-file", secret, code=2, router=router)  # it has no worker
            self.assertEqual({finding["what"] for finding in self.of(findings, "door")}, {"needs a key"})
            self.assertEqual({finding["severity"] for finding in self.of(findings, "tls")}, {"warning"})
            self.assertRegex(self.of(findings, "tls")[0]["what"], r"its certificate is valid for [01] more days")
            findings = self.doctor(*common, code=2, router=router)
            self.assertIn("401", self.of(findings, "admin")[0]["what"])
            self.assertIn("--admin-api-key-file", self.of(findings, "admin")[0]["advice"])

    # ---- top ----

    def top(self, *flags):
        return [BIN / "roostctl", "top", "--admin", self.router.admin, "--metrics", self.router.metrics, *flags]

    def test_top_prints_one_picture_for_pipes(self):
        ended = threading.Event()

        def ask():
            while not ended.is_set():
                self.router.completion("The hen sits on an egg. " * 20, max_tokens=4)

        for _ in range(3):  # so that the prefix has hits
            self.router.completion("The hen sits on an egg. " * 20, max_tokens=4)
        load = threading.Thread(target=ask)
        load.start()
        try:
            told = subprocess.run(self.top("--once"), capture_output=True, text=True, timeout=60, check=True).stdout
        finally:
            ended.set()
            load.join()
        self.assertNotIn("\x1b", told)
        self.assertIn("2/2 workers ready", told)
        self.assertRegex(told, r"requests [\d.]+/s  output [\d.]+k? tok/s  prompt [\d.]+k? tok/s  hit \d+%, \d+% of tokens  TTFT p50 [\d.]+ m?s")
        self.assertRegex(told, r"(?m)^worker-a +ready +\d+ +\d+ [#.]{8} +\d+% ")
        self.assertIn("The hen sits on an egg", told)
        self.assertIn("p99", told)  # nothing is cut without a terminal

    def test_top_draws_on_a_terminal_until_q_and_follows_its_size(self):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        before = termios.tcgetattr(slave)
        shown = []

        def read():
            while True:
                try:
                    data = os.read(master, 65536)
                except OSError:
                    return
                if not data:
                    return
                shown.append(data)

        process = subprocess.Popen(self.top("--interval", "0.2", "--no-prefixes"), stdin=slave, stdout=slave, stderr=slave)
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        picture = lambda: b"".join(shown).decode(errors="replace")  # noqa: E731
        wait_until(lambda: picture().count("workers ready") >= 3, "three pictures")
        self.assertIn("\x1b[?1049h", picture())
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 3, 80, 0, 0))
        shown.clear()
        wait_until(lambda: picture().count("workers ready") >= 2, "pictures of the other size")
        os.write(master, b"x")
        os.write(master, b"q")
        self.assertEqual(process.wait(DEADLINE_SECONDS), 0)
        self.assertTrue(picture().endswith("\x1b[?25h\x1b[?1049l"))
        self.assertEqual(termios.tcgetattr(slave), before)
        os.close(slave)
        os.close(master)

    def test_top_without_a_terminal_says_how(self):
        told = subprocess.run(self.top(), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(told.returncode, 64)
        self.assertIn("--once prints one picture", told.stderr)


if __name__ == "__main__":
    unittest.main()

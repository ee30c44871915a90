"""Blocks on disk with real daemons: a worker that was killed starts warm, with the same answers; an eviction erases there too;
wrong flags and a folder that is taken stop the start."""

import pathlib
import subprocess
import tempfile
import unittest

import side_by_side
from cluster import BIN, DEMO_MODEL, Cluster, text, wait_until
from transfers import metric_of

PROMPT_WORDS = 400  # about 100 blocks
BLOCK_TOKENS = 16
GIB = 1 << 30


def worker_that_fails(*flags):
    """The exit code and the log of a worker that can not start."""
    done = subprocess.run(
        [BIN / "roost-worker", "--model", DEMO_MODEL, "--log-format", "json", "--threads", "1", "--kv-blocks", "64",
         "--metrics-address", "", *map(str, flags)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


class DiskTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="roost-disk-")
        self.addCleanup(self.folder.cleanup)
        self.disk = pathlib.Path(self.folder.name) / "disk"
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.router = self.cluster.start_router()
        self.prompt = text(PROMPT_WORDS, "disk")

    def start(self, *flags):
        worker = self.cluster.start_worker("worker-a", "--disk-cache", self.disk, "--disk-cache-bytes", 2 * GIB,
                                           "--metrics-address", "127.0.0.1:0", *flags)
        worker.wait_for_log("worker ready")
        wait_until(self.ready, "that the worker is ready")
        return worker

    def ready(self):
        return [each for each in self.router.workers() if each["ready"]]

    def kill(self, worker):
        worker.kill()
        wait_until(lambda: not self.ready(), "that the worker is gone")

    def ask(self, **fields):
        answer = self.router.completion(self.prompt, max_tokens=12, temperature=0, **fields)
        self.assertEqual(answer.status, 200)
        return answer

    def wait_for_blocks(self, worker, count):
        wait_until(lambda: metric_of(worker, "roost_worker_disk_blocks") >= count, f"that {count} blocks are on disk")

    def test_a_killed_worker_starts_warm(self):
        worker = self.start()
        first = self.ask()
        self.assertEqual(first.cached_tokens(), 0)
        blocks = first.usage()["prompt_tokens"] // BLOCK_TOKENS
        self.wait_for_blocks(worker, blocks)
        self.kill(worker)
        worker = self.start()
        started = worker.wait_for_log("blocks on disk")
        self.assertGreaterEqual(started["blocks"], blocks)
        again = self.ask()
        self.assertEqual(again.text(), first.text())
        self.assertGreaterEqual(again.cached_tokens(), (blocks - 1) * BLOCK_TOKENS)
        self.assertEqual(metric_of(worker, "roost_worker_arrivals_total", source="disk", outcome="complete"), 1)
        self.assertGreaterEqual(metric_of(worker, "roost_worker_arrived_blocks_total", source="disk"), blocks - 1)
        self.assertEqual(metric_of(worker, "roost_worker_arrived_blocks_total", source="peer"), 0)
        self.assertEqual(metric_of(worker, "roost_worker_disk_available"), 1)
        self.assertEqual(metric_of(worker, "roost_worker_mirror_losses_total"), 0)

    def test_before_it_ends_a_worker_writes_what_waits(self):
        worker = self.start("--disk-write-rate", 1000)
        blocks = self.ask().usage()["prompt_tokens"] // BLOCK_TOKENS
        self.assertLess(metric_of(worker, "roost_worker_disk_blocks"), blocks)
        self.assertEqual(worker.stop(), 0)
        self.assertGreaterEqual(self.start().wait_for_log("blocks on disk")["blocks"], blocks)

    def test_without_transfer_and_without_events_it_is_warm_too(self):
        for flags in (["--transfer", "off"], ["--cache-events", "off"]):
            worker = self.start(*flags)
            first = self.ask()
            self.wait_for_blocks(worker, first.usage()["prompt_tokens"] // BLOCK_TOKENS)
            self.kill(worker)
            worker = self.start(*flags)
            again = self.ask()
            self.assertEqual(again.text(), first.text())
            self.assertGreater(metric_of(worker, "roost_worker_arrived_blocks_total", source="disk"), 0)
            self.kill(worker)
            self.prompt = text(PROMPT_WORDS, "another")

    def test_an_eviction_erases_on_disk(self):
        worker = self.start()
        blocks = self.ask().usage()["prompt_tokens"] // BLOCK_TOKENS
        self.wait_for_blocks(worker, blocks)
        answer = self.router.request("POST", "/admin/v1/evict", {"model": "demo-model", "prompt": self.prompt})
        self.assertEqual(answer.status, 200)
        self.assertEqual(metric_of(worker, "roost_worker_disk_blocks"), 0)
        self.kill(worker)
        worker = self.start()
        self.assertEqual(worker.wait_for_log("blocks on disk")["blocks"], 0)
        self.assertEqual(self.ask().cached_tokens(), 0)

    def test_files_are_for_one_user(self):
        worker = self.start()
        self.wait_for_blocks(worker, self.ask().usage()["prompt_tokens"] // BLOCK_TOKENS)
        for path in [self.disk, *self.disk.rglob("*")]:
            self.assertEqual(path.stat().st_mode & 0o777, 0o700 if path.is_dir() else 0o600, path)

    def test_a_folder_that_is_taken_stops_the_start(self):
        self.start()
        code, log = worker_that_fails("--disk-cache", self.disk, "--disk-cache-bytes", 2 * GIB)
        self.assertEqual(code, 78, log)
        self.assertIn(f"disk-cache: {self.disk} is used by another process", log)

    def test_wrong_flags_stop_the_start(self):
        file = pathlib.Path(self.folder.name) / "file"
        file.write_text("x")
        disk = ["--disk-cache", self.disk]
        for flags, code, reason in (
            (disk, 64, "disk-cache-bytes"),
            ([*disk, "--disk-cache-bytes", GIB - 1], 64, "disk-cache-bytes: 1024 MiB are less than"),
            (["--disk-cache-bytes", GIB], 64, "disk-cache: is missing"),
            ([*disk, "--disk-cache-bytes", "8G"], 64, "disk-cache-bytes"),
            ([*disk, "--disk-cache-bytes", GIB, "--disk-write-rate", "fast"], 64, "disk-write-rate"),
            ([*disk, "--disk-cache-bytes", GIB, "--engine", "vllm"], 64, "disk-cache: blocks of another engine"),
            ([*disk, "--disk-cache-bytes", GIB, "--prefix-cache", "off"], 64, "disk-cache: needs --prefix-cache on"),
            ([*disk, "--disk-cache-bytes", 10**15], 78, "disk-cache-bytes: 909 TiB are more than"),
            (["--disk-cache", file, "--disk-cache-bytes", GIB], 78, f"disk-cache: {file} is not a directory"),
            (["--disk-cache", "/proc/nowhere", "--disk-cache-bytes", GIB], 78, "disk-cache: /proc/nowhere can not be made"),
        ):
            with self.subTest(flags=flags):
                got, log = worker_that_fails(*flags)
                self.assertIn(reason, log)
                self.assertEqual(got, code, log)


if __name__ == "__main__":
    side_by_side.main(2)

"""Slots that are saved to disk and found there again, through real daemons: the server as llama_double.py plays it.
llama_cpp_test.py runs SlotDiskSuite before the real one."""

import http.client
import itertools
import json
import pathlib
import tempfile
import unittest

import openai_test
import side_by_side
from cluster import Cluster, wait_until
from slots_test import GRAIN, VOCABULARY, SlotFleets

SAVE_AFTER = 0.2
MIB = 1 << 20


def prompt_of(seed, count=400):
    return [(seed * 401 + i * 7) % VOCABULARY for i in range(count)]


class DiskFleet(SlotFleets):
    """One server with a worker beside it, either of which can be killed and started again."""

    pace = ("--prefill-us", "1000")  # computing takes longer than the files

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def disk_fleet(self, *flags, slot_bytes=256 * MIB, save_after=SAVE_AFTER, save_path=None):
        self.worker_flags = ("--slot-directory", str(self.folder), "--slot-bytes", str(slot_bytes), "--slot-save-after", str(save_after))
        router = self.fleet("--slots", "2", "--context", "16384", *self.no_memory, "--slot-save-path", str(save_path or self.folder), *self.pace, *flags,
                            servers=1, worker_flags=self.worker_flags)
        return router

    def fleet(self, *flags, servers=2, router_flags=(), worker_flags=()):
        self.servers = [self.server(*flags) for _ in range(servers)]
        for server in self.servers:
            self.addCleanup(server.kill)
        self.cluster = self.enterContext(Cluster())
        router = self.cluster.start_router(*router_flags)
        self.workers = [self.beside(self.cluster, "box-0", self.servers[0], *worker_flags)]
        self.await_ready(router)
        return router

    @staticmethod
    def await_ready(router):
        wait_until(lambda: [w["ready"] for w in router.workers()] == [True], "a ready worker")

    def restart_worker(self, router):
        self.workers[0].kill()
        self.workers = [self.beside(self.cluster, "box-0", self.servers[0], *self.worker_flags)]
        self.workers[0].wait_for_log("worker ready")
        self.await_ready(router)

    def restart_server(self, router):
        self.servers[0].kill()
        wait_until(lambda: router.workers()[0]["state"] == "away", "that it is missed")
        self.servers[0].start()
        wait_until(lambda: router.workers()[0]["state"] == "ready", "that it is back")

    def entries(self):
        return sorted(path.stem for path in self.folder.glob("*.entry"))

    def await_entries(self, count):
        wait_until(lambda: len(self.entries()) == count, f"{count} files")

    @staticmethod
    def ask(router, prompt):
        """How many of its tokens were found."""
        answer = router.completion(prompt, max_tokens=2, temperature=0)
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {answer.body}")
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    @staticmethod
    def on_disk(router, prompt):
        """How many of the prompt's blocks routers know on the disk, behind those in a slot."""
        answer = router.request("POST", "/admin/v1/match", {"model": "demo-model", "prompt": prompt}).json()
        return answer["workers"][0]["disk_blocks"] if answer["workers"] else 0


class SlotDiskSuite(DiskFleet):
    def test_what_was_saved_survives_server_and_worker(self):
        router = self.disk_fleet()
        prompt = prompt_of(1)
        self.assertEqual(self.ask(router, prompt), 0)
        self.await_entries(1)
        self.restart_server(router)
        wait_until(lambda: self.on_disk(router, prompt) > 0, "that routers know of it")
        self.assertGreaterEqual(self.ask(router, prompt), len(prompt) - GRAIN)
        self.restart_server(router)
        self.restart_worker(router)
        wait_until(lambda: self.on_disk(router, prompt) > 0, "that routers know of it")
        self.assertGreaterEqual(self.ask(router, [*prompt, *range(300, 340)]), len(prompt) - GRAIN)
        decision = router.decisions(1)[0]
        self.assertLessEqual(decision["predicted"]["cached_tokens"], decision["actual"]["cached_tokens"])

    def test_a_slot_is_saved_before_it_is_overwritten(self):
        router = self.disk_fleet(save_after=600)
        prompts = [prompt_of(seed) for seed in range(5)]
        for prompt in prompts:
            self.ask(router, prompt)
        self.await_entries(3)
        for prompt in prompts:
            self.assertGreaterEqual(self.ask(router, prompt), len(prompt) - GRAIN)

    def test_a_longer_turn_replaces_the_shorter_one(self):
        router = self.disk_fleet()
        prompt = prompt_of(1)
        self.ask(router, prompt)
        self.await_entries(1)
        before = self.entries()
        self.ask(router, [*prompt, *prompt_of(2, 200)])
        wait_until(lambda: len(self.entries()) == 1 and self.entries() != before, "the longer one")
        wait_until(lambda: len(list(self.folder.glob("*.slot"))) == 1, "that the shorter one goes")

    def test_an_eviction_erases_slots_and_files(self):
        router = self.disk_fleet()
        prompts = [prompt_of(seed) for seed in range(3)]
        for prompt in prompts:
            self.ask(router, prompt)
        self.await_entries(3)
        answer = router.request("POST", "/admin/v1/evict", {"model": "demo-model", "prompt": prompts[2][:320]})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(len(list(self.folder.glob("*.slot"))), 2)
        self.assertEqual(len(self.entries()), 2)
        self.assertGreaterEqual(answer.json()["disk_blocks"], len(prompts[2]) // GRAIN)
        self.assertTrue(answer.json()["workers"][0]["answered"], answer.body)
        self.assertEqual(self.ask(router, prompts[2]), 0)
        self.assertGreaterEqual(self.ask(router, prompts[0]), len(prompts[0]) - GRAIN)
        self.await_entries(3)
        answer = router.request("POST", "/admin/v1/evict", {"model": "demo-model", "prompt": prompts[0][:8]})
        self.assertTrue(answer.json()["workers"][0]["answered"], answer.body)
        self.assertEqual(list(self.folder.glob("*.slot")), [])
        for prompt in prompts:
            self.assertEqual(self.ask(router, prompt), 0)

    def test_a_folder_is_one_workers(self):
        """A second one would take the file that the first is saving for what a killed worker left."""
        router = self.disk_fleet()
        self.ask(router, prompt_of(1))
        self.await_entries(1)
        (self.folder / ("ab" * 16 + ".slot")).write_bytes(b"under way")
        flags = ("--engine", "llama.cpp", "--engine-url", f"http://127.0.0.1:{self.servers[0].port}", *self.worker_flags)
        done = openai_test.subprocess.run([openai_test.BIN / "roost-worker", *flags], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn(f"slot-directory: {self.folder} is used by another process", done.stderr)
        self.assertEqual(len(list(self.folder.glob("*.slot"))), 2)
        self.assertEqual(len(self.entries()), 1)

    def test_damaged_files_are_not_used(self):
        """The server itself would die of the first, and answer from the second."""
        router = self.disk_fleet()
        for seed, damage in enumerate((lambda data: data[:len(data) // 2], lambda data: data[:3000] + bytes([data[3000] ^ 1]) + data[3001:])):
            prompt = prompt_of(seed)
            self.ask(router, prompt)
            self.await_entries(1)
            self.restart_server(router)
            file = next(self.folder.glob("*.slot"))
            file.write_bytes(damage(file.read_bytes()))
            self.assertEqual(self.ask(router, prompt), 0)
            self.assertIsNone(self.servers[0].process.poll())
            self.assertEqual(router.workers()[0]["state"], "ready")
            wait_until(lambda: not file.exists() or self.entries() == [file.stem], "that it goes")
            self.restart_server(router)
            for path in self.folder.glob("*.entry"):
                path.write_bytes(b"x" + path.read_bytes()[1:])
            self.restart_worker(router)
            self.assertEqual(list(self.folder.glob("*.slot")), [])

    def test_what_a_killed_worker_leaves_is_cleared_away(self):
        router = self.disk_fleet()
        self.ask(router, prompt_of(1))
        self.await_entries(1)
        (self.folder / ("ab" * 16 + ".slot")).write_bytes(b"torn")
        (self.folder / "mine.slot").write_bytes(b"another program's")
        self.restart_worker(router)
        names = {path.name for path in self.folder.iterdir()}
        self.assertEqual(names, {"lock", "mine.slot", *(f"{self.entries()[0]}{ending}" for ending in (".slot", ".entry"))})


class SlotDiskTest(SlotDiskSuite, unittest.TestCase):
    def moves(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.servers[0].port, timeout=60)
        try:
            connection.request("GET", "/moves")
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def test_files_of_another_model_are_never_restored(self):
        router = self.disk_fleet()
        prompt = prompt_of(1)
        self.ask(router, prompt)
        self.await_entries(1)
        own = self.servers[0].flags
        self.servers[0].flags = (*own, "--model-file", "/models/other.gguf")
        self.restart_server(router)
        wait_until(lambda: self.on_disk(router, prompt) == 0, "that routers know of none")
        self.assertEqual(self.ask(router, prompt), 0)
        self.await_entries(2)
        self.restart_worker(router)
        self.servers[0].flags = own
        self.restart_server(router)
        self.assertGreaterEqual(self.ask(router, prompt), len(prompt) - GRAIN)

    def test_a_server_with_another_kind_of_kv_refuses_them(self):
        router = self.disk_fleet()
        prompt = prompt_of(1)
        self.ask(router, prompt)
        self.await_entries(1)
        self.servers[0].flags = (*self.servers[0].flags, "--kv-type", "q8_0")
        self.restart_server(router)
        self.assertEqual(self.ask(router, prompt), 0)
        self.assertEqual(self.moves(), [])
        self.await_entries(1)

    def test_the_oldest_go_under_the_bound(self):
        router = self.disk_fleet("--slot-token-bytes", "20000", slot_bytes=32 * MIB)
        prompts = [prompt_of(seed) for seed in range(6)]
        for prompt in prompts:
            self.ask(router, prompt)
            wait_until(lambda prompt=prompt: self.moves() and self.on_disk_or_saved(router, prompt), "that it is saved")
        self.await_entries(4)
        used = sum(path.stat().st_size for path in self.folder.glob("*.slot"))
        self.assertLessEqual(used, 32 * MIB)
        self.restart_server(router)
        self.assertEqual(self.ask(router, prompts[0]), 0)
        self.assertGreater(self.ask(router, prompts[5]), 0)

    def on_disk_or_saved(self, router, prompt):
        return router.workers()[0]["disk_blocks"] >= len(prompt) // GRAIN and len([m for m in self.moves() if m[0] == "save"]) == len(self.servers[0].requests())

    def test_where_restoring_is_slower_the_prompt_is_computed(self):
        router = self.disk_fleet("--prefill-us", "500", "--token-ms", "2", "--restore-us", "4000")  # a save costs less than either
        seeds = itertools.count(10)

        def knows_pace():
            router.completion(prompt_of(next(seeds)), max_tokens=20, temperature=0)
            return router.workers()[0]["computed_prefill_seconds_total"] > 0

        wait_until(knows_pace, "that the worker knows the server's pace")
        prompts = [prompt_of(seed) for seed in range(4)]
        for prompt in prompts:
            self.ask(router, prompt)
        wait_until(lambda: len([move for move in self.moves() if move[0] == "save"]) == len(self.servers[0].requests()), "that all are saved")
        self.restart_server(router)
        found = [self.ask(router, [*prompt, *range(300, 500)]) for prompt in prompts]
        self.assertGreater(found[0], 0)  # how slow it is was not known
        self.assertEqual(found[1:], [0, 0, 0])

    def test_a_server_that_dies_while_it_saves(self):
        router = self.disk_fleet("--die-in-saves")
        self.ask(router, prompt_of(1))
        wait_until(lambda: router.workers()[0]["state"] == "away", "that it is missed")
        self.servers[0].flags = tuple(flag for flag in self.servers[0].flags if flag != "--die-in-saves")
        self.servers[0].start()
        wait_until(lambda: router.workers()[0]["state"] == "ready", "that it is back")
        self.assertEqual(self.ask(router, prompt_of(1)), 0)
        self.assertEqual(self.entries(), [])
        self.restart_worker(router)
        self.assertEqual(list(self.folder.glob("*.slot")), [])

    def test_an_eviction_waits_for_the_file_that_is_written(self):
        router = self.disk_fleet("--save-us", "5000")
        self.ask(router, prompt_of(1))
        wait_until(lambda: list(self.folder.glob("*.slot")), "a save")
        self.assertEqual(self.entries(), [])
        answer = router.request("POST", "/admin/v1/evict", {"model": "demo-model", "prompt": prompt_of(1)})
        self.assertTrue(answer.json()["workers"][0]["answered"], answer.body)
        self.assertEqual([move[0] for move in self.moves()], ["save"])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["lock"])
        self.assertEqual(self.ask(router, prompt_of(1)), 0)

    def test_a_folder_that_is_not_the_servers(self):
        with tempfile.TemporaryDirectory() as other:
            router = self.disk_fleet(save_path=other)
            self.ask(router, prompt_of(1))
            self.workers[0].wait_for_log("a slot was not saved: no more are saved for a minute")
            self.assertEqual(self.ask(router, prompt_of(2)), 0)
            self.assertEqual(self.entries(), [])

    def test_flags(self):
        for flags, word in (({"--slot-bytes": "1GB"}, "slot-directory"), ({"--slot-directory": str(self.folder)}, "slot-bytes"),
                            ({"--slot-directory": str(self.folder), "--slot-bytes": "1000"}, "slot-bytes"),
                            ({"--slot-directory": str(self.folder), "--slot-bytes": "1GB", "--engine": "vllm"}, "slot-directory")):
            with self.subTest(flags):
                given = {"--engine": "llama.cpp", "--engine-url": "http://127.0.0.1:9", **flags}
                done = openai_test.subprocess.run([openai_test.BIN / "roost-worker", *[part for pair in given.items() for part in pair]],
                                                  capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    side_by_side.main(2)

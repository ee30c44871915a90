"""Workers that leave and join under load: the fleet's cache outlives them, no request fails, and none stays for longer than it
was allowed to."""

import threading
import time
import types
import unittest

from cluster import Cluster, text, wait_until
from transfers import TransferCase

WORKERS = ("worker-a", "worker-b", "worker-c")
PROMPTS = 24
PROMPT_WORDS = 150  # about 38 blocks: all prompts together fill less than one of the pools of 1,024
LEAST_OF_BEFORE = 0.9
LEAST_OF_THREE_MOVES = 0.8  # each of three restarts moves a third of all; with nothing handed over little is left
NEVER = ("--handover-seconds", "600", "--drain-timeout-seconds", "600")  # longer than any test waits


class Load:
    """Clients that ask again and again, beside the prompts that are measured; their answers are longer."""

    def __init__(self, router):
        self.router = router
        self.failed = []
        self.count = 0
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(2)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        while not self.stopping.is_set():
            self.count += 1
            streamed = {"stream": True, "stream_options": {"include_usage": True}} if self.count % 2 == 0 else {}
            answer = self.router.completion(text(30, f"load {number} {self.count % 4}"), max_tokens=40, ignore_eos=True,
                                            **streamed)
            tokens = answer.usage()["completion_tokens"] if answer.status == 200 else 0
            if tokens != 40 or (answer.events and not answer.done):
                self.failed.append((answer.status, answer.body[-300:]))

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


class HandoverTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.router = self.cluster.start_router()
        self.workers = {name: self.cluster.start_worker(name, *NEVER) for name in WORKERS}
        self.router.wait_for_workers(len(WORKERS))
        self.router.learn_rates()

    def ask_all(self):
        """Asks each prompt once. Returns the share of their tokens that workers found in their caches."""
        cached = prompt = 0
        for number in range(PROMPTS):
            answer = self.router.completion(text(PROMPT_WORDS, f"prompt {number}"), max_tokens=2, temperature=0)
            self.assertEqual(answer.status, 200, answer.body)
            cached += answer.cached_tokens()
            prompt += answer.usage()["prompt_tokens"]
        return cached / prompt

    def stop(self, name):
        self.assertEqual(self.workers.pop(name).stop(), 0, name)
        wait_until(lambda: name not in {each["id"] for each in self.router.workers()}, f"that {name} is gone")

    def start(self, name):
        """Starts it, and waits until it has what the others give it: meanwhile it has less room for those of the next one."""
        joined = self.router.metric("roost_router_handovers_total", kind="join")
        self.workers[name] = self.cluster.start_worker(name, *NEVER)
        self.router.wait_for_workers(len(self.workers))
        wait_until(lambda: self.router.metric("roost_router_handovers_total", kind="join") > joined, "what it gets")

    def expect_kept(self, before, what, least=LEAST_OF_BEFORE):
        after = self.ask_all()
        print(f"figure {what} {after / before:.3f} of before")
        self.assertGreaterEqual(after, least * before, what)

    def test_hits_outlive_a_scale_in_and_a_rolling_restart_under_load(self):
        self.ask_all()
        before = self.ask_all()
        self.assertGreater(before, 0.9)
        load = Load(self.router)
        try:
            self.stop("worker-c")
            self.expect_kept(before, "hits_after_scale_in")
            self.start("worker-c")
            for name in WORKERS:
                self.stop(name)
                self.start(name)
            self.expect_kept(before, "hits_after_rolling_restart", LEAST_OF_THREE_MOVES)
        finally:
            load.stop()
        self.assertEqual(load.failed, [])
        self.assertGreater(load.count, 0)
        self.assertGreaterEqual(self.handed_over("leave"), 3)
        self.assertGreaterEqual(self.handed_over("join"), 3)

    def handed_over(self, kind):
        return sum(self.router.metric("roost_router_handovers_total", kind=kind, outcome=outcome)
                   for outcome in ("complete", "partial"))

    # Each would stay for ten minutes, and the test with it, if it waited for its time.
    def test_a_worker_without_heirs_does_not_stay(self):
        self.ask_all()
        for name in WORKERS:
            self.stop(name)

    def test_a_cordoned_worker_has_handed_over_before_it_is_stopped(self):
        self.ask_all()
        before = self.ask_all()
        answer = self.router.request("POST", "/admin/v1/drain", {"worker": "worker-b", "wait_ms": 60000})
        self.assertTrue(answer.json()["idle"], answer.body)
        wait_until(lambda: self.router.metric("roost_router_handovers_total", kind="leave") == 1, "the handover")
        self.stop("worker-b")
        self.assertEqual(self.router.metric("roost_router_handovers_total", kind="leave"), 1)
        self.expect_kept(before, "hits_after_drain")


class FullHeirTest(unittest.TestCase):
    def test_a_worker_whose_heirs_are_full_does_not_stay(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            worker = cluster.start_worker("worker-a", *NEVER)
            router.wait_for_workers(1)
            for _ in range(2):
                for number in range(4):
                    self.assertEqual(router.completion(text(100, number), max_tokens=2).status, 200)
            cluster.start_worker("worker-b", "--kv-blocks", "80")
            router.wait_for_workers(2)
            self.assertEqual(worker.stop(), 0)
            wait_until(lambda: router.metric("roost_router_handovers_total", kind="leave", outcome="partial") == 1,
                       "that not all was handed over")


class SlowHeirTest(TransferCase):
    def start_source(self):
        self.cluster.router = types.SimpleNamespace(link=f"tcp://127.0.0.1:{self.stand_in.link.port}")
        worker = self.cluster.start_worker("worker-a", "--handover-seconds", "1", "--drain-timeout-seconds", "600")
        self.cluster.router = self.router
        return worker

    def test_a_worker_does_not_wait_for_readers_longer_than_it_may(self):
        held, gone = self.hold_in_mid_pull(lambda piece: piece, frame=1)
        stopped = threading.Thread(target=self.a.stop)
        begin = time.monotonic()
        stopped.start()
        self.assertTrue(held.wait(30), "nothing was handed over")
        stopped.join(60)
        self.assertEqual(self.a.process.returncode, 0)
        # A Hold has a patience of 30 s: it did not end this.
        self.assertLess(time.monotonic() - begin, 25)
        gone.set()


if __name__ == "__main__":
    unittest.main()

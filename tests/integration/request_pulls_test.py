"""Requests fetch their blocks: the router sends a request where it can come soonest, and the blocks that a neighbour holds
come with it. Exact answers, whatever happens to the pull.

ROOST_TRANSFER_ROUNDS (8) is the number of requests whose pulls are spoilt at random, one after the other."""

import json
import random
import re
import threading
import unittest

from cluster import text, wait_until
from transfers import BLOCK_TOKENS, MAX_GROWTH_BYTES, PROMPT_WORDS, ROUNDS, TransferCase, metric_of, resident_bytes

MOST_LESSONS = 5
FAST_MS = 50  # computing takes 200


class RequestPullsTest(TransferCase):
    """worker-a holds the prompt and takes no requests: it is only a source."""

    def setUp(self):
        super().setUp()
        self.router.learn_rates()
        self.teach()
        self.stand_in.reset()
        self.post("cordon", {"worker": "worker-a"})

    def teach(self):
        """Shows the router how fast blocks travel from worker-a; again, if other programs had the cores meanwhile."""
        prompt = self.prompt
        for turn in range(MOST_LESSONS):
            self.prompt = text(PROMPT_WORDS, f"{self.id()} {turn}")
            self.warm("--workers", "worker-a")
            took = re.search(r"pulled from worker-a in (\d+) ms", self.pull())
            self.assertTrue(took)
            if int(took.group(1)) < FAST_MS:
                break
        self.prompt = prompt

    def ask(self):
        answer = self.router.completion(self.prompt, temperature=0, max_tokens=24)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.text(), self.expected.text())
        return answer

    def pulls(self, **labels):
        return self.router.metric("roost_router_pulls_total", **labels)

    def not_arrived(self):
        return metric_of(self.b, "roost_worker_computed_prompt_tokens_total", reason="not_arrived")

    def test_a_request_fetches_what_a_neighbour_holds(self):
        before = self.pulls()
        answer = self.ask()
        self.assertEqual(answer.headers["x-roost-worker"], "worker-b")
        # On a busy machine computing may be quicker. The last block is computed, if its end is the prompt's.
        self.assertGreater(answer.cached_tokens(), 0)
        self.assertGreaterEqual(answer.cached_tokens() + self.not_arrived(), (self.blocks - 1) * BLOCK_TOKENS)
        self.assertEqual(self.pulls() - before, 1)
        self.assertEqual(self.pulls(outcome="complete") - before, 1)
        self.assertGreaterEqual(self.ask().cached_tokens(), (self.blocks - 1) * BLOCK_TOKENS)
        self.assertEqual(self.pulls() - before, 1, "it is held now")
        self.expect_nothing_left(self.a, self.b)

    def test_what_does_not_come_is_computed_and_counted(self):
        self.stand_in.change = lambda piece: None if self.is_half_sent() else piece
        before = self.pulls()
        answer = self.ask()
        wait_until(lambda: self.pulls() == before + 1, "that the pull has ended")
        self.assertGreater(self.not_arrived(), 0)
        self.assertLess(answer.cached_tokens() + self.not_arrived(), (self.blocks + 1) * BLOCK_TOKENS)
        self.assertGreaterEqual(answer.cached_tokens() + self.not_arrived(), (self.blocks - 1) * BLOCK_TOKENS)
        self.expect_nothing_left(self.a, self.b)

    def test_a_request_whose_source_stops_does_not_wait_for_it(self):
        held, gone = self.hold_in_mid_pull(lambda piece: b"", frame=0)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(self.ask()))
        asking.start()
        self.assertTrue(held.wait(60))
        asking.join(60)
        gone.set()
        self.assertEqual(len(answers), 1)
        self.expect_nothing_left(self.b)

    def test_a_source_that_answers_one_client_slowly_costs_others_no_blocks(self):
        """The same source computes for another client in time, and a third worker's blocks come meanwhile."""
        asked, other_at_a, other_at_c = self.prompt, text(PROMPT_WORDS, "other at a"), text(PROMPT_WORDS, "other at c")
        self.post("uncordon", {"worker": "worker-a"})
        self.prompt = other_at_a
        self.warm("--workers", "worker-a")
        self.post("cordon", {"worker": "worker-a"})
        c = self.cluster.start_worker("worker-c")
        self.router.wait_for_workers(3)
        self.prompt = other_at_c
        self.warm("--workers", "worker-c")
        self.post("cordon", {"worker": "worker-c"})
        self.prompt = asked
        self.stand_in.reset()
        held, gone = self.hold_in_mid_pull(lambda piece: piece, frame=0)
        asking = threading.Thread(target=self.ask)
        asking.start()
        self.assertTrue(held.wait(60))
        others = [self.router.completion(prompt, temperature=0, max_tokens=24) for prompt in (other_at_c, other_at_a)]
        self.assertEqual([other.status for other in others], [200, 200])
        self.assertGreater(others[0].cached_tokens(), 0)
        asking.join(60)
        gone.set()
        self.expect_nothing_left(self.a, self.b, c)

    def test_a_client_that_goes_ends_its_pull(self):
        held, gone = self.hold_in_mid_pull(lambda piece: b"", frame=0)
        connection = self.router.connect(self.router.url)
        self.addCleanup(connection.close)
        body = {"model": "demo-model", "prompt": self.prompt, "max_tokens": 24, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        self.assertTrue(held.wait(60))
        connection.close()
        self.expect_nothing_left(self.b)
        gone.set()
        self.expect_nothing_left(self.a, self.b)

    def restore(self):
        if self.a.process.poll() is None:
            self.post("uncordon", {"worker": "worker-a"})
        super().restore()
        self.post("cordon", {"worker": "worker-a"})

    def kill_consumer(self):
        """Its request goes on at worker-a."""
        self.post("uncordon", {"worker": "worker-a"})
        super().kill_consumer()

    def test_requests_whose_pulls_are_spoilt_at_random_lose_no_token(self):
        draw = random.Random(f"{self.id()} {ROUNDS}")
        before = {}
        kinds = {}
        pulled = 0
        for _ in self.rounds(kinds):
            self.restore()
            for worker in (self.a, self.b):
                before.setdefault(worker, resident_bytes(worker))
            count = self.pulls()
            kind = self.spoil(draw)
            self.ask()
            self.stand_in.reset()
            if self.pulls() > count or kind == "kill the worker":
                kinds[kind] = kinds.get(kind, 0) + 1
                pulled += 1
            # Routers and workers leave a pair alone that has failed; the next pull is to be spoilt too.
            if kind in ("alter", "cut", "kill the source"):
                self.b.kill()
            if self.killed is not None:
                self.killed.process.wait(60)
        self.restore()
        self.expect_nothing_left(self.a, self.b)
        print(f"{ROUNDS} requests, {pulled} pulls: {kinds}")
        self.assertGreater(pulled, ROUNDS / 2)  # on a busy machine computing may be cheaper
        for worker in (self.a, self.b):
            growth = resident_bytes(worker) - before.get(worker, resident_bytes(worker))
            print(f"{growth / 2**20:.1f} MiB more after them")
            self.assertLess(growth, MAX_GROWTH_BYTES)


if __name__ == "__main__":
    unittest.main()

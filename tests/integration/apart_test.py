"""Prompts are computed at one worker while their answers go on at another: the same bits as at one worker, whoever dies.

ROOST_APART_ROUNDS (2) is the number of workers that are killed in each of the two ways, one after the other."""

import contextlib
import http.client
import itertools
import json
import os
import threading
import unittest

from cluster import Cluster, text, wait_until

ROUNDS = int(os.environ.get("ROOST_APART_ROUNDS", "2"))
APART = 12  # prompts that go apart before their answers are compared
MOST_TRIES = 20 * max(APART, ROUNDS)
STREAMS = 8
PROMPT_WORDS = 300  # about 75 blocks
KINDS = (
    {"temperature": 0},
    {"temperature": 1, "seed": 7},
    {"temperature": 0.9, "seed": 8, "frequency_penalty": 0.7, "presence_penalty": 0.3, "logit_bias": {"300": 4}},
    {"temperature": 0, "logprobs": 3},
    {"temperature": 1, "seed": 9, "response_format": {"type": "json_object"}},
    {"temperature": 0, "stop": ["e"]},
)


def body_of(number):
    """Half of them share their first half."""
    front = text(PROMPT_WORDS // 2, f"family {number % 3}" if number % 2 else f"own {number}")
    return {"model": "demo-model", "prompt": f"{front} {text(PROMPT_WORDS // 2, f'rest {number}')}", "max_tokens": 100,
            **KINDS[number % len(KINDS)]}


class ApartTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A worker that does both says what is right."""
        alone = Cluster()
        cls.addClassCleanup(alone.__exit__)
        cls.alone = alone.start_router()
        alone.start_worker("both")
        cls.alone.wait_for_workers(1)

    def expected(self, number):
        return self.alone.request("POST", "/v1/completions", body_of(number)).json()["choices"]

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.router = self.cluster.start_router()
        self.workers = {}
        for name in ("prefill-0", "decode-0", "decode-1"):
            self.start(name)
        self.router.wait_for_workers(3)
        self.router.learn_rates()
        self.numbers = itertools.count()
        self.stopping = threading.Event()
        streams = [threading.Thread(target=self.answer_on_and_on, args=(i,)) for i in range(STREAMS)]
        for stream in streams:
            stream.start()
        self.addCleanup(lambda: [stream.join() for stream in streams])
        self.addCleanup(self.stopping.set)
        wait_until(lambda: sum(w["running_requests"] for w in self.router.workers()) >= STREAMS // 2, "answers that run")

    def start(self, name):
        self.workers[name] = self.cluster.start_worker(name, "--role", name.split("-")[0])

    def answer_on_and_on(self, number):
        """So that prompts cost more beside the answers."""
        body = {"model": "demo-model", "prompt": text(8, f"stream {number}"), "max_tokens": 1500, "ignore_eos": True, "stream": True}
        while not self.stopping.is_set():
            with contextlib.closing(http.client.HTTPConnection(self.router.address, timeout=60)) as connection:
                connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                while not self.stopping.is_set() and response.readline():
                    pass

    def ask(self, number):
        headers = {"x-request-id": f"{self.id()}-{number}"}
        answer = self.router.request("POST", "/v1/completions", body_of(number), headers)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def decisions_of(self, number):
        """The first one first."""
        path = f"/admin/v1/decisions?request_id={self.id()}-{number}"
        answer = self.router.request("GET", path)
        return answer.json()["decisions"] if answer.status == 200 else []

    def went_apart(self, number):
        return any(decision["reason"] == "apart" for decision in self.decisions_of(number))

    def test_answers_are_those_of_one_worker(self):
        apart = []
        for number in itertools.islice(self.numbers, MOST_TRIES):
            answer = self.ask(number)
            self.assertEqual(answer["choices"], self.expected(number), f"{KINDS[number % len(KINDS)]}")
            if self.went_apart(number):
                apart.append(number)
                decisions = self.decisions_of(number)
                self.assertEqual(decisions[0]["worker"], "prefill-0")
                self.assertIn(decisions[-1]["worker"], ("decode-0", "decode-1"))
                self.assertEqual([decision["retries"] for decision in decisions], [0] * len(decisions))
            if len(apart) == APART:
                break
        self.assertEqual(len(apart), APART, "so few prompts went apart")
        self.assertEqual({decision["worker"] for decision in self.router.decisions(500) if decision["reason"] != "apart"},
                         {"decode-0", "decode-1"}, "a worker for prompts gets no answers")
        self.assertEqual(self.router.metric("roost_router_retries_total"), 0)

    def kill_in_the_middle(self, victim_of):
        """Asks until a request's worker, as `victim_of` names it, was killed, ROUNDS times."""
        killed = 0
        for number in itertools.islice(self.numbers, MOST_TRIES):
            answers = []
            asking = threading.Thread(target=lambda: answers.append(self.ask(number)))  # noqa: B023
            asking.start()
            victim = None
            while asking.is_alive() and victim is None:
                victim = victim_of(self.decisions_of(number))
            if victim is not None:
                self.workers[victim].kill()
            asking.join()
            self.assertEqual(len(answers), 1, f"the request failed after {victim} was killed")
            self.assertEqual(answers[0]["choices"], self.expected(number), f"{KINDS[number % len(KINDS)]}")
            if victim is not None:
                killed += 1
                wait_until(lambda: victim not in {w["id"] for w in self.router.workers()}, f"the loss of {victim}")  # noqa: B023
                self.start(victim)
                self.router.wait_for_workers(3)
            if killed == ROUNDS:
                break
        self.assertEqual(killed, ROUNDS, "so few requests went apart")

    def test_a_worker_for_prompts_that_dies_costs_no_token(self):
        self.kill_in_the_middle(lambda decisions: "prefill-0" if decisions and decisions[0]["reason"] == "apart" else None)

    def test_a_worker_for_answers_that_dies_costs_no_token(self):
        self.kill_in_the_middle(lambda decisions: decisions[-1]["worker"] if len(decisions) > 1 else None)


if __name__ == "__main__":
    unittest.main()

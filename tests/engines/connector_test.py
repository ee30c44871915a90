"""Prompts are computed by one engine while their answers come from another, to which the engines' own connectors bring
the blocks: through the real daemons, beside doubles of vLLM."""

import concurrent.futures
import contextlib
import itertools
import json
import random
import threading
import unittest

from adapter_suite import Fleet, wait_until
from adapter_test import DoubleEngine
import side_by_side

STREAMS = 16
PROMPT_TOKENS = 1500
MOST_TRIES = 100
FLAGS = ("--kv-connector", "--token-ms", "10", "--prefill-us", "200", "--paced", "--blocks", "1000")


class ConnectorTest(unittest.TestCase):
    engine_kind = "vllm"

    def setUp(self):
        self.alone = self.start_engine()
        self.engines = {name: self.start_engine() for name in ("prefill-0", "decode-0", "decode-1")}
        self.fleet = Fleet(self, [])
        self.addCleanup(self.fleet.cluster.__exit__)
        self.router = self.fleet.router
        for name, engine in self.engines.items():
            self.fleet.add(name, engine, "--role", name.split("-")[0], "--engine-timeout-seconds", "2")
        self.router.wait_for_workers(3)
        self.draw = random.Random(50)
        self.numbers = itertools.count()
        self.router.learn_rates()
        self.stopping = threading.Event()
        streams = [threading.Thread(target=self.answer_on_and_on, args=(i,)) for i in range(STREAMS)]
        for stream in streams:
            stream.start()
        self.addCleanup(lambda: [stream.join() for stream in streams])
        self.addCleanup(self.stopping.set)
        wait_until(lambda: sum(w["running_requests"] for w in self.router.workers()) >= STREAMS // 2, "answers that run")

    def start_engine(self):
        engine = DoubleEngine(*FLAGS)
        self.addCleanup(engine.kill)
        return engine

    def answer_on_and_on(self, number):
        """So that prompts cost more beside the answers."""
        while not self.stopping.is_set():
            with contextlib.suppress(AssertionError, OSError), self.fleet.stream(
                    [number] * 20, max_tokens=500, ignore_eos=True) as tokens:
                for _ in tokens:
                    if self.stopping.is_set():
                        break

    def ask(self, prompt, number, **fields):
        body = {"model": "demo-model", "prompt": prompt, "temperature": 0, "max_tokens": 30, "min_tokens": 10,
                "return_token_ids": True, **fields}
        answer = self.router.request("POST", "/v1/completions", body, {"x-request-id": f"{self.id()}-{number}"})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def decisions_of(self, number):
        answer = self.router.request("GET", f"/admin/v1/decisions?request_id={self.id()}-{number}")
        return answer.json()["decisions"] if answer.status == 200 else []

    def prompt(self):
        return [self.draw.randrange(1900) for _ in range(PROMPT_TOKENS)]

    def transfers(self, name):
        return json.loads(self.engines[name].request("GET", "/transfers"))

    def ask_until_apart(self, count, during=lambda number: None, **fields):
        """Asks until so many prompts went apart. `during` is called while each is on its way."""
        apart = 0
        for number in itertools.islice(self.numbers, MOST_TRIES):
            prompt = self.prompt()
            with concurrent.futures.ThreadPoolExecutor(1) as client:
                asked = client.submit(self.ask, prompt, number, **fields)
                if during is not None:
                    during(number)
                answer = asked.result()
            choice = answer["choices"][0]
            self.assertEqual(choice["token_ids"], self.alone.tokens(prompt, 30))
            self.assertEqual(answer["usage"]["completion_tokens"], 30)
            apart += any(decision["reason"] == "apart" for decision in self.decisions_of(number))
            if apart == count:
                return
        self.fail(f"{apart} prompts went apart; of the last one: {self.decisions_of(number)}")

    def test_answers_are_those_of_one_engine(self):
        self.ask_until_apart(10)
        fetched = sum(self.transfers(name)["fetched"] for name in ("decode-0", "decode-1"))
        self.assertGreaterEqual(fetched, 9, "connectors brought the blocks")
        self.assertEqual(self.transfers("prefill-0")["fetched"], 0)
        self.assertEqual(self.router.metric("roost_router_retries_total"), 0)
        self.assertEqual({decision["worker"] for decision in self.router.decisions(500) if decision["reason"] != "apart"},
                         {"decode-0", "decode-1"}, "an engine for prompts gets no answers")
        modes = {worker["id"]: worker["mode"] for worker in self.router.workers()}
        self.assertEqual(set(modes.values()), {"exact"}, "what a connector brings makes no view less exact")

    def test_an_engine_of_prompts_that_dies_costs_no_token(self):
        """Before it has answered, and while the other engine fetches."""
        killed = []

        def kill(number):
            wait_until(lambda: self.decisions_of(number), "a decision")
            if self.decisions_of(number)[0]["reason"] == "apart":
                killed.append(number)
                self.engines["prefill-0"].kill()

        self.ask_until_apart(1, kill)
        self.assertEqual(len(killed), 1)
        self.engines["prefill-0"].start()
        wait_until(lambda: self.fleet.worker("prefill-0")["state"] == "ready", "the engine's return")
        self.ask_until_apart(2)

    def test_blocks_that_never_come_are_computed(self):
        """The engine of the prompt names blocks that it has let go: the one of the answer would wait for ever."""
        self.engines["prefill-0"].request("POST", "/stop_lending")
        self.ask_until_apart(2)
        self.assertEqual(sum(self.transfers(name)["fetched"] for name in ("decode-0", "decode-1")), 0)
        self.assertGreaterEqual(self.router.metric("roost_router_retries_total"), 2)


if __name__ == "__main__":
    side_by_side.main(2)

"""Prompts at one real vLLM and answers at another, run by vllm.sh --connector with vLLM's own Python: with NixlConnector, whose
answers say where blocks are, and with ExampleConnector (a shared folder), whose answers do not."""

import contextlib
import json
import pathlib
import random
import tempfile
import threading
import unittest

import adapter_suite
from adapter_suite import DEMO_MODEL, wait_until
from vllm_engine import free_port
from vllm_test import RealEngine

BLOCKS = 600
STREAMS = 24
PROMPT_TOKENS = 1800
APART = 10
MOST_TRIES = 200


class NixlTest(unittest.TestCase):
    engine_kind = "vllm"
    connector = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"}

    def start_engine(self, folder, name):
        flags = ("--num-gpu-blocks-override", str(BLOCKS))
        if name != "alone":
            flags += ("--kv-transfer-config", json.dumps(self.connector))
        settings = {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()), "UCX_TLS": "tcp,self"}
        engine = RealEngine(DEMO_MODEL, folder / f"{name}.log", flags, settings)
        self.addCleanup(engine.stop)
        return engine

    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.connector = {**self.connector, "kv_connector_extra_config": {"shared_storage_path": str(folder / "blocks")}}
        self.alone = self.start_engine(folder, "alone")
        self.engines = {name: self.start_engine(folder, name) for name in ("prefill-0", "decode-0")}
        self.fleet = adapter_suite.Fleet(self, [])
        self.addCleanup(self.fleet.cluster.__exit__)
        self.router = self.fleet.router
        for name, engine in self.engines.items():
            self.fleet.add(name, engine, "--role", name.split("-")[0])
        self.router.wait_for_workers(2)
        self.router.learn_rates()
        self.stopping = threading.Event()
        streams = [threading.Thread(target=self.answer_on_and_on, args=(i,)) for i in range(STREAMS)]
        for stream in streams:
            stream.start()
        self.addCleanup(lambda: [stream.join() for stream in streams])
        self.addCleanup(self.stopping.set)
        wait_until(lambda: self.fleet.worker("decode-0")["running_requests"] >= STREAMS // 2, "answers that run")

    def answer_on_and_on(self, number):
        while not self.stopping.is_set():
            with contextlib.suppress(AssertionError, OSError), self.fleet.stream(
                    [number] * 20, max_tokens=1500, ignore_eos=True) as tokens:
                for _ in tokens:
                    if self.stopping.is_set():
                        break

    def test_answers_are_those_of_one_engine(self):
        draw = random.Random(51)
        apart = []
        for number in range(MOST_TRIES):
            prompt = [draw.randrange(1900) for _ in range(PROMPT_TOKENS)]
            body = {"model": "demo-model", "prompt": prompt, "temperature": 0, "max_tokens": 8, "return_token_ids": True}
            answer = self.router.request("POST", "/v1/completions", body, {"x-request-id": f"apart-{number}"})
            self.assertEqual(answer.status, 200, answer.body)
            tokens = answer.json()["choices"][0]["token_ids"]
            decisions = self.router.request("GET", f"/admin/v1/decisions?request_id=apart-{number}").json()["decisions"]
            if any(decision["reason"] == "apart" for decision in decisions):
                apart.append((tokens, self.alone.tokens(prompt, 8)))
            if len(apart) == APART:
                break
        brought = self.fleet.worker("decode-0")["tier_cached_tokens_total"]
        equal = sum(got == expected for got, expected in apart)
        print(f"{len(apart)} of {number + 1} prompts went apart, {equal} answers equal; "
              f"{brought} of {len(apart) * PROMPT_TOKENS} prompt tokens came by the connector")
        self.assertEqual(len(apart), APART)
        self.assertGreaterEqual(equal, APART - 1, "an engine may round otherwise beside others")
        self.assertGreater(brought, 0.8 * APART * PROMPT_TOKENS)


class ExampleTest(NixlTest):
    connector = {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}


if __name__ == "__main__":
    unittest.main()

"""Workers beside real vLLM with other layouts of its cache, other kinds of models and other names, run by
`vllm.sh --layouts` with vLLM's own Python: each engine starts and serves as README says, and finds what the router promised.

    vllm_layouts_test.py LayoutsTest.test_recurrent_layers    one of them
"""

import contextlib
import json
import os
import random
import sys
import tempfile
import unittest

import layout_models
import vllm_engine
from adapter_suite import DEMO_MODEL, Cluster, wait_until

SESSIONS = 24
TURNS = 40
MAX_MODEL_TOKENS = 2048


class LayoutsTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    @contextlib.contextmanager
    def router_before(self, model, *flags):
        """A router, and a worker beside an engine with these flags; the engine comes with it."""
        log = os.environ.get("ROOST_VLLM_LOG", self.folder) + f"/{self.id().rsplit('.', 1)[1]}.log"
        with vllm_engine.engine(model, flags=flags, log=log) as vllm, Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("beside", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{vllm.port}",
                                 "--engine-events", vllm.events, "--engine-replay", vllm.replay, model=model)
            router.wait_for_workers(1)
            yield router, vllm

    def assert_promises_are_the_hits(self, router, name, block_tokens):
        """Sessions that grow turn by turn, more of them than the cache holds: what the router said of each prompt is what the
        engine then found."""
        draw = random.Random(50)
        system = [draw.randrange(1900) for _ in range(2 * block_tokens + 40)]
        sessions = [list(system) for _ in range(SESSIONS)]
        for _ in range(TURNS):
            for session in draw.sample(sessions, len(sessions)):
                session += [draw.randrange(1900) for _ in range(draw.randrange(20, 120))]
                if len(session) > MAX_MODEL_TOKENS - 10:
                    del session[len(system):]
                answer = router.completion([*session, 1], model=name, max_tokens=2, temperature=0)
                self.assertEqual(answer.status, 200, answer.body)
        decisions = router.decisions(SESSIONS * TURNS)
        outcomes = [(d["predicted"]["cached_tokens"], d["actual"]["cached_tokens"]) for d in decisions]
        wrong = [(i, said, found) for i, (said, found) in enumerate(outcomes) if said != found]
        over = sum(said > found for said, found in outcomes)
        hits = sum(found > 0 for _, found in outcomes)
        print(f"{self.id()}: {len(outcomes)} prompts, {hits} with a hit, {len(wrong)} promises are not the hit, {over} too long: "
              f"{wrong[:10]}", flush=True)
        self.assertEqual(len(outcomes), SESSIONS * TURNS)
        self.assertGreater(hits, SESSIONS)
        self.assertLessEqual(len(wrong), 0.005 * len(outcomes))
        self.assertLessEqual(over, 0.001 * len(outcomes))
        self.assertEqual([worker["mode"] for worker in router.workers()], ["exact"])

    def layout(self, name, block_tokens, *flags):
        model = layout_models.write(self.folder, name)
        with self.router_before(model, "--load-format", "dummy", *flags) as (router, _):
            self.assert_promises_are_the_hits(router, name, block_tokens)

    def test_recurrent_layers(self):
        self.layout("qwen3_5", 128)

    def test_windows(self):
        self.layout("gemma3", 32, "--block-size", "32")

    def test_blocks_of_512_tokens(self):
        flags = ("--block-size", "512", "--num-gpu-blocks-override", "40")
        with self.router_before(DEMO_MODEL, *flags) as (router, _):
            self.assert_promises_are_the_hits(router, "demo-model", 512)

    def test_three_served_names(self):
        # The last --served-model-name counts, with all its names.
        flags = ("--served-model-name", "house-model", "gpt-4o", "claude")
        with self.router_before(DEMO_MODEL, *flags) as (router, _):
            models = [model["id"] for model in router.request("GET", "/v1/models").json()["data"]]
            self.assertEqual(models[0], "house-model")
            self.assertEqual(set(models), {"house-model", "gpt-4o", "claude"})
            for name in models:
                body = {"model": name, "messages": [{"role": "user", "content": "A nest."}], "max_tokens": 4}
                answer = router.request("POST", "/v1/chat/completions", body)
                self.assertEqual(answer.status, 200, answer.body)
                self.assertEqual(answer.json()["model"], name)

    def test_an_engine_that_embeds(self):
        flags = ("--runner", "pooling", "--convert", "embed")
        with self.router_before(DEMO_MODEL, *flags) as (router, vllm):
            body = {"model": "demo-model", "input": ["A nest.", "A wall of stone."]}
            through = router.request("POST", "/v1/embeddings", body)
            self.assertEqual(through.status, 200, through.body)
            status, direct = vllm.call("POST", "/v1/embeddings", body)
            self.assertEqual(status, 200, direct)
            self.assertEqual([item["embedding"] for item in through.json()["data"]],
                             [item["embedding"] for item in json.loads(direct)["data"]])
            for path, fields in (("/pooling", {"input": "A nest."}),
                                 ("/score", {"text_1": "A nest.", "text_2": ["A wall.", "A tree."]}),
                                 ("/rerank", {"query": "A nest.", "documents": ["A wall.", "A tree."]})):
                answer = router.request("POST", path, {"model": "demo-model", **fields})
                self.assertEqual(answer.status, 200, f"{path}: {answer.body}")
            refused = router.request("POST", "/v1/chat/completions",
                                     {"model": "demo-model", "messages": [{"role": "user", "content": "A nest."}]})
            self.assertGreaterEqual(refused.status, 400, refused.body)
            vllm.kill()
            wait_until(lambda: router.workers()[0]["state"] == "away", "that the engine is seen to be away")


if __name__ == "__main__":
    sys.exit(unittest.main())

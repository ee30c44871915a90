"""Workers beside real vLLM, run by vllm.sh with vLLM's own Python: the suite that doubles pass in CI (adapter_suite.py).

    vllm_test.py                   with the demo model
    vllm_test.py QwenShapeTest     with random weights of Qwen3-0.6B's shape
"""

import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import unittest

import adapter_suite
import lora_adapter
import vllm_engine
from adapter_suite import BLOCK_TOKENS, DEMO_MODEL

BLOCKS = 121  # one is vLLM's own


class RealEngine:
    """An engine that can be killed and started again at the same addresses."""

    def __init__(self, model, log, flags, settings=None, ranks=1):
        self.model = model
        self.settings = settings
        self.log = log
        self.flags = ("--block-size", str(BLOCK_TOKENS), "--served-model-name", "demo-model", *flags)
        # Each rank publishes at a port of its own.
        self.port, events_port, replay_port = (vllm_engine.free_ports(count) for count in (1, ranks, ranks))
        self.ports = {"port": self.port, "events_port": events_port, "replay_port": replay_port}
        self.events = f"tcp://127.0.0.1:{events_port}"
        self.replay = f"tcp://127.0.0.1:{replay_port}"
        self.start()

    def start(self):
        self.context = vllm_engine.engine(self.model, flags=self.flags, settings=self.settings, log=self.log, **self.ports)
        self.vllm = self.context.__enter__()

    def stop(self):
        self.go_on()
        self.context.__exit__(None, None, None)

    def kill(self):
        self.vllm.kill()

    def signal(self, number):
        try:
            os.killpg(self.vllm.process.pid, number)
        except ProcessLookupError:
            pass

    def hang(self):
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def running(self):
        return self.vllm.metric("vllm:num_requests_running")

    def tokens(self, prompt, count, model="demo-model"):
        body = {"model": model, "prompt": prompt, "max_tokens": count, "temperature": 0, "return_token_ids": True}
        status, answer = self.vllm.call("POST", "/v1/completions", body)
        if status != 200:
            raise AssertionError(f"{status} {answer}")
        return json.loads(answer)["choices"][0]["token_ids"]


class RealSuite(adapter_suite.AdapterSuite):
    model = DEMO_MODEL
    flags = ("--num-gpu-blocks-override", str(BLOCKS))
    silence_seconds = "4"
    kill_pause_seconds = 0.5  # an engine that starts beside a busy one takes minutes on two cores

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.engines = []
        cls.addClassCleanup(cls.folder.cleanup)
        for i in range(2):
            log = os.environ.get("ROOST_VLLM_LOG", cls.folder.name) + f"/{cls.__name__}-{i}.log"
            # Each engine computes on a core of its own; by itself, both would take the first.
            cls.engines.append(RealEngine(cls.model, log, cls.flags, {"VLLM_CPU_OMP_THREADS_BIND": str(i)}))
            cls.addClassCleanup(cls.engines[-1].stop)

    def restart(self, engine):
        engine.start()

    def adapter_engine(self):
        """An engine with the adapters poet and clerk."""
        folders = {name: lora_adapter.write(self.model, pathlib.Path(self.folder.name) / name, seed)
                   for seed, name in enumerate(("poet", "clerk"))}
        modules = [f"{name}={folder}" for name, folder in folders.items()]
        log = os.environ.get("ROOST_VLLM_LOG", self.folder.name) + f"/{type(self).__name__}-adapters.log"
        engine = RealEngine(self.model, log, (*self.flags, "--enable-lora", "--max-lora-rank",
                                              str(lora_adapter.RANK), "--lora-modules", *modules))
        self.addCleanup(engine.stop)
        return engine

    def fleet(self, *engines, router_flags=(), worker_flags=()):
        return super().fleet(*engines, router_flags=router_flags,
                             worker_flags=("--engine-timeout-seconds", self.silence_seconds, *worker_flags))


class DemoModelTest(RealSuite, unittest.TestCase):
    equal_prompts = 30
    mixed_requests = 500
    predicted_requests = 200
    long_tokens = 400


class RanksTest(unittest.TestCase):
    engine_kind = "vllm"

    def test_each_of_two_data_parallel_ranks_finds_what_the_router_says(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        log = os.environ.get("ROOST_VLLM_LOG", folder) + "/ranks.log"
        engine = RealEngine(DEMO_MODEL, log, ("--num-gpu-blocks-override", str(BLOCKS), "--data-parallel-size", "2"), ranks=2)
        self.addCleanup(engine.stop)
        draw = random.Random(40)
        sessions = [[draw.randrange(1900) for _ in range(10 * BLOCK_TOKENS)] for _ in range(8)]
        fleet = adapter_suite.Fleet(self, [engine], worker_flags=("--engine-timeout-seconds", "60"))
        with fleet.cluster:
            fleet.router.wait_for_workers(2)
            self.assertEqual({w["blocks"] for w in fleet.router.workers()}, {(BLOCKS - 1) * BLOCK_TOKENS // 16})
            for _ in range(3):
                for session in draw.sample(sessions, len(sessions)):
                    session += [draw.randrange(1900) for _ in range(2 * BLOCK_TOKENS)]
                    fleet.complete([*session, 1], max_tokens=2)
            decisions = fleet.router.decisions(24)
            self.assertEqual({decision["worker"] for decision in decisions}, {"beside-0/0", "beside-0/1"})
            outcomes = [(d["predicted"]["cached_tokens"], d["actual"]["cached_tokens"]) for d in decisions]
            self.assertTrue(all(said == found for said, found in outcomes), outcomes)
            self.assertGreaterEqual(sum(found > 0 for _, found in outcomes), 16, outcomes)


def qwen_shape(folder):
    """A model folder of Qwen3-0.6B's shape with random weights, and the demo model's tokenizer."""
    sys.path.insert(0, str(vllm_engine.ROOT / "tests/bench"))
    import model_shapes
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(**model_shapes.QWEN3_0_6B)
    config.eos_token_id = json.loads((DEMO_MODEL / "config.json").read_text())["eos_token_id"]
    transformers.AutoModelForCausalLM.from_config(config, torch_dtype=torch.bfloat16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (DEMO_MODEL / name).exists():
            shutil.copy(DEMO_MODEL / name, folder)
    return pathlib.Path(folder)


class QwenShapeTest(RealSuite, unittest.TestCase):
    """On a CPU a token of it takes some 60 ms and a full step some 10 s, so there are fewer requests and more patience. Most
    of its tokens have no text in the demo model's tokenizer."""

    tokens_have_texts = False

    equal_prompts = 6
    mixed_requests = 60
    predicted_requests = 40
    long_tokens = 60
    silence_seconds = "60"

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = qwen_shape(folder.name)
        super().setUpClass()


if __name__ == "__main__":
    unittest.main()

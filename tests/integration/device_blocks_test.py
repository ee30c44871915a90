"""Blocks of real workers on the device's way, without a device: the CUDA backend behind the SIMT shim, on devices that compute
as late as they may (tests/support/simt/backend_module.cc). They are pulled, copied, handed over, go apart, stay on disk, are
erased and come from a CPU worker; and nothing is left over. The shim is slow, so prompts and answers are short."""

import pathlib
import tempfile
import threading
import time
import unittest

from cluster import BIN, Cluster, text, wait_until
from transfers import metric_of

MODULE = BIN / "libroost_simt_module.so"
BLOCK_TOKENS = 16
PROMPT_WORDS = 24  # about 6 blocks
# bf16 rounds another token to be the likeliest now and then, and the text goes on from there.
PROMPTS = ("Who comes here?", "ROMEO:", "The king", "My lord,", "What news", "Good night")
LEAST_EQUAL_TEXTS = 5
# So far apart are the logarithms of two tokens' probabilities at most where rounding chooses between them.
MOST_ROUNDED = 0.1
SMALL = ("--kv-blocks", "64", "--max-context-tokens", "512", "--max-batch-tokens", "64", "--max-running-requests", "4",
         "--transfer-memory", "4MiB")


class DeviceCase(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.router = self.cluster.start_router()
        self.workers = {}
        self.prompt = text(PROMPT_WORDS, self.id())

    def start(self, name, *flags, ranks=1):
        worker = self.cluster.start_worker(name, "--backend", "cuda", "--cuda-module", MODULE, *SMALL, "--tensor-parallel", str(ranks),
                                           *map(str, flags))
        self.workers[name] = worker
        return worker

    def start_on_cpu(self, name, *flags):
        self.workers[name] = self.cluster.start_worker(name, "--backend", "cpu", "--compute-dtype", "bf16", *SMALL, *flags)
        return self.workers[name]

    def ask(self, prompt=None, **fields):
        fields = {"max_tokens": 8, "temperature": 0, "ignore_eos": True, **fields}
        answer = self.router.completion(prompt or self.prompt, **fields)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def post(self, verb, **body):
        answer = self.router.request("POST", f"/admin/v1/{verb}", body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def at(self, worker, prompt=None):
        """The answer of one worker: the others are out of service."""
        others = {each["id"] for each in self.router.workers()} - {worker}
        for other in others:
            self.post("cordon", worker=other)
        answer = self.ask(prompt)
        for other in others:
            self.post("uncordon", worker=other)
        self.assertEqual(answer.headers["x-roost-worker"], worker)
        return answer

    def warm(self, worker, source=None):
        body = {"model": "demo-model", "prompt": self.prompt, "workers": [worker], **({"from": source} if source else {})}
        [told] = self.post("warm", **body)["workers"]
        self.assertTrue(told["answered"], told)
        return told

    def expect_equal_but_for_rounding(self, one, other):
        """Two answers with logprobs, computed beside different others: they may part where two tokens are about equally likely."""
        tokens, likeliest = ([each.json()["choices"][0]["logprobs"][field] for each in (one, other)] for field in ("tokens", "top_logprobs"))
        parted = next((i for i, (ours, theirs) in enumerate(zip(*tokens)) if ours != theirs), None)
        if parted is None:
            return
        for each in likeliest:
            first, second = (each[parted].get(told[parted], -100) for told in tokens)
            self.assertLess(abs(first - second), MOST_ROUNDED, (tokens, each[parted]))

    def arrived(self, worker, source="peer"):
        return metric_of(self.workers[worker], "roost_worker_arrived_blocks_total", source=source)

    def expect_clean_ends(self):
        """Nothing is left on its way or in use, and SIGTERM ends each worker."""
        for name, worker in self.workers.items():
            for metric, labels in (("transfer_memory_bytes", {}), ("transfer_readers", {}), ("blocks", {"state": "referenced"})):
                wait_until(lambda: metric_of(worker, f"roost_worker_{metric}", **labels) == 0,  # noqa: B023
                           f"that no {metric} are left at {name}")
        for name, worker in self.workers.items():
            self.assertEqual(worker.stop(), 0, (name, worker.lines[-5:]))


class DeviceBlocksTest(DeviceCase):
    def test_texts_are_the_cpus_and_blocks_come_from_there(self):
        """bf16 rounds elsewhere on another backend, so blocks travel between them with any numerics alone."""
        any_numerics = ("--transfer-numerics", "any")
        self.start("worker-a", *any_numerics)
        self.start_on_cpu("worker-b", *any_numerics)
        self.router.wait_for_workers(2)
        texts = [[self.at(worker, prompt).text() for prompt in PROMPTS] for worker in ("worker-a", "worker-b")]
        self.assertGreaterEqual(sum(ours == theirs for ours, theirs in zip(*texts)), LEAST_EQUAL_TEXTS, texts)
        for source, to in (("worker-b", "worker-a"), ("worker-a", "worker-b")):
            self.prompt = text(PROMPT_WORDS, f"{self.id()} {source}")
            blocks = self.warm(source)["held_blocks"]
            pulled = self.warm(to, source)
            self.assertEqual((pulled["pull"]["outcome"], pulled["pull"]["blocks"]), ("complete", blocks))
            self.assertGreaterEqual(self.at(to).cached_tokens(), (blocks - 1) * BLOCK_TOKENS)
        self.expect_clean_ends()

    def test_pulls_between_devices_and_evictions(self):
        """Also of different numbers of ranks."""
        self.start("worker-a")
        self.start("worker-b", ranks=2)
        self.router.wait_for_workers(2)
        blocks = self.warm("worker-a")["held_blocks"]
        self.assertGreater(blocks, 3)
        pulled = self.warm("worker-b", "worker-a")
        self.assertEqual((pulled["pull"]["outcome"], pulled["pull"]["blocks"], pulled["computed_tokens"]), ("complete", blocks, 0))
        self.assertEqual(self.arrived("worker-b"), blocks)
        expected = self.at("worker-a")
        answer = self.at("worker-b")
        self.assertEqual(answer.text(), expected.text())
        self.assertGreaterEqual(answer.cached_tokens(), (blocks - 1) * BLOCK_TOKENS)
        self.post("evict", model="demo-model", prompt=self.prompt)
        self.assertLess(self.at("worker-b").cached_tokens(), BLOCK_TOKENS)
        self.expect_clean_ends()

    def test_a_request_fetches_what_a_neighbour_holds_and_a_worker_that_leaves_hands_over(self):
        self.start("worker-a", "--handover-seconds", "60")
        self.start("worker-b")
        self.router.wait_for_workers(2)
        self.learn()
        blocks = self.warm("worker-a")["held_blocks"]
        expected = self.at("worker-a")
        self.post("cordon", worker="worker-a")
        before = self.arrived("worker-b")
        answer = self.ask()
        self.assertEqual((answer.headers["x-roost-worker"], answer.text()), ("worker-b", expected.text()))
        self.assertGreater(self.arrived("worker-b"), before)
        self.post("uncordon", worker="worker-a")
        # Another prompt, which is used and which worker-a alone holds, leaves with it.
        self.prompt = text(PROMPT_WORDS, f"{self.id()} handed over")
        blocks = self.warm("worker-a")["held_blocks"]
        expected = self.at("worker-a")
        worker = self.workers.pop("worker-a")
        self.assertEqual(worker.stop(), 0, worker.lines[-5:])
        self.assertGreater(self.router.metric("roost_router_handovers_total", kind="leave"), 0)
        answer = self.ask()
        self.assertEqual(answer.text(), expected.text())
        self.assertGreaterEqual(answer.cached_tokens(), (blocks - 1) * BLOCK_TOKENS)
        self.expect_clean_ends()

    def learn_rates(self):
        """As Router.learn_rates does, with prompts for the shim."""
        def knows():
            self.ask(text(PROMPT_WORDS, f"{self.id()} {time.monotonic()}"), max_tokens=2)
            return self.router.decisions(1)[0]["rates_known"]

        wait_until(knows, "that the router knows rates")

    def learn(self):
        """Shows the router the speed of both, and how fast blocks travel."""
        for worker in self.workers:
            self.at(worker, text(PROMPT_WORDS, f"{self.id()} {worker}"))
        self.learn_rates()
        prompt, self.prompt = self.prompt, text(PROMPT_WORDS, f"{self.id()} a lesson")
        self.warm("worker-a")
        self.warm("worker-b", "worker-a")
        self.prompt = prompt

    def test_a_prompt_and_its_answer_go_apart(self):
        self.start("decode-0", "--role", "decode")
        self.start("prefill-0", "--role", "prefill")
        self.router.wait_for_workers(2)
        self.learn_rates()
        stopping = threading.Event()

        def answer_on_and_on():
            """So that prompts cost more beside answers."""
            while not stopping.is_set():
                self.ask(text(4, "stream"), max_tokens=40)

        streams = [threading.Thread(target=answer_on_and_on) for _ in range(3)]
        for stream in streams:
            stream.start()
        try:
            def goes_apart():
                prompt = text(2 * PROMPT_WORDS, f"{self.id()} {time.monotonic()}")
                answer = self.ask(prompt, logprobs=5)
                found = any(decision["reason"] == "apart" for decision in self.router.decisions(4))
                return (prompt, answer) if found else None

            prompt, answer = wait_until(goes_apart, "a prompt apart from its answer")
        finally:
            stopping.set()
            for stream in streams:
                stream.join()
        self.assertEqual(answer.headers["x-roost-worker"], "decode-0")
        self.assertGreater(self.arrived("decode-0"), 0)
        self.post("evict", model="demo-model", prompt=prompt)
        self.expect_equal_but_for_rounding(self.ask(prompt, logprobs=5), answer)
        self.expect_clean_ends()

    def test_a_killed_worker_starts_warm_from_its_disk(self):
        folder = tempfile.TemporaryDirectory(prefix="roost-disk-")
        self.addCleanup(folder.cleanup)
        flags = ("--disk-cache", pathlib.Path(folder.name) / "disk", "--disk-cache-bytes", 1 << 30)
        worker = self.start("worker-a", *flags)
        self.router.wait_for_workers(1)
        first = self.ask()
        blocks = first.usage()["prompt_tokens"] // BLOCK_TOKENS
        wait_until(lambda: metric_of(worker, "roost_worker_disk_blocks") >= blocks, f"that {blocks} blocks are on disk")
        worker.kill()
        wait_until(lambda: not self.router.workers(), "that the worker is gone")
        self.start("worker-a", *flags)
        self.router.wait_for_workers(1)
        again = self.ask()
        self.assertEqual(again.text(), first.text())
        self.assertGreaterEqual(again.cached_tokens(), (blocks - 1) * BLOCK_TOKENS)
        self.assertGreaterEqual(self.arrived("worker-a", "disk"), blocks - 1)
        self.post("evict", model="demo-model", prompt=self.prompt)
        self.assertEqual(metric_of(self.workers["worker-a"], "roost_worker_disk_blocks"), 0)
        self.expect_clean_ends()


if __name__ == "__main__":
    unittest.main()

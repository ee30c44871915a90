"""roostctl generate gives the same as a router and a worker; a worker without a prefix cache; the gain of a cache."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from cluster import BIN, DEMO_MODEL, ROOT, Cluster, wait_until

PROMPTS = ROOT / "deploy/demo-prompts"
SYSTEM = (PROMPTS / "system-1-prompter.txt").read_text()


def chat(question, **fields):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    return {"messages": messages, "max_tokens": 12, **fields}


# Greedy and sampled, chats and completions, with options that cut or shape an answer.
REQUESTS = [
    chat("Who comes here at this hour?", temperature=0),
    chat("Who comes here at this hour?", temperature=0.9, seed=7),
    chat("What is the play about?", seed=-3, top_p=0.9, n=2),
    {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 20, "ignore_eos": True},
    {"prompt": "Once upon a time", "temperature": 1.2, "seed": 11, "max_tokens": 20, "top_k": 40, "min_p": 0.05},
    {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 40, "stop": ["e"], "repetition_penalty": 1.3},
    {"prompt": [11, 12, 13, 14, 15, 16, 17, 18], "temperature": 0, "max_tokens": 8, "ignore_eos": True},
]


def generate(lines, *flags, file=None):
    """The answers by (index, choice), and its other output."""
    command = [BIN / "roostctl", "generate", "--model", DEMO_MODEL, "--threads", "1", "--kv-blocks", "1024"]
    ended = subprocess.run([*command, "--prompts", file or "-", *flags], capture_output=True, text=True, timeout=120,
                           input=None if file else "\n".join(lines), check=False)
    assert ended.returncode == 0, ended.stderr
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [a["index"] for a in answers] == sorted(a["index"] for a in answers), "answers keep the prompts' order"
    return {(answer["index"], answer["choice"]): answer for answer in answers}, ended.stderr


class OfflineTest(unittest.TestCase):
    def served(self, router, request):
        path = "/v1/chat/completions" if "messages" in request else "/v1/completions"
        answer = router.request("POST", path, {"model": "demo-model", **request})
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def test_answers_are_those_of_a_router_whatever_the_scheduler_and_the_cache(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            served = [self.served(router, request) for request in REQUESTS]
        lines = [json.dumps(request) for request in REQUESTS]
        for scheduler in ("naive", "offline", "online"):
            for cache in ("on", "off"):
                with self.subTest(scheduler=scheduler, cache=cache):
                    answers, _ = generate(lines, "--scheduler", scheduler, "--prefix-cache", cache)
                    self.compare(answers, served)

    def compare(self, answers, served):
        self.assertEqual(len(answers), sum(len(answer.json()["choices"]) for answer in served))
        for index, answer in enumerate(served):
            output_tokens = 0
            for choice in answer.json()["choices"]:
                mine = answers[index, choice["index"]]
                text = choice["message"]["content"] if "message" in choice else choice["text"]
                self.assertEqual(mine["text"], text, REQUESTS[index])
                self.assertEqual(mine["finish_reason"], choice["finish_reason"])
                self.assertEqual(mine["prompt_tokens"], answer.usage()["prompt_tokens"])
                output_tokens += len(mine["tokens"])
            self.assertEqual(output_tokens, answer.usage()["completion_tokens"])

    def test_a_file_of_text_is_answered_and_the_cache_is_told_of(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "prompts.txt"
            path.write_text(f"{SYSTEM.replace(chr(10), ' ')} One?\n{SYSTEM.replace(chr(10), ' ')} Two?\n")
            flags = ("--scheduler", "naive", "--max-tokens", "4", "--temperature", "0", "--ignore-eos")
            with_cache, told = generate(None, *flags, file=path)
            without, told_without = generate(None, *flags, "--prefix-cache", "off", file=path)
        self.assertEqual(with_cache[0, 0]["output_tokens"], 4)
        self.assertGreater(with_cache[1, 0]["cached_tokens"], 1000)
        self.assertEqual(without[1, 0]["cached_tokens"], 0)
        self.assertEqual(without[1, 0]["tokens"], with_cache[1, 0]["tokens"])
        # One line per second; the last line covers the whole run.
        self.assertGreater(self.cached_percents(told)[-1], 40)
        self.assertEqual(set(self.cached_percents(told_without)), {0})

    def cached_percents(self, told):
        lines = re.findall(r"Prefill: \d+ tok/s, Decode: \d+ tok/s, cached (\d+)%", told)
        return [int(percent) for percent in lines]

    def test_a_wrong_line_is_named(self):
        ended = subprocess.run([BIN / "roostctl", "generate", "--model", DEMO_MODEL, "--prompts", "-"], text=True,
                               input='fine\n{"prompt": "a", "n": 99}\n', capture_output=True, timeout=120, check=False)
        self.assertEqual(ended.returncode, 65)
        self.assertIn("roostctl generate: standard input:2: n: must be between 1 and 16, not 99", ended.stderr)

    def test_a_worker_without_prefix_cache_keeps_nothing_and_is_promised_nothing(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("worker-a", "--prefix-cache", "off", "--check-invariants")
            wait_until(lambda: [w for w in router.workers() if w["ready"]], "a ready worker")
            answers = [self.served(router, chat("Who comes here at this hour?", temperature=0)) for _ in range(3)]
            pin = router.request("POST", "/admin/v1/pin", {"model": "demo-model", "prompt": SYSTEM})
            self.assertEqual(pin.status, 200, pin.body)
            self.served(router, {"prompt": SYSTEM, "max_tokens": 1})
            self.assertEqual([answer.cached_tokens() for answer in answers], [0, 0, 0])
            self.assertEqual(len({answer.text() for answer in answers}), 1)
            worker = wait_until(lambda: self.idle(router), "an idle worker")
            self.assertEqual((worker["mode"], worker["cached_blocks"], worker["indexed_blocks"]), ("blind", 0, 0))
            self.assertEqual(router.decisions(1)[0]["predicted"]["cached_tokens"], 0)

    def idle(self, router):
        worker = router.workers()[0]
        return worker if worker["free_blocks"] == worker["blocks"] else None

    def test_bench_compares_a_load_without_and_with_the_cache(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            command = [BIN / "roostctl", "bench", "--router", router.url, "--prompts", PROMPTS, "--compare-cache"]
            size = ["--conversations", "4", "--turns", "2", "--max-tokens", "4", "--probes", "1", "--table-header"]
            ended = subprocess.run([*command, *size], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        line = r"^bench: label=(cache-\w+) requests=8 failed=0 cached_ratio=(\S+)"
        ratios = dict(re.findall(line, ended.stdout, re.M))
        self.assertEqual(float(ratios["cache-off"]), 0)
        self.assertGreater(float(ratios["cache-on"]), 0.3)
        self.assertEqual(len(re.findall(r"^cache-o(?:ff|n) ", ended.stdout, re.M)), 2)
        gain = re.search(r"^cache gain: ttft_p50=(\S+)x ttft_p99=(\S+)x tokens_per_second=(\S+)x$", ended.stdout, re.M)
        self.assertGreater(float(gain[1]), 1)


if __name__ == "__main__":
    unittest.main()

"""llama.cpp's own server (llama_server.py) behind real daemons, and the recordings that llama_double.py is held to. Started
by llama_cpp.sh, which knows where the server is."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import openai_test
import slot_disk_test
import slots_test
from llama_double_test import EXCHANGES, RECORDINGS, ask
from openai_test import HERE, Chat, free_port
from slot_disk_test import prompt_of
from slots_test import GRAIN


class LlamaServer(openai_test.Server):
    program = [os.environ.get("ROOST_LLAMA_PYTHON", sys.executable), HERE / "llama_server.py"]

    def start(self):
        # The library writes its log to both.
        self.process = subprocess.Popen([*map(str, self.program), "--port", str(self.port), *self.flags],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while not self.process.stdout.readline().startswith("ready"):
            if self.process.poll() is not None:
                raise RuntimeError("the server did not start")

    def slots(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/slots")
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


class LlamaCppTest(openai_test.Fleets, unittest.TestCase):
    server = LlamaServer

    def test_answers_are_those_of_the_server_itself(self):
        router = self.fleet(servers=1)
        body = {"model": "demo-model", "messages": [{"role": "user", "content": "Who goes there?"}], "max_tokens": 12,
                "temperature": 0}
        direct = ask(self.servers[0].port, "POST", "/v1/chat/completions", body)
        answer = router.request("POST", "/v1/chat/completions", body)
        self.assertEqual(answer.json()["choices"], json.loads(direct)["choices"])
        self.assertEqual(router.request("POST", "/v1/messages", {**body, "max_tokens": 4}).status, 200)
        self.assertEqual(router.request("POST", "/tokenize", {"model": "demo-model", "content": "a b"}).status, 200)
        self.assertEqual(router.request("POST", "/v1/embeddings", {"model": "demo-model", "input": "x"}).status, 404)

    def test_chats_find_their_text_again(self):
        router = self.fleet("--slots", "4", "--context", "16384")
        chats = [Chat(router, name, temperature=0) for name in "abcdefgh"]
        for _ in range(4):
            for chat in chats:
                chat.turn()
        for chat in chats:
            self.assertEqual(len(set(chat.workers)), 1, chat.workers)
            self.assertGreater(min(chat.shares[1:]), 0.7, chat.shares)
        wait = openai_test.wait_until
        wait(lambda: len(openai_test.passed_on(router)) == 32, "the log")
        later = openai_test.passed_on(router)[8:]
        promised = sum(record["promised_tokens"] for record in later)
        cached = sum(record["cached_tokens"] for record in later)
        self.assertLess(abs(promised - cached), 0.2 * cached, "what was promised was found")

    def test_a_server_without_np_is_advised(self):
        router = self.fleet("--slots", "0", "--context", "4096", servers=1)
        self.assertIn("-np 4", router.workers()[0]["cache_absence"])


class LlamaSlotsTest(slots_test.SlotSuite, unittest.TestCase):
    """Without a model's folder: the server tells which GGUF file it has."""

    server = LlamaServer
    model = ""
    no_memory = ("--cache-ram", "0")

    def check_slots(self):
        self.assertFalse([slot for slot in self.servers[0].slots() if slot["is_processing"]])

    def test_greedy_answers_are_the_servers_own(self):
        router = self.fleet("--slots", "2", servers=1)
        for question in ("Who goes there?", "Once upon a time \N{OWL} caf\u00e9", "The king", "Die K\u00f6nigin \u20ac"):
            body = {"model": "demo-model", "messages": [{"role": "user", "content": question}], "max_tokens": 40, "temperature": 0}
            direct = json.loads(ask(self.servers[0].port, "POST", "/v1/chat/completions", body))["choices"][0]
            for stream in (False, True):
                answer = router.request("POST", "/v1/chat/completions", {**body, "stream": stream})
                if stream:
                    texts = [event["choices"][0]["delta"].get("content") or "" for event in answer.events if event["choices"]]
                    self.assertEqual("".join(texts), direct["message"]["content"])
                else:
                    self.assertEqual(answer.json()["choices"][0]["message"]["content"], direct["message"]["content"])
                    self.assertEqual(answer.json()["choices"][0]["finish_reason"], direct["finish_reason"])

    def test_constraints_logprobs_and_stops(self):
        router = self.fleet("--slots", "2", servers=1)
        body = {"model": "demo-model", "prompt": "The answer is", "max_tokens": 24, "temperature": 0}
        one = router.request("POST", "/v1/completions", {**body, "guided_choice": ["yes", "no"]}).json()
        self.assertIn(one["choices"][0]["text"], ("yes", "no"))
        schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
        one = router.request("POST", "/v1/chat/completions", {
            "model": "demo-model", "messages": [{"role": "user", "content": "x"}], "max_tokens": 64, "temperature": 0,
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}).json()
        self.assertTrue(one["choices"][0]["message"]["content"].lstrip().startswith("{"), one)
        one = router.request("POST", "/v1/completions", {**body, "logprobs": 2}).json()["choices"][0]
        self.assertEqual(len(one["logprobs"]["token_logprobs"]), 24)
        self.assertEqual(one["logprobs"]["token_logprobs"][0], max(one["logprobs"]["top_logprobs"][0].values()))
        plain = router.request("POST", "/v1/completions", {**body, "return_token_ids": True}).json()["choices"][0]
        stop = router.request("POST", "/tokenize", {"model": "demo-model", "prompt": plain["text"]}).json()["tokens"][5]
        cut = router.request("POST", "/v1/completions", {**body, "return_token_ids": True, "stop_token_ids": [stop]}).json()["choices"][0]
        self.assertEqual(cut["finish_reason"], "stop")
        self.assertTrue(plain["text"].startswith(cut["text"]), (plain, cut))


class LlamaSlotDiskTest(slot_disk_test.SlotDiskSuite, unittest.TestCase):
    server = LlamaServer
    model = ""
    no_memory = ("--cache-ram", "0")

    def setUp(self):
        super().setUp()
        # The demo model itself computes as quickly as files are read.
        self.pace = ("--layers", "48", "--gguf", self.enterContext(tempfile.TemporaryDirectory()) + "/deep.gguf")

    def test_killed_boxes_find_their_conversations(self):
        """Kills of the server and of both, and both told to end: the first tokens beside those of computing."""
        router = self.disk_fleet(slot_bytes=2 << 30)
        shares, kept = [], 0
        for life in range(5):
            prompts = [prompt_of(10 * life + i, 1600) for i in range(4)]
            computed = [self.first_token(router, prompt) for prompt in prompts]
            self.await_entries(4 * (life + 1))
            if life % 3 == 1:
                self.workers[0].stop()
                self.servers[0].process.terminate()
                self.servers[0].process.wait(timeout=60)
            if life % 3 == 2:
                self.workers[0].kill()
            self.servers[0].kill()
            self.servers[0].start()
            self.restart_worker(router)
            again = [self.first_token(router, [*prompt, *range(300, 316)]) for prompt in prompts]
            for (before, _), (after, found) in zip(computed, again):
                shares.append(after / before)
                kept += found >= len(prompts[0]) - GRAIN
        print(f"{self.id()}: {kept} of {len(shares)} found, first token {sorted(round(share, 3) for share in shares)} of computing it")
        self.assertEqual(kept, len(shares))
        self.assertLessEqual(max(shares), 0.3)

    @staticmethod
    def first_token(router, prompt):
        began = time.monotonic()
        answer = router.completion(prompt, max_tokens=1, temperature=0)
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {answer.body}")
        return time.monotonic() - began, answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def record():
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    save = {"slot-no-path.json": EXCHANGES["slot-save.json"]}
    with tempfile.TemporaryDirectory() as folder:
        for flags, exchanges in ((("--slot-save-path", folder), EXCHANGES), ((), save)):
            server = LlamaServer("--slots", "2", *flags)
            try:
                for name, (method, path, body) in exchanges.items():
                    (RECORDINGS / name).write_text(ask(server.port, method, path, body).rstrip() + "\n")
            finally:
                server.kill()


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        unittest.main()

"""Prompts, keys and salts stay out of logs, metrics, operators' answers, other clients' answers and core dumps. Every
request here carries a canary, and none may be found in what others can read."""

import hashlib
import json
import os
import pathlib
import resource
import secrets
import signal
import tempfile
import unittest
import urllib.request

from cluster import Cluster, text

MARK = "canary" + secrets.token_hex(8)
CORE_PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def canary(place):
    return f"{MARK}-{place}"


TOOL = {"type": "function", "function": {"name": f"{MARK}_tool", "description": canary("description"),
                                         "parameters": {"type": "object", "properties": {f"{MARK}_p": {"type": "string"}}}}}
MESSAGES = [{"role": "system", "content": canary("system")}, {"role": "user", "content": canary("user")}]
CHAT = {"model": "demo-model", "messages": MESSAGES, "max_tokens": 4}
COMPLETION = {"model": "demo-model", "prompt": canary("prompt"), "max_tokens": 4}

CHATS = {
    "good": {**CHAT, "cache_salt": canary("salt"), "user": canary("name"), "stop": [canary("stop")]},
    "stream": {**CHAT, "stream": True},
    "tools": {**CHAT, "tools": [TOOL]},
    "unknown field": {**CHAT, canary("field"): canary("value")},
    "wrong type": {**CHAT, "max_tokens": canary("number")},
    "wrong role": {**CHAT, "messages": [{"role": canary("role"), "content": "x"}]},
    "wrong part": {**CHAT, "messages": [{"role": "user", "content": [{"type": canary("type"), "text": canary("text")}]}]},
    "no such tool": {**CHAT, "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": canary("choice")}}},
    "bad tool": {**CHAT, "tools": [{"type": "function", "function": {"name": canary("bad tool name")}}]},
    "too long": {**CHAT, "messages": [{"role": "user", "content": canary("long") + text(3000, 1)}]},
    "no such model": {**CHAT, "model": canary("model")},
    "bad salt": {**CHAT, "cache_salt": [canary("salt")]},
    "bad schema": {**CHAT, "response_format": {"type": "json_schema", "json_schema": {
        "name": "a", "schema": {"type": canary("schema type")}}}},
    "bad format": {**CHAT, "response_format": {"type": canary("format")}},
    "bad regex": {**CHAT, "structured_outputs": {"regex": f"({canary('regex')}"}},
    "bad grammar": {**CHAT, "structured_outputs": {"grammar": f"root ::= {canary('rule')} ("}},
    "bad bias": {**CHAT, "logit_bias": {canary("token"): 1}},
}
COMPLETIONS = {
    "good": {**COMPLETION, "logprobs": 1},
    "token texts": {**COMPLETION, "prompt": [canary("token")]},
    "tokens out of range": {**COMPLETION, "prompt": [999999999, 1], "suffix": canary("suffix")},
    "empty": {**COMPLETION, "prompt": "", "user": canary("name")},
}
BAD_BODIES = [
    '{"model": "demo-model", "prompt": "%s' % canary("cut off"),
    '{"%s": nonsense}' % canary("key"),
    canary("no JSON"),
    '"%s"' % canary("a string"),
    '{"model": "demo-model", "prompt": "%s", "prompt": 1}' % canary("twice"),
    '{"model": "demo-model", "prompt": "\\ud800%s"}' % canary("surrogate"),
]


class LeaksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cluster = cls.enterClassContext(Cluster())
        keys = pathlib.Path(folder) / "keys.jsonl"
        cls.key = secrets.token_urlsafe(32)
        keys.write_text(json.dumps({"name": "bird", "sha256": hashlib.sha256(cls.key.encode()).hexdigest()}))
        cls.router = cluster.start_router("--api-keys", str(keys), "--log-level", "debug")
        cls.worker = cluster.start_worker("worker-a", "--log-level", "debug")
        cls.router.wait_for_workers(1)
        cls.answers = list(cls.ask_everything())

    @classmethod
    def ask(cls, path, body, headers=None):
        return cls.router.request("POST", path, body, {**bearer(cls.key), **(headers or {})})

    @classmethod
    def ask_everything(cls):
        for body in CHATS.values():
            yield cls.ask("/v1/chat/completions", body)
        for body in COMPLETIONS.values():
            yield cls.ask("/v1/completions", body)
        for body in BAD_BODIES:
            for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages"):
                yield cls.ask(path, body)
        yield cls.ask("/v1/messages", {**CHAT, "system": canary("system"), "messages": MESSAGES[1:]})
        yield cls.ask("/v1/completions", COMPLETION, {"X-Long": canary("header") + "x" * 100_000})
        yield cls.ask("/v1/completions", COMPLETION, {"Content-Type": canary("content type")})
        yield cls.ask(f"/v1/{canary('path')}", COMPLETION)
        yield cls.ask(f"/v1/completions?key={canary('query')}", COMPLETION)
        yield cls.router.request("POST", "/v1/completions", COMPLETION, bearer(canary("bearer")))
        yield cls.router.request("POST", "/v1/completions", COMPLETION, {"x-api-key": canary("api key")})
        for path in ("pin", "match", "warm", "evict"):
            yield cls.router.request("POST", f"/admin/v1/{path}", {"model": "demo-model", "prompt": canary("prefix") * 9})
            yield cls.router.request("POST", f"/admin/v1/{path}", {"model": "demo-model", "prompt": [canary("prefix")]})

    def expect_clean(self, where, content):
        for at in (i for i in range(len(content)) if content.startswith(MARK, i)):
            self.fail(f"{where} shows {content[max(0, at - 200):at + 100]}")

    def test_the_canaries_were_sent_and_refused_or_served(self):
        statuses = {answer.status for answer in self.answers}
        self.assertLessEqual({200, 400, 401, 404}, statuses)
        self.assertTrue(any(MARK in answer.body for answer in self.answers), "no error quotes its own request")
        self.assertTrue(self.router.has_logged("generation ended"))
        self.assertTrue(self.worker.has_logged("request taken"))

    def test_logs_at_debug_level_have_none(self):
        self.expect_clean("the router's log", "\n".join(self.router.lines))
        self.expect_clean("the worker's log", "\n".join(self.worker.lines))
        for daemon in (self.router, self.worker):
            self.assertNotIn(self.key, "\n".join(daemon.lines))

    def test_metrics_and_operators_answers_have_none(self):
        self.expect_clean("/metrics", self.router.request("GET", "/metrics").body)
        with urllib.request.urlopen(self.worker.wait_for_log("worker ready")["metrics"]) as answer:
            self.expect_clean("the worker's metrics", answer.read().decode())
        for path in ("workers", "queues", "transfers", "usage", "decisions?limit=100", "prefixes?top=100"):
            self.expect_clean(path, self.router.request("GET", f"/admin/v1/{path}").body)

    def test_errors_of_others_have_none(self):
        for path in ("/v1/chat/completions", "/v1/completions"):
            for body in ("{", "[]", {"model": "demo-model"}, {"model": "other"}, {"model": "demo-model", "prompt": 7}):
                answer = self.ask(path, body)
                self.assertGreaterEqual(answer.status, 400)
                self.expect_clean(path, answer.body)
        self.expect_clean("models", self.router.request("GET", "/v1/models", None, bearer(self.key)).body)


class CoreDumpTest(unittest.TestCase):
    """Both daemons are aborted with a prompt in memory."""

    def setUp(self):
        pattern = CORE_PATTERN.read_text().strip()
        if pattern.startswith("|") or "/" in pattern:
            self.skipTest(f"this machine sends core dumps elsewhere: {pattern}")
        before = resource.getrlimit(resource.RLIMIT_CORE)
        if before[1] == 0:
            self.skipTest("this machine allows no core dumps")
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, before)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)  # where the kernel puts them

    def dumps_after_a_prompt(self, *flags):
        """The core dumps of router and worker."""
        dumps = {}
        with Cluster() as cluster:
            router = cluster.start_router(*flags)
            worker = cluster.start_worker("worker-a", *flags)
            router.wait_for_workers(1)
            self.assertEqual(router.completion(canary("prompt"), max_tokens=2).status, 200)
            for name, daemon in (("router", router), ("worker", worker)):
                daemon.process.send_signal(signal.SIGABRT)
                daemon.process.wait()
                for file in self.folder.iterdir():  # the next one may have the same name
                    dumps[name] = file.read_bytes()
                    file.unlink()
        return dumps

    def test_there_is_none_by_default(self):
        self.assertEqual(list(self.dumps_after_a_prompt()), [])

    def test_with_the_flag_there_is_one_and_the_prompt_is_in_it(self):
        dumps = self.dumps_after_a_prompt("--core-dumps")
        if not dumps:
            self.skipTest("this machine makes no core dumps")
        self.assertIn(canary("prompt").encode(), dumps["router"])  # a worker has tokens instead of text


if __name__ == "__main__":
    unittest.main()

"""The prompt cache as clients speak of it, on real daemons: sessions by headers, lifetimes, prewarming, usage, and diagnoses through
the wire forms, x-roost-miss and roostctl explain."""

import subprocess
import unittest

from cluster import BIN, Cluster, text

BLOCK_TOKENS = 16


def roostctl(router, *arguments):
    told = subprocess.run([BIN / "roostctl", *arguments, "--admin", router.admin], capture_output=True, text=True, check=False)
    assert told.returncode == 0, f"{arguments}: {told.stdout} {told.stderr}"
    return told.stdout


def message(router, blocks, headers=None, **fields):
    """Anthropic's API. `blocks` are those of one user message, or the messages."""
    messages = blocks if blocks and "role" in blocks[0] else [{"role": "user", "content": blocks}]
    body = {"model": "demo-model", "max_tokens": 2, "temperature": 0, "messages": messages, **fields}
    answer = router.request("POST", "/v1/messages", body, headers)
    assert answer.status == 200, answer.body
    return answer


def part(words, **members):
    return {"type": "text", "text": words, **members}


def prompt_of(usage):
    return usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]


class SessionsTest(unittest.TestCase):
    def test_a_header_sends_a_conversation_to_one_worker(self):
        with Cluster() as cluster:
            router = cluster.start_router("--policy", "session")
            for name in ("worker-a", "worker-b", "worker-c"):
                cluster.start_worker(name)
            router.wait_for_workers(3)
            for session in range(6):
                headers = {"x-claude-code-session-id": f"session {session}"}
                workers = {message(router, [part(text(20, f"{session} {i}"))], headers).headers["x-roost-worker"] for i in range(4)}
                self.assertEqual(len(workers), 1, session)
            keyed = {router.chat([{"role": "user", "content": text(20, f"key {i}")}], prompt_cache_key="web", max_tokens=1)
                     .headers["x-roost-worker"] for i in range(6)}
            self.assertEqual(len(keyed), 1)


class LifetimesTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.router = self.cluster.start_router()
        self.cluster.start_worker("worker-a", "--kv-blocks", "128", "--eviction", "lru")
        self.router.wait_for_workers(1)
        self.addCleanup(self.cluster.__exit__)

    def flood(self):
        for i in range(24):
            self.router.completion(text(60, f"other traffic {i}"), max_tokens=1)

    def test_what_has_a_lifetime_outlives_other_traffic(self):
        kept, plain = text(60, "kept"), text(60, "plain")
        message(self.router, [part(kept, cache_control={"type": "ephemeral"}), part("and?")])
        message(self.router, [part(plain), part("and?")])
        self.flood()
        found = message(self.router, [part(kept), part("or?")]).json()["usage"]["cache_read_input_tokens"]
        lost = message(self.router, [part(plain), part("or?")]).json()["usage"]["cache_read_input_tokens"]
        self.assertGreater(found, 3 * BLOCK_TOKENS)
        self.assertLess(lost, BLOCK_TOKENS)

    def test_explicit_breakpoints_end_what_is_kept(self):
        kept, behind = text(40, "kept"), text(60, "behind")
        mark = {"mode": "explicit"}
        ask = [{"role": "user", "content": [part(kept, prompt_cache_breakpoint=mark), part(behind)]}]
        first = self.router.chat(ask, max_tokens=1, prompt_cache_options=mark)
        self.assertGreater(first.usage()["prompt_tokens_details"]["cache_write_tokens"], 0)
        self.flood()
        found = self.router.chat(ask, max_tokens=1).usage()["prompt_tokens_details"]["cached_tokens"]
        whole = first.usage()["prompt_tokens"]
        self.assertGreater(found, whole // 5)
        self.assertLess(found, whole * 3 // 5)

    def test_read_written_and_the_rest_are_the_prompt(self):
        words = text(60, "usage")
        whole = self.router.request("POST", "/v1/messages/count_tokens",
                                    {"model": "demo-model", "messages": [{"role": "user", "content": words}]}).json()["input_tokens"]
        for streamed in (False, True, False):
            answer = message(self.router, [part(words, cache_control={"type": "ephemeral", "ttl": "1h"})], stream=streamed)
            usage = answer.usage()
            self.assertEqual(prompt_of(usage), whole, usage)
            self.assertEqual(sum(usage["cache_creation"].values()), usage["cache_creation_input_tokens"])
        self.assertEqual(usage["cache_creation_input_tokens"], 0)
        self.assertEqual(usage["cache_read_input_tokens"], whole - 1)

    def test_a_prewarmed_prompt_is_found(self):
        ask = [{"role": "user", "content": text(60, "prewarmed")}]
        warmed = self.router.chat(ask, prompt_cache_options={"prewarm": True})
        self.assertEqual((warmed.text(), warmed.usage()["completion_tokens"]), ("", 0))
        answer = self.router.chat(ask, max_tokens=1)
        self.assertEqual(answer.cached_tokens(), answer.usage()["prompt_tokens"] - 1)

    def test_a_wrong_lifetime_is_refused_by_name(self):
        body = {"model": "demo-model", "max_tokens": 2,
                "messages": [{"role": "user", "content": [part("x", cache_control={"type": "ephemeral", "ttl": "2h"})]}]}
        refused = self.router.request("POST", "/v1/messages", body)
        self.assertEqual(refused.status, 400)
        self.assertIn("messages[0].content[0].cache_control.ttl", refused.json()["error"]["message"])


class DiagnosesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.router = cls.cluster.start_router()
        cls.worker = cls.cluster.start_worker("worker-a", "--kv-blocks", "128", "--eviction", "lru")
        cls.router.wait_for_workers(1)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def conversation(self, name):
        return [{"role": "user", "content": text(40, f"{name} one")}, {"role": "assistant", "content": text(20, f"{name} answer")},
                {"role": "user", "content": text(40, f"{name} two")}]

    def ask(self, messages, before=None, **fields):
        answer = message(self.router, messages, diagnostics={"previous_message_id": before}, **fields)
        body = answer.json()
        reason = (body["diagnostics"] or {}).get("cache_miss_reason", {}).get("type")
        explained = roostctl(self.router, "explain", body["id"])
        return body, reason, answer.headers.get("x-roost-miss", ""), explained

    def test_what_changed_is_told_in_every_form(self):
        messages = self.conversation("changes")
        first, reason, _, _ = self.ask(messages, system="It is Monday. " + text(30, "system"))
        self.assertIsNone(reason)
        same, reason, header, _ = self.ask(messages, first["id"], system="It is Monday. " + text(30, "system"))
        self.assertEqual((reason, header), (None, ""))
        self.assertGreater(same["usage"]["cache_read_input_tokens"], 100)
        _, reason, header, explained = self.ask(messages, first["id"], system="It is Friday. " + text(30, "system"))
        self.assertEqual(reason, "system_changed")
        self.assertTrue(header.startswith("changed; tokens="), header)
        self.assertIn("the system prompt differs from the request before at token ", explained)
        edited = [*messages[:2], {"role": "user", "content": text(40, "another question")}]
        _, reason, header, explained = self.ask(edited, first["id"], system="It is Monday. " + text(30, "system"))
        self.assertEqual(reason, "messages_changed")
        self.assertIn("message 3 differs from the request before at token ", explained)
        _, reason, header, explained = self.ask(messages, first["id"], system="It is Monday. " + text(30, "system"), cache_salt="s")
        self.assertEqual(reason, "unavailable")
        self.assertTrue(header.startswith("other_scope; tokens="), header)
        _, reason, _, _ = self.ask(messages, "msg_unknown")
        self.assertEqual(reason, "previous_message_not_found")

    def test_an_eviction_is_told(self):
        messages = self.conversation("evicted")
        first, _, _, _ = self.ask(messages)
        for i in range(8):  # a worker remembers as many evictions as it has blocks
            self.router.completion(text(60, f"flood {i}"), max_tokens=1)
        _, reason, header, explained = self.ask(messages, first["id"])
        self.assertEqual(reason, "unavailable")
        self.assertTrue(header.startswith("evicted; tokens="), header)
        self.assertIn("the same up to here, but it was evicted", explained)

    def test_a_new_prompt_was_never_here(self):
        answer = message(self.router, [part(text(60, "new"))])
        self.assertTrue(answer.headers["x-roost-miss"].startswith("never_here; tokens="), answer.headers)


class RestartTest(unittest.TestCase):
    def test_a_worker_that_has_begun_again_does_not_know_the_prompt(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            worker = cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            words = [part(text(60, "restart"))]
            first = message(router, words).json()
            worker.stop()
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            again = message(router, words, diagnostics={"previous_message_id": first["id"]})
            self.assertTrue(again.headers["x-roost-miss"].startswith("never_here; tokens="), again.headers)
            self.assertEqual(again.json()["diagnostics"]["cache_miss_reason"]["type"], "unavailable")

    def test_a_prompt_that_another_worker_holds_is_elsewhere(self):
        with Cluster() as cluster:
            router = cluster.start_router("--policy", "round-robin", "--pulls", "off")
            cluster.start_worker("worker-a")
            cluster.start_worker("worker-b")
            router.wait_for_workers(2)
            words = [part(text(60, "elsewhere"))]
            first = message(router, words).json()
            again = message(router, words, diagnostics={"previous_message_id": first["id"]})
            self.assertTrue(again.headers["x-roost-miss"].startswith("elsewhere; tokens="), again.headers)


if __name__ == "__main__":
    unittest.main()

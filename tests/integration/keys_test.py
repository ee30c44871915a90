"""API keys, tenants and limits on real daemons: who gets in, with what limits, and what tenants share.

ROOST_KEYS_STREAMS (500) is the number of streams that are open while keys are replaced.
"""

import asyncio
import hashlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from cluster import BIN, DEADLINE_SECONDS, DEMO_MODEL, ROOT, Cluster, Daemon, text, wait_until
from keys import KeyFile, bearer

sys.path.insert(0, str(ROOT / "tests/bench"))
import router_load as load  # noqa: E402

STREAMS = int(os.environ.get("ROOST_KEYS_STREAMS", "500"))
ANSWER = " ".join(f"{i}" for i in range(100, 132))


class KeysTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.cluster = cls.enterClassContext(Cluster())
        cls.keys = KeyFile(cls.folder)
        for name, flags in {
            "acme-chat": ("--tenant", "acme"),
            "acme-batch": ("--tenant", "acme", "--max-priority", "20"),
            "bird": (),
            "limited": ("--requests-per-minute", "3", "--tokens-per-minute", "5000"),
            "weighted": ("--tokens-per-minute", "3000", "--cached-token-weight", "0.1"),
            "narrow": ("--models", "other*"),
        }.items():
            cls.keys.add(name, *flags)
        cls.router = cls.cluster.start_router("--api-keys", str(cls.keys.path))
        cls.worker = cls.cluster.start_worker("worker-a")
        cls.router.wait_for_workers(1)

    def complete(self, name, prompt, **fields):
        body = {"prompt": prompt, "model": "demo-model", "max_tokens": 2, "temperature": 0, **fields}
        return self.router.request("POST", "/v1/completions", body, bearer(self.keys.secrets[name]))

    def test_a_key_is_needed_and_a_wrong_one_does_not_do(self):
        body = {"prompt": "Hens", "model": "demo-model", "max_tokens": 1}
        self.assertEqual(self.router.request("POST", "/v1/completions", body).status, 401)
        wrong = self.router.request("POST", "/v1/completions", body, bearer("sk-roost-" + "0" * 64))
        self.assertEqual((wrong.status, wrong.json()["error"]["code"]), (401, "invalid_api_key"))
        self.assertEqual(self.complete("bird", "Hens").status, 200)
        self.assertEqual(self.router.request("GET", "/health").status, 200)

    def test_the_api_has_no_route_of_operators(self):
        connection = http.client.HTTPConnection(self.router.address, timeout=DEADLINE_SECONDS)
        for path in ("/admin/v1/workers", "/admin/v1/usage", "/metrics"):
            connection.request("GET", path, headers=bearer(self.keys.secrets["bird"]))
            response = connection.getresponse()
            response.read()
            self.assertEqual(response.status, 404, path)
        connection.close()

    def test_tenants_share_nothing_and_keys_of_a_tenant_share_all(self):
        prompt = text(60, "what a tenant asks")
        self.assertEqual(self.complete("acme-chat", prompt).cached_tokens(), 0)
        self.assertGreater(self.complete("acme-batch", prompt).cached_tokens(), 100)
        self.assertEqual(self.complete("bird", prompt).cached_tokens(), 0)
        self.assertEqual(self.complete("acme-chat", prompt, cache_salt="s").cached_tokens(), 0)
        # A client can say what it wants: it stays who its key says it is.
        self.assertEqual(self.complete("bird", prompt + " ", tenant="acme", user="acme").status, 200)
        held = self.router.request("POST", "/admin/v1/match", {"model": "demo-model", "prompt": prompt, "tenant": "acme"})
        self.assertGreater(held.json()["workers"][0]["cached_tokens"], 100)
        nobody = self.router.request("POST", "/admin/v1/match", {"model": "demo-model", "prompt": prompt})
        self.assertEqual(nobody.json()["workers"][0]["cached_tokens"], 0)

    def test_an_evicted_tenant_is_gone_from_the_cache_and_others_keep_theirs(self):
        prompt = text(100, "evicted")

        def cached(name):
            body = {"prompt": prompt, "model": "demo-model", "max_tokens": 1}
            answer = self.router.request("POST", "/v1/completions", body, bearer(self.keys.secrets[name]))
            self.assertEqual(answer.status, 200, answer.body)
            return answer.cached_tokens()

        for name in ("acme-chat", "bird"):
            self.assertEqual(cached(name), 0)
            self.assertGreater(cached(name), 100)
        told = subprocess.run([BIN / "roostctl", "evict", "--admin", self.router.admin, "--tenant", "acme"],
                              capture_output=True, text=True, check=True).stdout
        self.assertRegex(told, r"evicted [1-9]\d* blocks")
        self.assertEqual(cached("acme-batch"), 0)
        self.assertGreater(cached("bird"), 100)

    def test_a_limit_answers_429_and_tells_when_to_come_back(self):
        for left in (2, 1, 0):
            answer = self.complete("limited", "Hens")
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.headers["x-ratelimit-remaining-requests"], str(left))
        refused = self.complete("limited", "Hens")
        self.assertEqual((refused.status, refused.json()["error"]["code"]), (429, "rate_limit_exceeded"))
        self.assertTrue(1 <= int(refused.headers["retry-after"]) <= 20, refused.headers)

    def test_cached_tokens_count_by_their_weight(self):
        left = limit = 3000
        for i in range(4):
            answer = self.complete("weighted", text(300, f"weighted {i // 2}"))
            self.assertEqual(answer.status, 200, answer.body)
            usage, cached = answer.usage(), answer.cached_tokens()
            self.assertEqual(cached > 0.9 * usage["prompt_tokens"], i % 2 == 1)
            left -= usage["prompt_tokens"] - cached + round(0.1 * cached) + usage["completion_tokens"]
            # Or more: it fills up again.
            self.assertGreaterEqual(int(answer.headers["x-ratelimit-remaining-tokens"]), left)
            self.assertEqual(answer.headers["x-ratelimit-limit-tokens"], str(limit))

    def test_priority_and_models_end_where_the_key_says(self):
        self.assertEqual(self.complete("acme-batch", "Hens", priority=30).status, 403)
        self.assertEqual(self.complete("narrow", "Hens").status, 404)

    def test_usage_is_told_per_key(self):
        secret = self.keys.add("counted")
        os.kill(self.router.process.pid, signal.SIGHUP)
        wait_until(lambda: self.complete("counted", "Hens").status == 200, "that the new key is taken")
        # A request counts once its client has its whole answer.
        wait_until(lambda: self.usage("counted")["requests"] == 1, "that the first request counts")
        before = self.usage("counted")
        answers = [self.complete("counted", text(40, f"counted {i // 2}"), max_tokens=3) for i in range(6)]
        usage = [answer.usage() for answer in answers]
        wait_until(lambda: self.usage("counted")["requests"] == before["requests"] + 6, "that all six count")
        after = self.usage("counted")
        for name, sum_of in (("prompt_tokens", sum(each["prompt_tokens"] for each in usage)),
                             ("output_tokens", sum(each["completion_tokens"] for each in usage)),
                             ("cached_tokens", sum(answer.cached_tokens() for answer in answers))):
            self.assertEqual(after[name] - before[name], sum_of, name)
        self.assertEqual(self.router.metric("roost_router_key_prompt_tokens_total", key="counted"),
                         after["prompt_tokens"])
        told = subprocess.run([BIN / "roostctl", "usage", "--admin", self.router.admin], capture_output=True, text=True,
                              check=True).stdout
        self.assertRegex(told, rf"counted +{after['requests']} ")
        self.assertNotIn(secret, told)

    def usage(self, name):
        keys = self.router.request("GET", "/admin/v1/usage").json()["keys"]
        return next(key for key in keys if key["name"] == name)

    def test_a_broken_key_file_changes_nothing_and_is_told(self):
        good = self.keys.path.read_text()
        try:
            self.keys.path.write_text('{"name": "x"}\n')
            os.kill(self.router.process.pid, signal.SIGHUP)
            wait_until(lambda: any("sha256" in line for line in self.router.lines), "an error in the log")
            self.assertEqual(self.complete("bird", "Hens").status, 200)
        finally:
            self.keys.path.write_text(good)

    def test_no_key_and_no_prompt_is_in_logs_and_metrics(self):
        canary = "canary-" + text(3, "a secret prompt").replace(" ", "-")
        self.complete("bird", f"{canary} {text(30, 'more')}", cache_salt=f"salt-{canary}")
        self.router.request("POST", "/v1/completions", {"prompt": canary, "model": 7}, bearer(self.keys.secrets["bird"]))
        metrics = self.router.request("GET", "/metrics").body
        usage = self.router.request("GET", "/admin/v1/usage").body
        logs = "\n".join(self.router.lines + self.worker.lines)
        for kept in (metrics, usage, logs):
            self.assertNotIn(canary, kept)
            for secret in self.keys.secrets.values():
                self.assertNotIn(secret, kept)
                self.assertNotIn(hashlib.sha256(secret.encode()).hexdigest(), kept)


class OperatorsTest(unittest.TestCase):
    def test_operators_have_keys_of_their_own(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            clients, operators = KeyFile(folder, "clients"), KeyFile(folder, "operators")
            client, operator = clients.add("app"), operators.add("oncall")
            router = cluster.start_router("--api-keys", clients.path, "--admin-keys", operators.path)
            for path in ("/admin/v1/workers", "/metrics"):
                self.assertEqual(router.request("GET", path).status, 401, path)
                self.assertEqual(router.request("GET", path, headers=bearer(client)).status, 401, path)
                self.assertEqual(router.request("GET", path, headers=bearer(operator)).status, 200, path)
            self.assertEqual(router.request("GET", "/v1/models", headers=bearer(operator)).status, 401)

    def test_an_address_that_others_reach_needs_keys(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            keys.add("app")
            for flag, flags in (("http-address", ()), ("admin-address", ("--api-keys", keys.path)),
                                ("metrics-address", ("--api-keys", keys.path))):
                command = [BIN / "roost-router", "--http-address", "127.0.0.1:0", "--link-address", "tcp://127.0.0.1:0",
                           "--admin-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0", *flags]
                refused = subprocess.run([*command, f"--{flag}", "0.0.0.0:0"], capture_output=True, text=True,
                                         check=False, timeout=DEADLINE_SECONDS)
                self.assertNotEqual(refused.returncode, 0, flag)
                self.assertIn(flag, refused.stderr)
            cluster.start_router("--api-keys", keys.path, http="0.0.0.0:0")


class LocalSocketTest(unittest.TestCase):
    def test_operators_may_have_a_socket_for_their_user_alone(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "admin.sock"
            command = [BIN / "roost-router", "--http-address", "127.0.0.1:0", "--link-address", "tcp://127.0.0.1:0",
                       "--metrics-address", "", "--log-format", "json", "--drain-announce-seconds", "0",
                       "--admin-address", f"unix:{path}"]
            for _ in range(2):  # the second finds what the first left when it was killed
                router = Daemon(command)
                cluster.daemons.append(router)
                self.assertEqual(router.wait_for_log("router ready")["admin"], f"unix:{path}")
                self.assertEqual(path.stat().st_mode & 0o777, 0o600)
                told = subprocess.run([BIN / "roostctl", "status", "--admin", f"unix:{path}"], capture_output=True,
                                      text=True, check=False)
                self.assertEqual((told.returncode, "no workers" in told.stdout), (0, True), told.stderr)
                second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS)
                self.assertNotEqual(second.returncode, 0)
                self.assertIn("another process listens there", second.stderr)
                router.kill()
            path.unlink()
            path.write_text("a file")
            refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS)
            self.assertIn("not a socket", refused.stderr)
            self.assertEqual(path.read_text(), "a file")


class RoutersShareLimitsTest(unittest.TestCase):
    def test_two_routers_have_half_of_a_limit_each_while_both_live(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            secret = keys.add("app", "--requests-per-minute", "1000")
            first = cluster.start_router("--api-keys", keys.path)
            other = cluster.start_router("--api-keys", keys.path)
            cluster.start_worker("worker-a", "--router", f"{first.link},{other.link}")

            def limit(router):
                body = {"prompt": "Hens", "model": "demo-model", "max_tokens": 1}
                answer = router.request("POST", "/v1/completions", body, bearer(secret))
                return answer.headers.get("x-ratelimit-limit-requests") if answer.status == 200 else None

            wait_until(lambda: limit(first) == "500" and limit(other) == "500", "halves of the limit")
            other.kill()
            wait_until(lambda: limit(first) == "1000", "the whole limit")


class SharedPrefixesTest(unittest.TestCase):
    SYSTEM = text(80, "the system prompt that everybody has")

    def test_tenants_share_what_the_operator_allows_and_nothing_behind_it(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            keys.add("acme")
            keys.add("bird")
            shared = pathlib.Path(folder) / "shared.jsonl"
            shared.write_text("# for all\n" + json.dumps({"prompt": self.SYSTEM}) + "\n")
            router = cluster.start_router("--api-keys", keys.path, "--shared-prefixes", shared)
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)

            def ask(name, behind, **fields):
                body = {"prompt": self.SYSTEM + behind, "model": "demo-model", "max_tokens": 4, "temperature": 0,
                        "return_token_ids": True, **fields}
                answer = router.request("POST", "/v1/completions", body, bearer(keys.secrets[name]))
                self.assertEqual(answer.status, 200, answer.body)
                return answer.cached_tokens(), answer.text()

            behind = " " + text(40, "what acme asks")
            cold, told = ask("acme", behind)
            self.assertEqual(cold, 0)
            others, others_told = ask("bird", behind)
            again, again_told = ask("acme", behind)
            self.assertGreater(others, 200)
            self.assertGreater(again, others + 100)
            self.assertEqual(others % 16, 0)  # whole blocks: no token of what acme asked
            self.assertEqual({others_told, again_told}, {told})
            self.assertEqual(ask("bird", behind, cache_salt="s")[0], 0)
            # A short question behind it fills its first own block with the answer: that is its tenant's, too.
            short = ask("acme", " Hens?", max_tokens=40)[1]
            self.assertEqual(ask("bird", " Hens?" + short)[0] // 16, others // 16)
            # A tenant's erasure takes only blocks that no other tenant has: the shared front stays, and so do the
            # blocks of bird's questions.
            subprocess.run([BIN / "roostctl", "evict", "--admin", router.admin, "--tenant", "acme"], check=True,
                           capture_output=True)
            self.assertEqual(ask("acme", behind)[0], others)
            self.assertGreater(ask("bird", behind)[0], others + 100)


class ScriptedTest(unittest.TestCase):
    """With a worker that answers at once."""

    def start(self, cluster, folder, *flags, step_ms=0, hold_until=1):
        router = cluster.start_router("--worker-queue-bound", str(2 * STREAMS), "--max-connections", str(2 * STREAMS),
                                      "--max-queue", str(4 * STREAMS), "--stall-timeout-seconds", "60", *flags)
        script = pathlib.Path(folder) / "script.json"
        script.write_text(json.dumps([{"answer": ANSWER}]))
        cluster.daemons.append(
            Daemon([BIN / "roost-scripted-worker", "--model", DEMO_MODEL, "--served-model-name", "demo-model",
                    "--script", script, "--router", router.link, "--hold-until", hold_until, "--step-ms", step_ms]))
        wait_until(lambda: any(worker["ready"] for worker in router.workers()), "a ready worker")
        return router

    def test_keys_are_replaced_under_streams_and_none_is_dropped(self):
        if not load.allow_descriptors(2 * STREAMS + 200):
            self.skipTest(f"{STREAMS} streams need more descriptors than this process may have")
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            keys.add("old")
            router = self.start(cluster, folder, "--api-keys", keys.path, step_ms=max(1, STREAMS // 25),
                                hold_until=STREAMS + 1)
            answers = []
            thread = threading.Thread(target=lambda: answers.extend(self.stream(router, keys.secrets["old"], STREAMS)))
            thread.start()
            wait_until(lambda: router.metric("roost_router_active_requests") == STREAMS, f"{STREAMS} open streams")
            del keys.lines["old"]
            keys.add("new")
            os.kill(router.process.pid, signal.SIGHUP)
            wait_until(lambda: self.status(router, keys.secrets["old"]) == 401, "that the old key is gone")
            answers += self.stream(router, keys.secrets["new"], 1)  # the worker begins with it
            thread.join()
        texts = [load.text_of(load.events_of(answer)) for answer in answers]
        self.assertEqual(len(texts), STREAMS + 1)
        self.assertEqual(sum(each != ANSWER for each in texts), 0)

    def stream(self, router, key, count):
        request = load.chat_request("demo-model", [{"role": "user", "content": "Count."}], key=key, max_tokens=500)
        requests = iter([request] * count)
        port = int(router.address.rsplit(":", 1)[1])
        return asyncio.run(load.run_clients(port, count, lambda: next(requests, None)))

    def status(self, router, key):
        return router.request("GET", "/v1/models", headers=bearer(key)).status


if __name__ == "__main__":
    unittest.main(verbosity=2)

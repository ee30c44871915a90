"""Viewing and pinning prefixes: an operator's roostctl commands against real daemons."""

import json
import subprocess
import tempfile
import unittest

from cluster import BIN, Answer, Cluster, text, wait_until

BLOCK_TOKENS = 16
PROMPT = text(100, "the prompt")
SECRET = "The hen sits on a secret egg. "


def roostctl(router, command, *flags, code=0):
    arguments = [BIN / "roostctl", command, "--admin", router.admin, *flags]
    told = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert told.returncode == code, f"{arguments}: {told.returncode} {told.stdout} {told.stderr}"
    return told.stdout


class PrefixesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.router = cls.cluster.start_router("--show-prefix-text")
        cls.quiet = cls.cluster.start_router()
        links = f"{cls.router.link},{cls.quiet.link}"
        cls.cluster.start_worker("worker-a", "--router", links)
        cls.cluster.start_worker("worker-b", "--router", links, "--pin-limit", "0.01")  # 10 of 1,024 blocks
        for router in (cls.router, cls.quiet):
            router.wait_for_workers(2)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def ask(self, path, body):
        answer = self.router.request("POST", f"/admin/v1/{path}", {"model": "demo-model", **body})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def by_worker(self, path, body):
        return {worker["worker"]: worker for worker in self.ask(path, body)["workers"]}

    def test_a_warmed_prompt_is_matched_found_and_counted(self):
        prompt = "Warm. " + PROMPT
        before = self.ask("match", {"prompt": prompt})
        self.assertEqual({worker["held_blocks"] for worker in before["workers"]}, {0})
        blocks = before["prompt_tokens"] // BLOCK_TOKENS

        warmed = self.by_worker("warm", {"prompt": prompt, "workers": ["worker-b"]})
        self.assertEqual(list(warmed), ["worker-b"])
        self.assertEqual((warmed["worker-b"]["outcome"], warmed["worker-b"]["held_blocks"]), ("computed", blocks))
        again = self.by_worker("warm", {"prompt": prompt})
        self.assertEqual(again["worker-b"]["outcome"], "held")
        self.assertEqual((again["worker-a"]["outcome"], again["worker-a"]["held_blocks"]), ("pulled", blocks))

        match = self.ask("match", {"prompt": prompt})
        self.assertEqual({worker["held_blocks"] for worker in match["workers"]}, {blocks})
        answer = self.router.completion(prompt, temperature=0, max_tokens=1)
        self.assertGreaterEqual(answer.cached_tokens(), match["choice"]["cached_tokens"])
        self.assertGreater(answer.cached_tokens(), (blocks - 1) * BLOCK_TOKENS)

        told = roostctl(self.router, "match", "--model", "demo-model", "--prompt", prompt)
        self.assertIn(f"prompt {match['prompt_tokens']} tokens: ", told)
        self.assertIn(f"blocks 1-{blocks}: worker-a, worker-b", told)
        told = roostctl(self.router, "warm", "--model", "demo-model", "--prompt", prompt, "--workers", "worker-a")
        self.assertIn(f"worker-a: held all {blocks} blocks already", told)

    def test_a_warm_up_generates_nothing_for_anybody(self):
        before = self.router.metric("roost_router_worker_requests_total")
        copied = self.router.metric("roost_router_copied_tokens_total")
        self.ask("warm", {"prompt": "Nobody. " + PROMPT})
        self.assertEqual(self.router.metric("roost_router_worker_requests_total"), before)
        self.assertGreater(self.router.metric("roost_router_copied_tokens_total"), copied)

    def test_the_most_used_prefixes_are_listed_with_text_where_it_is_allowed(self):
        prompt = SECRET * 8
        for i in range(6):
            self.router.completion(prompt + text(20, f"own {i}"), temperature=0, max_tokens=1)
        listed = self.router.request("GET", "/admin/v1/prefixes?model=demo-model&top=50").json()
        self.assertTrue(all(worker["answered"] for worker in listed["workers"]))
        found = [each for each in listed["prefixes"] if each.get("begins", "").startswith(SECRET[:20])]
        self.assertTrue(found, listed)
        self.assertGreaterEqual(found[0]["hits"], 4)
        self.assertEqual(found[0]["tokens"], found[0]["blocks"] * BLOCK_TOKENS)
        hits = [each["hits"] for each in listed["prefixes"]]
        self.assertEqual(hits, sorted(hits, reverse=True))

        one = self.router.request("GET", "/admin/v1/prefixes?top=1").json()["prefixes"]
        self.assertEqual([each["hits"] for each in one], hits[:1])
        self.assertIn("secret egg", roostctl(self.router, "prefixes", "--top", "50"))
        hidden = roostctl(self.quiet, "prefixes", "--top", "50")
        self.assertIn(found[0]["hash"][:16], hidden)
        self.assertNotIn("secret", hidden)

    def test_a_pin_is_answered_with_what_was_kept(self):
        prompt = "Pinned. " + PROMPT
        body = {"prompt": prompt, "duration_ms": 60000}
        pinned = self.by_worker("pin", body)
        blocks = self.ask("match", {"prompt": prompt})["blocks"]
        self.assertGreater(blocks, 10)
        # The second worker has space for ten pins.
        self.assertEqual(
            [pinned["worker-a"][key] for key in ("kept_blocks", "pending_blocks", "refused_blocks")], [0, blocks, 0])
        self.assertEqual(
            [pinned["worker-b"][key] for key in ("kept_blocks", "pending_blocks", "refused_blocks")],
            [0, 10, blocks - 10])
        self.ask("warm", {"prompt": prompt})
        again = self.by_worker("pin", body)
        self.assertEqual((again["worker-a"]["kept_blocks"], again["worker-b"]["kept_blocks"]), (blocks, 10))
        told = roostctl(self.router, "pin", "--model", "demo-model", "--prompt", prompt, "--workers", "worker-a")
        self.assertIn(f"worker-a                 kept {blocks}, 0 more once they are computed, refused 0", told)
        unpinned = self.by_worker("unpin", body)
        self.assertEqual({worker["kept_blocks"] for worker in unpinned.values()}, {0})

    def held_by(self, router, prompt):
        answer = router.request("POST", "/admin/v1/match", {"model": "demo-model", "prompt": prompt}).json()
        return [worker["held_blocks"] for worker in answer["workers"]]

    def test_an_evicted_prompt_is_gone_from_the_caches_and_from_every_router(self):
        prompt = "Evicted. " + PROMPT
        self.ask("warm", {"prompt": prompt})
        self.ask("pin", {"prompt": prompt})
        self.assertGreater(self.router.completion(prompt, temperature=0, max_tokens=1).cached_tokens(), 0)
        for router in (self.router, self.quiet):
            wait_until(lambda: min(self.held_by(router, prompt)) > 0, "that the router knows of the blocks")

        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(prompt)
            file.flush()
            told = roostctl(self.router, "evict", "--model", "demo-model", "--prefix", file.name)
        self.assertRegex(told, r"evicted \d+ blocks\n  worker-a +\d+ blocks\n  worker-b +\d+ blocks\n")
        for router in (self.router, self.quiet):
            wait_until(lambda: max(self.held_by(router, prompt)) == 0, "that the router knows that they are gone")
            match = roostctl(router, "match", "--model", "demo-model", "--prompt", prompt)
            self.assertIn("0 cached in 0 blocks", match)
        self.assertEqual(self.router.completion(prompt, temperature=0, max_tokens=1).cached_tokens(), 0)
        roostctl(self.router, "evict", "--model", "demo-model", "--prompt", prompt)

    def test_a_stream_on_evicted_blocks_ends_right_and_leaves_nothing(self):
        prompt = "Streamed. " + PROMPT
        body = {"model": "demo-model", "prompt": prompt, "temperature": 0, "max_tokens": 400, "ignore_eos": True}
        expected = self.router.request("POST", "/v1/completions", body).json()
        connection = self.router.connect(self.router.url)
        connection.request("POST", "/v1/completions", json.dumps({**body, "stream": True}),
                           {"Content-Type": "application/json"})
        stream = connection.getresponse()
        first = stream.readline()
        evicted = self.ask("evict", {"prompt": prompt})
        told = (first + stream.read()).decode()
        connection.close()
        self.assertTrue(all(worker["answered"] for worker in evicted["workers"]))
        self.assertGreater(evicted["evicted_blocks"] + evicted["busy_blocks"], 0)
        answer = Answer(200, {"content-type": "text/event-stream"}, told)
        self.assertEqual(answer.text(), expected["choices"][0]["text"])
        self.assertTrue(answer.done)
        wait_until(lambda: max(self.held_by(self.router, prompt)) == 0, "that nothing of it is left")
        self.assertEqual(self.router.completion(prompt, temperature=0, max_tokens=1).cached_tokens(), 0)

    def test_a_tenant_of_whom_nothing_is_known_is_an_error(self):
        command = [BIN / "roostctl", "evict", "--admin", self.router.admin, "--tenant", "hens"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("tenant: 'hens' is unknown", done.stderr)

    def last_block(self, prompt):
        """The hash of the prompt's last block that requests share, as an operator finds it."""
        for i in range(3):
            self.router.completion(f"{prompt} {i} {text(20, i)}", temperature=0, max_tokens=1)
        listed = json.loads(roostctl(self.router, "prefixes", "--top", "100", "--json"))["prefixes"]
        mine = [each for each in listed if each.get("begins", "").startswith(prompt[:20])]
        self.assertTrue(mine, listed)
        return max(mine, key=lambda each: each["hits"])

    def test_a_block_that_prefixes_prints_can_be_pinned_and_evicted(self):
        prompt = "By its hash. " + PROMPT
        self.ask("warm", {"prompt": prompt, "workers": ["worker-a"]})
        block = self.last_block(prompt)["hash"]
        self.assertIn(block, roostctl(self.router, "prefixes", "--top", "100"))
        named = ["--model", "demo-model", "--hash", block]
        pinned = sum(worker["pinned_blocks"] for worker in self.router.workers())
        told = roostctl(self.router, "pin", *named, "--duration", "10m")
        self.assertIn(f"pin of block {block}\n  worker-a                 kept, with all blocks before it\n", told)
        wait_until(lambda: sum(w["pinned_blocks"] for w in self.router.workers()) > pinned + 10, "the whole front is pinned")
        self.assertIn("worker-a                 not pinned\n", roostctl(self.router, "unpin", *named))
        wait_until(lambda: sum(w["pinned_blocks"] for w in self.router.workers()) == pinned, "all of them are let go")

        told = roostctl(self.router, "evict", "--hash", block)
        self.assertRegex(told, r"evicted \d+ blocks\n")
        for router in (self.router, self.quiet):
            wait_until(lambda: max(self.held_by(router, prompt)) == 0, "that the router knows that they are gone")

        for command, error in ((["evict"], f"hash: no worker had block {block}"),
                               (["pin", "--model", "demo-model"], f"no worker of demo-model has block {block}")):
            done = subprocess.run([BIN / "roostctl", *command, "--admin", self.router.admin, "--hash", block],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(error, done.stderr)
        self.assertEqual(self.router.completion(prompt, temperature=0, max_tokens=1).cached_tokens(), 0)

    def both(self, command, *flags):
        """What programs get, and what people read."""
        return json.loads(roostctl(self.router, command, *flags, "--json")), roostctl(self.router, command, *flags)

    def test_programs_get_what_people_read(self):
        prompt = "For programs. " + PROMPT
        for _ in range(2):
            answer = self.router.completion(prompt, temperature=0, max_tokens=1).json()

        told, read = self.both("match", "--model", "demo-model", "--prompt", prompt)
        self.assertEqual({worker["worker"] for worker in told["workers"]}, {"worker-a", "worker-b"})
        self.assertGreater(max(worker["held_blocks"] for worker in told["workers"]), 0)
        for worker in told["workers"]:
            self.assertRegex(read, "{worker} +{held_blocks} +{pending_blocks} +{disk_blocks} +{cached_tokens}  {mode}\n".format(**worker))
        self.assertTrue(read.startswith(told["hit"] + "\n"), read)

        told, read = self.both("explain", answer["id"])
        (decision,) = told["decisions"]
        self.assertEqual(decision["id"], answer["id"])
        self.assertIn(f"went to      {decision['worker']} by {decision['policy']}: {decision['reason']} (", read)
        for kind in ("predicted", "actual", "round_robin"):
            self.assertRegex(read, f"{kind.replace('_', ' ')} +{decision[kind]['cached_tokens']} cached tokens, ")
        for candidate in decision["candidates"]:
            self.assertRegex(read, "{worker} +(held|compute|pull worker-[ab]) +{matched_tokens} +".format(**candidate))

        told, read = self.both("prefixes", "--top", "3")
        self.assertEqual(min(3, len(told["prefixes"])), len(told["prefixes"]))
        self.assertTrue(told["prefixes"])
        for prefix in told["prefixes"]:
            hits = ", ".join(f"{worker['worker']} {worker['hits']}" for worker in prefix["workers"])
            self.assertRegex(read, "{hits} +{blocks} +{tokens}  {hash}  .*".format(**prefix) + hits)

        told, read = self.both("status")
        self.assertEqual({worker["id"] for worker in told["workers"]}, {"worker-a", "worker-b"})
        self.assertTrue(read.startswith(told["verdict"]["text"] + "\n"), read)
        for worker in told["workers"]:
            row = r"{id} +{model} +{state} .* {cached_blocks}/{blocks} +{pinned_blocks} +{requests_total}\n"
            self.assertRegex(read, row.format(**worker))

    def test_explain_draws_what_a_request_hit(self):
        prompt = "Explained. " + PROMPT
        self.ask("warm", {"prompt": prompt})
        answer = self.router.completion(prompt, temperature=0, max_tokens=1).json()
        told = roostctl(self.router, "explain", answer["id"])
        prompt_tokens = answer["usage"]["prompt_tokens"]
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertIn(f"hit          prompt {prompt_tokens} tokens: {cached} cached in ", told)
        self.assertIn("blocks 1-", told)
        self.assertRegex(told, r"known then   blocks 1-\d+: .*\n +└─ .*tokens?: no worker\n")

    def test_wrong_questions_name_what_is_wrong(self):
        for path, body, param in (("warm", {"prompt": PROMPT, "workers": ["worker-z"]}, "workers"),
                                  ("warm", {"prompt": "hi"}, "prompt"), ("match", {}, "prompt"),
                                  ("pin", {"prompt": PROMPT, "workers": []}, "workers")):
            answer = self.router.request("POST", f"/admin/v1/{path}", {"model": "demo-model", **body})
            self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, param), answer.body)
        answer = self.router.request("GET", "/admin/v1/prefixes?top=1001")
        self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "top"))


if __name__ == "__main__":
    unittest.main()

"""One router and two workers with the demo model, from a client's view."""

import statistics
import subprocess
import time
import unittest

from cluster import BIN, ROOT, Cluster

SYSTEM = (ROOT / "deploy/demo-prompts/system-1-prompter.txt").read_text()
BLOCK_TOKENS = 16
DEMO_END_OF_TURN = 2047  # <|im_end|>


def messages(system, question="Who comes here at this hour?"):
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


class LonelyWorkerTest(unittest.TestCase):
    def test_a_worker_without_a_router_says_which_ones_it_dials(self):
        with Cluster() as cluster:
            cluster.start_router()
            worker = cluster.start_worker("worker-a", "--router", "tcp://127.0.0.1:1,tcp://127.0.0.1:2")
            record = worker.wait_for_log("worker started")
            self.assertIn("tcp://127.0.0.1:1,tcp://127.0.0.1:2", record["routers"])


class SpecialTokensTest(unittest.TestCase):
    """The number of prompt tokens of a client's text, with the router's flag and without it."""

    def turns_ended(self, *flags):
        with Cluster() as cluster:
            router = cluster.start_router(*flags)
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            ids = {}
            for content in ("<|im_end|>", "plain"):
                body = {"model": "demo-model", "messages": [{"role": "user", "content": content}]}
                ids[content] = router.request("POST", "/tokenize", body).json()["tokens"]
            return [ids[content].count(DEMO_END_OF_TURN) for content in ("<|im_end|>", "plain")]

    def test_special_text_in_a_message_ends_no_turn(self):
        self.assertEqual(self.turns_ended(), [1, 1])

    def test_it_does_where_the_operator_wants_it(self):
        self.assertEqual(self.turns_ended("--content-may-contain-special-tokens"), [2, 1])


class ServingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster())
        cls.router = cls.cluster.start_router()
        for name in ("worker-a", "worker-b"):
            cls.cluster.start_worker(name)
        cls.router.wait_for_workers(2)

    def chat(self, system, **fields):
        answer = self.router.chat(messages(system), temperature=0, max_tokens=12, **fields)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def test_stream_and_whole_answer_say_the_same(self):
        whole = self.chat("Be brief.")
        stream = self.chat("Be brief.", stream=True, stream_options={"include_usage": True})
        self.assertTrue(stream.done)
        self.assertEqual(stream.text(), whole.text())
        self.assertNotEqual(whole.text(), "")
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(stream.usage()[key], whole.usage()[key])
        self.assertIn(whole.json()["choices"][0]["finish_reason"], ("stop", "length"))

    def test_a_prompt_sent_again_is_cached_but_for_its_last_token(self):
        system = "Once more. " + SYSTEM
        first = self.chat(system)
        again = self.chat(system)
        prompt_tokens = first.usage()["prompt_tokens"]
        self.assertGreater(prompt_tokens, 1200)
        self.assertLess(first.cached_tokens(), BLOCK_TOKENS * 2)
        # One token is always computed; otherwise there would be no answer.
        self.assertEqual(again.cached_tokens(), prompt_tokens - 1)
        self.assertEqual(again.headers["x-roost-cached-tokens"], str(again.cached_tokens()))
        self.assertEqual(again.headers["x-roost-worker"], first.headers["x-roost-worker"])
        self.assertEqual(again.text(), first.text())

    def test_the_beginning_of_a_prompt_is_tokenized_once(self):
        self.chat("A second turn. " + SYSTEM)
        known = self.router.metric("roost_router_prompt_memo_hit_bytes_total")
        self.chat("A second turn. " + SYSTEM)
        self.assertGreater(self.router.metric("roost_router_prompt_memo_hit_bytes_total") - known, len(SYSTEM))

    def test_a_cached_prompt_takes_less_than_a_third_of_the_time(self):
        cold, warm = [], []
        for i in range(5):
            for side in (cold, warm):
                start = time.monotonic()
                self.router.chat(messages(f"Try {i}. {SYSTEM}"), temperature=0, max_tokens=1)
                side.append(time.monotonic() - start)
        self.assertLess(statistics.median(warm), statistics.median(cold) / 3)

    def test_no_false_hit_across_salts(self):
        system = "Salted. " + SYSTEM
        self.chat(system, cache_salt="one")
        self.assertEqual(self.chat(system, cache_salt="two").cached_tokens(), 0)
        self.assertGreater(self.chat(system, cache_salt="one").cached_tokens(), 0)

    def test_pins_name_the_blocks_that_requests_ask_for(self):
        system = "Pinned. " + SYSTEM
        body = {"model": "demo-model", "messages": messages(system)[:1], "duration_ms": 60000}
        answer = self.router.request("POST", "/admin/v1/pin", body)
        self.assertEqual(answer.status, 200, answer.body)
        pinned = answer.json()
        self.assertEqual(pinned["blocks"], pinned["tokens"] // BLOCK_TOKENS)
        self.assertGreaterEqual(len(pinned["workers"]), 1)
        self.assertTrue(all(worker["answered"] for worker in pinned["workers"]))
        unpinned = self.router.request("POST", "/admin/v1/unpin", body).json()
        self.assertEqual([worker["kept_blocks"] for worker in unpinned["workers"]], [0] * len(pinned["workers"]))
        missing = self.router.request("POST", "/admin/v1/pin", {**body, "model": "none"})
        self.assertEqual((missing.status, missing.json()["error"]["param"]), (404, "model"))
        command = [BIN / "roostctl", "pin", "--admin", self.router.admin, "--model", "demo-model", "--prompt", system]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertIn(pinned["workers"][0]["worker"], told)

    def test_completions_take_text_and_token_ids(self):
        answer = self.router.completion("Now is the winter", temperature=0, max_tokens=8)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.usage()["completion_tokens"], 8)
        ids = self.router.completion([5, 6, 7, 8], temperature=0, max_tokens=4, ignore_eos=True)
        self.assertEqual(ids.usage()["prompt_tokens"], 4)
        self.assertEqual(ids.usage()["completion_tokens"], 4)

    def test_seeded_sampling_repeats_and_seeds_differ(self):
        def draw(seed):
            answer = self.router.completion("My lord,", temperature=1.0, seed=seed, max_tokens=24, ignore_eos=True)
            return answer.text()

        self.assertEqual(draw(7), draw(7))
        self.assertNotEqual(draw(7), draw(8))

    def test_penalties_and_bias_change_a_greedy_answer(self):
        def complete(**fields):
            answer = self.router.completion([5, 9, 17, 33], **{"temperature": 0, "max_tokens": 24, "ignore_eos": True} | fields)
            self.assertEqual(answer.status, 200, answer.body)
            return answer.text()

        plain = complete()
        self.assertEqual(complete(presence_penalty=0, frequency_penalty=0, repetition_penalty=1, min_p=0.5), plain)
        for fields in ({"presence_penalty": 2}, {"frequency_penalty": 2}, {"repetition_penalty": 5}):
            self.assertNotEqual(complete(**fields), plain, fields)
            self.assertEqual(complete(**fields), complete(**fields))
        # Allows one token and no other.
        self.assertEqual(complete(logit_bias={"300": 100}), complete(max_tokens=1, logit_bias={"300": 100}) * 24)
        refused = self.router.completion([5, 9, 17, 33], min_p=2)
        self.assertEqual((refused.status, refused.json()["error"]["param"]), (400, "min_p"))

    def test_predicted_cached_tokens_equal_the_actual_ones(self):
        before = self.router.metric("roost_router_prediction_error_tokens_total")
        for i in range(20):
            self.chat(f"Predict {i % 4}. {SYSTEM}")
        self.assertEqual(self.router.metric("roost_router_prediction_error_tokens_total"), before)

    def test_choices_come_from_one_prefill(self):
        def draw(**fields):
            answer = self.router.chat(messages("Three of them."), max_tokens=8, ignore_eos=True, **fields)
            self.assertEqual(answer.status, 200, answer.body)
            return [choice["message"]["content"] for choice in answer.json()["choices"]], answer.usage()

        greedy, usage = draw(n=3, temperature=0)
        self.assertEqual(len(greedy), 3)
        self.assertEqual(len(set(greedy)), 1)
        self.assertEqual(usage["completion_tokens"], 24)
        drawn, _ = draw(n=3, temperature=1.0, seed=5)
        alone = [draw(temperature=1.0, seed=5 + i)[0][0] for i in range(3)]
        self.assertEqual(drawn, alone)

    def test_a_request_may_leave_the_cache_alone(self):
        system = "Nothing of this stays. " + SYSTEM
        for _ in range(2):
            self.assertEqual(self.chat(system, cache="off").cached_tokens(), 0)
        self.assertLess(self.chat(system).cached_tokens(), BLOCK_TOKENS * 2)

    def test_hints_are_taken(self):
        answer = self.chat("Keep this.", priority=70, session_id="s", expect_return_ms=5000,
                           cache={"retention": {"priority": 80, "duration_ms": 60000}})
        self.assertNotEqual(answer.text(), "")

    def test_small_routes_answer(self):
        self.assertEqual(self.router.request("GET", "/health").status, 200)
        self.assertEqual(self.router.request("GET", "/ready").status, 200)
        models = self.router.request("GET", "/v1/models").json()
        self.assertEqual([model["id"] for model in models["data"]], ["demo-model"])
        self.assertGreater(self.router.metric("roost_router_prompt_tokens_total", model="demo-model"), 0)
        missing = self.router.request("GET", "/v1/nothing")
        self.assertEqual((missing.status, missing.json()["error"]["type"]), (404, "invalid_request_error"))


class SameTokensTest(unittest.TestCase):
    """Greedy output is the same on every worker, at every time and in every batch."""

    def test_on_workers_that_cut_and_batch_and_preempt_differently(self):
        flags = {
            "plain": [],
            "small-chunks": ["--max-batch-tokens", "48"],
            "small-blocks": ["--block-tokens", "4", "--kv-blocks", "4096"],
            "one-at-a-time": ["--max-running-requests", "1"],
            # Two requests of this test do not fit together: one is preempted.
            "small-pool": ["--kv-blocks", "136"],
            "two-threads": ["--threads", "2"],
            "planned-ahead": ["--plan-ahead", "on"],
        }
        seen = {}
        for name, extra in flags.items():
            with Cluster() as cluster:
                router = cluster.start_router()
                cluster.start_worker(name, *extra)
                router.wait_for_workers(1)
                seen[name] = self.texts(router)
        for name, texts in seen.items():
            self.assertEqual(texts, seen["plain"], name)

    def texts(self, router):
        import concurrent.futures

        def ask(question):
            answer = router.chat(messages(SYSTEM, question), temperature=0, max_tokens=200, ignore_eos=True)
            assert answer.status == 200, answer.body
            return answer.text()

        questions = [f"What is the {word} thing?" for word in ("first", "second", "third", "fourth")]
        alone = [ask(questions[0]), ask(questions[0])]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return alone + list(pool.map(ask, questions))


if __name__ == "__main__":
    unittest.main()

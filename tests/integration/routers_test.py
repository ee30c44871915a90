"""Two routers that share a worker and know only what the worker tells about each other."""

import threading
import unittest

from cluster import Cluster, text, wait_until

LONG_PROMPTS = 12
DOCUMENTS = 8
LONG_WORDS = 700  # about 2,900 tokens
LONGER_WORDS = 900
SHORT_WORDS = 30


class RoutersTest(unittest.TestCase):
    def test_a_short_prompt_does_not_wait_for_the_long_ones_of_another_router(self):
        with Cluster() as cluster:
            crowded = cluster.start_router()
            other = cluster.start_router()
            cluster.start_worker("worker-a", "--router", crowded.link)
            for router in (crowded, other):
                router.wait_for_workers(1)
                router.learn_rates()

            statuses = []

            def ask(router, words, seed):
                statuses.append(router.completion(text(words, seed), max_tokens=1).status)

            threads = [threading.Thread(target=ask, args=(crowded, LONG_WORDS, seed)) for seed in range(LONG_PROMPTS)]
            for thread in threads:
                thread.start()
            wait_until(lambda: other.workers()[0]["queued_prefill_tokens"] > 20_000, "a long queue")
            longer = threading.Thread(target=ask, args=(other, LONGER_WORDS, "longer"))
            longer.start()
            ask(other, SHORT_WORDS, "short")
            for thread in [*threads, longer]:
                thread.join()
            decisions = other.decisions(2)

        self.assertEqual(statuses, [200] * (LONG_PROMPTS + 2))
        short, longer = sorted(decisions, key=lambda decision: decision["prompt_tokens"])
        before = [decision["candidates"][0]["queue_seconds"] for decision in (short, longer)]
        print(f"behind the other router's prompts: {before[0]:.3f} s for {short['prompt_tokens']} tokens, {before[1]:.3f} s "
              f"for {longer['prompt_tokens']}; first tokens came after {short['actual']['ttft_seconds']:.3f} and "
              f"{longer['actual']['ttft_seconds']:.3f} s")
        self.assertLess(before[0], before[1] / 5)
        self.assertLess(short["actual"]["ttft_seconds"], longer["actual"]["ttft_seconds"] / 2)

    def test_siblings_follow_a_prompt_that_is_computed_for_another_router(self):
        with Cluster() as cluster:
            first = cluster.start_router()
            other = cluster.start_router()
            for name in ("worker-a", "worker-b"):
                cluster.start_worker(name, "--router", f"{first.link},{other.link}")
            for router in (first, other):
                router.wait_for_workers(2)
                router.learn_rates()

            answers = []

            def ask(router, document, question):
                answers.append((router, router.completion(f"{text(LONG_WORDS, document)} {question}", max_tokens=1)))

            def start(router, question):
                threads = [threading.Thread(target=ask, args=(router, n, question)) for n in range(DOCUMENTS)]
                for thread in threads:
                    thread.start()
                return threads

            threads = start(first, "one")

            def has_heard_of_all():
                requests = sum(worker["waiting_requests"] + worker["running_requests"] for worker in other.workers())
                return requests >= DOCUMENTS or answers

            wait_until(has_heard_of_all, "that the other router hears of all prompts")
            threads += start(other, "two")
            for thread in threads:
                thread.join()
            decisions = other.decisions(DOCUMENTS)

        self.assertEqual({answer.status for _, answer in answers}, {200})
        pending = [
            candidate["pending_tokens"]
            for decision in decisions
            for candidate in decision["candidates"]
            if candidate["worker"] == decision["worker"]
        ]
        cached = [decision["actual"]["cached_tokens"] for decision in decisions]
        print(f"of {[decision['prompt_tokens'] for decision in decisions]} prompt tokens, {pending} were being computed for "
              f"the other router, and {cached} had not to be computed again")
        self.assertGreater(sum(tokens > 1_000 for tokens in pending), DOCUMENTS * 3 / 4)
        self.assertGreater(sum(tokens > 1_000 for tokens in cached), DOCUMENTS * 3 / 4)


if __name__ == "__main__":
    unittest.main()

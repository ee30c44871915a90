"""Two routers that share a worker and know nothing of each other, but for what the worker tells."""

import random
import threading
import unittest

from cluster import Cluster, wait_until

LONG_PROMPTS = 12
LONG_WORDS = 700  # about 2,900 tokens
LONGER_WORDS = 900
SHORT_WORDS = 30


def text(words, seed):
    draw = random.Random(seed)
    return " ".join("".join(draw.choice("abcdefgh") for _ in range(5)) for _ in range(words))


class RoutersTest(unittest.TestCase):
    def test_a_short_prompt_does_not_wait_for_the_long_ones_of_another_router(self):
        with Cluster() as cluster:
            crowded = cluster.start_router()
            other = cluster.start_router()
            cluster.start_worker("worker-a", "--router", crowded.link)
            for router in (crowded, other):
                router.wait_for_workers(1)
                for seed in range(6):  # then they know how fast it is
                    router.completion(text(100, f"{router.url} {seed}"), max_tokens=2)

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
            decisions = other.request("GET", "/admin/v1/decisions?limit=2").json()["decisions"]

        self.assertEqual(statuses, [200] * (LONG_PROMPTS + 2))
        short, longer = sorted(decisions, key=lambda decision: decision["prompt_tokens"])
        before = [decision["candidates"][0]["queue_seconds"] for decision in (short, longer)]
        print(f"behind the other router's prompts: {before[0]:.3f} s for {short['prompt_tokens']} tokens, {before[1]:.3f} s "
              f"for {longer['prompt_tokens']}; first tokens came after {short['actual']['ttft_seconds']:.3f} and "
              f"{longer['actual']['ttft_seconds']:.3f} s")
        self.assertLess(before[0], before[1] / 5)
        self.assertLess(short["actual"]["ttft_seconds"], longer["actual"]["ttft_seconds"] / 2)


if __name__ == "__main__":
    unittest.main()

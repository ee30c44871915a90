"""A hot prefix of which one worker has the only copy: the router has the other one compute it, and no request waits for
that."""

import itertools
import random
import threading
import unittest

from cluster import Cluster, wait_until

HOT_WORDS = 700  # about 2,900 tokens
OWN_WORDS = 60
AT_ONCE = 5
BLOCK_TOKENS = 16


def text(words, seed):
    draw = random.Random(seed)
    return " ".join("".join(draw.choice("abcdefgh") for _ in range(5)) for _ in range(words))


class CopiesTest(unittest.TestCase):
    def test_siblings_find_the_copy_that_none_of_them_computed(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            for name in ("worker-a", "worker-b"):
                cluster.start_worker(name, "--router", router.link)
            router.wait_for_workers(2)
            seeds = itertools.count()

            def decisions(limit):
                return router.request("GET", f"/admin/v1/decisions?limit={limit}").json()["decisions"]

            def knows_rates():
                router.completion(text(100, next(seeds)), max_tokens=2)
                return decisions(1)[0]["rates_known"]

            wait_until(knows_rates, "that the router knows rates")

            def ask(hot):
                router.completion(f"{hot} {text(OWN_WORDS, next(seeds))}", max_tokens=2)

            # A prefix of which a request itself made the second copy is none any more to be copied.
            def is_copied():
                hot = text(HOT_WORDS, f"hot {next(seeds)}")
                ask(hot)
                for _ in range(3):
                    threads = [threading.Thread(target=ask, args=(hot,)) for _ in range(AT_ONCE)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    copies = [each["copy"] for each in decisions(AT_ONCE) if each["copy"] is not None]
                    whole = [copy for copy in copies if copy["blocks"] > 100]
                    if whole:
                        return hot, whole[0]
                return None

            hot, copy = wait_until(is_copied, "a copy")

            def found_by_a_sibling():
                ask(hot)
                last = decisions(1)[0]
                return last if last["worker"] == copy["worker"] else None

            sibling = wait_until(found_by_a_sibling, "a request at the copy")
            copied = router.metric("roost_router_copied_tokens_total")

        print(f"{copy['blocks']} blocks copied to {copy['worker']}, {copied:.0f} tokens in all; a sibling found "
              f"{sibling['actual']['cached_tokens']} of its {sibling['prompt_tokens']} tokens there")
        self.assertGreaterEqual(copied, 256)  # a piece
        self.assertGreater(sibling["actual"]["cached_tokens"], 0.9 * copy["blocks"] * BLOCK_TOKENS)


if __name__ == "__main__":
    unittest.main()

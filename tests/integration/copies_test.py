"""A hot prefix has its only copy on one worker: the router lets the other worker fetch or compute it, and no request waits
for that."""

import itertools
import threading
import unittest

from cluster import Cluster, text, wait_until

HOT_WORDS = 700  # about 2,900 tokens
OWN_WORDS = 60
AT_ONCE = 5
WAVES = 3
BLOCK_TOKENS = 16


class CopiesTest(unittest.TestCase):
    def test_siblings_find_the_copy_that_none_of_them_computed(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            for name in ("worker-a", "worker-b"):
                cluster.start_worker(name, "--router", router.link)
            router.wait_for_workers(2)
            router.learn_rates()
            seeds = itertools.count()

            def ask(hot):
                router.completion(f"{hot} {text(OWN_WORDS, next(seeds))}", max_tokens=2)

            # A prefix that a request has computed a second time needs no copy any more.
            def is_copied():
                hot = text(HOT_WORDS, f"hot {next(seeds)}")
                ask(hot)
                for wave in range(1, WAVES + 1):
                    threads = [threading.Thread(target=ask, args=(hot,)) for _ in range(AT_ONCE)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    made = [each["copy"] for each in router.decisions(AT_ONCE) if each["copy"] is not None]
                    whole = [copy for copy in made if copy["blocks"] > 100]
                    if whole:
                        return hot, whole[0], router.decisions(wave * AT_ONCE)
                return None

            hot, copy, waiting = wait_until(is_copied, "a copy")

            def found_by_a_sibling():
                ask(hot)
                last = router.decisions(1)[0]
                return last if last["worker"] == copy["worker"] else None

            sibling = wait_until(found_by_a_sibling, "a request at the copy")
            pulled = router.metric("roost_router_pulled_tokens_total")
            copied = router.metric("roost_router_copied_tokens_total") + pulled

        print(f"{copy['blocks']} blocks copied to {copy['worker']}, {copied:.0f} tokens in all, {pulled:.0f} of them pulled; a sibling found "
              f"{sibling['actual']['cached_tokens']} of its {sibling['prompt_tokens']} tokens there")
        copy_tokens = copy["blocks"] * BLOCK_TOKENS
        for each in waiting:  # siblings that came while the copy was made
            self.assertLess(each["prompt_tokens"] - each["actual"]["cached_tokens"], copy_tokens)
        self.assertGreater(copied, copy_tokens / 4)
        self.assertGreater(pulled, 0)
        self.assertGreater(sibling["actual"]["cached_tokens"], 0.9 * copy_tokens)


if __name__ == "__main__":
    unittest.main()

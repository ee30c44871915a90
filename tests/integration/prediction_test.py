"""The router's view of two workers' caches at the decision is what requests then find there."""

import subprocess
import unittest

from cluster import BIN, ROOT, Cluster

PROMPTS = ROOT / "deploy/demo-prompts"
BLOCK_TOKENS = 16


class PredictionTest(unittest.TestCase):
    def test_predicted_cached_tokens_equal_the_actual_ones_under_a_load_of_conversations(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            for name in ("worker-a", "worker-b"):
                cluster.start_worker(name)
            router.wait_for_workers(2)
            command = [BIN / "roostctl", "bench", "--router", router.url, "--prompts", PROMPTS, "--concurrency", "8",
                       "--conversations", "128", "--turns", "4", "--max-tokens", "16", "--seed", "1"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            decisions = router.request("GET", "/admin/v1/decisions?limit=1024").json()["decisions"]

        outcomes = [(d["predicted"]["cached_tokens"], d["actual"]["cached_tokens"]) for d in decisions if d["actual"]]
        self.assertGreaterEqual(len(outcomes), 512)
        self.assertGreater(len([actual for _, actual in outcomes if actual > 0]), len(outcomes) / 2)
        self.assertEqual(len({d["worker"] for d in decisions}), 2)
        # Workers report whole blocks; a request finds less than a block beyond them.
        wrong = [(said, found) for said, found in outcomes if not said <= found < said + BLOCK_TOKENS]
        share = 1 - len(wrong) / len(outcomes)
        print(f"predicted cached tokens were right for {share:.2%} of {len(outcomes)} requests; wrong: {wrong}")
        self.assertGreaterEqual(share, 0.99)


if __name__ == "__main__":
    unittest.main()

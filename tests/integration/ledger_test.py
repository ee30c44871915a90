"""The savings ledger on real daemons: it adds up to what clients were told, over routers, restarts and kill -9, and a simulation
of the same traffic finds the same savings."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from cluster import BIN, ROOT, Cluster, text, wait_until
from keys import KeyFile, bearer

SYSTEM = (ROOT / "deploy/demo-prompts/system-1-prompter.txt").read_text()
COUNTS = ("requests", "prompt_tokens", "cached_tokens", "output_tokens")


def run_savings(*arguments):
    return subprocess.run([BIN / "roostctl", "savings", *map(str, arguments)], capture_output=True, text=True)


def savings(*folders):
    """What roostctl adds up: (tenant, key) -> row."""
    told = run_savings(*folders, "--json")
    assert told.returncode == 0, told.stderr
    return {(row["tenant"], row["key"]): row for row in json.loads(told.stdout)["rows"]}


class LedgerTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.ledger = folder / "ledger"
        self.keys = KeyFile(folder)
        for name in ("chat", "batch"):
            self.keys.add(name, "--tenant", "acme")
        self.cluster = self.enterContext(Cluster())
        self.told = {name: dict.fromkeys(COUNTS, 0) for name in ("chat", "batch")}

    def start_router(self, *flags):
        return self.cluster.start_router("--ledger", self.ledger, "--api-keys", self.keys.path, *flags)

    def ask(self, router, key, seed, told=True):
        body = {"prompt": text(60, f"ledger {seed}"), "model": "demo-model", "max_tokens": 3, "temperature": 0}
        answer = router.request("POST", "/v1/completions", body, bearer(self.keys.secrets[key]))
        self.assertEqual(answer.status, 200, answer.body)
        usage = answer.usage()
        if told:
            counts = (1, usage["prompt_tokens"], answer.cached_tokens(), usage["completion_tokens"])
            for name, count in zip(COUNTS, counts):
                self.told[key][name] += count
        return answer

    def rows(self):
        rows = savings(self.ledger)
        return {key: {name: rows.get(("acme", key), {}).get(name, 0) for name in COUNTS} for key in self.told}

    def test_it_adds_up_over_routers_restarts_and_kills(self):
        router, other = self.start_router(), self.start_router()
        worker = self.cluster.start_worker("worker-a", "--router", router.link)
        for each in (router, other):
            each.wait_for_workers(1)
        for i in range(6):
            self.ask(router, "chat", i % 2)
            self.ask(other, "batch", i % 2)
        wait_until(lambda: self.rows() == self.told, "that both routers have written")
        written = self.rows()
        # What was answered within the last second before the kill may be lost, and nothing before it.
        for i in range(4):
            self.ask(router, "chat", i, told=False)
        router.kill()
        after = self.rows()
        self.assertEqual(after["batch"], written["batch"])
        self.assertIn(after["chat"]["requests"], range(6, 11))
        self.told["chat"] = after["chat"]
        again = self.start_router()
        third = self.cluster.start_worker("worker-b", "--router", again.link)
        again.wait_for_workers(1)
        for i in range(3):
            self.ask(again, "chat", i)
        self.assertEqual(again.stop(), 0)  # writes what is left
        self.assertEqual(self.rows(), self.told)
        self.assertEqual(other.stop(), 0)
        self.assertEqual(self.rows(), self.told)
        for each in (worker, third):
            each.stop()

    def test_roostctl_prints_prices_and_names_what_is_wrong(self):
        router = self.start_router()
        self.cluster.start_worker("worker-a")
        router.wait_for_workers(1)
        for _ in range(3):
            self.ask(router, "chat", 0)
        router.stop()
        table = run_savings(self.ledger, "--since", "24h", "--price-per-worker-hour", "3600")
        self.assertEqual(table.returncode, 0, table.stderr)
        head, row, total = table.stdout.splitlines()
        self.assertIn("beyond RR", head)
        self.assertEqual(row.split()[:4], ["acme", "chat", "demo-model", "3"])
        self.assertEqual(row.split()[3:-2], total.split()[1:-2])
        self.assertAlmostEqual(float(row.split()[-2]), float(row.split()[-4]), delta=0.06)  # 3600 an hour: 1 a second
        wrong = run_savings(self.ledger, "--since", "yesterday")
        self.assertEqual((wrong.returncode, "yesterday" in wrong.stderr), (64, True))
        missing = run_savings("/nonexistent")
        self.assertEqual((missing.returncode, "/nonexistent" in missing.stderr), (1, True))
        (file,) = self.ledger.glob("*.jsonl")
        file.write_text("no row\n" + file.read_text() + '{"hour":')
        damaged = run_savings(self.ledger)
        self.assertEqual((damaged.returncode, f"{file}:1 " in damaged.stderr), (1, True))
        self.assertEqual(damaged.stdout.splitlines()[1].split()[3], "3")

    def test_a_simulation_of_the_recorded_traffic_finds_the_same_savings(self):
        recording = self.ledger.parent / "recording.jsonl"
        router = self.start_router("--record", recording)
        for name in ("worker-a", "worker-b"):
            self.cluster.start_worker(name)
        router.wait_for_workers(2)
        # One conversation stays at one worker, and every other turn of round robin would have met it there: 12 of the 24 that find
        # something, whichever worker it is.
        messages = [{"role": "system", "content": SYSTEM + text(400, "what never changes")}]
        for turn in range(25):
            messages.append({"role": "user", "content": f"And {turn}?"})
            body = {"messages": messages, "model": "demo-model", "max_tokens": 1, "temperature": 0}
            answer = router.request("POST", "/v1/chat/completions", body, bearer(self.keys.secrets["chat"]))
            self.assertEqual(answer.status, 200, answer.body)
            messages.append({"role": "assistant", "content": answer.text()})
        self.assertEqual(router.stop(), 0)
        row = savings(self.ledger)["acme", "chat"]
        command = [BIN / "roostctl", "simulate", "--trace", recording, "--format", "roost", "--workers", "2",
                   "--utilisation", "0", "--json"]
        simulated = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        beyond = (row["cached_tokens"] - row["round_robin_tokens"]) / row["prompt_tokens"]
        expected = simulated["hit_ratio"] - simulated["round_robin_hit_ratio"]
        self.assertGreater(expected, 0.3)
        self.assertAlmostEqual(beyond, expected, delta=0.05 * expected)
        self.assertGreaterEqual(row["best_worker_tokens"], row["cached_tokens"])
        # With caches of its own round robin fills both workers' with the conversation: a turn finds what the one before it at the
        # same worker has left, so it misses two turns in place of one, where the shadow finds nothing at every second worker.
        own = (self.ledger, "--recording", recording, "--workers", "2")
        filled = json.loads(run_savings(*own, "--cache-tokens", "100000", "--json").stdout)["own_caches"]
        self.assertAlmostEqual(filled["hit_ratio"], simulated["hit_ratio"], delta=0.01)
        self.assertLess(filled["round_robin_hit_ratio"], filled["hit_ratio"])
        self.assertGreater(filled["round_robin_hit_ratio"], simulated["round_robin_hit_ratio"] + 0.1)
        self.assertIn("round robin with caches of its own: ", run_savings(*own, "--cache-tokens", "100000").stdout)
        wrong = run_savings(*own)
        self.assertEqual((wrong.returncode, "cache-tokens" in wrong.stderr), (64, True))


if __name__ == "__main__":
    unittest.main()

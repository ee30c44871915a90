"""A worker beside a double of vLLM with several data-parallel ranks is a worker for each of them: what of a prompt is
cached, and what becomes of requests when the engine dies."""

import concurrent.futures
import contextlib
import random
import unittest

from adapter_suite import BLOCK_TOKENS, Fleet, wait_until
from adapter_test import DoubleEngine
import side_by_side
from free_ports import free_ports

RANKS = 8
SESSIONS = 60
TURNS = 4
TURN_TOKENS = 4 * BLOCK_TOKENS
BLOCKS = 600  # of a rank: evictions are not the question here


class RankedEngine(DoubleEngine):
    def free_events_ports(self):
        return free_ports(RANKS), free_ports(RANKS)

    def __init__(self, *flags):
        super().__init__("--data-parallel-size", str(RANKS), "--blocks", str(BLOCKS), "--token-ms", "1", *flags)

    def metric(self, name):
        lines = [line for line in self.request("GET", "/metrics").splitlines() if line.startswith(f"vllm:{name}{{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def ask_conversations(fleet):
    """Sessions that each grow by a turn, in another order each time."""
    draw = random.Random(30)
    sessions = [[] for _ in range(SESSIONS)]
    for _ in range(TURNS):
        for session in draw.sample(sessions, SESSIONS):
            session += [draw.randrange(1900) for _ in range(TURN_TOKENS)]
            fleet.complete([*session, 1], max_tokens=1)


class RanksTest(unittest.TestCase):
    engine_kind = "vllm"

    def start(self, make):
        engine = make()
        self.addCleanup(engine.kill)
        return engine

    @contextlib.contextmanager
    def fleet(self, *engines, workers):
        fleet = Fleet(self, engines, worker_flags=("--engine-timeout-seconds", "2"))
        with fleet.cluster:
            fleet.router.wait_for_workers(workers)
            yield fleet

    def hit_rate(self, engines):
        with self.fleet(*engines, workers=RANKS) as fleet:
            ask_conversations(fleet)
            modes = {worker["mode"] for worker in fleet.router.workers()}
        queries = sum(engine.metric("prefix_cache_queries_total") for engine in engines)
        return sum(engine.metric("prefix_cache_hits_total") for engine in engines) / queries, modes

    def test_a_prompt_goes_to_the_rank_that_holds_it(self):
        apart, _ = self.hit_rate([self.start(lambda: RankedEngine("--data-parallel-size", "1")) for _ in range(RANKS)])
        ranks, modes = self.hit_rate([self.start(RankedEngine)])
        anywhere, _ = self.hit_rate([self.start(lambda: RankedEngine("--ignore-rank"))])
        print(f"cached: {apart:.3f} of {RANKS} engines, {ranks:.3f} of {RANKS} ranks, {anywhere:.3f} of ranks at random")
        self.assertGreater(apart, 0.5)
        self.assertEqual(modes, {"exact"})
        self.assertGreaterEqual(ranks, 0.98 * apart)
        self.assertLessEqual(anywhere, 0.3 * apart)

    def test_each_rank_has_its_name_its_room_and_its_load(self):
        engine = self.start(RankedEngine)
        with self.fleet(engine, workers=RANKS) as fleet:
            workers = {worker["id"]: worker for worker in fleet.router.workers()}
            self.assertEqual(sorted(workers), [f"beside-0/{rank}" for rank in range(RANKS)])
            self.assertEqual({worker["blocks"] for worker in workers.values()}, {(BLOCKS - 1) * BLOCK_TOKENS // 16})
            self.assertEqual({worker["engine"] for worker in workers.values()}, {"vllm 0.32.0"})
            prompt = [random.Random(31).randrange(1900) for _ in range(50)]
            with fleet.stream(prompt, max_tokens=1500, ignore_eos=True) as tokens:
                next(tokens)
                busy = fleet.router.decisions(1)[0]["worker"]
                wait_until(lambda: fleet.worker(busy)["free_blocks"] < fleet.worker(busy)["blocks"], "that it is told")
                idle = [w for w in fleet.router.workers() if w["id"] != busy]
                self.assertEqual({w["running_requests"] for w in idle}, {0})
            self.assertEqual(fleet.workers["beside-0"].stop(), 0)

    def test_a_killed_engine_takes_all_its_ranks_along_and_no_request(self):
        ranked, other = self.start(RankedEngine), self.start(lambda: DoubleEngine("--token-ms", "1"))
        draw = random.Random(32)
        prompts = [[draw.randrange(1900) for _ in range(50)] for _ in range(3 * RANKS)]
        with self.fleet(ranked, other, workers=RANKS + 1) as fleet:
            expected = [other.tokens(prompt, 400) for prompt in prompts[:3]]

            def states():
                return {w["id"]: w["state"] for w in fleet.router.workers() if w["id"].startswith("beside-0/")}

            with concurrent.futures.ThreadPoolExecutor(len(prompts)) as clients:
                answers = [clients.submit(fleet.tokens, prompt, max_tokens=400) for prompt in prompts]
                wait_until(lambda: ranked.running() >= RANKS, "that the ranks compute")
                ranked.kill()
                wait_until(lambda: set(states().values()) == {"away"}, "that all ranks are away")
                self.assertEqual(len(states()), RANKS)
                for answer, tokens in zip(answers, expected):
                    self.assertEqual(answer.result(), tokens)
                for answer in answers:
                    answer.result()
            body = fleet.router.request("GET", "/admin/v1/workers").json()
            self.assertIn("their engine can not be reached since", body["verdict"]["text"])
            self.assertEqual(body["lost"], [])
            ranked.start()
            wait_until(lambda: set(states().values()) == {"ready"}, "that all ranks are back")


if __name__ == "__main__":
    side_by_side.main(2)

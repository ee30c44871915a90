"""Workers beside doubles of vLLM (vllm_double.py): the suite that real vLLM passes too, and failures that only a double
has at will."""

import http.client
import json
import random
import signal
import subprocess
import sys
import unittest

import adapter_suite
from adapter_suite import BLOCK_TOKENS, DEMO_MODEL, GRAIN_TOKENS, Fleet, wait_until
from vllm_double_test import HERE, free_port

import side_by_side  # noqa: E402  adapter_suite knows where it is
from cluster import BIN, Cluster, text  # noqa: E402


class DoubleEngine:
    """A double that can be killed and started again at the same addresses."""

    model = DEMO_MODEL

    def __init__(self, *flags):
        self.port = free_port()
        events_port, replay_port = self.free_events_ports()
        self.events = f"tcp://127.0.0.1:{events_port}"
        self.replay = f"tcp://127.0.0.1:{replay_port}"
        self.flags = flags
        self.process = None
        self.start()

    def free_events_ports(self):
        return free_port(), free_port()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "vllm_double.py", "--port", str(self.port), "--events", self.events, "--replay",
             self.replay, *self.flags], stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the double did not start")

    def signal(self, number):
        self.process.send_signal(number)

    def hang(self):
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def running(self):
        page = self.request("GET", "/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if "num_requests_running{" in line)

    def looks(self):
        """The number of reads of its metrics."""
        return int(self.request("GET", "/looks"))

    def tokens(self, prompt, count, model="demo-model"):
        body = {"model": model, "prompt": prompt, "max_tokens": count, "temperature": 0, "return_token_ids": True,
                "stream": True}
        return list(adapter_suite.tokens_of(line.encode() for line in
                                            self.request("POST", "/v1/completions", body).splitlines()))


class DoubleTest(adapter_suite.AdapterSuite, unittest.TestCase):
    equal_prompts = 30
    mixed_requests = 500
    predicted_requests = 200
    long_tokens = 200

    def setUp(self):
        self.engines = []
        for _ in range(2):
            self.engines.append(DoubleEngine("--blocks", "120", "--prefill-us", "5", "--token-ms", "2"))
            self.addCleanup(self.engines[-1].kill)

    def restart(self, engine):
        engine.start()

    def adapter_engine(self):
        """An engine with the adapters poet and clerk."""
        engine = DoubleEngine("--adapter", "poet", "--adapter", "clerk")
        self.addCleanup(engine.kill)
        return engine

    def test_adapters_come_and_go_while_the_engine_serves(self):
        engine = self.engines[0]
        prompt = list(range(50))
        with self.fleet(engine) as fleet:
            # 503 while the router has just begun, so that a worker may yet bring it.
            wait_until(lambda: fleet.router.completion(prompt, model="poet").status == 404, "that it is not found")
            engine.request("POST", "/v1/load_lora_adapter", {"lora_name": "poet"})
            wait_until(lambda: fleet.worker("beside-0")["adapters"] == ["poet"], "that the adapter is known")
            self.assertEqual(fleet.tokens(prompt, model="poet"), engine.tokens(prompt, 8, model="poet"))
            engine.request("POST", "/v1/unload_lora_adapter", {"lora_name": "poet"})
            # The engine's own refusal, until the worker has looked; then the router's.
            wait_until(lambda: fleet.router.completion(prompt, model="poet").status == 404, "that it is gone")
            wait_until(lambda: fleet.worker("beside-0")["adapters"] == [], "that the worker knows it")
            self.assertEqual(fleet.complete(prompt).status, 200)

    def fleet(self, *engines, router_flags=(), worker_flags=()):
        return super().fleet(*engines, router_flags=router_flags,
                             worker_flags=("--engine-timeout-seconds", "2", *worker_flags))

    def test_a_lost_event_is_replayed(self):
        draw = random.Random(20)
        prompts = list(adapter_suite.prompts_with_shared_prefixes(draw, 30))
        engine = self.engines[0]
        with self.fleet(engine) as fleet:
            for i, prompt in enumerate(prompts):
                if i == 10:
                    engine.signal(signal.SIGUSR1)
                fleet.complete(prompt)
            self.assert_index_is_exact(fleet, [engine], prompts)

    def test_a_lost_event_without_a_replay_makes_predictions_until_the_cache_is_emptied(self):
        draw = random.Random(21)
        prompts = list(adapter_suite.prompts_with_shared_prefixes(draw, 12))
        engine = self.engines[0]
        fleet = Fleet(self, [engine], worker_flags=("--engine-replay", ""))
        with fleet.cluster:
            wait_until(lambda: [(w["ready"], w["mode"]) for w in fleet.router.workers()] == [(True, "predicted")],
                       "a worker that knows nothing")
            fleet.complete(prompts[0])
            wait_until(lambda: fleet.worker("beside-0")["mode"] == "exact", "that the first event is there")
            for i, prompt in enumerate(prompts):
                if i == 5:
                    engine.signal(signal.SIGUSR1)
                fleet.complete(prompt)
            wait_until(lambda: fleet.worker("beside-0")["mode"] == "predicted", "that the cache is predicted")
            engine.request("POST", "/reset_prefix_cache")
            fleet.complete(prompts[0])
            wait_until(lambda: fleet.worker("beside-0")["mode"] == "exact", "that the cache is known again")
            self.assert_index_is_exact(fleet, [engine], prompts)

    def test_without_events_the_router_goes_by_its_own_history(self):
        prompt = [random.Random(22).randrange(1900) for _ in range(3 * BLOCK_TOKENS + 5)]
        engine = self.engines[0]
        cluster = Cluster()
        with cluster:
            router = cluster.start_router()
            cluster.start_worker("beside-0", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{engine.port}")
            wait_until(lambda: [w["ready"] for w in router.workers()] == [True], "a ready worker")
            self.assertEqual(router.workers()[0]["mode"], "predicted")
            self.assertIn("--engine-events", router.workers()[0]["cache_absence"])
            router.completion(prompt, max_tokens=2, temperature=0)
            looks = engine.looks()
            wait_until(lambda: engine.looks() >= looks + 3, "that the worker has told the engine's load since")
            router.completion(prompt, max_tokens=2, temperature=0)
            self.assertEqual(router.decisions(1)[0]["predicted"]["cached_tokens"], 3 * BLOCK_TOKENS)

    def test_our_own_workers_and_workers_beside_other_engines_serve_one_model(self):
        draw = random.Random(23)
        with self.fleet(self.engines[0], worker_flags=("--fingerprint", "weights")) as fleet:
            fleet.cluster.start_worker("own", "--kv-blocks", "200")
            wait_until(lambda: sum(w["ready"] for w in fleet.router.workers()) == 2, "both workers")
            self.assertEqual(len({w["fingerprint"] for w in fleet.router.workers()}), 1, "they are one fleet")
            with adapter_suite.concurrent.futures.ThreadPoolExecutor(8) as clients:
                list(clients.map(fleet.complete, adapter_suite.prompts_with_shared_prefixes(draw, 60)))
            self.assertEqual({d["worker"] for d in fleet.router.decisions(60)}, {"beside-0", "own"})

    def test_hits_are_known_in_blocks_of_any_size(self):
        """As hybrid models have them (448), as no power of two (48), as SGLang's pages (1)."""
        draw = random.Random(24)
        for size, blocks in ((448, 60), (48, 200), (1, 8000)):
            engine = DoubleEngine("--block-tokens", str(size), "--blocks", str(blocks), "--prefill-us", "1")
            self.addCleanup(engine.kill)
            beginnings = [[draw.randrange(1900) for _ in range(1000)] for _ in range(3)]
            with self.fleet(engine) as fleet:
                for _ in range(4):
                    for beginning in beginnings:
                        fleet.complete(beginning[:draw.randrange(300, 1000)] + [draw.randrange(1900)], max_tokens=2)
                outcomes = [(d["predicted"]["cached_tokens"], d["actual"]["cached_tokens"]) for d in fleet.router.decisions(12)]
                self.assertGreater(sum(found for _, found in outcomes), 0)
                # Of pages below Roost's blocks of 16 tokens the engine finds a part of one more.
                least = GRAIN_TOKENS if size < GRAIN_TOKENS else 1
                for said, found in outcomes:
                    self.assertTrue(said <= found < said + least, f"{size}: {outcomes}")
                self.assertEqual(fleet.worker("beside-0")["mode"], "exact")

    def complete_and_tell(self, fleet, prompt, size):
        """Asks, and waits until the router has heard of the prompt's blocks, and so of all that the engine told before."""
        fleet.complete(prompt, max_tokens=2)
        told = (len(prompt) - 1) // size * size // GRAIN_TOKENS
        body = {"model": "demo-model", "prompt": prompt}
        wait_until(lambda: fleet.router.request("POST", "/admin/v1/match", body).json()["workers"][0]["held_blocks"] >= told,
                   "that the blocks are known")

    def test_hits_are_known_of_models_with_windows_and_recurrent_layers(self):
        draw = random.Random(25)
        for size, groups in ((448, ["recurrent:448"]), (16, ["window:16:64"]), (64, ["recurrent:448"]),
                             (128, ["window:128:512", "recurrent:128"])):
            flags = [flag for group in groups for flag in ("--group", group)]
            engine = DoubleEngine("--block-tokens", str(size), "--blocks", str(30_000 // size), "--prefill-us", "1",
                                  "--token-ms", "1", *flags)
            self.addCleanup(engine.kill)
            beginnings = [[draw.randrange(1900) for _ in range(1200)] for _ in range(4)]
            with self.fleet(engine) as fleet:
                fleet.complete([1] * 1000, max_tokens=2)  # the worker learns of the groups
                wait_until(lambda: fleet.worker("beside-0")["ready"], "that it is back")
                for i in range(120):
                    prompt = draw.choice(beginnings)[:draw.randrange(100, 1200)]
                    prompt += [draw.randrange(1900) for _ in range(draw.randrange(1, 300))]
                    if i % 3 == 0:
                        beginnings[draw.randrange(4)] = prompt[:1600]
                    self.complete_and_tell(fleet, prompt, size)
                outcomes = [(d["predicted"]["cached_tokens"], d["actual"]["cached_tokens"]) for d in fleet.router.decisions(120)]
                wrong = [pair for pair in outcomes if pair[0] != pair[1]]
                print(f"{size} {groups}: {sum(found > 0 for _, found in outcomes)} hits in {len(outcomes)}, wrong: {wrong}")
                self.assertGreater(sum(found > 0 for _, found in outcomes), 12)
                self.assertEqual(sum(max(0, said - found) for said, found in outcomes), 0, wrong)
                self.assertEqual(len(wrong), 0, wrong)
                self.assertEqual(fleet.worker("beside-0")["mode"], "exact")
                match = fleet.router.request("POST", "/admin/v1/match", {"model": "demo-model", "prompt": prompt}).json()
                self.assertLessEqual(match["workers"][0]["resumable_blocks"], match["workers"][0]["held_blocks"])

    def outcomes(self, fleet, count):
        return [(d["predicted"]["cached_tokens"], d["actual"]["cached_tokens"]) for d in fleet.router.decisions(count)]

    def test_what_speculative_heads_compute_again_is_not_promised(self):
        draw = random.Random(26)
        for size, groups in ((32, []), (64, ["recurrent:448"])):
            flags = [flag for group in groups for flag in ("--group", group)]
            engine = DoubleEngine("--speculative", "--block-tokens", str(size), "--blocks", str(30_000 // size), "--prefill-us",
                                  "1", "--token-ms", "1", *flags)
            self.addCleanup(engine.kill)
            prompts = [[draw.randrange(1900) for _ in range(1350)] for _ in range(4)]
            with self.fleet(engine) as fleet:
                fleet.complete([1] * 1000, max_tokens=2)
                wait_until(lambda: fleet.worker("beside-0")["ready"], "that it is back")
                # The worker learns from a few hits, the router at the next report.
                for _ in range(16):
                    for prompt in prompts:
                        self.complete_and_tell(fleet, prompt[:draw.randrange(1000, 1350)], size)
                first = self.outcomes(fleet, 64)
                for _ in range(10):
                    for prompt in prompts:
                        self.complete_and_tell(fleet, prompt[:draw.randrange(1000, 1350)], size)
                after = self.outcomes(fleet, 40)
                print(f"{size} {groups}: at first {sum(said > found for said, found in first)} too long, then {after}")
                self.assertGreater(sum(said > found for said, found in first), 0, "before it knows")
                self.assertGreater(sum(found > 0 for _, found in after), 20)
                self.assertEqual([pair for pair in after if pair[0] != pair[1]], [])
                self.assertEqual(fleet.worker("beside-0")["mode"], "exact")

    def test_a_view_that_began_in_the_middle_heals_with_the_traffic(self):
        draw = random.Random(27)
        engine = DoubleEngine("--blocks", "400", "--prefill-us", "1", "--token-ms", "1")
        self.addCleanup(engine.kill)
        prompts = [[draw.randrange(1900) for _ in range(400)] for _ in range(8)]
        fleet = Fleet(self, [engine], worker_flags=("--engine-replay", ""))
        with fleet.cluster:
            wait_until(lambda: [w["ready"] for w in fleet.router.workers()] == [True], "a ready worker")
            engine.request("POST", "/reset_prefix_cache")
            for _ in range(36):  # so much shows that it has full attention alone
                fleet.complete([draw.randrange(1900) for _ in range(1900)], max_tokens=2)
            for prompt in prompts:
                fleet.complete(prompt, max_tokens=2)
            wait_until(lambda: fleet.worker("beside-0")["mode"] == "exact", "that the cache is known")
            engine.signal(signal.SIGUSR1)
            fleet.complete([draw.randrange(1900) for _ in range(200)], max_tokens=2)
            fleet.complete([draw.randrange(1900) for _ in range(200)], max_tokens=2)
            wait_until(lambda: fleet.worker("beside-0")["mode"] == "predicted", "that an event is missed")
            shares = []

            def is_exact():
                for prompt in prompts:
                    fleet.complete(prompt[:draw.randrange(300, 400)] + [draw.randrange(1900)], max_tokens=2)
                shares.append(fleet.worker("beside-0")["told_share"])
                return fleet.worker("beside-0")["mode"] == "exact"

            wait_until(is_exact, "that the traffic has told of what it finds")
            wait_until(lambda: fleet.worker("beside-0")["index_in_sync"], "the snapshot")
            self.assertGreater(max(shares), 0.5, "the worker says how much it knows")
            for prompt in prompts:
                fleet.complete(prompt[:draw.randrange(300, 400)] + [draw.randrange(1900)], max_tokens=2)
            outcomes = self.outcomes(fleet, len(prompts))
            print(f"shares {shares}, outcomes {outcomes}")
            self.assertEqual([pair for pair in outcomes if pair[0] != pair[1]], [])
            self.assertGreater(min(found for _, found in outcomes), 0)

    def test_hits_of_a_tier_are_counted_apart(self):
        draw = random.Random(28)
        engine = DoubleEngine("--tier", "--blocks", "40", "--prefill-us", "1", "--token-ms", "1")
        self.addCleanup(engine.kill)
        prompts = [[draw.randrange(1900) for _ in range(400)] for _ in range(8)]
        with self.fleet(engine) as fleet:
            for _ in range(20):
                for prompt in prompts:  # more than there is room for
                    fleet.complete(prompt, max_tokens=2)
            outcomes = self.outcomes(fleet, 80)
            self.assertEqual([pair for pair in outcomes if pair[0] > pair[1]], [])
            self.assertGreater(sum(found - said for said, found in outcomes), 10_000, "from the tier")
            wait_until(lambda: fleet.worker("beside-0")["tier_cached_tokens_total"] > 10_000, "that they are told")
            self.assertEqual(fleet.worker("beside-0")["mode"], "exact")
            status = subprocess.run([BIN / "roostctl", "status", "--admin", fleet.router.admin], capture_output=True,
                                    text=True, check=True).stdout
            self.assertRegex(status, r"beside-0 took \d+ tokens from a tier behind its engine's cache")

    def test_the_prompt_cache_as_clients_speak_of_it(self):
        """The engine gets the session. What was read and written comes from its usage; lifetimes do not bind it, and the diagnosis says
        so."""
        engine = self.engines[0]

        def ask(words, before=None, headers=None):
            content = [{"type": "text", "text": words, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
            answer = fleet.router.request("POST", "/v1/messages", {
                "model": "demo-model", "max_tokens": 1, "messages": [{"role": "user", "content": content}],
                "diagnostics": {"previous_message_id": before}}, headers)
            self.assertEqual(answer.status, 200, answer.body)
            return answer

        with self.fleet(engine) as fleet:
            words = text(60, "an hour")
            first = ask(words, headers={"x-session-id": "conversation"})
            again = ask(words, first.json()["id"], headers={"x-session-id": "conversation"})
            ask(words, headers={"x-session-id": "another"})
            ask(words)
            sessions = json.loads(engine.request("GET", "/sessions"))
            self.assertRegex(sessions[0], "^[0-9a-f]{16}$")
            self.assertEqual((sessions[1] == sessions[0], sessions[2] == sessions[0], sessions[3]), (True, False, None))
            usage, found = first.json()["usage"], again.json()["usage"]
            prompt = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
            self.assertEqual(usage["cache_creation_input_tokens"], prompt // BLOCK_TOKENS * BLOCK_TOKENS)
            self.assertEqual((found["cache_creation_input_tokens"], found["cache_read_input_tokens"]),
                             (0, (prompt - 1) // BLOCK_TOKENS * BLOCK_TOKENS))
            self.assertIsNone(again.json()["diagnostics"])

            for i in range(40):
                ask(text(60, f"others {i}"))
            evicted = ask(words, first.json()["id"])
            self.assertEqual(evicted.json()["diagnostics"], {"cache_miss_reason": {"type": "unavailable"}})
            self.assertRegex(evicted.headers["x-roost-miss"], r"^evicted; tokens=\d+$")
            told = subprocess.run([BIN / "roostctl", "explain", "--admin", fleet.router.admin, evicted.json()["id"]], capture_output=True,
                                  text=True, check=True).stdout
            self.assertIn("the engine of beside-0 keeps no promise: it was evicted within the last ", told)

    def test_the_engines_names_are_the_models(self):
        engine = DoubleEngine("--model", "/models/demo", "--alias", "gpt-4o")
        self.addCleanup(engine.kill)
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("beside-0", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{engine.port}")
            wait_until(lambda: [w["ready"] for w in router.workers()] == [True], "a ready worker")
            names = [model["id"] for model in router.request("GET", "/v1/models").json()["data"]]
            self.assertEqual(names, ["/models/demo", "demo-model", "gpt-4o"])
            for name in names:
                answer = router.completion([1, 2, 3], model=name, max_tokens=2)
                self.assertEqual((answer.status, answer.json()["model"]), (200, name))

    def test_a_dead_engine_is_no_drain(self):
        engine = self.engines[0]
        with self.fleet(*self.engines) as fleet:
            engine.kill()
            wait_until(lambda: fleet.worker("beside-0")["state"] == "away", "that the engine is missed")
            self.assertEqual(fleet.worker("beside-0")["engine_absence"], "connection refused")
            seconds = fleet.worker("beside-0")["engine_away_seconds"]
            wait_until(lambda: fleet.worker("beside-0")["engine_away_seconds"] > seconds, "that the time is told")
            verdict = fleet.router.request("GET", "/admin/v1/workers").json()["verdict"]
            self.assertRegex(verdict["text"], r"beside-0: its engine can not be reached since \d\d:\d\d UTC "
                                              r"\(connection refused\)")
            self.assertEqual(verdict["level"], "degraded")
            status = subprocess.run([BIN / "roostctl", "status", "--admin", fleet.router.admin], capture_output=True,
                                    text=True, check=True).stdout
            self.assertIn("its engine can not be reached since", status)
            self.restart(engine)
            wait_until(lambda: fleet.worker("beside-0")["state"] == "ready", "that the engine is back")

    def test_a_model_that_can_not_be_read_stops_no_worker(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            for name, model in (("nowhere", "/nowhere/model"), ("unnamed", "")):
                cluster.start_worker(name, "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{self.engines[0].port}",
                                     "--engine-events", self.engines[0].events, model=model)
            seen = {}

            def see():
                seen.update({worker["id"]: worker for worker in router.workers()})
                return len(seen) == 2

            wait_until(see, "both workers")
            self.assertIn("/nowhere/model", seen["nowhere"]["cache_absence"])
            self.assertIn("--model", seen["unnamed"]["cache_absence"])
            self.assertEqual({worker["mode"] for worker in seen.values()}, {"predicted"})
            self.assertEqual(len({worker["fingerprint"] for worker in seen.values()}), 1, "they are one fleet")

    def test_an_engine_that_is_not_there_is_waited_for(self):
        with subprocess.Popen([BIN / "roost-worker", "--model", DEMO_MODEL, "--engine", "vllm", "--engine-url",
                               "http://127.0.0.1:9"], stderr=subprocess.PIPE, text=True) as worker:
            line = next(line for line in worker.stderr if "waiting for the engine" in line)
            worker.terminate()
            self.assertIn("127.0.0.1:9", line)
        self.assertEqual(worker.returncode, 128 + signal.SIGTERM)

    def test_a_wrong_engine_stops_the_start_with_one_line(self):
        for flags, code, words in [
            (["--engine-url", "ftp://x"], 78, "engine-url"),
            (["--engine-url", f"http://127.0.0.1:{self.engines[0].port}", "--engine-events", "nowhere"], 64,
             "engine-events"),
        ]:
            with self.subTest(flags):
                done = subprocess.run([BIN / "roost-worker", "--model", DEMO_MODEL, "--engine", "vllm", "--log-format",
                                       "json", *flags], capture_output=True, text=True, timeout=60, check=False)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    side_by_side.main(2)

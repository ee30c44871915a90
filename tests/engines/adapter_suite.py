"""The promises of a worker beside another engine, checked through the real daemons: the tests that a double passes in
CI and real vLLM with vllm.sh. A subclass starts engines:

    class DoubleTest(adapter_suite.AdapterSuite, unittest.TestCase):
        def start_engine(self): …       an object with port, events, replay, model, kill(), hang(), go_on(), running()
"""

import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import random
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cluster import DEMO_MODEL, Cluster, wait_until  # noqa: E402
from event_mirror import EventMirror  # noqa: E402

BLOCK_TOKENS = 32  # of the engines
GRAIN_TOKENS = 16  # of the blocks in which Roost hashes beside them


def prompts_with_shared_prefixes(draw, count, families=6, prefix_blocks=6, vocabulary=1900):
    """Token ids: one of `families` beginnings of some blocks, then what is the prompt's own."""
    beginnings = [[draw.randrange(vocabulary) for _ in range(prefix_blocks * BLOCK_TOKENS)] for _ in range(families)]
    for _ in range(count):
        beginning = draw.choice(beginnings)[:draw.randrange(1, prefix_blocks + 1) * BLOCK_TOKENS]
        yield beginning + [draw.randrange(vocabulary) for _ in range(draw.randrange(1, 150))]


class Fleet:
    """A router, and a worker beside each engine."""

    def __init__(self, suite, engines, *router_flags, worker_flags=()):
        self.cluster = Cluster()
        self.router = self.cluster.start_router(*router_flags)
        self.workers = {}
        for i, engine in enumerate(engines):
            self.add(f"beside-{i}", engine, *worker_flags, kind=suite.engine_kind)

    def add(self, name, engine, *flags, kind="vllm"):
        self.workers[name] = self.cluster.start_worker(
            name, "--engine", kind, "--engine-url", f"http://127.0.0.1:{engine.port}", "--engine-events", engine.events,
            "--engine-replay", engine.replay, "--served-model-name", "demo-model", *flags, model=engine.model)

    def complete(self, prompt, **fields):
        answer = self.router.completion(prompt, **{"temperature": 0, "max_tokens": 8, "return_token_ids": True, **fields})
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {answer.body}")
        return answer

    def tokens(self, prompt, **fields):
        return self.complete(prompt, **fields).json()["choices"][0]["token_ids"]

    def match(self, prompt, **fields):
        """The engine's blocks of the prompt, by worker, that a request would find: never all of it."""
        body = {"model": "demo-model", "prompt": prompt, **fields}
        answer = self.router.request("POST", "/admin/v1/match", body)
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {answer.body}")
        return {worker["worker"]: worker["cached_tokens"] // BLOCK_TOKENS for worker in answer.json()["workers"]}

    def worker(self, name):
        return next(worker for worker in self.router.workers() if worker["id"] == name)

    @contextlib.contextmanager
    def stream(self, prompt, **fields):
        """Yields an iterator over the tokens of a greedy answer; the connection ends with the block."""
        connection = http.client.HTTPConnection(self.router.address, timeout=120)
        body = {"model": "demo-model", "prompt": prompt, "temperature": 0, "stream": True, "return_token_ids": True,
                **fields}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise AssertionError(f"{response.status} {response.read()}")
        try:
            yield tokens_of(response)
        finally:
            response.close()
            connection.close()


def grains_of(held):
    """How many blocks of Roost these blocks of an engine are."""
    return len({(scope, tokens[:end]) for scope, tokens in held
                for end in range(len(tokens) - BLOCK_TOKENS + GRAIN_TOKENS, len(tokens) + 1, GRAIN_TOKENS)})


def events_of(response):
    """The JSON objects of an event stream. An error among them is raised."""
    for line in response:
        text = line.decode().strip()
        if not text.startswith("data: ") or text == "data: [DONE]":
            continue
        event = json.loads(text[len("data: "):])
        if "error" in event:
            raise AssertionError(event)
        yield event


def tokens_of(response):
    for event in events_of(response):
        for choice in event["choices"]:
            yield from choice.get("token_ids") or []


class AdapterSuite:
    """Mixed into a TestCase."""

    engine_kind = "vllm"
    tokens_have_texts = True
    long_tokens = 60  # of an answer in whose middle something happens
    kill_clients = 6  # that ask while engines are killed
    kill_pause_seconds = 0  # of a client between two of these requests

    @contextlib.contextmanager
    def fleet(self, *engines, router_flags=(), worker_flags=()):
        fleet = Fleet(self, engines, *router_flags, worker_flags=worker_flags)
        with fleet.cluster:
            fleet.router.wait_for_workers(len(engines))
            yield fleet

    # ---- what is answered ----

    def test_greedy_tokens_are_the_engines_own(self):
        engine = self.engines[0]
        draw = random.Random(1)
        with self.fleet(engine) as fleet:
            for prompt in prompts_with_shared_prefixes(draw, self.equal_prompts):
                # Before and after: an engine may round otherwise once it has the prefix.
                direct = engine.tokens(prompt, 8)
                through = fleet.tokens(prompt)
                self.assertIn(through, (direct, engine.tokens(prompt, 8)))

    def test_fields_reach_the_engine(self):
        prompt = [random.Random(2).randrange(1900) for _ in range(40)]
        with self.fleet(self.engines[0]) as fleet:
            greedy = fleet.tokens(prompt, max_tokens=8)
            stopped = fleet.complete(prompt, max_tokens=8, stop_token_ids=[greedy[3]]).json()["choices"][0]
            self.assertEqual(stopped["finish_reason"], "stop")
            self.assertEqual(stopped["stop_reason"], greedy[3])
            self.assertEqual(fleet.complete(prompt, max_tokens=3).json()["choices"][0]["finish_reason"], "length")
            two = fleet.complete(prompt, n=2, temperature=0).json()["choices"]
            self.assertEqual([choice["token_ids"] for choice in two], [greedy, greedy])
            sampled = [fleet.tokens(prompt, temperature=1, seed=seed) for seed in (7, 8)]
            both = fleet.complete(prompt, temperature=1, seed=7, n=2).json()["choices"]
            self.assertEqual([choice["token_ids"] for choice in both], sampled)
            scored = fleet.complete(prompt, max_tokens=2, logprobs=3).json()["choices"][0]["logprobs"]
            self.assertEqual(len(scored["token_logprobs"]), 2)
            least = 3 if self.tokens_have_texts else 1  # they are keyed by text
            self.assertTrue(all(least <= len(top) <= 4 for top in scored["top_logprobs"]), scored)

    def test_usage_counts_what_the_engine_found(self):
        prompt = [random.Random(3).randrange(1900) for _ in range(3 * BLOCK_TOKENS + 5)]
        with self.fleet(self.engines[0]) as fleet:
            self.assertEqual(fleet.complete(prompt).cached_tokens(), 0)
            self.assertEqual(fleet.complete(prompt).cached_tokens(), 3 * BLOCK_TOKENS)

    def test_bad_requests_are_the_clients_and_say_why(self):
        with self.fleet(self.engines[0]) as fleet:
            answer = fleet.router.completion([5] * 5000, max_tokens=2)
            self.assertEqual(answer.status, 400, answer.body)
            self.assertIn("maximum context length", answer.body)
            answer = fleet.router.completion([1, 2, 3], max_tokens=2, logprobs=21)
            self.assertEqual(answer.status, 400, answer.body)

    # ---- what is cached ----

    def assert_index_is_exact(self, fleet, engines, prompts, salts=("",)):
        """The router knows of every prompt what each engine holds; told by the engine's own events, once they are all there."""

        def agrees():
            for name, engine in zip(fleet.workers, engines):
                mirror = EventMirror(engine.replay)
                held = mirror.held()
                if fleet.worker(name)["indexed_blocks"] != grains_of(held):
                    self.reason = f"{name}: {fleet.worker(name)['indexed_blocks']} blocks, {grains_of(held)} in the engine"
                    return False
                for prompt in prompts:
                    expected = min(mirror.held_blocks(held, BLOCK_TOKENS, prompt), (len(prompt) - 1) // BLOCK_TOKENS)
                    if fleet.match(prompt)[name] != expected:
                        self.reason = f"{name}: {fleet.match(prompt)[name]} blocks of a prompt, {expected} in the engine"
                        return False
            return True

        try:
            wait_until(agrees, "that the index is exact")
        except AssertionError as late:
            raise AssertionError(self.reason) from late

    def assert_predictions(self, fleet, count, least):
        """The router predicted what the engines then counted."""
        outcomes = [(d["predicted"]["cached_tokens"], d["actual"]["cached_tokens"])
                    for d in fleet.router.decisions(count) if d["actual"]]
        wrong = [(said, found) for said, found in outcomes if said != found]
        share = 1 - len(wrong) / len(outcomes)
        print(f"predicted cached tokens were right for {share:.1%} of {len(outcomes)} requests; wrong: {wrong[:20]}")
        self.assertGreater(sum(found for _, found in outcomes), 0)
        self.assertGreaterEqual(share, least)

    def test_the_index_is_exact_after_mixed_requests_with_evictions(self):
        draw = random.Random(4)
        prompts = list(prompts_with_shared_prefixes(draw, self.mixed_requests))
        engines = self.engines[:2]
        with self.fleet(*engines) as fleet:
            def ask(i):
                fields = [{}, {"temperature": 1, "seed": i}, {"max_tokens": 40}, {"n": 2, "temperature": 1}][i % 4]
                return fleet.complete(prompts[i], **fields)

            with concurrent.futures.ThreadPoolExecutor(8) as clients:
                list(clients.map(ask, range(len(prompts))))
            self.assert_index_is_exact(fleet, engines, prompts[-100:])
            self.assert_predictions(fleet, len(prompts), 0.95)
            for name in fleet.workers:
                self.assertEqual(fleet.worker(name)["mode"], "exact")

    def test_predictions_are_right_while_nothing_is_evicted(self):
        draw = random.Random(5)
        prompts = list(prompts_with_shared_prefixes(draw, self.predicted_requests, families=3, prefix_blocks=4))
        with self.fleet(self.engines[0]) as fleet:
            for prompt in prompts:
                fleet.complete(prompt, max_tokens=2)
            self.assert_predictions(fleet, len(prompts), 0.99)

    def test_a_worker_that_comes_later_learns_what_the_engine_has(self):
        draw = random.Random(6)
        prompts = list(prompts_with_shared_prefixes(draw, 5, families=2))
        engine = self.engines[0]
        for prompt in prompts:
            engine.tokens(prompt, 2)
        with self.fleet(engine) as fleet:
            self.assert_index_is_exact(fleet, [engine], prompts)

    def test_salts_are_apart(self):
        prompt = [random.Random(7).randrange(1900) for _ in range(2 * BLOCK_TOKENS + 5)]
        with self.fleet(self.engines[0]) as fleet:
            fleet.complete(prompt)
            self.assertEqual(fleet.complete(prompt, cache_salt="mine").cached_tokens(), 0)
            self.assertEqual(fleet.complete(prompt, cache_salt="mine").cached_tokens(), 2 * BLOCK_TOKENS)
            wait_until(lambda: fleet.match(prompt, cache_salt="mine")["beside-0"] == 2, "that the salted blocks are known")
            self.assertEqual(fleet.match(prompt, cache_salt="another")["beside-0"], 0)

    def test_adapters_are_models_with_blocks_of_their_own(self):
        prompt = [random.Random(12).randrange(1900) for _ in range(2 * BLOCK_TOKENS + 5)]
        engine = self.adapter_engine()
        with self.fleet(engine, self.engines[0]) as fleet:
            models = {model["id"]: model.get("parent") for model in fleet.router.request("GET", "/v1/models").json()["data"]}
            self.assertEqual(models, {"demo-model": None, "poet": "demo-model", "clerk": "demo-model"})
            answers = {name: fleet.complete(prompt, model=name) for name in ("poet", "clerk")}
            for name, answer in answers.items():
                self.assertEqual(answer.cached_tokens(), 0)
                self.assertEqual(answer.json()["model"], name)
                again = fleet.complete(prompt, model=name)
                self.assertEqual(again.cached_tokens(), 2 * BLOCK_TOKENS)
                self.assertEqual(again.json()["choices"][0]["token_ids"], engine.tokens(prompt, 8, model=name))
            self.assertEqual({decision["worker"] for decision in fleet.router.decisions(4)}, {"beside-0"})
            self.assertEqual({decision["model"] for decision in fleet.router.decisions(4)}, {"poet", "clerk"})
            salted = fleet.complete(prompt, model="poet", cache_salt="mine")
            self.assertEqual(salted.cached_tokens(), 0)
            wait_until(lambda: fleet.match(prompt, model="poet", cache_salt="mine") == {"beside-0": 2}, "the salted blocks")
            self.assertEqual(fleet.match(prompt, model="poet"), {"beside-0": 2})
            self.assertEqual(fleet.match(prompt)["beside-0"], 0)
            mirror = EventMirror(engine.replay)
            held = mirror.held()
            self.assertEqual(mirror.held_blocks(held, BLOCK_TOKENS, prompt, adapter="poet"), 2)
            wait_until(lambda: fleet.worker("beside-0")["indexed_blocks"] == grains_of(held), "that the index is exact")
            # 503 while the router has just begun, so that a worker may yet bring it.
            wait_until(lambda: fleet.router.completion(prompt, model="cook").status == 404, "that it is not found")

    # ---- bad days ----

    def assert_stream_survives(self, disaster):
        """Streams of which an engine ends in the middle go on elsewhere, with the tokens that they would have had."""
        prompt = [random.Random(8).randrange(1900) for _ in range(50)]
        with self.fleet(*self.engines[:2]) as fleet:
            with fleet.stream(prompt, max_tokens=self.long_tokens, ignore_eos=True) as tokens:
                expected = list(tokens)
            with fleet.stream(prompt, max_tokens=self.long_tokens, ignore_eos=True) as tokens:
                got = [next(tokens) for _ in range(5)]
                name = fleet.router.decisions(1)[0]["worker"]
                engine = self.engines[list(fleet.workers).index(name)]
                disaster(engine)
                got.extend(tokens)
            self.assertEqual(got, expected)
            return name

    def test_a_killed_engines_streams_go_on_elsewhere(self):
        victims = []
        self.assert_stream_survives(lambda engine: (victims.append(engine), engine.kill()))
        self.restart(victims[0])

    def test_ten_kills_under_load_fail_no_request(self):
        stop = threading.Event()
        failures = []
        answered = []

        def load(fleet, seed):
            draw = random.Random(seed)
            while not stop.wait(self.kill_pause_seconds):
                for prompt in prompts_with_shared_prefixes(draw, 1):
                    try:
                        answered.append(len(fleet.tokens(prompt, max_tokens=30, ignore_eos=True)))
                    except (AssertionError, OSError) as failure:
                        failures.append(str(failure)[:300])

        with self.fleet(*self.engines[:2]) as fleet:
            clients = [threading.Thread(target=load, args=(fleet, seed)) for seed in range(self.kill_clients)]
            for client in clients:
                client.start()
            try:
                for kill in range(10):
                    victim = kill % 2
                    before = len(answered)
                    wait_until(lambda: len(answered) > before + 20, "some answers")
                    self.engines[victim].kill()
                    before = len(answered)
                    wait_until(lambda: len(answered) > before + 20, "answers of the other engine")
                    self.restart(self.engines[victim])
                    wait_until(lambda: fleet.worker(f"beside-{victim}")["state"] == "ready", "the engine's return", 120)
                    print(f"kill {kill + 1}: {len(answered)} answered, {len(failures)} failed", flush=True)
            finally:
                stop.set()
                for client in clients:
                    client.join()
        self.assertEqual(failures, [])
        self.assertEqual(set(answered), {30})

    def test_a_hung_engines_streams_go_on_elsewhere(self):
        victims = []
        try:
            self.assert_stream_survives(lambda engine: (victims.append(engine), engine.hang()))
        finally:
            victims[0].go_on()

    def test_an_engine_that_restarts_is_taken_again_and_its_cache_is_empty(self):
        prompt = [random.Random(9).randrange(1900) for _ in range(2 * BLOCK_TOKENS + 5)]
        engine = self.engines[0]
        with self.fleet(engine) as fleet:
            fleet.complete(prompt)
            wait_until(lambda: fleet.match(prompt)["beside-0"] == 2, "that the blocks are known")
            engine.kill()
            wait_until(lambda: fleet.worker("beside-0")["state"] != "ready", "that the engine is missed")
            self.restart(engine)
            wait_until(lambda: fleet.worker("beside-0")["state"] == "ready", "that the engine is taken again", 120)
            self.assertEqual(fleet.complete(prompt).cached_tokens(), 0)
            wait_until(lambda: fleet.match(prompt)["beside-0"] == 2, "that the new blocks are known")
            self.assert_index_is_exact(fleet, [engine], [prompt])

    def test_clients_that_leave_abort_their_requests(self):
        prompt = [random.Random(10).randrange(1900) for _ in range(50)]
        engine = self.engines[0]
        with self.fleet(engine) as fleet:
            with fleet.stream(prompt, max_tokens=1500, ignore_eos=True) as tokens:
                next(tokens)
                wait_until(lambda: engine.running() == 1, "that the engine tells of it")
            wait_until(lambda: engine.running() == 0, "that the engine has stopped")

    def test_more_requests_than_the_engine_takes_are_answered_in_turn_or_refused_at_once(self):
        draw = random.Random(11)
        with self.fleet(self.engines[0], worker_flags=("--max-running-requests", "4", "--max-waiting-requests", "8")) as fleet:
            statuses = []
            lock = threading.Lock()

            def ask(prompt):
                answer = fleet.router.completion(prompt, max_tokens=20, temperature=0)
                with lock:
                    statuses.append(answer.status)

            with concurrent.futures.ThreadPoolExecutor(40) as clients:
                list(clients.map(ask, prompts_with_shared_prefixes(draw, 120)))
        self.assertEqual(len(statuses), 120)
        self.assertLessEqual(set(statuses), {200, 429, 503})
        self.assertGreaterEqual(statuses.count(200), 12)

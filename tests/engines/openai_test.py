"""Servers that take no token ids, through real daemons: llama.cpp, Ollama and MLX as llama_double.py plays them."""

import concurrent.futures
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

from cluster import BIN, Cluster, wait_until  # noqa: E402
from keys import KeyFile, bearer  # noqa: E402
from vllm_double_test import free_port  # noqa: E402

SYSTEM = "You answer in one word. " * 20


class Server:
    """A double that can be killed and started again at the same address."""

    def __init__(self, *flags):
        self.port = free_port()
        self.flags = flags
        self.start()

    def start(self):
        self.process = subprocess.Popen([sys.executable, HERE / "llama_double.py", "--port", str(self.port), *self.flags],
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the double did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, method, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def requests(self):
        """What it was asked since it began: tokens, those that a slot had, the slot."""
        return self.ask("GET", "/requests")

    def answer(self):
        """Lets one that was started with --held answer."""
        self.ask("POST", "/answer")


class Chat:
    """A conversation, and where its turns went."""

    def __init__(self, router, name, model="demo-model", **fields):
        self.router = router
        self.model = model
        self.fields = fields
        self.messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{name}: {name * 1200}"}]
        self.workers = []
        self.cached = []
        self.shares = []  # of the prompt

    def turn(self):
        body = {"model": self.model, "messages": self.messages, "max_tokens": 12, **self.fields}
        answer = self.router.request("POST", "/v1/chat/completions", body)
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {answer.body}")
        self.workers.append(answer.headers["x-roost-worker"])
        self.cached.append(int(answer.headers.get("x-roost-cached-tokens", -1)))
        self.shares.append(self.cached[-1] / answer.json()["usage"]["prompt_tokens"])
        self.messages += [answer.json()["choices"][0]["message"], {"role": "user", "content": "go on " * 20}]
        return answer.json()


def passed_on(router):
    """What the router logs of requests that it passed on."""
    with router.changed:
        records = [json.loads(line) for line in router.lines if line.startswith("{")]
    return [record for record in records if record.get("msg") == "passed on"]


class Fleets:
    """Routers with a worker beside each of some servers."""

    server = Server
    engine = "openai"

    def fleet(self, *flags, servers=2, router_flags=(), worker_flags=(), own_flags=()):
        """`own_flags`: further ones of each server."""
        self.servers = [self.server(*flags, *own) for own in own_flags or servers * [()]]
        for server in self.servers:
            self.addCleanup(server.kill)
        cluster = Cluster()
        self.addCleanup(cluster.__exit__, None, None, None)
        cluster.__enter__()
        router = cluster.start_router(*router_flags)
        self.workers = [self.beside(cluster, f"box-{i}", server, *worker_flags) for i, server in enumerate(self.servers)]
        wait_until(lambda: [w["ready"] for w in router.workers()] == [True] * servers, "ready workers")
        return router

    def beside(self, cluster, name, server, *flags):
        return cluster.start_worker(name, "--engine", self.engine, "--engine-url", f"http://127.0.0.1:{server.port}", *flags,
                                    model="")


class OpenAiTest(Fleets, unittest.TestCase):
    def test_a_chat_is_answered_as_by_the_server_itself(self):
        router = self.fleet(servers=1)
        body = {"model": "demo-model", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        answer = router.request("POST", "/v1/chat/completions", body)
        self.assertEqual(len(answer.json()["choices"][0]["message"]["content"].split()), 4)
        self.assertEqual(answer.json()["timings"]["prompt_n"], 6)
        streamed = router.chat(body["messages"], max_tokens=4, stream=True, stream_options={"include_usage": True})
        words = [event["choices"][0]["delta"].get("content", "") for event in streamed.events if event["choices"]]
        self.assertEqual("".join(words), answer.json()["choices"][0]["message"]["content"])
        self.assertTrue(streamed.done)
        self.assertEqual(router.request("POST", "/v1/completions", {"model": "demo-model", "prompt": "x"}).status, 200)
        self.assertEqual(router.request("POST", "/v1/messages", {"model": "demo-model", "messages": []}).status, 404)
        models = router.request("GET", "/v1/models").json()["data"]
        self.assertEqual([model["id"] for model in models], ["demo-model"])

    def test_chats_find_their_text_again(self):
        router = self.fleet("--slots", "8", "--prefill-us", "2")
        chats = [Chat(router, name) for name in "abcdefghij"]
        for _ in range(4):
            for chat in chats:
                chat.turn()
        for chat in chats:
            self.assertEqual(len(set(chat.workers)), 1, chat.workers)
            self.assertGreater(min(chat.shares[1:]), 0.7)
        self.assertEqual({chat.workers[0] for chat in chats}, {"box-0", "box-1"})
        seen = [request for server in self.servers for request in server.requests()]
        told = sum(sum(chat.cached) for chat in chats)
        self.assertEqual(told, sum(request["cached"] for request in seen))
        metrics = router.request("GET", "/metrics").body
        self.assertIn(f'roost_router_cached_tokens_total{{model="demo-model"}} {told}', metrics)
        self.assertEqual({(w["mode"], w["unread"]) for w in router.workers()}, {("predicted", True)})

    def test_clients_at_once_fill_the_slots_of_all(self):
        router = self.fleet("--slots", "4", "--held")
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            chats = []
            try:
                for count, name in enumerate("abcdefgh", 1):
                    chats.append(clients.submit(Chat(router, name).turn))
                    wait_until(lambda count=count: sum(w["running_requests"] for w in router.workers()) == count,
                               "that the load is told")
                running = [w["running_requests"] for w in router.workers()]
            finally:
                for server in self.servers:
                    server.answer()
            for chat in chats:
                chat.result()
        self.assertEqual(running, [4, 4])

    def test_streams_tell_too(self):
        router = self.fleet("--slots", "4")
        messages = [{"role": "user", "content": "stream " * 100}]
        for _ in range(2):
            router.chat(messages, stream=True, max_tokens=2)
        wait_until(lambda: len(passed_on(router)) == 2, "the log of all")
        first, second = passed_on(router)[-2:]
        self.assertEqual((first["outcome"], first["cached_tokens"], first["promised_tokens"]), ("complete", 0, 0))
        self.assertEqual(second["cached_tokens"], second["prompt_tokens"] - 1)
        self.assertGreater(second["promised_tokens"], 0.9 * second["prompt_tokens"])

    def test_tenants_do_not_find_each_others_texts(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            for name in ("acme", "bird"):
                keys.add(name, "--tenant", name)
            router = self.fleet("--slots", "4", servers=1, router_flags=("--api-keys", str(keys.path)))
            body = {"model": "demo-model", "messages": [{"role": "user", "content": "secret " * 200}], "max_tokens": 1}
            for count, name in enumerate(("acme", "acme", "bird"), 1):
                answer = router.request("POST", "/v1/chat/completions", body, bearer(keys.secrets[name]))
                self.assertEqual(answer.status, 200, answer.body)
                wait_until(lambda count=count: len(passed_on(router)) == count, "the log")
            promised = [record["promised_tokens"] for record in passed_on(router)]
            self.assertEqual((promised[0], promised[2]), (0, 0))
            self.assertGreater(promised[1], 100)

    def test_a_dead_server_is_left_out_until_it_is_back(self):
        router = self.fleet("--slots", "4")
        chats = [Chat(router, name) for name in "abcdef"]
        for chat in chats:
            chat.turn()
        self.servers[0].kill()
        for chat in chats:
            chat.turn()
            self.assertEqual(chat.workers[-1], "box-1")
        wait_until(lambda: router.workers()[0]["state"] == "away", "that it is missed")
        self.servers[0].start()
        wait_until(lambda: router.workers()[0]["state"] == "ready", "that it is back")
        for chat in chats:
            chat.turn()
            self.assertEqual(chat.workers[-1], "box-1", "where all of its text is")

    def test_servers_that_tell_nothing_are_served_by_text_and_load(self):
        router = self.fleet("--like", "ollama", "--slots", "8", "--models", "qwen3:8b,gemma3:4b")
        models = router.request("GET", "/v1/models").json()["data"]
        self.assertEqual({model["id"] for model in models}, {"qwen3:8b", "gemma3:4b"})
        for model in ("qwen3:8b", "gemma3:4b"):
            chats = [Chat(router, name, model=model) for name in "abcdef"]
            for _ in range(3):
                for chat in chats:
                    chat.turn()
            for chat in chats:
                self.assertEqual(len(set(chat.workers)), 1, chat.workers)
                self.assertEqual(chat.cached, [-1] * 3)
        self.assertEqual({request["model"] for server in self.servers for request in server.requests()},
                         {"qwen3:8b", "gemma3:4b"})
        self.assertEqual({w["engine"] for w in router.workers()}, {"openai server"})

    def test_boxes_with_one_model_in_common_share_its_name(self):
        self.servers = [Server("--like", "mlx", "--models", "a,b"), Server("--like", "mlx", "--models", "b,c")]
        with Cluster() as cluster:
            router = cluster.start_router()
            for i, server in enumerate(self.servers):
                self.addCleanup(server.kill)
                self.beside(cluster, f"box-{i}", server, "--served-model-name", "b")
            wait_until(lambda: [w["ready"] for w in router.workers()] == [True] * 2, "ready workers")
            for name in "abcdefgh":
                Chat(router, name, model="b").turn()
            for server in self.servers:
                self.assertGreater(len(server.requests()), 0)
                self.assertEqual({request["model"] for request in server.requests()}, {"b"})
            # A router that has just begun expects any name.
            unknown = {"model": "a", "messages": []}
            wait_until(lambda: router.request("POST", "/v1/chat/completions", unknown).status == 404, "that it is unknown")

    def test_what_costs_hits_is_told(self):
        router = self.fleet("--slots", "1", "--no-slots", servers=1)
        worker = router.workers()[0]
        self.assertEqual(worker["engine"], "openai llama.cpp b7777-double")
        self.assertIn("-np N", worker["cache_absence"])
        self.assertIn("--slots", worker["cache_absence"])
        doctor = subprocess.run([BIN / "roostctl", "doctor", "--router", router.url, "--admin", router.admin, "--no-requests"],
                                capture_output=True, text=True, check=False).stdout
        self.assertIn("-np N", doctor)

    def test_what_it_can_not_use_stops_the_start(self):
        for flags, words in ((["--model", "/m"], "model"), (["--engine-events", "tcp://127.0.0.1:1"], "engine-events"),
                             (["--chat-template", "x"], "chat-template")):
            with self.subTest(flags):
                done = subprocess.run([BIN / "roost-worker", "--engine", "openai", "--engine-url", "http://127.0.0.1:9",
                                       "--log-format", "json", *flags], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()

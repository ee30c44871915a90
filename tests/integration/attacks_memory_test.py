"""Peers who want a router's memory or its connections, each beside a client with a key whom it must not touch.

Every test asks for far more than there is, and then looks at three things: what the attacker was told, what the router
holds, and whether the client is served.
"""

import json
import socket
import tempfile
import unittest
import urllib.parse

from cluster import DEADLINE_SECONDS, Cluster, wait_until
from keys import KeyFile, bearer
from memory_test import resident_bytes

MIB = 1 << 20
INPUT_MEMORY = 64 * MIB
# The input memory, and what a process holds beside it, with a margin for fragments.
RESIDENT_BOUND = INPUT_MEMORY + 60 * MIB
STRANGERS = 200
OPERATORS_CONNECTIONS = 64  # a listener's bound


def scored_echo(seed):
    """A small body with a large answer: every token of the prompts with 20 alternatives."""
    prompts = [" ".join(f"{(seed * 131 + i * 17 + j) % 997}" for j in range(60)) for i in range(20)]
    return {"model": "demo-model", "max_tokens": 1, "temperature": 0, "prompt": prompts, "echo": True, "logprobs": 20}


class Peer:
    """A raw connection."""

    def __init__(self, url, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEADLINE_SECONDS)
        address = urllib.parse.urlparse(url)
        self.socket.connect((address.hostname, address.port))

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # it was refused, and what follows is not read
        return self

    def status(self):
        """The status of the answer's head; None if the connection ends without one."""
        line = b""
        try:
            while len(line) < 12 and (piece := self.socket.recv(12 - len(line))):
                line += piece
        except ConnectionResetError:
            pass
        return int(line[9:12]) if len(line) == 12 else None

    def close(self):
        self.socket.close()


def head(method, path, size, key=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: a", "Content-Type: application/json", f"Content-Length: {size}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class AttacksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        keys, operators = KeyFile(cls.folder.name), KeyFile(cls.folder.name, "operators.jsonl")
        cls.alice, cls.mallory = keys.add("alice"), keys.add("mallory")
        cls.oncall = operators.add("oncall")
        cls.cluster = Cluster()
        cls.router = cls.cluster.start_router("--api-keys", keys.path, "--admin-keys", operators.path,
                                              "--memory", str(2 * INPUT_MEMORY), "--log-level", "info")
        cls.cluster.start_worker("worker-a", "--kv-blocks", "2048")
        wait_until(lambda: cls.ask().status == 200, "that the worker is ready")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()
        cls.folder.cleanup()

    def setUp(self):
        self.peers = []

    def tearDown(self):
        for peer in self.peers:
            peer.close()

    @classmethod
    def ask(cls, key=None, **fields):
        body = {"model": "demo-model", "prompt": "Who comes", "max_tokens": 2, **fields}
        return cls.router.request("POST", "/v1/completions", body, bearer(key or cls.alice))

    def peer(self, url=None, **options):
        self.peers.append(Peer(url or self.router.url, **options))
        return self.peers[-1]

    def assert_a_client_is_served(self):
        self.assertIsNone(self.router.process.poll())
        for padding in (0, 50_000):
            answer = self.ask(user="x" * padding)
            self.assertEqual(answer.status, 200, answer.body)
        resident = resident_bytes(self.router.process.pid)
        self.assertLess(resident, RESIDENT_BOUND, f"{resident // MIB} MiB are resident")

    # ---- answers ----

    def test_an_answer_that_can_never_fit_is_refused_with_the_numbers(self):
        answer = self.ask(self.mallory, prompt=["Who comes"] * 128, n=16, max_tokens=60, logprobs=20, ignore_eos=True)
        self.assertEqual(answer.status, 413, answer.body)
        error = answer.json()["error"]
        self.assertEqual(error["param"], "max_tokens")
        self.assertRegex(error["message"], r"2048 x 60 tokens .* 21 tokens each may take \d+ MiB .* than the 22 MiB")
        self.assert_a_client_is_served()

    def test_an_answer_that_grows_over_its_share_is_cut_off(self):
        answer = self.ask(self.mallory, prompt=["Who comes"] * 64, n=16, max_tokens=None, logprobs=20, ignore_eos=True)
        self.assertEqual(answer.status, 413, answer.body)
        self.assertIn("more than the 22 MiB of memory", answer.json()["error"]["message"])
        self.assert_a_client_is_served()

    def test_answers_that_nobody_reads_count_until_they_are_read(self):
        statuses = []
        for seed in range(12):
            body = json.dumps(scored_echo(seed)).encode()
            reader = self.peer(receive_buffer=2048)
            reader.send(head("POST", "/v1/completions", len(body), self.mallory) + body)
            statuses.append(reader.status())
            self.assert_a_client_is_served()
        self.assertIn(200, statuses)
        self.assertIn(429, statuses)
        self.assertLessEqual(set(statuses), {200, 429})

    # ---- bodies ----

    def test_nobody_without_a_key_makes_the_router_take_a_body(self):
        asked = (("GET", "/health", 413), ("GET", "/livez", 413), ("OPTIONS", "/v1/completions", 413),
                 ("HEAD", "/ready", 413), ("POST", "/v1/completions", 401), ("POST", "/nowhere", 401))
        for method, path, expected in asked:
            strangers = [self.peer().send(head(method, path, 8_000_000)) for _ in range(STRANGERS // 6)]
            self.assertEqual({stranger.status() for stranger in strangers}, {expected}, f"{method} {path}")
            self.assert_a_client_is_served()

    def test_operators_routes_take_no_bodies_of_strangers_and_have_memory_of_their_own(self):
        admin, metrics = self.router.admin, self.router.metrics
        for url, method, path, expected in ((metrics, "GET", "/livez", 413), (admin, "GET", "/livez", 413),
                                            (admin, "POST", "/admin/v1/pin", 401)):
            strangers = [self.peer(url).send(head(method, path, 8_000_000)) for _ in range(20)]
            self.assertEqual({stranger.status() for stranger in strangers}, {expected}, path)
        # Even an operator's own unfinished bodies take nothing from clients.
        for _ in range(20):
            unfinished = head("POST", "/admin/v1/match", 2_000_000, self.oncall) + b" " * 1_900_000
            self.peer(admin).send(unfinished)
        self.assert_a_client_is_served()

    def test_one_key_leaves_memory_to_the_others(self):
        for _ in range(30):
            body = self.peer().send(head("POST", "/v1/completions", 3_000_000, self.mallory))
            body.send(b" " * 2_900_000)
        answer = self.ask(self.mallory, user="x" * 3_000_000)
        self.assertIn(answer.status, (413, 429))
        self.assert_a_client_is_served()

    def test_a_keys_limits_are_judged_before_its_body_is_read(self):
        keys = KeyFile(self.folder.name)
        keys.secrets, keys.lines = {}, {}
        for name in ("alice", "mallory"):
            keys.lines[name] = next(line + "\n" for line in keys.path.read_text().splitlines() if f'"{name}"' in line)
        one = keys.add("one-at-a-time", "--max-concurrent-requests", "1")
        wait_until(lambda: self.ask(one).status == 200, "that the key is known")
        self.peer().send(head("POST", "/v1/completions", 1000, one) + b"{")
        whole = head("POST", "/v1/completions", 2, one) + b"{}"
        wait_until(lambda: self.peer().send(whole).status() == 429, "that the key's one request is counted")
        self.assert_a_client_is_served()

    # ---- connections ----

    def test_idle_connections_keep_no_operator_and_no_probe_out(self):
        listeners = (self.router.admin, self.router.metrics)
        for url in listeners:
            for i in range(2 * OPERATORS_CONNECTIONS):
                self.peer(url).send(b"" if i % 2 else b"GET /livez HTTP/1.1\r\nHo")
            for _ in range(OPERATORS_CONNECTIONS):  # and some that were answered
                self.peer(url).send(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        for _ in range(3):
            asked = [(url, "/livez") for url in listeners]
            for url, path in asked + [(listeners[0], "/admin/v1/workers"), (listeners[1], "/metrics")]:
                probe = self.peer(url).send(head("GET", path, 0, self.oncall))
                self.assertEqual(probe.status(), 200, f"{url}{path}")
        self.assert_a_client_is_served()


if __name__ == "__main__":
    unittest.main()

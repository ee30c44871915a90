"""Mistakes of operators and clients, against the real programs: each row has the mistake and the words that the answer
must have, so that the answer alone tells what to change."""

import concurrent.futures
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

from cluster import BIN, DEADLINE_SECONDS, DEMO_MODEL, FREE_PORTS, Cluster, text, wait_until

WORKER = [BIN / "roost-worker", "--router", "tcp://127.0.0.1:1", "--metrics-address", ""]
DEMO = [*WORKER, "--model", DEMO_MODEL]
ROUTER = [BIN / "roost-router", "--http-address", "127.0.0.1:0", "--link-address", "tcp://127.0.0.1:0", *FREE_PORTS]

# The command, its exit code, and the words of its last line.
COMMANDS = [
    ("a misspelt option, and so a missing one", [*WORKER, "--modle", DEMO_MODEL], 64,
     ["unknown option --modle", "did you mean --model?"]),
    ("nothing at all", [BIN / "roost-worker"], 64, ["--model is required"]),
    ("an underscore for a dash", [*DEMO, "--kv_memory", "8GiB"], 64, ["--kv_memory", "did you mean --kv-memory?"]),
    ("the beginning of an option", [*ROUTER, "--max-body", "1MiB"], 64,
     ["--max-body", "did you mean --max-body-bytes?"]),
    ("an argument without an option", [*DEMO, "synthetic:tiny"], 64, ["unexpected argument 'synthetic:tiny'"]),
    ("a router as a URL", [BIN / "roost-worker", "--model", DEMO_MODEL, "--router", "http://127.0.0.1:7001"], 64,
     ["router", "http://127.0.0.1:7001", "begins with http", "tcp://HOST:PORT"]),
    ("a link address as a URL", [*ROUTER, "--link-address", "http://127.0.0.1:7001"], 78,
     ["link-address", "begins with http", "tcp://HOST:PORT"]),
    ("a link address without tcp://", [*ROUTER, "--link-address", "127.0.0.1:7001"], 78,
     ["link-address", "does not begin with tcp://"]),
    ("an HTTP address as a URL", [*ROUTER, "--http-address", "http://127.0.0.1:8000"], 78,
     ["http-address", "begins with http://", "write 127.0.0.1:8000"]),
    ("a worker's address as a URL", [*DEMO, "--metrics-address", "http://127.0.0.1:9101"], 64,
     ["metrics-address", "begins with http://", "write 127.0.0.1:9101"]),
    ("a host name to listen at", [*ROUTER, "--http-address", "example.org:8000"], 78,
     ["http-address", "example.org"]),
    ("an API for everyone", [*ROUTER, "--http-address", "0.0.0.0:0"], 78,
     ["http-address", "0.0.0.0:0", "--api-keys", "--insecure-bind"]),
    ("a worker's metrics for everyone", [*DEMO, "--metrics-address", "0.0.0.0:0"], 64,
     ["metrics-address", "0.0.0.0:0", "--tls-client-ca", "--insecure-bind"]),
    ("blocks that travel to other hosts", [*DEMO, "--transfer-address", "10.0.0.5:7100"], 64,
     ["transfer-address", "10.0.0.5:7100", "--link-secret-key", "--insecure-bind"]),
    ("blocks at an address that no other host can dial",
     [*DEMO, "--transfer-address", "0.0.0.0:7100", "--insecure-bind"], 64, ["transfer-advertise", "0.0.0.0:7100"]),
    ("more pulls than there may be", [*DEMO, "--transfer-pulls", "65"], 64, ["--transfer-pulls", "65", "64"]),
    ("a handover for ever", [*DEMO, "--handover-seconds", "601"], 64, ["--handover-seconds", "601", "600"]),
    ("readers that are no number", [*DEMO, "--transfer-readers", "all"], 64, ["--transfer-readers", "all"]),
    ("too little memory for blocks that travel", [*DEMO, "--backend", "cpu", "--transfer-memory", "100kB"], 78,
     ["transfer-memory", "100000 bytes", "8 blocks", "one has"]),
    ("blocks that travel in more memory than there is", [*DEMO, "--backend", "cpu", "--transfer-memory", "5TiB"], 78,
     ["kv-memory", "5 TiB", "transfer-memory", "that this process may use"]),
    ("a ledger where no file can be made", [*ROUTER, "--ledger", "/proc/ledger"], 78, ["ledger", "/proc/ledger"]),
    ("half of a certificate", [*ROUTER, "--tls-cert", "/tmp/server.pem"], 78, ["tls-key"]),
    ("half of the link's keys", [*DEMO, "--link-peers", "/tmp/peers"], 64, ["link-secret-key", "link-peers"]),
    ("a size that could be two", [*DEMO, "--kv-memory", "8G"], 64, ["kv-memory", "8GB", "8GiB"]),
    ("a size that is none", [*ROUTER, "--max-body-bytes", "large"], 64, ["max-body-bytes", "'large'", "8GiB"]),
    ("a cache larger than the machine", [*DEMO, "--backend", "cpu", "--kv-memory", "5TiB"], 78,
     ["kv-memory", "5 TiB", "memory", "that this process may use"]),
    ("more memory than the machine has", [*ROUTER, "--memory", "900TiB"], 78,
     ["memory", "900 TiB", "that this process may use"]),
    ("a number that is none", [*DEMO, "--threads", "many"], 64, ["--threads", "many"]),
    ("a number out of range", [*DEMO, "--tensor-parallel", "0"], 64, ["--tensor-parallel", "1", "64"]),
    ("a choice that there is not", [*DEMO, "--backend", "gpu"], 64, ["--backend", "gpu", "cuda", "cpu"]),
    ("a block size that is no power of two", [*DEMO, "--block-tokens", "17"], 64, ["block-tokens", "17", "power of two"]),
    ("a model that is not there", [*WORKER, "--model", "/nowhere/model"], 66, ["/nowhere/model"]),
    ("a made model that there is not", [*WORKER, "--model", "synthetic:llama-9b"], 78,
     ["synthetic model", "llama-9b", "llama-3.1-8b"]),
    ("a configuration that is not there", [*ROUTER, "--config", "/nowhere/roost.toml"], 64, ["/nowhere/roost.toml"]),
    ("a misspelt option of roostctl", [BIN / "roostctl", "status", "--admni", "http://127.0.0.1:1"], 64,
     ["unknown option --admni", "did you mean --admin?"]),
    ("the address by its other word", [BIN / "roostctl", "status", "--router", "http://127.0.0.1:1"], 1,
     ["no answer from http://127.0.0.1:1/admin"]),
    ("a size that is none", [*ROUTER, "--max-body-bytes", "8G"], 64, ["max-body-bytes", "8GB", "8GiB"]),
    ("a misspelt command", [BIN / "roostctl", "statsu"], 64, ["no command 'statsu'", "did you mean roostctl status?"]),
    ("an empty prompt", [BIN / "roostctl", "match", "--model", "demo-model", "--prompt", ""], 1,
     ["prompt: is missing or empty", "--messages"]),
]  # fmt: skip

# The file of --config, and the words of the answer; FILE stands for the file's path.
FILES = [
    ("a misspelt key", "threads = 2\n\nmodle = \"demo\"\n", ["FILE:3", "unknown key 'modle'", "did you mean model?"]),
    ("a value that is no number", "# my worker\nthreads = many\n", ["FILE:2", "--threads", "many"]),
    ("a section", "[worker]\nthreads = 2\n", ["FILE:1", "[worker]", "section"]),
    ("a key twice", "threads = 2\nkv-blocks = 4\nthreads = 3\n", ["FILE:3", "threads", "twice", "FILE:1"]),
    ("a line without a value", "threads 2\n", ["FILE:1", "KEY = VALUE"]),
]

CHAT = {"model": "demo-model", "messages": [{"role": "user", "content": "Who?"}], "max_tokens": 2}

# Method, path, body or text, headers; the status and the words of error.message.
REQUESTS = [
    ("a temperature out of range", "POST", "/v1/chat/completions", {**CHAT, "temperature": 3}, {}, 400,
     ["temperature", "2"]),
    ("a text for a number", "POST", "/v1/chat/completions", {**CHAT, "max_tokens": "many"}, {}, 400, ["max_tokens", "string"]),
    ("no messages", "POST", "/v1/chat/completions", {"model": "demo-model"}, {}, 400, ["messages", "missing"]),
    ("a role that there is not", "POST", "/v1/chat/completions",
     {**CHAT, "messages": [{"role": "robot", "content": "Who?"}]}, {}, 400, ["messages[0].role", "assistant"]),
    ("a picture", "POST", "/v1/chat/completions",
     {**CHAT, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}, {}, 400,
     ["messages[0].content[0].type", "text"]),
    ("a misspelt model", "POST", "/v1/chat/completions", {**CHAT, "model": "demo-modle"}, {}, 404,
     ["demo-modle", "not served", "/v1/models"]),
    ("a prompt that is too long", "POST", "/v1/completions", {"model": "demo-model", "prompt": text(5000, "long")}, {}, 400,
     ["prompt", "maximum context length"]),
    ("an answer that is too long", "POST", "/v1/chat/completions", {**CHAT, "max_tokens": 1000000}, {}, 400,
     ["max_tokens", "maximum context length"]),
    ("no JSON", "POST", "/v1/chat/completions", "{model: demo}", {}, 400, ["not valid JSON"]),
    ("another content type", "POST", "/v1/chat/completions", json.dumps(CHAT), {"Content-Type": "text/plain"}, 415,
     ["application/json"]),
    ("a misspelt path", "POST", "/v1/chat/completion", CHAT, {}, 404, ["/v1/chat/completion"]),
    ("another method", "GET", "/v1/chat/completions", None, {}, 405, ["/v1/chat/completions", "GET"]),
]  # fmt: skip


def settled(answer):
    """The answer, unless it is that of a router that has just begun."""
    return answer if answer.status != 503 else None


def run(command, environment=None):
    """Runs a program that must end by itself: exit code, and its last line on stderr."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=DEADLINE_SECONDS,
                          env={**os.environ, **(environment or {})})
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


class MistakesTest(unittest.TestCase):
    def assert_words(self, answer, words):
        for word in words:
            self.assertIn(word, answer)

    def test_command_lines(self):
        self.assertGreaterEqual(len(COMMANDS) + len(FILES) + len(REQUESTS), 24)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for (what, _, code, words), (ended, line) in zip(COMMANDS, pool.map(lambda row: run(row[1]), COMMANDS)):
                with self.subTest(what):
                    self.assertEqual(ended, code, line)
                    self.assert_words(line, words)

    def test_configuration_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "roost.toml"
            for what, content, words in FILES:
                with self.subTest(what):
                    path.write_text(content)
                    code, line = run([*DEMO, "--config", path])
                    self.assertEqual(code, 64, line)
                    self.assert_words(line, [word.replace("FILE", str(path)) for word in words])

    def test_a_variable(self):
        code, line = run(DEMO, {"ROOST_THREADS": "lots"})
        self.assertEqual(code, 64)
        self.assert_words(line, ["--threads", "lots", "ROOST_THREADS"])

    def test_an_address_in_use(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            address = f"127.0.0.1:{holder.getsockname()[1]}"
            code, line = run([*ROUTER, "--http-address", address])
            self.assertEqual(code, 69)
            self.assert_words(line, ["http-address", address, "in use"])
            code, line = run([*ROUTER, "--link-address", f"tcp://{address}"])
            self.assertEqual(code, 69)
            self.assert_words(line, [address, "in use"])
            code, line = run([*DEMO, "--metrics-address", address])
            self.assertEqual(code, 69)
            self.assert_words(line, ["metrics-address", address, "in use"])

    def test_requests(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            worker = cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            for what, method, path, body, headers, status, words in REQUESTS:
                with self.subTest(what):
                    # 503 while the router has just begun, so that a worker may yet bring a model.
                    answer = wait_until(lambda: settled(router.request(method, path, body, headers)), "an answer")
                    self.assertEqual(answer.status, status, answer.body)
                    self.assert_words(answer.json()["error"]["message"], words)
            for command in (["status"], ["top", "--once"], ["explain"], ["prefixes"], ["cordon", "worker-a"], ["usage"],
                            ["match", "--model", "demo-model", "--prompt", "Who?"]):
                code, line = run([BIN / "roostctl", *command, "--admin", router.url])
                self.assertEqual(code, 1, command)
                self.assert_words(line, ["looks like the API's address", "--admin", "http://127.0.0.1:8001"])
            code, line = run([BIN / "roostctl", "chat", "--router", router.admin])
            self.assert_words(line, ["looks like the operators' address", "--router", "http://127.0.0.1:8000"])
            told = subprocess.run([BIN / "roostctl", "doctor", "--router", router.admin, "--admin", router.url],
                                  capture_output=True, text=True, timeout=DEADLINE_SECONDS).stdout
            self.assert_words(told, ["looks like the API's address", "looks like the operators' address"])
            self.assertNotIn("give --api-key-file", told)
            self.assertEqual(worker.stop(), 0)
            wait_until(lambda: not router.workers(), "that the worker is gone")
            for method, path, body in (("POST", "/v1/chat/completions", CHAT), ("GET", "/v1/models/demo-model", None)):
                away = router.request(method, path, body)
                self.assertEqual(away.status, 503, away.body)
                self.assertGreaterEqual(int(away.headers["retry-after"]), 1)
                self.assert_words(away.json()["error"]["message"], ["demo-model", "no worker"])
            self.assertEqual(router.request("POST", "/v1/chat/completions", {**CHAT, "model": "other"}).status, 404)


if __name__ == "__main__":
    unittest.main()

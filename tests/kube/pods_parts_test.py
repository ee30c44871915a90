"""The parts that pods.sh judges by: clients see every way in which a request can fail; names and policies do what they
should.
"""

import http.server
import json
import pathlib
import socket
import struct
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).with_name("pods")))

import dns  # noqa: E402
from load import Client  # noqa: E402
from network import Policy, policy_rules  # noqa: E402

PROMPT = {"prompt_tokens": 300, "prompt_tokens_details": {"cached_tokens": 288}}
DONE = "data: [DONE]\n\n"


def event(text, tokens=None):
    usage = {"completion_tokens": tokens, **PROMPT} if tokens is not None else None
    return "data: " + json.dumps({"choices": [{"text": text}], "usage": usage, "system_fingerprint": "r1"}) + "\n\n"


def answered(status, body, kind="text/event-stream", length=None):
    """The record that a client writes of one request that is answered so."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # noqa: N802
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(length or len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        records = []
        client = Client(1, {"address": "127.0.0.1", "port": server.server_port, "model": "m", "ca": None, "key": None},
                        records.append)
        client.draw = Draw(is_stream=kind == "text/event-stream")
        client.ask()
        thread.join()
    return records[0]


class Draw:
    """Asks for eight tokens."""

    def __init__(self, is_stream):
        self.is_stream = is_stream

    def random(self):
        return 0.5 if self.is_stream else 0.9

    def randrange(self, _):
        return 3

    def choice(self, _):
        return 8


class ClientTest(unittest.TestCase):
    def test_a_whole_stream_has_not_failed(self):
        record = answered(200, event("who ") + event("goes", 8) + DONE)
        self.assertNotIn("error", record)
        self.assertEqual((record["text"], record["revision"], record["got"]), ("who goes", "r1", 8))

    def test_a_whole_answer_has_not_failed(self):
        body = {"choices": [{"text": "who"}], "usage": {"completion_tokens": 8, **PROMPT}, "system_fingerprint": "r1"}
        self.assertNotIn("error", answered(200, json.dumps(body), "application/json"))

    def test_every_other_end_has_failed(self):
        for name, arguments in {
            "without its end": (200, event("who", 8)),
            "too short": (200, event("who", 7) + DONE),
            "an error": (200, event("who", 1) + 'data: {"error": {"message": "no worker"}}\n\n' + DONE),
            "refused": (503, "{}"),
            "cut answer": (200, '{"choices": [', "application/json", 10_000),
        }.items():
            with self.subTest(name):
                self.assertIn("error", answered(*arguments))


class NamesTest(unittest.TestCase):
    def ask(self, name, kind=dns.TYPE_A):
        labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        question = labels + b"\0" + struct.pack("!HH", kind, dns.CLASS_IN)
        names = {"a.roost": ["10.0.0.1", "10.0.0.2"], "empty.roost": []}
        packet = dns.answer(struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + question, type("Names", (), {"find": staticmethod(names.get)}))
        identity, flags, _, count, _, _ = struct.unpack_from("!HHHHHH", packet)
        self.assertEqual(identity, 7)
        answers = packet[12 + len(question):]
        return flags & 0xF, sorted(socket.inet_ntoa(answers[16 * i + 12:16 * i + 16]) for i in range(count))

    def test_a_name_has_all_its_addresses(self):
        self.assertEqual(self.ask("a.roost"), (0, ["10.0.0.1", "10.0.0.2"]))

    def test_a_name_without_addresses_exists_and_others_do_not(self):
        self.assertEqual(self.ask("empty.roost"), (0, []))
        self.assertEqual(self.ask("b.roost"), (dns.NO_SUCH_NAME, []))

    def test_addresses_of_another_kind_are_none_but_no_error(self):
        self.assertEqual(self.ask("a.roost", kind=28), (0, []))


class PolicyTest(unittest.TestCase):
    def test_a_pod_with_a_policy_is_closed_but_for_its_rules(self):
        rules = list(policy_rules([Policy("10.0.0.1", "Ingress", [({"10.0.0.9"}, [("tcp", 8000)]), (set(), [("tcp", 8002)])])]))
        chain = rules[rules.index("chain policy0 {"):rules.index("}") + 1]
        self.assertEqual(chain, ["chain policy0 {", "ip saddr { 10.0.0.9 } tcp dport 8000 return", "drop", "}"])
        self.assertIn("ip daddr 10.0.0.1 jump policy0", rules)


if __name__ == "__main__":
    unittest.main()

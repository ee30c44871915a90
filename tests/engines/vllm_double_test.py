"""The double against the recordings: the same requests get answers of the same form, and its events have the same
fields."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import unittest

import msgpack
import zmq

from free_ports import free_port

HERE = pathlib.Path(__file__).resolve().parent
RECORDINGS = HERE / "recordings/vllm-0.32.0"
# Answers whose content differs in more than numbers, or that ask for what the double does not do, are not here.
EXCHANGES = ["greedy", "greedy-plain", "greedy-usage-at-end", "logprobs-as-ids", "logprobs-21", "cache-salt", "ignore-eos",
             "invalid-token", "too-long", "empty-prompt", "unknown-model", "two-greedy", "sampled", "min-tokens",
             "adapter"]


@contextlib.contextmanager
def double(*flags, port=0, events_port=0, replay_port=0):
    """Starts a double, yields its process with the ports, and ends it."""
    port, events_port, replay_port = (wanted or free_port() for wanted in (port, events_port, replay_port))
    process = subprocess.Popen(
        [sys.executable, HERE / "vllm_double.py", "--port", str(port), "--events", f"tcp://127.0.0.1:{events_port}",
         "--replay", f"tcp://127.0.0.1:{replay_port}", *flags], stdout=subprocess.PIPE, text=True)
    process.port, process.events_port, process.replay_port = port, events_port, replay_port
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the double did not start")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def exchange(port, request):
    """Everything that comes back until the end of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


def parse(answer):
    """The status, the type and the body without chunk sizes."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    kind = re.search(rb"(?im)^content-type: ([^;\r\n]+)", head)
    body = b""
    if b"transfer-encoding: chunked" not in head.lower():
        return status, kind and kind.group(1), rest
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2:]
        if length == 0:
            break
    return status, kind and kind.group(1), body


def shape(value):
    """A JSON value without its content: keys and kinds. Lists of one kind have one element."""
    if isinstance(value, dict):
        if any(key.startswith(("token_id:", "<", " ")) for key in value):
            return {"…": shape(next(iter(value.values())))}
        return {key: shape(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def chunk_shapes(body):
    """The distinct forms of the events of a stream, in order of their first appearance."""
    shapes = []
    for line in body.decode().splitlines():
        if line.startswith("data: "):
            text = line[len("data: "):]
            form = text if text == "[DONE]" else shape(json.loads(text))
            if form not in shapes:
                shapes.append(form)
    return shapes


class AnswersTest(unittest.TestCase):
    def test_each_recorded_request_gets_an_answer_of_the_recorded_form(self):
        with double("--token-ms", "0", "--adapter", "poet") as engine:
            for name in EXCHANGES:
                with self.subTest(name):
                    recorded = parse((RECORDINGS / f"http/{name}.response").read_bytes())
                    answered = parse(exchange(engine.port, (RECORDINGS / f"http/{name}.request").read_bytes()))
                    self.assertEqual(answered[:2], recorded[:2])
                    if recorded[1] == b"text/event-stream":
                        self.assertEqual(chunk_shapes(answered[2]), chunk_shapes(recorded[2]))
                    else:
                        self.assertEqual(json.loads(answered[2]), json.loads(recorded[2]))

    def test_pages_have_what_the_recorded_ones_have(self):
        with double() as engine:
            answers = {page: parse(exchange(engine.port, f"GET {page} HTTP/1.1\r\nConnection: close\r\n\r\n".encode()))
                       for page in ("/version", "/v1/models", "/health", "/metrics")}
        recorded = parse((RECORDINGS / "http/page-v1-models.response").read_bytes())
        known = json.loads(recorded[2])["data"][0]
        for key, value in json.loads(answers["/v1/models"][2])["data"][0].items():
            self.assertEqual(type(value), type(known[key]), key)
        version = parse((RECORDINGS / "http/page-version.response").read_bytes())
        self.assertEqual(json.loads(answers["/version"][2]), json.loads(version[2]))
        self.assertEqual(answers["/health"][0], 200)
        names = {re.split(r"[{ ]", line)[0] for line in (RECORDINGS / "metrics-busy.txt").read_text().splitlines()}
        for line in answers["/metrics"][2].decode().splitlines():
            if line.startswith("vllm:"):
                self.assertIn(re.split(r"[{ ]", line)[0], names)

    def test_errors_in_a_stream_say_what_the_recorded_ones_say(self):
        with double() as engine:
            for name in ("invalid-token", "logprobs-21"):
                recorded = parse((RECORDINGS / f"http/{name}.response").read_bytes())[2]
                answered = parse(exchange(engine.port, (RECORDINGS / f"http/{name}.request").read_bytes()))[2]
                self.assertEqual(answered, recorded, name)


def post(path, body):
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


class RenderTest(unittest.TestCase):
    """The request of routers that count tokens. The form is that of vLLM's GenerateRequest."""

    BODY = {"model": "demo-model", "prompt": [3, 1, 4], "max_tokens": 2}

    def test_it_tells_the_tokens_of_a_request_where_it_is_asked_to(self):
        with double("--render") as engine:
            status, _, body = parse(exchange(engine.port, post("/v1/completions/render", self.BODY)))
            made, = json.loads(body)
            self.assertEqual((status, made["token_ids"], made["sampling_params"]), (200, [3, 1, 4], {"max_tokens": 2}))
            refused = parse(exchange(engine.port, post("/v1/completions/render", {**self.BODY, "model": "other"})))
            self.assertEqual(refused[0], 404)

    def test_it_does_not_by_default(self):
        with double() as engine:
            self.assertEqual(parse(exchange(engine.port, post("/v1/completions/render", self.BODY)))[0], 404)


def events_of(frames):
    return msgpack.unpackb(frames[-1])[1]


class EventsTest(unittest.TestCase):
    def test_events_have_the_topic_that_is_asked_for(self):
        context = zmq.Context()
        for flags, topic in (((), b"kv-events"), (("--topic", ""), b"")):
            with double("--token-ms", "0", *flags) as engine, context.socket(zmq.DEALER) as asker:
                asker.connect(f"tcp://127.0.0.1:{engine.replay_port}")
                body = {"model": "demo-model", "prompt": list(range(40)), "max_tokens": 1, "temperature": 0}
                exchange(engine.port, post("/v1/completions", body))
                asker.send_multipart([b"", (0).to_bytes(8, "big")])
                self.assertEqual(asker.recv_multipart()[1], topic)
        context.term()

    def test_events_have_the_recorded_fields(self):
        recorded = {}
        for line in (RECORDINGS / "events.jsonl").read_text().splitlines():
            for event in events_of([bytes.fromhex(frame) for frame in json.loads(line).get("frames", [])] or [b"\x93\0\x90\0"]):
                recorded.setdefault(event["type"], set()).add(frozenset(event))
        context = zmq.Context()
        with double("--blocks", "8", "--token-ms", "0") as engine, context.socket(zmq.DEALER) as asker:
            asker.connect(f"tcp://127.0.0.1:{engine.replay_port}")
            for first in (1, 500, 900):
                body = json.dumps({"model": "demo-model", "prompt": list(range(first, first + 100)), "max_tokens": 2,
                                   "temperature": 0}).encode()
                exchange(engine.port, b"POST /v1/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: "
                         + str(len(body)).encode() + b"\r\n\r\n" + body)
            asker.send_multipart([b"", (0).to_bytes(8, "big")])
            seen = set()
            numbers = []
            while True:
                frames = asker.recv_multipart()
                if frames[2] == b"\xff" * 8:
                    break
                numbers.append(int.from_bytes(frames[2], "big"))
                for event in events_of(frames):
                    seen.add(event["type"])
                    self.assertIn(frozenset(event), recorded[event["type"]])
        context.term()
        self.assertEqual(seen, {"BlockStored", "BlockRemoved"})
        self.assertEqual(numbers, list(range(len(numbers))))


if __name__ == "__main__":
    unittest.main()

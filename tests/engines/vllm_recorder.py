"""Writes down conversations with a real vLLM: its events, its replays, and single HTTP exchanges, byte for byte."""

import json
import pathlib
import socket
import threading
import time

import zmq

from vllm_engine import DEMO_MODEL

RECORDINGS = pathlib.Path(__file__).resolve().parent / "recordings/vllm-0.32.0"
SILENCE_SECONDS = 30
END_MARKER = b"\xff" * 8
SETTLE_SECONDS = 0.5


class Events:
    """A subscriber that writes down every message together with notes of what was asked, in order of arrival."""

    def __init__(self, endpoint):
        self.entries = []
        self.lock = threading.Lock()
        self.begin = time.monotonic()
        self.last = self.begin
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.subscribe(b"")
        self.socket.connect(endpoint)
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self._receive)
        self.thread.start()

    def _append(self, entry):
        with self.lock:
            self.last = time.monotonic()
            self.entries.append({"at": round(self.last - self.begin, 4), **entry})

    def _receive(self):
        while not self.closing.is_set():
            if self.socket.poll(100):
                self._append({"frames": [frame.hex() for frame in self.socket.recv_multipart()]})

    def note(self, **fields):
        self._append(fields)

    def settle(self):
        """Waits until no event has come for a while."""
        pause = threading.Event()
        while time.monotonic() - self.last < SETTLE_SECONDS:
            pause.wait(0.05)

    def close(self):
        self.closing.set()
        self.thread.join()
        self.socket.close(0)

    def write(self, name):
        write_lines(name, self.entries)


def write_lines(name, entries):
    path = RECORDINGS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries))


def write_bytes(name, data):
    path = RECORDINGS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def replay(endpoint, first):
    """The frames that the replay socket sends from a sequence number on, up to its end marker."""
    asking = zmq.Context.instance().socket(zmq.DEALER)
    asking.setsockopt(zmq.RCVHWM, 0)
    asking.connect(endpoint)
    request = [b"", first.to_bytes(8, "big")]
    asking.send_multipart(request)
    entries = [{"asked": [frame.hex() for frame in request]}]
    while asking.poll(10_000):
        frames = asking.recv_multipart()
        entries.append({"frames": [frame.hex() for frame in frames]})
        if END_MARKER in frames:
            break
    asking.close(0)
    return entries


def http_request(method, path, body=None, headers=()):
    payload = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "Connection: close"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(payload)}"]
    return "\r\n".join([*lines, "", ""]).encode() + payload


class Exchange:
    """One HTTP request over a socket of its own, and the bytes of its answer."""

    def __init__(self, vllm, request):
        self.request = request
        self.response = b""
        self.end = None  # the way in which the server ended the connection
        self.socket = socket.create_connection(("127.0.0.1", vllm.port), timeout=SILENCE_SECONDS)
        self.socket.sendall(request)

    def read(self):
        """Receives once; false at the end."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            self.end = "reset"
            return False
        except TimeoutError:
            self.end = f"open, but silent for {SILENCE_SECONDS} s"
            return False
        self.response += data
        if not data:
            self.end = "closed"
        return bool(data)

    def read_until(self, text, times=1):
        while self.response.count(text) < times and self.read():
            pass
        return self

    def read_all(self):
        while self.read():
            pass
        self.socket.close()
        return self

    def write(self, name):
        write_bytes(f"{name}.request", self.request)
        write_bytes(f"{name}.response", self.response)


def completion(prompt, **fields):
    return {"model": DEMO_MODEL.name, "prompt": prompt, "stream": True, "return_token_ids": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True}, "max_tokens": 6,
            "temperature": 0, **fields}


def ask(vllm, events, name, body):
    """Sends a completion and writes down, among the events, what was asked and when the tokens came."""
    events.note(asked=name, prompt=body["prompt"],
                fields={key: body[key] for key in ("cache_salt", "max_tokens", "ignore_eos") if key in body} |
                ({"model": body["model"]} if body["model"] != DEMO_MODEL.name else {}))
    exchange = Exchange(vllm, http_request("POST", "/v1/completions", body))
    exchange.read_until(b"data: ")
    events.note(first_chunk=name)
    exchange.read_all()
    chunks = [json.loads(line[6:]) for line in exchange.response.decode().splitlines() if line.startswith("data: {")]
    produced = [token for chunk in chunks for choice in chunk.get("choices", []) for token in choice["token_ids"]]
    events.note(answered=name, token_ids=produced, usage=chunks[-1]["usage"])
    events.settle()
    return exchange

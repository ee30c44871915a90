"""The client of the router's tests and figures with many streams: requests over raw sockets, answers kept as bytes.

The client must be cheap, because it shares the cores with the router: it parses nothing while streams run.
"""

import asyncio
import json
import os
import resource
import time

END = b"0\r\n\r\n"


def allow_descriptors(count):
    """Sets the limit for this process and its later children. Returns whether that many are allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))
    return True


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid, field="VmRSS"):
    with open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def chat_request(model, messages, key=None, **fields):
    body = json.dumps({"model": model, "stream": True, "messages": messages, **fields}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nContent-Type: application/json\r\n"
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Stream(asyncio.Protocol):
    """Connections of one client, one request after the other. `next_request` gives None when there are no more."""

    def __init__(self, next_request, done):
        self.next_request = next_request
        self.done = done
        self.answers = []
        self.bytes = bytearray()

    def connection_made(self, transport):
        self.transport = transport
        self.ask()

    def ask(self):
        request = self.next_request()
        if request is None:
            self.transport.close()
            return self.done.set_result(None) if not self.done.done() else None
        self.transport.write(request)

    def data_received(self, data):
        self.bytes += data
        if self.bytes.endswith(END):
            self.answers.append(bytes(self.bytes))
            self.bytes = bytearray()
            self.ask()

    def connection_lost(self, error):
        if not self.done.done():
            self.answers.append(bytes(self.bytes))  # cut off; a check of the answer will notice
            self.done.set_result(None)


async def run_clients(port, count, next_request, tls=None):
    """All answers, as they came; over TLS with the client's context."""
    loop = asyncio.get_running_loop()
    streams, ends = [], []
    for _ in range(count):
        done = loop.create_future()
        _, stream = await loop.create_connection(
            lambda done=done: Stream(next_request, done), "127.0.0.1", port, ssl=tls)
        streams.append(stream)
        ends.append(done)
    await asyncio.gather(*ends)
    return [answer for stream in streams for answer in stream.answers]


def events_of(answer):
    """The events of a chunked answer, as text; none if it is not a complete 200."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200") or not rest.endswith(END):
        return []
    body = bytearray()
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return [part[6:] for part in body.decode().split("\n\n") if part.startswith("data: ")]


def text_of(events):
    """The text of a chat's chunks, in order; None unless it ended as a stream should."""
    if not events or events[-1] != "[DONE]":
        return None
    chunks = [json.loads(event)["choices"][0] for event in events[:-1]]
    if chunks[-1]["finish_reason"] != "stop":
        return None
    return "".join(chunk["delta"].get("content", "") for chunk in chunks)


def cost_of(port, pid, requests, clients):
    """CPU milliseconds of process `pid` per request of `requests`, and the answers."""
    waiting = iter(requests)
    before, start = cpu_seconds(pid), time.monotonic()
    answers = asyncio.run(run_clients(port, clients, lambda: next(waiting, None)))
    spent = cpu_seconds(pid) - before
    return 1e3 * spent / len(requests), answers, time.monotonic() - start

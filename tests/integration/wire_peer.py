"""The link between router and worker without their code: ZeroMQ's protocol over plain sockets, and just enough of Cap'n
Proto to read some fields. With this a test plays an older router or worker from a recording, or one that does not exist.

A recording is a list of entries:
    ("worker", frame)    a message of the worker
    ("router", frame)    a message of the router
    ("ask", call)        what a client then asked the router for; see record_link.py
    ("told", result)     the answer to the latest call
"""

import json
import selectors
import socket
import struct
import threading
import time
import zlib

COMMAND, LONG = 4, 2
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)

# Tags of the unions in schema/roost.capnp.
WORKER_KINDS = ["none", "hello", "step", "snapshot", "tokenizer", "bye", "pinAnswer", "prefixes", "evictAnswer"]
ROUTER_KINDS = ["none", "welcome", "generate", "cancel", "wantHello", "wantSnapshot", "wantTokenizer", "ping", "pin",
                "unpin", "refused", "wantPrefixes", "evict", "cordon", "hold", "forward", "forwardBody", "forwardCredit",
                "handedOver"]


# ---- Cap'n Proto ----


class Struct:
    def __init__(self, message, at, data_bytes, pointer_count):
        self.message, self.at, self.data_bytes, self.pointer_count = message, at, data_bytes, pointer_count

    def number(self, form, offset):
        """A number of the data section, 0 if it ends before."""
        if offset + struct.calcsize(form) > self.data_bytes:
            return 0
        return struct.unpack_from("<" + form, self.message.frame, self.at + offset)[0]

    def pointer(self, index):
        return self.message.follow(self.at + self.data_bytes + 8 * index) if index < self.pointer_count else None


class Message:
    def __init__(self, frame):
        self.frame = frame
        count = struct.unpack_from("<I", frame)[0] + 1
        sizes = struct.unpack_from(f"<{count}I", frame, 4)
        at = (4 + 4 * count + 7) // 8 * 8
        self.segments = []
        for size in sizes:
            self.segments.append(at)
            at += 8 * size
        self.root = self.follow(self.segments[0])
        self.kind = self.root.number("H", 0)
        self.body = self.root.pointer(0)

    def word(self, at):
        return struct.unpack_from("<Q", self.frame, at)[0]

    def follow(self, at):
        word = self.word(at)
        if word == 0:
            return None
        if word & 3 == 2:  # far: to another segment
            landing = self.segments[word >> 32] + 8 * (word >> 3 & 0x1FFFFFFF)
            if not word & 4:
                return self.follow(landing)
            far = self.word(landing)
            return self.object(self.word(landing + 8), self.segments[far >> 32] + 8 * (far >> 3 & 0x1FFFFFFF))
        offset = struct.unpack_from("<i", self.frame, at)[0] >> 2
        return self.object(word, at + 8 + 8 * offset)

    def object(self, word, at):
        """A Struct, a list of Structs, or a list of numbers of four bytes."""
        if word & 3 == 0:
            return Struct(self, at, 8 * (word >> 32 & 0xFFFF), word >> 48)
        size, count = word >> 32 & 7, word >> 35
        if size == 4:
            return list(struct.unpack_from(f"<{count}I", self.frame, at))
        assert size == 7, f"a list of elements of kind {size}"
        tag = self.word(at)
        data_bytes, pointers = 8 * (tag >> 32 & 0xFFFF), tag >> 48
        step = data_bytes + 8 * pointers
        return [Struct(self, at + 8 + i * step, data_bytes, pointers) for i in range((tag & 0xFFFFFFFF) >> 2)]


def worker_kind(frame):
    return WORKER_KINDS[Message(frame).kind]


def router_kind(frame):
    return ROUTER_KINDS[Message(frame).kind]


def epoch_of(frame):
    """The epoch of a hello, welcome or refusal."""
    message = Message(frame)
    return message.body.number("Q", 0 if message.kind == ROUTER_KINDS.index("refused") else 8)


def id_of(frame):
    """The id that a router's message gives to a request or an order, None if it has none."""
    offset = {"generate": 0, "cancel": 0, "pin": 8, "unpin": 0, "wantPrefixes": 0, "evict": 0}.get(router_kind(frame))
    return None if offset is None else Message(frame).body.number("Q", offset)


def ends_of(frame):
    """The ends of choices that a step tells: (request id, choice, finish reason)."""
    ends = []
    for event in Message(frame).body.pointer(0) or []:
        if event.number("H", 24) == 1:
            ends.append((event.number("Q", 0), event.number("I", 28), event.number("H", 26)))
    return ends


def token_counts_of(frame):
    """The tokens in a step: (request id, choice, count)."""
    events = Message(frame).body.pointer(0) or []
    return [(event.number("Q", 0), event.number("I", 28), len(event.pointer(0) or [])) for event in events]


def replaced(frame, numbers):
    """The frame with other numbers of eight bytes. They are random, so that no other bytes look like them."""
    for old, new in numbers.items():
        frame = frame.replace(struct.pack("<Q", old), struct.pack("<Q", new))
    return frame


def with_number(frame, form, offset, value):
    """The frame with another number at this place of its message's data."""
    changed = bytearray(frame)
    struct.pack_into("<" + form, changed, Message(frame).body.at + offset, value)
    return bytes(changed)


def with_router_count(frame, count):
    """A step whose load tells this number of routers."""
    default, offset = 1, 64
    changed = bytearray(frame)
    struct.pack_into("<I", changed, Message(frame).body.pointer(2).at + offset, count ^ default)
    return bytes(changed)


def empty_message(kind):
    """A message of this kind without content."""
    return struct.pack("<IIQQQ", 0, 3, 1 << 32 | 1 << 48, kind, 0)


# ---- ZeroMQ ----


class Splitter:
    """Makes messages of one direction's bytes."""

    def __init__(self):
        self.rest = b""
        self.greeted = False
        self.shaken = False  # a command has come: the handshake is over

    def feed(self, data):
        self.rest += data
        if not self.greeted:
            if len(self.rest) < len(GREETING):
                return []
            self.rest, self.greeted = self.rest[len(GREETING):], True
        messages = []
        while len(self.rest) >= 2:
            flags = self.rest[0]
            head = 9 if flags & LONG else 2
            if len(self.rest) < head:
                break
            size = struct.unpack(">Q", self.rest[1:9])[0] if flags & LONG else self.rest[1]
            if len(self.rest) < head + size:
                break
            if flags & COMMAND:
                self.shaken = True
            else:
                messages.append(self.rest[head:head + size])
            self.rest = self.rest[head + size:]
        return messages


class Peer:
    """One end of a link: a DEALER that connects, or a ROUTER with one connection that it has accepted."""

    def __init__(self, stream, socket_type):
        self.stream = stream
        self.splitter = Splitter()
        self.received = []
        self.changed = threading.Condition()
        self.closed = False
        self.sending = threading.Lock()
        ready = b"\x05READY"
        for name, value in ((b"Socket-Type", socket_type), (b"Identity", b"")):
            ready += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
        self.stream.sendall(GREETING + bytes([COMMAND, len(ready)]) + ready)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        with self.changed:
            assert self.changed.wait_for(lambda: self.splitter.shaken or self.closed, 60) and not self.closed, "no handshake"

    @classmethod
    def connect(cls, endpoint):
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        return cls(socket.create_connection((host, int(port))), b"DEALER")

    def _read(self):
        while True:
            try:
                data = self.stream.recv(1 << 16)
            except OSError:
                data = b""
            with self.changed:
                self.received += self.splitter.feed(data)
                self.closed = self.closed or not data
                self.changed.notify_all()
                if not data:
                    return

    def send(self, frame):
        head = bytes([LONG]) + struct.pack(">Q", len(frame)) if len(frame) > 255 else bytes([0, len(frame)])
        with self.sending:
            self.stream.sendall(head + frame)

    def wait_for(self, found, deadline_seconds=60):
        """The first message for which found(frame) is true; it and all before it are forgotten."""
        end = time.monotonic() + deadline_seconds
        with self.changed:
            seen = 0
            while True:
                for i, frame in enumerate(self.received[seen:], seen):
                    if found(frame):
                        del self.received[:i + 1]
                        return frame
                seen = len(self.received)
                if self.closed or not self.changed.wait(max(0.0, end - time.monotonic())):
                    raise AssertionError(f"{'the link was closed' if self.closed else 'nothing came'} before that message")

    def close(self):
        if not self.closed:
            self.stream.shutdown(socket.SHUT_RDWR)
        self.reader.join()
        self.stream.close()


class Listener:
    """The address where workers find a played router."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(60)
        self.endpoint = f"tcp://127.0.0.1:{self.server.getsockname()[1]}"

    def accept(self):
        stream, _ = self.server.accept()
        stream.settimeout(None)
        return Peer(stream, b"ROUTER")

    def close(self):
        self.server.close()


class Tap:
    """Stands between one worker and a router, and keeps what they say. `change(name, frame)`, if there is one, gives the
    frame that goes on in place of the "worker"'s or the "router"'s: one of as many bytes."""

    def __init__(self, endpoint, change=None):
        self.target = endpoint.removeprefix("tcp://").rsplit(":", 1)
        self.change = change
        self.server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.server.getsockname()[1]}"
        self.entries = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def note(self, kind, value):
        self.entries.append((kind, value))

    def _run(self):
        worker, _ = self.server.accept()
        router = socket.create_connection((self.target[0], int(self.target[1])))
        sides = {worker: ("worker", router, Splitter()), router: ("router", worker, Splitter())}
        held = {worker: b"", router: b""}  # an unfinished message, which may still change
        with selectors.DefaultSelector() as selector, worker, router:
            for side in sides:
                selector.register(side, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    name, other, splitter = sides[key.fileobj]
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        return
                    held[key.fileobj] += data
                    for frame in splitter.feed(data):
                        self.note(name, frame)
                        if self.change:
                            changed = self.change(name, frame)
                            held[key.fileobj] = held[key.fileobj].replace(frame, changed, 1)
                    if not self.change or not splitter.greeted or not splitter.rest:
                        other.sendall(held[key.fileobj])
                        held[key.fileobj] = b""

    def close(self):
        self.thread.join()
        self.server.close()


# ---- recordings ----

ENTRY_KINDS = ["worker", "router", "ask", "told"]


def write_recording(path, entries):
    packed = b""
    for kind, value in entries:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        packed += struct.pack("<BI", ENTRY_KINDS.index(kind), len(data)) + data
    path.write_bytes(zlib.compress(packed, 9))


def read_recording(path):
    packed = zlib.decompress(path.read_bytes())
    entries, at = [], 0
    while at < len(packed):
        kind, size = struct.unpack_from("<BI", packed, at)
        data = packed[at + 5:at + 5 + size]
        entries.append((ENTRY_KINDS[kind], data if kind < 2 else json.loads(data)))
        at += 5 + size
    return entries

"""Two workers between which blocks travel, for tests: worker-a holds a prompt, and a proxy stands in for the address of its
blocks. The proxy alters frames, cuts the connection or holds it in mid pull."""

import contextlib
import http.client
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import types
import unittest
import urllib.parse

from cluster import BIN, Cluster, text, wait_until

ROUNDS = int(os.environ.get("ROOST_TRANSFER_ROUNDS", "8"))
TOLD_ROUNDS = 100
BLOCK_TOKENS = 16
PROMPT_WORDS = 400  # about 100 blocks
# Of worker/transfer/peer_messages.h: kind and length in front of each message and frame; the source begins with a message.
HEAD_BYTES = 8
FRAME_HEADER_BYTES = 80
# By how much a worker's memory may grow over all spoilt pulls: a frame of the demo model has 50 kB, a pull 5 MB.
MAX_GROWTH_BYTES = 64 << 20


class Proxy:
    """Passes on TCP connections to port `to()`. What is sent forth and back goes through functions, piece by piece; None
    ends the connection."""

    def __init__(self, to, forth=lambda piece: piece, back=lambda piece: piece):
        self.to = to
        self.forth = forth
        self.back = back
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.to())) as far:
            other = threading.Thread(target=self._pass_on, args=(far, near, self.back), daemon=True)
            other.start()
            self._pass_on(near, far, self.forth)
            other.join()

    @staticmethod
    def _pass_on(source, target, change):
        with contextlib.suppress(OSError):
            while (piece := source.recv(65536)) and (changed := change(piece)) is not None:
                target.sendall(changed)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class StandIn:
    """Makes the router tell others an address of its own for a worker's blocks: rewrites the hello on the worker's link."""

    def __init__(self, router_link):
        self.served_at = None  # where the worker serves its blocks
        self.begin = b""  # of what the worker sends on its first connection: a welcome, and the head of a frame
        self.welcome_bytes = 0  # with its head
        self.frame_bytes = 0  # with its head
        self.blocks = Proxy(lambda: self.served_at, back=self._pass_blocks)
        self.link = Proxy(lambda: int(router_link.rsplit(":", 1)[1]), forth=self._pass_link)
        self.reset()

    def reset(self):
        """For the next pull, on a new connection or the old one."""
        self.change = lambda piece: piece  # of what the worker sends
        self.sent = 0  # bytes before the piece

    def _pass_link(self, piece):
        def readdress(found):
            self.served_at = int(found.group(1))
            return b"127.0.0.1:%d" % self.blocks.port

        return re.sub(rb"127\.0\.0\.1:(\d{5})", readdress, piece)

    def _pass_blocks(self, piece):
        if self.frame_bytes == 0:
            self.begin += piece[:1024]
            self.welcome_bytes = self._part_bytes(0)
            self.frame_bytes = self._part_bytes(self.welcome_bytes) if self.welcome_bytes > 0 else 0
        changed = self.change(piece)
        self.sent += len(piece)
        return changed

    def _part_bytes(self, offset):
        """0 while its head is not there."""
        if len(self.begin) < offset + HEAD_BYTES:
            return 0
        return HEAD_BYTES + struct.unpack_from("<I", self.begin, offset + 4)[0]

    def offset_of_frame(self, number):
        """In what the worker sends on a new connection."""
        return self.welcome_bytes + number * self.frame_bytes

    def altered(self, piece, frame, byte=100):
        """The piece with a bit of the frame's data changed, if it is there."""
        at = self.offset_of_frame(frame) + HEAD_BYTES + FRAME_HEADER_BYTES + 4 * BLOCK_TOKENS + byte - self.sent
        if self.frame_bytes == 0 or not 0 <= at < len(piece):
            return piece
        return piece[:at] + bytes([piece[at] ^ 0x10]) + piece[at + 1:]

    def close(self):
        self.blocks.close()
        self.link.close()


def metric_of(worker, name, **labels):
    """The sum over the samples of a worker's metric with these labels."""
    address = urllib.parse.urlparse(worker.wait_for_log("worker started")["metrics"]).netloc
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    total = 0.0
    for line in page.splitlines():
        match = re.match(r"([a-z_]+)\{(.*)\} (\S+)$", line)
        if not match or match.group(1) != name:
            continue
        found = dict(re.findall(r'([a-z_]+)="([^"]*)"', match.group(2)))
        if all(found.get(key) == value for key, value in labels.items()):
            total += float(match.group(3))
    return total


def resident_bytes(worker):
    return metric_of(worker, "process_resident_memory_bytes")


class TransferCase(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.router = self.cluster.start_router()
        self.stand_in = StandIn(self.router.link)
        self.addCleanup(self.stand_in.close)
        self.a = self.start_source()
        self.b = self.cluster.start_worker("worker-b")
        self.router.wait_for_workers(2)
        self.prompt = text(PROMPT_WORDS, self.id())
        self.blocks = self.warm("--workers", "worker-a")
        self.expected = self.answer_of("worker-a")
        self.computed_before = self.router.metric("roost_router_copied_tokens_total")

    def start_source(self):
        self.cluster.router = types.SimpleNamespace(link=f"tcp://127.0.0.1:{self.stand_in.link.port}")
        worker = self.cluster.start_worker("worker-a")
        self.cluster.router = self.router
        return worker

    def roostctl_warm(self, *flags):
        arguments = [BIN / "roostctl", "warm", "--admin", self.router.admin, "--model", "demo-model", "--prompt",
                     self.prompt, *flags]
        return subprocess.run(arguments, capture_output=True, text=True, check=False)

    def warm(self, *flags):
        """The blocks of the prompt."""
        told = self.roostctl_warm(*flags)
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        return int(re.match(r"(\d+) blocks", told.stdout).group(1))

    def pull(self):
        """The line about worker-b."""
        told = self.roostctl_warm("--workers", "worker-b", "--from", "worker-a")
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        return told.stdout.splitlines()[1].strip()

    def answer_of(self, worker):
        """The worker answers with what is in its cache: the others are out of service."""
        others = {each["id"] for each in self.router.workers()} - {worker}
        for each in others:
            self.post("cordon", {"worker": each}, {200, 404})  # 404: it was killed, and the router has seen that now
        answer = self.router.completion(self.prompt, temperature=0, max_tokens=24)
        for each in others:
            self.post("uncordon", {"worker": each}, {200, 404})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.headers["x-roost-worker"], worker)
        return answer

    def post(self, verb, body, statuses=frozenset({200})):
        answer = self.router.request("POST", f"/admin/v1/{verb}", body)
        self.assertIn(answer.status, statuses, answer.body)

    def expect_exact_at_b(self):
        answer = self.answer_of("worker-b")
        self.assertEqual(answer.text(), self.expected.text())
        self.assertGreaterEqual(answer.cached_tokens(), (self.blocks - 1) * BLOCK_TOKENS)

    def expect_nothing_left(self, *workers):
        for worker in workers:
            for name, labels in (("transfer_memory_bytes", {}), ("transfer_readers", {}), ("blocks", {"state": "referenced"})):
                wait_until(lambda: metric_of(worker, f"roost_worker_{name}", **labels) == 0,  # noqa: B023
                           f"that no {name} are left at {worker.arguments}")

    def computed_tokens(self):
        return self.router.metric("roost_router_copied_tokens_total") - self.computed_before

    def expect_pull(self, outcome):
        self.assertEqual(self.router.metric("roost_router_pulls_total", outcome=outcome), 1)
        self.assertEqual(self.router.metric("roost_router_pulls_total"), 1)

    def expect_the_rest_computed(self, line, outcome):
        self.assertRegex(line, rf"^worker-b: holds {self.blocks} blocks, computed \d+ tokens, .*{outcome}$")
        self.expect_pull(outcome)
        pulled = self.router.metric("roost_router_pulled_tokens_total")
        self.assertGreater(self.computed_tokens(), 0)
        self.assertEqual(pulled + self.computed_tokens(), self.blocks * BLOCK_TOKENS)
        self.assertEqual(metric_of(self.b, "roost_worker_arrivals_total", outcome=outcome), 1)
        self.assertEqual(metric_of(self.b, "roost_worker_arrived_blocks_total") * BLOCK_TOKENS, pulled)
        self.expect_exact_at_b()
        self.expect_nothing_left(self.b)

    def is_sent(self, frame):
        return self.stand_in.frame_bytes > 0 and self.stand_in.sent >= self.stand_in.offset_of_frame(frame)

    def is_half_sent(self):
        return self.is_sent(self.blocks // 2)

    def hold_in_mid_pull(self, end, frame=None):
        """From this frame on, or the middle, nothing more of the source passes; `end` says what a held piece becomes. Returns two events: it
        is held, and may go on."""
        held = threading.Event()
        gone = threading.Event()

        def hold(piece):
            if not self.is_sent(self.blocks // 2 if frame is None else frame):
                return piece
            held.set()
            gone.wait(60)
            return end(piece)

        self.stand_in.change = hold
        return held, gone

    def kill_consumer(self):
        self.b.process.send_signal(signal.SIGKILL)

    def spoil(self, draw):
        """Spoils the next pull at a random place. Returns how, and what ends it."""
        frame = draw.randrange(self.blocks)
        offset = self.stand_in.offset_of_frame(frame) + draw.randrange(self.stand_in.frame_bytes)
        kind = draw.choice(["alter", "cut", "cut", "nothing", "kill the source", "kill the worker"])

        def is_there(piece):
            return self.stand_in.sent <= offset < self.stand_in.sent + len(piece)

        def change(piece):
            if kind == "alter":
                return self.stand_in.altered(piece, frame, draw.randrange(1000))
            if kind != "nothing" and is_there(piece):
                self.killed = {"kill the source": self.a, "kill the worker": self.b}.get(kind)
                if kind == "kill the source":
                    self.a.process.send_signal(signal.SIGKILL)
                elif kind == "kill the worker":
                    self.kill_consumer()
                return None
            return piece

        self.killed = None  # a request may end before the place is reached
        self.stand_in.reset()
        self.stand_in.change = change
        return kind

    def rounds(self, kinds):
        """Counts up to ROUNDS, and prints now and then how far it has come."""
        for done in range(ROUNDS):
            if done > 0 and done % TOLD_ROUNDS == 0:
                print(f"{done} of {ROUNDS}: {kinds}", flush=True)
            yield done

    def restore(self):
        """Starts again what was killed, and lets worker-b forget the prompt."""
        joined = self.router.metric("roost_router_handovers_total", kind="join")
        killed = [worker for worker in (self.a, self.b) if worker.process.poll() is not None]
        for name, worker in (("worker-a", self.a), ("worker-b", self.b)):
            if worker.process.poll() is not None:
                wait_until(lambda: name not in {each["id"] for each in self.router.workers()},  # noqa: B023
                           f"the loss of {name}")
        if self.a.process.poll() is not None:
            self.a = self.start_source()
        if self.b.process.poll() is not None:
            self.b = self.cluster.start_worker("worker-b")
        self.router.wait_for_workers(2)
        if len(killed) == 1:  # the other one's prefixes go to it, and must not come behind the eviction
            wait_until(lambda: self.router.metric("roost_router_handovers_total", kind="join") > joined, "what is handed over")
        self.stand_in.reset()
        self.post("evict", {"model": "demo-model", "prompt": self.prompt, "workers": ["worker-b"]})
        self.warm("--workers", "worker-a")

"""Blocks travel between real workers on command: exact answers from what came, and from what did not. A proxy stands in for
the source's address, and alters frames, cuts the connection or holds it in mid pull.

ROOST_TRANSFER_ROUNDS (30) is the number of pulls that are spoilt at random, one after the other."""

import contextlib
import http.client
import os
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import types
import unittest
import urllib.parse

from cluster import BIN, DEMO_MODEL, Cluster, text, wait_until
from link_keys import LinkKeys

ROUNDS = int(os.environ.get("ROOST_TRANSFER_ROUNDS", "30"))
BLOCK_TOKENS = 16
PROMPT_WORDS = 400  # about 100 blocks
# Of worker/transfer/peer_messages.h: kind and length in front of each message; the source begins with an empty one.
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
        self.frame_bytes = 0  # with the head of the message
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
        if self.frame_bytes == 0 and len(piece) >= 2 * HEAD_BYTES:
            self.frame_bytes = HEAD_BYTES + struct.unpack_from("<I", piece, HEAD_BYTES + 4)[0]
        changed = self.change(piece)
        self.sent += len(piece)
        return changed

    def offset_of_frame(self, number):
        """In what the worker sends on a new connection."""
        return HEAD_BYTES + number * self.frame_bytes

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


class TransferTest(unittest.TestCase):
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
            self.post("cordon", {"worker": each})
        answer = self.router.completion(self.prompt, temperature=0, max_tokens=24)
        for each in others:
            self.post("uncordon", {"worker": each})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.headers["x-roost-worker"], worker)
        return answer

    def post(self, verb, body):
        answer = self.router.request("POST", f"/admin/v1/{verb}", body)
        self.assertEqual(answer.status, 200, answer.body)

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

    def is_half_sent(self):
        return self.stand_in.frame_bytes > 0 and self.stand_in.sent >= self.stand_in.offset_of_frame(self.blocks // 2)

    def hold_in_mid_pull(self, end):
        """From the middle on nothing more of the source passes; `end` says what a held piece becomes. Returns two events: it
        is held, and may go on."""
        held = threading.Event()
        gone = threading.Event()

        def hold(piece):
            if not self.is_half_sent():
                return piece
            held.set()
            gone.wait(60)
            return end(piece)

        self.stand_in.change = hold
        return held, gone

    def test_a_prefix_moves_on_command(self):
        line = self.pull()
        print(line)
        self.assertRegex(line, rf"^worker-b: holds {self.blocks} blocks, {self.blocks} pulled from worker-a in \d+ ms "
                               r"\(\d+(\.\d)? [kMG]B/s\)$")
        self.expect_pull("complete")
        self.assertEqual(self.computed_tokens(), 0)
        self.assertEqual(self.router.metric("roost_router_pulled_tokens_total"), self.blocks * BLOCK_TOKENS)
        self.assertGreater(self.stand_in.sent, self.blocks * BLOCK_TOKENS * 4)
        self.assertEqual(metric_of(self.b, "roost_worker_arrivals_total", source="peer", outcome="complete"), 1)
        self.assertEqual(metric_of(self.b, "roost_worker_arrived_blocks_total"), self.blocks)
        self.assertEqual(metric_of(self.b, "roost_worker_arrival_first_frame_seconds_count"), 1)
        served = wait_until(lambda: metric_of(self.a, "roost_worker_served_bytes_total"), "that the source counts")
        self.assertEqual(metric_of(self.b, "roost_worker_arrived_bytes_total"), served)
        self.expect_exact_at_b()
        self.assertEqual(self.pull(), f"worker-b: held all {self.blocks} blocks already")
        # A third worker is not told where to fetch.
        c = self.cluster.start_worker("worker-c")
        self.router.wait_for_workers(3)
        told = self.roostctl_warm("--workers", "worker-c")
        self.assertRegex(told.stdout, rf"worker-c: holds {self.blocks} blocks, {self.blocks} pulled from worker-[ab] in ")
        self.assertEqual(self.answer_of("worker-c").text(), self.expected.text())
        self.expect_nothing_left(self.a, self.b, c)

    def test_a_cordoned_worker_is_a_source(self):
        self.post("cordon", {"worker": "worker-a"})
        self.assertRegex(self.pull(), rf"^worker-b: holds {self.blocks} blocks, {self.blocks} pulled from worker-a in ")
        self.post("uncordon", {"worker": "worker-a"})
        self.expect_exact_at_b()

    def test_a_draining_worker_is_a_source_while_its_answers_last(self):
        stream = threading.Thread(target=lambda: self.router.completion(text(10, "long"), max_tokens=3000, ignore_eos=True))
        self.post("cordon", {"worker": "worker-b"})
        stream.start()
        running = lambda: [each for each in self.router.workers() if each["running_requests"]]  # noqa: E731
        wait_until(running, "that worker-a answers")
        self.post("uncordon", {"worker": "worker-b"})
        self.a.process.send_signal(signal.SIGTERM)
        wait_until(lambda: any(each["state"] == "draining" for each in self.router.workers()), "that worker-a drains")
        self.assertRegex(self.pull(), rf"^worker-b: holds {self.blocks} blocks, {self.blocks} pulled from worker-a in ")
        self.assertTrue(running(), "it still answers")
        self.expect_exact_at_b()
        stream.join()

    def test_an_evicted_prompt_is_not_served(self):
        self.post("evict", {"model": "demo-model", "prompt": self.prompt, "workers": ["worker-a"]})
        told = self.roostctl_warm("--workers", "worker-b", "--from", "worker-a")
        self.assertRegex(told.stdout, rf"worker-b: holds {self.blocks} blocks, computed \d+ tokens")
        self.assertEqual(self.router.metric("roost_router_pulls_total"), 0)
        self.assertEqual(metric_of(self.a, "roost_worker_served_bytes_total"), 0)

    def test_of_an_altered_frame_nothing_is_used(self):
        altered = []

        def alter(piece):
            changed = self.stand_in.altered(piece, self.blocks // 2)
            if changed != piece:
                altered.append(changed)
            return changed

        self.stand_in.change = alter
        line = self.pull()
        self.assertEqual(len(altered), 1)
        self.expect_the_rest_computed(line, "wrong")

    def test_after_a_cut_the_rest_is_computed(self):
        self.stand_in.change = lambda piece: None if self.is_half_sent() else piece
        self.expect_the_rest_computed(self.pull(), "broken")
        self.expect_nothing_left(self.a)

    def pull_meanwhile(self, pull, disturb, held, gone):
        """What `pull` returns, where `disturb` runs while the pull is held."""
        told = []
        pulling = threading.Thread(target=lambda: told.append(pull()))
        pulling.start()
        self.assertTrue(held.wait(60))
        disturb()
        gone.set()
        pulling.join(60)
        self.assertEqual(len(told), 1)
        return told[0]

    def test_a_source_that_dies_in_mid_pull_costs_no_answer(self):
        held, gone = self.hold_in_mid_pull(lambda piece: None)  # the dead worker's system may have more of it to send
        line = self.pull_meanwhile(self.pull, self.a.kill, held, gone)
        wait_until(lambda: len(self.router.workers()) == 1, "the loss of the source")
        self.expect_the_rest_computed(line, "broken")

    def test_a_source_that_stops_in_mid_pull_is_not_awaited(self):
        held, gone = self.hold_in_mid_pull(lambda piece: b"")
        stop = lambda: self.a.process.send_signal(signal.SIGSTOP)  # noqa: E731
        try:
            line = self.pull_meanwhile(self.pull, stop, held, gone)
            self.expect_the_rest_computed(line, "broken")
        finally:
            self.a.process.send_signal(signal.SIGCONT)
        wait_until(lambda: len(self.router.workers()) == 2, "that the source is back")
        self.assertEqual(self.answer_of("worker-a").text(), self.expected.text())

    def test_a_source_that_stopped_before_is_not_awaited(self):
        self.a.process.send_signal(signal.SIGSTOP)
        try:
            line = self.pull()
            self.expect_the_rest_computed(line, "broken")
        finally:
            self.a.process.send_signal(signal.SIGCONT)

    def test_a_worker_that_dies_in_mid_pull_leaves_its_source_whole(self):
        held, gone = self.hold_in_mid_pull(lambda piece: piece)
        pull = lambda: self.roostctl_warm("--workers", "worker-b", "--from", "worker-a")  # noqa: E731
        told = self.pull_meanwhile(pull, self.b.kill, held, gone)
        self.assertIn("worker-b: no answer", told.stdout)
        self.expect_pull("unanswered")
        again = self.answer_of("worker-a")
        self.assertEqual(again.text(), self.expected.text())
        self.assertGreaterEqual(again.cached_tokens(), (self.blocks - 1) * BLOCK_TOKENS)
        self.expect_nothing_left(self.a)

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
                if kind == "kill the source":
                    self.a.process.send_signal(signal.SIGKILL)
                elif kind == "kill the worker":
                    self.b.process.send_signal(signal.SIGKILL)
                return None
            return piece

        self.stand_in.reset()
        self.stand_in.change = change
        return kind

    def restore(self):
        """Starts again what was killed, and lets worker-b forget the prompt."""
        for name, worker in (("worker-a", self.a), ("worker-b", self.b)):
            if worker.process.poll() is not None:
                wait_until(lambda: name not in {each["id"] for each in self.router.workers()},  # noqa: B023
                           f"the loss of {name}")
        if self.a.process.poll() is not None:
            self.a = self.start_source()
        if self.b.process.poll() is not None:
            self.b = self.cluster.start_worker("worker-b")
        self.router.wait_for_workers(2)
        self.stand_in.reset()
        self.post("evict", {"model": "demo-model", "prompt": self.prompt, "workers": ["worker-b"]})
        self.warm("--workers", "worker-a")

    def test_pulls_that_are_spoilt_at_random_cost_no_token(self):
        draw = random.Random(f"{self.id()} {ROUNDS}")
        self.pull()  # tells the stand-in the size of a frame
        failures = 0  # in a row
        before = {}
        kinds = {}
        for _ in range(ROUNDS):
            self.restore()
            for worker in (self.a, self.b):
                before.setdefault(worker, resident_bytes(worker))
            # A pull that went well leaves a connection open, whose first bytes were the handshake's.
            kind = self.spoil(draw)
            kinds[kind] = kinds.get(kind, 0) + 1
            failures = failures + 1 if kind in ("cut", "kill the source") else 0
            told = self.roostctl_warm("--workers", "worker-b", "--from", "worker-a")
            self.stand_in.reset()
            if kind == "kill the worker":
                continue
            self.assertRegex(told.stdout, rf"worker-b: holds {self.blocks} blocks", kind)
            if kind == "kill the source":
                self.a.process.wait(60)
                wait_until(lambda: len(self.router.workers()) == 1, "the loss of the source")
            self.expect_exact_at_b()
            # It would ask the source no more for a while; the next pull is to be spoilt too.
            if kind == "alter" or failures == 2:
                self.b.kill()
                left = int(self.a.process.poll() is None)
                wait_until(lambda: len(self.router.workers()) == left, "the loss of worker-b")  # noqa: B023
                failures = 0
        self.restore()
        self.expect_nothing_left(self.a, self.b)
        print(f"{ROUNDS} spoilt pulls: {kinds}")
        for worker in (self.a, self.b):
            growth = resident_bytes(worker) - before.get(worker, resident_bytes(worker))
            print(f"{growth / 2**20:.1f} MiB more after them")
            self.assertLess(growth, MAX_GROWTH_BYTES)


class EncryptedTransferTest(unittest.TestCase):
    """With keys of the link blocks travel under tickets. A proxy at the advertised address sees and changes what passes."""

    def setUp(self):
        self.keys = self.enterContext(LinkKeys("worker-a", "worker-b"))
        self.cluster = self.enterContext(Cluster())
        self.router = self.cluster.start_router(*self.keys.router())
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.forth, self.back = bytearray(), bytearray()
        self.alter_at = None  # a byte of what the source sends
        self.proxy = Proxy(lambda: self.port, self.pass_forth, self.pass_back)
        self.addCleanup(self.proxy.close)
        self.a = self.start("worker-a", "--transfer-address", f"0.0.0.0:{self.port}",
                            "--transfer-advertise", f"127.0.0.1:{self.proxy.port}")
        self.b = self.start("worker-b")
        self.router.wait_for_workers(2)
        self.prompt = text(PROMPT_WORDS, self.id())

    def start(self, name, *flags):
        return self.cluster.start_worker(name, *self.keys.worker(name), "--log-level", "debug", *flags)

    def pass_forth(self, piece):
        self.forth += piece
        return piece

    def pass_back(self, piece):
        at = None if self.alter_at is None else self.alter_at - len(self.back)
        self.back += piece
        if at is None or not 0 <= at < len(piece):
            return piece
        return piece[:at] + bytes([piece[at] ^ 1]) + piece[at + 1:]

    def warm(self, worker, **source):
        body = {"model": "demo-model", "prompt": self.prompt, "workers": [worker], **source}
        answer = self.router.request("POST", "/admin/v1/warm", body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()["workers"][0]

    def answers(self):
        """Of both workers: the text of an answer, and how much of its prompt was cached."""
        told = {}
        for worker, other in (("worker-a", "worker-b"), ("worker-b", "worker-a")):
            self.assertEqual(self.router.request("POST", "/admin/v1/cordon", {"worker": other}).status, 200)
            answer = self.router.completion(self.prompt, temperature=0, max_tokens=24)
            self.assertEqual(self.router.request("POST", "/admin/v1/uncordon", {"worker": other}).status, 200)
            self.assertEqual(answer.headers["x-roost-worker"], worker)
            told[worker] = (answer.text(), answer.cached_tokens())
        return told

    def expect_equal_answers(self):
        told = self.answers()
        self.assertEqual(told["worker-a"], told["worker-b"])
        self.assertGreater(told["worker-b"][1], PROMPT_WORDS)

    def refused(self, reason):
        return metric_of(self.a, "roost_worker_transfer_refused_total", reason=reason)

    def test_a_prefix_moves_and_nothing_of_it_is_seen_on_the_way(self):
        self.assertEqual(self.a.wait_for_log("worker started")["transfer"], f"127.0.0.1:{self.proxy.port}")
        self.assertEqual(self.warm("worker-a")["outcome"], "computed")
        self.assertEqual(self.warm("worker-b", **{"from": "worker-a"})["outcome"], "pulled")
        self.expect_equal_answers()
        served = metric_of(self.a, "roost_worker_served_bytes_total")
        self.assertGreater(served, 1 << 20)
        self.assertGreater(len(self.back), served)
        # Records of TLS, of which the first is a ClientHello with the consumer's name. All else is encrypted.
        self.assertEqual(bytes(self.forth[:2]), b"\x16\x03")
        self.assertIn(b"worker-b", self.forth)
        for name in (b"worker-a", b"BTSR", b"RSTB"):
            self.assertNotIn(name, self.forth[:4096] + self.back[:4096])
        self.assertEqual(sum(self.refused(reason) for reason in ("ticket", "handshake", "busy")), 0)

    def test_an_altered_byte_costs_no_answer(self):
        self.warm("worker-a")
        self.alter_at = 1 << 20
        self.assertEqual(self.warm("worker-b", **{"from": "worker-a"})["outcome"], "computed")
        self.assertEqual(metric_of(self.b, "roost_worker_arrivals_total", outcome="broken"), 1)
        self.assertGreater(metric_of(self.b, "roost_worker_arrived_blocks_total"), 0)
        self.expect_equal_answers()

    def test_a_stranger_gets_no_further_than_the_handshake(self):
        self.warm("worker-a")
        hello = struct.pack("<IIIQQI", 1, 24 + 8, 1, 0, 0, 8) + b"worker-a"
        for said in (hello, b"GET / HTTP/1.1\r\n\r\n", os.urandom(300)):
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as stranger:
                stranger.sendall(said)
                with contextlib.suppress(ConnectionError):
                    self.assertLessEqual(len(stranger.recv(4096)), 7, "no more than an alert")
        wait_until(lambda: self.refused("handshake") == 3, "that all are refused")
        silent = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(20)]
        self.assertEqual(self.warm("worker-b", **{"from": "worker-a"})["outcome"], "pulled")
        for each in silent:
            each.close()

    def test_a_source_that_starts_again_takes_the_tickets_of_its_new_secret(self):
        self.warm("worker-a")
        self.assertEqual(self.warm("worker-b", **{"from": "worker-a"})["outcome"], "pulled")
        self.a.kill()
        wait_until(lambda: len(self.router.workers()) == 1, "the loss of the source")
        self.a = self.start("worker-a", "--transfer-address", f"127.0.0.1:{self.port}")
        self.router.wait_for_workers(2)
        self.prompt = text(PROMPT_WORDS, "another prompt")
        self.warm("worker-a")
        self.assertEqual(self.warm("worker-b", **{"from": "worker-a"})["outcome"], "pulled")
        self.assertEqual(self.refused("ticket"), 0)


class AbsenceTest(unittest.TestCase):
    """Workers whose blocks stay with them say why, and compute."""

    def test_an_address_that_is_taken_stops_the_start(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            command = [BIN / "roost-worker", "--model", DEMO_MODEL, "--transfer-address", address]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 69)
        self.assertIn("transfer-address", ended.stderr)
        self.assertIn(address, ended.stderr)

    def test_workers_that_take_any_numerics_exchange_blocks_with_each_other_alone(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            told = {}
            for name, numerics in (("any-a", "any"), ("any-b", "any"), ("same", "same")):
                told[name] = cluster.start_worker(name, "--transfer-numerics", numerics).wait_for_log("worker started")
            self.assertEqual(told["any-a"]["transfer_numerics"], "any: answers may differ in their bits")
            self.assertEqual(told["same"]["transfer_numerics"], "same")
            router.wait_for_workers(3)
            body = {"model": "demo-model", "prompt": text(100, self.id())}
            outcomes = {}
            for name in ("any-a", "any-b", "same"):
                answer = router.request("POST", "/admin/v1/warm", {**body, "workers": [name]}).json()
                outcomes[name] = answer["workers"][0]["outcome"]
            self.assertEqual(outcomes, {"any-a": "computed", "any-b": "pulled", "same": "computed"})
            doctor = subprocess.run([BIN / "roostctl", "doctor", "--router", router.url, "--admin",
                                     router.admin, "--no-requests"], capture_output=True, text=True, check=False)
            self.assertRegex(doctor.stdout, r"transfer +any-a, any-b: no blocks travel between them and same: .*\n"
                                            r".*--transfer-numerics")

    def test_the_start_says_whether_blocks_travel(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cases = {
                "travels": ([], r"127\.0\.0\.1:\d+"),
                "chosen": (["--transfer-address", "[::1]:0", "--transfer-memory", "1MiB"], r"\[::1\]:\d+"),
                "off": (["--transfer", "off"], "off"),
                "no-events": (["--cache-events", "off"], "off: cache events are off"),
                "no-cache": (["--prefix-cache", "off"], "off: the prefix cache is off"),
            }
            for name, (flags, words) in cases.items():
                told = cluster.start_worker(name, *flags).wait_for_log("worker started")
                self.assertRegex(told["transfer"], f"^{words}$", name)
            wait_until(lambda: sum(worker["ready"] for worker in router.workers()) == len(cases), "that all are ready")
            prompt = text(100, self.id())
            computed = []
            for name in ("travels", "off"):
                body = {"model": "demo-model", "prompt": prompt, "workers": [name]}
                answer = router.request("POST", "/admin/v1/warm", body).json()
                computed.append(answer["workers"][0]["outcome"])
            self.assertEqual(computed, ["computed", "computed"])
            self.assertEqual(router.metric("roost_router_pulls_total"), 0)


if __name__ == "__main__":
    unittest.main()

"""Blocks travel between real workers on command: exact answers from what came, and from what did not. A proxy stands in for
the source's address, and alters frames, cuts the connection or holds it in mid pull.

ROOST_TRANSFER_ROUNDS (8) is the number of pulls that are spoilt at random, one after the other."""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import unittest

from cluster import BIN, DEMO_MODEL, Cluster, text, wait_until
from link_keys import LinkKeys
from transfers import (BLOCK_TOKENS, MAX_GROWTH_BYTES, PROMPT_WORDS, ROUNDS, Proxy, TransferCase, metric_of,
                       resident_bytes)


class TransferTest(TransferCase):
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
        # A third worker is handed the prefix that is used, as one that joins, and fetches another one that it is told to hold.
        c = self.cluster.start_worker("worker-c")
        self.router.wait_for_workers(3)
        wait_until(lambda: metric_of(c, "roost_worker_arrived_blocks_total") == self.blocks, "that worker-c has joined")
        self.assertEqual(self.answer_of("worker-c").text(), self.expected.text())
        self.prompt = text(PROMPT_WORDS, "another")
        self.warm("--workers", "worker-a")
        told = self.roostctl_warm("--workers", "worker-c")
        self.assertRegex(told.stdout, r"worker-c: holds (\d+) blocks, \1 pulled from worker-a in ")
        self.assertEqual(self.answer_of("worker-c").text(), self.answer_of("worker-a").text())
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
        # Worker-a may have handed some of it over already, or all, or does so meanwhile.
        self.assertRegex(self.pull(), rf"^worker-b: (holds {self.blocks} blocks, (\d+ pulled from worker-a in |none pulled from "
                                      rf"worker-a: complete)|held all {self.blocks} blocks already)")
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

    def test_pulls_that_are_spoilt_at_random_cost_no_token(self):
        draw = random.Random(f"{self.id()} {ROUNDS}")
        self.pull()  # tells the stand-in the size of a frame
        failures = 0  # in a row
        before = {}
        kinds = {}
        for _ in self.rounds(kinds):
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
                self.b.process.wait(60)
                continue
            self.assertRegex(told.stdout, rf"worker-b: holds {self.blocks} blocks", kind)
            if kind == "kill the source":
                self.a.process.wait(60)
                wait_until(lambda: len(self.router.workers()) == 1, "the loss of the source")
            self.expect_exact_at_b()
            # It would ask the source no more for a while; the next pull is to be spoilt too.
            if kind == "alter" or failures == 2:
                self.b.kill()
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
        hello = struct.pack("<II", 1, 64) + bytes(56) + b"worker-a"  # as a message in the clear
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

    def test_without_pulls_a_worker_only_serves_and_without_readers_it_only_fetches(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            serves = cluster.start_worker("serves", "--transfer-pulls", "0")
            fetches = cluster.start_worker("fetches", "--transfer-readers", "0")
            router.wait_for_workers(2)
            self.assertRegex(serves.wait_for_log("worker started")["transfer"], r"^127\.0\.0\.1:\d+, fetches none$")
            self.assertEqual(fetches.wait_for_log("worker started")["transfer"], "fetches only: no readers")

            def warm(worker, prompt):
                body = {"model": "demo-model", "prompt": prompt, "workers": [worker]}
                return router.request("POST", "/admin/v1/warm", body).json()["workers"][0]["outcome"]

            one, two = text(100, f"{self.id()} one"), text(100, f"{self.id()} two")
            self.assertEqual([warm("serves", one), warm("fetches", one)], ["computed", "pulled"])
            self.assertEqual([warm("fetches", two), warm("serves", two)], ["computed", "computed"])
            self.assertEqual(router.metric("roost_router_pulls_total"), 1)
            self.assertGreater(metric_of(serves, "roost_worker_served_bytes_total"), 0)
            self.assertEqual(metric_of(fetches, "roost_worker_served_bytes_total"), 0)

    def test_the_start_says_whether_blocks_travel(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cases = {
                "travels": ([], r"127\.0\.0\.1:\d+"),
                "chosen": (["--transfer-address", "[::1]:0", "--transfer-memory", "1MiB"], r"\[::1\]:\d+"),
                "off": (["--transfer", "off"], "off"),
                "no-events": (["--cache-events", "off"], "off: cache events are off"),
                "no-cache": (["--prefix-cache", "off"], "off: the prefix cache is off"),
                "neither": (["--transfer-pulls", "0", "--transfer-readers", "0"], "off: neither pulls nor readers"),
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

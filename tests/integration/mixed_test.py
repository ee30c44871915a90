"""Routers and workers of two releases on one link. The release before is a recorded session (record_link.py): its
worker's frames are played to today's router, and its router's frames to today's worker, byte for byte except for ids.
Before the first tag there is no release before: the session is one of today."""

import pathlib
import threading
import unittest

import record_link
import wire_peer
from cluster import Cluster
from record_link import ask
from wire_peer import id_of, router_kind, worker_kind

RECORDINGS = sorted((pathlib.Path(__file__).parent / "recordings").glob("*.bin"))
ENTRIES = []
CANCELLED = 2  # FinishReason
PLAYED_ROUTER_FLAGS = ("--worker-timeout-seconds", "60", "--stall-timeout-seconds", "600")


class OldWorker:
    """Plays a recorded worker to a router: it says what it said then, whenever the router has said what it said then."""

    def __init__(self, entries, router):
        self.entries, self.router = entries, router
        self.peer = wire_peer.Peer.connect(router.link)
        self.ids = {}  # of the recording: the router's of today
        self.results = []  # (call, recorded, now)

    def play(self):
        client = None
        is_known = False
        for i, (kind, value) in enumerate(self.entries):
            if kind == "worker":
                self.peer.send(wire_peer.replaced(value, self.ids))
            elif kind == "router":
                self.follow(value)
            elif kind == "ask":
                if not is_known:
                    self.router.wait_for_workers(1)  # the router reads the tokenizer for a while
                    is_known = True
                client = threading.Thread(target=self.call, args=(value, self.answer_to(i)))
                client.start()
            elif kind == "told":
                client.join()

    def answer_to(self, i):
        return next(value for kind, value in self.entries[i:] if kind == "told")

    def call(self, call, recorded):
        self.results.append((call, recorded, ask(self.router, call)))

    def follow(self, recorded):
        """Waits for the router's message of this kind, and learns its ids."""
        kind = router_kind(recorded)
        if kind == "ping":
            return
        now = self.peer.wait_for(lambda frame: router_kind(frame) == kind)
        if id_of(recorded) is not None:
            self.ids[id_of(recorded)] = id_of(now)


class OldRouter:
    """Plays a recorded router to the worker that connects."""

    def __init__(self, entries, peer):
        self.entries, self.peer = entries, peer
        self.ends = []  # of the requests: (id, choice, reason)
        self.token_counts = {}  # by (id, choice)
        self.version = None

    def play(self, stop_worker):
        epochs = {}
        for kind, value in self.entries:
            if kind == "router":
                if router_kind(value) != "ping":  # a ping without content shows as well that the router is alive
                    self.peer.send(wire_peer.replaced(value, epochs))
                else:
                    self.peer.send(wire_peer.empty_message(wire_peer.ROUTER_KINDS.index("ping")))
            elif kind == "worker":
                said = worker_kind(value)
                if said == "bye":
                    stop_worker()
                if said == "step":
                    self.wait_for_ends(wire_peer.ends_of(value))
                elif said != "snapshot":
                    now = self.wait_for(said)
                    if said == "hello":
                        epochs = {wire_peer.epoch_of(value): wire_peer.epoch_of(now)}
                        self.version = wire_peer.Message(now).body.number("I", 0)

    def note(self, frame):
        if worker_kind(frame) == "step":
            self.ends += wire_peer.ends_of(frame)
            for request, choice, count in wire_peer.token_counts_of(frame):
                self.token_counts[request, choice] = self.token_counts.get((request, choice), 0) + count

    def wait_for(self, said):
        def found(frame):
            self.note(frame)
            return worker_kind(frame) == said

        return self.peer.wait_for(found)

    def wait_for_ends(self, ends):
        for request, choice, _ in ends:
            if any(end[:2] == (request, choice) for end in self.ends):
                continue

            def found(frame, wanted=(request, choice)):
                self.note(frame)
                return any(end[:2] == wanted for end in self.ends)

            self.peer.wait_for(found)


def played_router(test, cluster):
    """Plays the router that the cluster's workers dial from now on."""
    listener = wire_peer.Listener()
    test.addCleanup(listener.close)
    cluster.router = type("Played", (), {"link": listener.endpoint})
    return listener


def accepted(test, listener):
    peer = listener.accept()
    test.addCleanup(peer.close)
    return peer


def recorded_counts(entries):
    """Reads a recording: the ends of its choices, and their numbers of tokens."""
    ends, counts = [], {}
    for kind, frame in entries:
        if kind == "worker" and worker_kind(frame) == "step":
            ends += wire_peer.ends_of(frame)
            for request, choice, count in wire_peer.token_counts_of(frame):
                counts[request, choice] = counts.get((request, choice), 0) + count
    return ends, counts


def setUpModule():
    ENTRIES.extend(wire_peer.read_recording(RECORDINGS[-1]) if RECORDINGS else record_link.record())


class MixedTest(unittest.TestCase):
    def test_there_is_a_recording_of_every_kind_of_message(self):
        from_worker = {worker_kind(value) for kind, value in ENTRIES if kind == "worker"}
        from_router = {router_kind(value) for kind, value in ENTRIES if kind == "router"}
        self.assertLessEqual({"hello", "step", "snapshot", "tokenizer", "bye", "pinAnswer", "prefixes", "evictAnswer"},
                             from_worker)
        self.assertLessEqual(
            {"welcome", "generate", "cancel", "wantTokenizer", "ping", "pin", "unpin", "wantPrefixes", "evict"}, from_router)

    def test_an_older_worker_serves_under_todays_router(self):
        with Cluster() as cluster:
            router = cluster.start_router(*PLAYED_ROUTER_FLAGS)
            worker = OldWorker(ENTRIES, router)
            self.addCleanup(worker.peer.close)
            worker.play()
            for call, recorded, now in worker.results:
                self.assertEqual(now, recorded, call)
            self.assertEqual(len(worker.results), sum(kind == "ask" for kind, _ in ENTRIES))
            self.assertEqual(router.wait_for_log("worker left")["level"], "info")
            self.assertRegex(router.wait_for_log("worker joined")["protocol"], r"^2\.\d+")
            for name in ("malformed", "unknown"):
                self.assertEqual(router.metric(f"roost_router_{name}_messages_total"), 0)
            self.assertEqual(router.metric("roost_router_index_resyncs_total", reason="digest"), 0)

    def test_todays_worker_serves_under_an_older_router(self):
        with Cluster() as cluster:
            listener = played_router(self, cluster)
            worker = cluster.start_worker("today", "--kv-blocks", "256")
            router = OldRouter(ENTRIES, accepted(self, listener))
            router.play(worker.process.terminate)
            self.assertEqual(worker.stop(), 0)
            ends, counts = recorded_counts(ENTRIES)
            self.assertEqual(sorted(router.ends), sorted(ends))
            cancelled = {end[:2] for end in ends if end[2] == CANCELLED}
            self.assertTrue(cancelled)
            for choice in counts.keys() - cancelled:
                self.assertEqual(router.token_counts[choice], counts[choice], choice)
            self.assertEqual(router.version, 2)
            self.assertRegex(worker.wait_for_log("worker started")["transfer"], r"^127\.0\.0\.1:\d+$")
            self.assertRegex(worker.wait_for_log("router link up")["protocol"], r"^2\.\d+")
            for line in ("malformed message from a router", "router link starts again"):
                self.assertFalse(worker.has_logged(line), worker.lines)


class OtherMajorVersionTest(unittest.TestCase):
    """Peers of the next major version, made of the recorded ones."""

    def first(self, side, kind_of, kind):
        return next(value for name, value in ENTRIES if name == side and kind_of(value) == kind)

    def test_its_worker_is_refused_in_plain_words_on_both_sides_and_others_serve_on(self):
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("worker-a")
            router.wait_for_workers(1)
            peer = wire_peer.Peer.connect(router.link)
            self.addCleanup(peer.close)
            peer.send(wire_peer.with_number(self.first("worker", worker_kind, "hello"), "I", 0, 3))
            refusal = peer.wait_for(lambda frame: router_kind(frame) == "refused")
            refused = router.wait_for_log("worker refused")
            self.assertEqual((refused["level"], refused["worker"]), ("error", "recorded"))
            self.assertRegex(refused["error"], r"worker speaks protocol 3\.\d+, release [\d.]+, the router protocol 2\.\d+, release \d")
            self.assertIn(refused["error"].encode(), refusal)
            self.assertEqual(router.metric("roost_router_malformed_messages_total"), 0)
            self.assertEqual(router.completion("Who?", max_tokens=4).status, 200)

    def test_its_router_is_refused_by_the_worker(self):
        with Cluster() as cluster:
            listener = played_router(self, cluster)
            worker = cluster.start_worker("today")
            peer = accepted(self, listener)
            hello = peer.wait_for(lambda frame: worker_kind(frame) == "hello")
            welcome = self.first("router", router_kind, "welcome")
            welcome = wire_peer.replaced(welcome, {wire_peer.epoch_of(welcome): wire_peer.epoch_of(hello)})
            peer.send(self.of_major_version_three(welcome))
            refused = worker.wait_for_log("a router refuses this worker")
            self.assertRegex(refused["reason"], r"worker speaks protocol 2\.\d+, release [\d.]+, the router protocol 3\.0")
            self.assertFalse(worker.has_logged("router link up"))

    @staticmethod
    def of_major_version_three(welcome):
        """A welcome that is longer by the version: a struct of three words instead of two."""
        message = wire_peer.Message(welcome)
        body = welcome[message.body.at:message.body.at + 16] + (3 ^ 2).to_bytes(8, "little")
        pointer = (3 << 32).to_bytes(8, "little")
        head = b"".join(number.to_bytes(4, "little") for number in (0, 6))
        root = wire_peer.empty_message(wire_peer.ROUTER_KINDS.index("welcome"))[8:24]
        return head + root + pointer + body


if __name__ == "__main__":
    unittest.main()

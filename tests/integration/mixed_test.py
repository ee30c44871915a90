"""Routers and workers of different releases on one link. The other release is a recorded session (record_link.py): its
worker's frames are played to today's router, and its router's frames to today's worker, byte for byte except for ids."""

import http.client
import json
import pathlib
import threading
import unittest

import wire_peer
from cluster import DEADLINE_SECONDS, Cluster
from wire_peer import id_of, router_kind, worker_kind

RECORDINGS = sorted((pathlib.Path(__file__).parent / "recordings").glob("*.bin"))
CANCELLED = 2  # FinishReason
PLAYED_ROUTER_FLAGS = ("--worker-timeout-seconds", "60", "--stall-timeout-seconds", "600")


def ask(router, call):
    """Sends a call of a recording; returns what a later release must answer too."""
    method = "GET" if call["body"] is None else "POST"
    if not call.get("leave"):
        answer = router.request(method, call["path"], call["body"])
        result = {"status": answer.status}
        if answer.status == 200 and "choices" in answer.json():
            result["choices"] = [
                {"text": choice["text"] if "text" in choice else choice["message"]["content"],
                 "finish_reason": choice["finish_reason"]} for choice in answer.json()["choices"]]
        return result
    # The client goes away after the first event.
    connection = http.client.HTTPConnection(router.address, timeout=DEADLINE_SECONDS)
    connection.request(method, call["path"], json.dumps(call["body"]), {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.readline()
    connection.close()
    response.close()
    return {"status": response.status}


class OldWorker:
    """Plays a recorded worker to a router: it says what it said then, whenever the router has said what it said then."""

    def __init__(self, entries, router):
        self.entries, self.router = entries, router
        self.peer = wire_peer.Peer.connect(router.link)
        self.ids = {}  # of the recording: the router's of today
        self.results = []  # (call, recorded, now)
        self.told_of_block = None  # what an operator is told who has a block evicted

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
                    evicted = self.router.request("POST", "/admin/v1/evict", {"hash": "0123456789abcdef" * 2})
                    self.told_of_block = evicted.json()["workers"]
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


class MixedTest(unittest.TestCase):
    def test_there_is_a_recording_of_every_kind_of_message(self):
        self.assertTrue(RECORDINGS)
        for path in RECORDINGS:
            entries = wire_peer.read_recording(path)
            from_worker = {worker_kind(value) for kind, value in entries if kind == "worker"}
            from_router = {router_kind(value) for kind, value in entries if kind == "router"}
            self.assertLessEqual({"hello", "step", "snapshot", "tokenizer", "bye", "pinAnswer", "prefixes"}, from_worker)
            self.assertLessEqual(
                {"welcome", "generate", "cancel", "wantTokenizer", "ping", "pin", "unpin", "wantPrefixes"}, from_router)

    def test_an_older_worker_serves_under_todays_router(self):
        for path in RECORDINGS:
            with self.subTest(path.name), Cluster() as cluster:
                entries = wire_peer.read_recording(path)
                router = cluster.start_router(*PLAYED_ROUTER_FLAGS)
                worker = OldWorker(entries, router)
                self.addCleanup(worker.peer.close)
                worker.play()
                for call, recorded, now in worker.results:
                    self.assertEqual(now, recorded, call)
                self.assertEqual(len(worker.results), sum(kind == "ask" for kind, _ in entries))
                self.assertEqual(worker.told_of_block,
                                 [{"worker": "recorded", "answered": False, "reason": "not supported"}])
                self.assertEqual(router.wait_for_log("worker left")["level"], "info")
                self.assertEqual(router.wait_for_log("worker joined")["protocol"], "2.0")
                for name in ("malformed", "unknown"):
                    self.assertEqual(router.metric(f"roost_router_{name}_messages_total"), 0)
                self.assertEqual(router.metric("roost_router_index_resyncs_total", reason="digest"), 0)
                self.assertEqual(router.metric("roost_router_pulls_total"), 0)  # it takes no Holds

    def test_todays_worker_serves_under_an_older_router(self):
        for path in RECORDINGS:
            with self.subTest(path.name), Cluster() as cluster:
                entries = wire_peer.read_recording(path)
                listener = played_router(self, cluster)
                worker = cluster.start_worker("today", "--kv-blocks", "256")
                router = OldRouter(entries, accepted(self, listener))
                router.play(worker.process.terminate)
                self.assertEqual(worker.stop(), 0)
                ends, counts = recorded_counts(entries)
                self.assertEqual(sorted(router.ends), sorted(ends))
                cancelled = {end[:2] for end in ends if end[2] == CANCELLED}
                self.assertTrue(cancelled)
                for choice in counts.keys() - cancelled:
                    self.assertEqual(router.token_counts[choice], counts[choice], choice)
                self.assertEqual(router.version, 2)
                self.assertRegex(worker.wait_for_log("worker started")["transfer"], r"^127\.0\.0\.1:\d+$")
                self.assertEqual(worker.wait_for_log("router link up")["protocol"], "2.0")
                for line in ("malformed message from a router", "router link starts again"):
                    self.assertFalse(worker.has_logged(line), worker.lines)


class OtherMajorVersionTest(unittest.TestCase):
    """Peers of the next major version, made of the recorded ones."""

    @classmethod
    def setUpClass(cls):
        cls.entries = wire_peer.read_recording(RECORDINGS[-1])

    def first(self, side, kind_of, kind):
        return next(value for name, value in self.entries if name == side and kind_of(value) == kind)

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
            self.assertRegex(refused["error"], r"worker speaks protocol 3\.0, the router protocol 2\.\d+, release \d")
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

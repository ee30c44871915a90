"""Many streams at once through one router: every token arrives once and in order, and streams take little memory.

ROOST_STREAMS sets how many (500 here; the figures in tests/results/figures.tsv are for 5,000); with ROOST_STREAMS_STEP_MS=0
the worker sends as fast as it can.
"""

import asyncio
import json
import os
import pathlib
import sys
import tempfile
import threading
import unittest

from cluster import BIN, DEMO_MODEL, ROOT, Cluster, Daemon, wait_until

sys.path.insert(0, str(ROOT / "tests/bench"))
import router_load as load  # noqa: E402

STREAMS = int(os.environ.get("ROOST_STREAMS", "500"))
# All its pieces are different, so that a token that is lost, doubled or out of place changes the text.
ANSWER = " ".join(f"{i}" for i in range(100, 132))
# The pause between tokens, so that they come one by one as from an engine, each in its own write.
STEP_MS = int(os.environ.get("ROOST_STREAMS_STEP_MS", STREAMS // 25))
MAX_STREAM_BYTES = 32 * 1024


class StreamsTest(unittest.TestCase):
    def test_no_token_is_lost_doubled_or_reordered(self):
        if not load.allow_descriptors(2 * STREAMS + 200):
            self.skipTest(f"{STREAMS} streams need more descriptors than this process may have")
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            router = self.start(cluster, pathlib.Path(folder))
            pid = router.process.pid
            before = load.memory_bytes(pid)
            others, answers = self.hold(router, STREAMS - 1)
            held = load.memory_bytes(pid)
            cpu = load.cpu_seconds(pid)
            # The worker begins when the last request has arrived.
            answers += self.stream(router, 1)
            others.join()
            cpu = load.cpu_seconds(pid) - cpu
            most = load.memory_bytes(pid, "VmHWM")

        events = [load.events_of(answer) for answer in answers]
        wrong = sum(load.text_of(each) != ANSWER for each in events)
        count = sum(map(len, events))
        print(f"figure streams_{STREAMS}_lost_tokens {wrong} streams")
        print(f"figure stream_bytes_each {(most - before) / STREAMS:.0f} bytes")
        print(f"figure stream_bytes_each_waiting {(held - before) / STREAMS:.0f} bytes")
        print(f"figure relay_events_per_core_s {count / cpu:.0f} events/s")
        self.assertEqual(len(answers), STREAMS)
        self.assertEqual(wrong, 0)
        self.assertLessEqual((most - before) / STREAMS, MAX_STREAM_BYTES)

    def start(self, cluster, folder):
        router = cluster.start_router("--worker-queue-bound", str(2 * STREAMS), "--max-connections", str(2 * STREAMS),
                                      "--max-queue", str(2 * STREAMS), "--stall-timeout-seconds", "60")
        script = folder / "script.json"
        script.write_text(json.dumps([{"answer": ANSWER}]))
        cluster.daemons.append(
            Daemon([BIN / "roost-scripted-worker", "--model", DEMO_MODEL, "--served-model-name", "demo-model",
                    "--script", script, "--router", router.link, "--hold-until", STREAMS, "--step-ms", STEP_MS]))
        wait_until(lambda: any(worker["ready"] for worker in router.workers()), "a ready worker")
        return router

    def stream(self, router, count):
        request = load.chat_request("demo-model", [{"role": "user", "content": "Count."}], max_tokens=500)
        requests = iter([request] * count)
        port = int(router.address.rsplit(":", 1)[1])
        return asyncio.run(load.run_clients(port, count, lambda: next(requests, None)))

    def hold(self, router, count):
        """Streams that wait for their first token, the thread that reads them, and the place for its answers."""
        answers = []
        thread = threading.Thread(target=lambda: answers.extend(self.stream(router, count)))
        thread.start()
        wait_until(lambda: router.metric("roost_router_active_requests") == count, f"{count} open requests")
        return thread, answers


if __name__ == "__main__":
    unittest.main(verbosity=2)

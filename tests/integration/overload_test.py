"""A cluster whose every queue is full tells clients at once when to come back."""

import http.client
import json
import statistics
import threading
import time
import unittest

from cluster import DEADLINE_SECONDS, ROOT, Cluster, wait_until

SYSTEM = (ROOT / "deploy/demo-prompts/system-1-prompter.txt").read_text()
QUEUE = 4
WAIT_SECONDS = 20
PROBES = 200


def body(messages, max_tokens):
    return {"model": "demo-model", "messages": messages, "max_tokens": max_tokens, "ignore_eos": True}


class OverloadTest(unittest.TestCase):
    def test_refusals_say_when_to_come_back(self):
        with Cluster() as cluster:
            router = cluster.start_router("--worker-queue-bound", "1", "--max-queue", str(QUEUE), "--max-queue-wait-ms",
                                          str(WAIT_SECONDS * 1000))
            cluster.start_worker("worker-a", "--max-running-requests", "1")
            router.wait_for_workers(1)
            threads = self.fill(router)
            seconds, hints = self.probe(router)
            refused = router.metric("roost_router_queue_refused_total", reason="full")
        for thread in threads:
            thread.join()

        median, p99 = statistics.median(seconds), sorted(seconds)[int(0.99 * (len(seconds) - 1))]
        print(f"{len(seconds)} refusals of prompts of some 1,300 tokens: median {median * 1e3:.2f} ms, "
              f"99 % within {p99 * 1e3:.2f} ms; Retry-After {min(hints)} to {max(hints)} s")
        self.assertGreaterEqual(refused, PROBES)
        self.assertGreaterEqual(min(hints), 1)
        self.assertLessEqual(max(hints), WAIT_SECONDS)
        # Waiting requests have seconds of answers before them, and the header shows it.
        self.assertGreater(max(hints), 1)

    def fill(self, router):
        """From now on one request runs, one waits at the worker, and the others wait at the router or retry soon."""

        def ask():
            try:
                while True:
                    answer = router.request("POST", "/v1/chat/completions",
                                            body([{"role": "user", "content": "Who waits?"}], 1500))
                    if answer.status not in (200, 429):
                        return
            except (OSError, http.client.HTTPException):
                pass  # the cluster has ended, and so has the test

        def queue_is_full():
            queues = router.request("GET", "/admin/v1/queues").json()["queues"]
            return queues and queues[0]["waiting_requests"] == QUEUE and queues[0]["drain_seconds"] > 1

        threads = [threading.Thread(target=ask) for _ in range(2 + QUEUE)]
        for thread in threads:
            thread.start()
        wait_until(queue_is_full, "a full queue")
        return threads

    def probe(self, router):
        connection = http.client.HTTPConnection(router.address, timeout=DEADLINE_SECONDS)
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Is there room?"}]
        payload = json.dumps(body(messages, 1))
        seconds, hints = [], []
        while len(seconds) < PROBES:
            start = time.monotonic()
            connection.request("POST", "/v1/chat/completions", payload, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            if response.status == 200:
                continue  # a queued request was dispatched just then
            self.assertEqual(response.status, 429, answer)
            seconds.append(time.monotonic() - start)
            hints.append(int(response.headers["Retry-After"]))
            self.assertEqual(json.loads(answer)["error"]["type"], "rate_limit_error")
        connection.close()
        return seconds, hints


if __name__ == "__main__":
    unittest.main()

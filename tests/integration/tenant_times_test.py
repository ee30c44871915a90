"""Times of answers: what they tell of keys and of other tenants, and how long tenants wait for each other, on real
daemons.

ROOST_KEYS_PROBES (120 here, 500 for the figures of tests/results/figures.tsv) and ROOST_KEYS_COMPARISONS (20,000; 100,000 for the
figure) set the sizes.
"""

import hashlib
import http.client
import json
import os
import random
import statistics
import tempfile
import threading
import time
import unittest

from cluster import DEADLINE_SECONDS, Cluster, text, wait_until
from keys import KeyFile, bearer

PROBES = int(os.environ.get("ROOST_KEYS_PROBES", "120"))
COMPARISONS = int(os.environ.get("ROOST_KEYS_COMPARISONS", "20000"))


def near_and_far(digest):
    """Two wrong secrets of one length: the first bytes of the first one's hash are those of `digest`."""
    near = far = None
    number = 0
    while near is None or far is None:
        secret = f"sk-roost-{number:064x}"
        hashed = hashlib.sha256(secret.encode()).hexdigest()
        if hashed[:4] == digest[:4]:
            near = secret
        elif hashed[0] != digest[0]:
            far = secret
        number += 1
    return near, far


def refusal_times(address, secrets, count):
    """Nanoseconds of `count` refused requests each, in random order; those of the slowest tenth are left out. All use one
    connection: two may be served by threads of which one waits longer for a core."""
    connection = http.client.HTTPConnection(address, timeout=DEADLINE_SECONDS)
    times = [[] for _ in secrets]
    order = list(range(len(secrets))) * count
    random.Random(1).shuffle(order)
    for which in order:
        begin = time.perf_counter_ns()
        connection.request("GET", "/v1/models", headers=bearer(secrets[which]))
        connection.getresponse().read()
        times[which].append(time.perf_counter_ns() - begin)
    connection.close()
    return [sorted(each)[: len(each) * 9 // 10] for each in times]


def welch(a, b):
    return (statistics.fmean(a) - statistics.fmean(b)) / (
        statistics.variance(a) / len(a) + statistics.variance(b) / len(b)) ** 0.5


class RefusalTest(unittest.TestCase):
    def test_the_time_of_a_refusal_does_not_tell_how_near_a_key_was(self):
        """Welch's t of refusals of a secret whose digest shares bytes with a key's, and of one whose does not."""
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            keys.add("app")
            digest = json.loads(keys.lines["app"])["sha256"]
            near, far = near_and_far(digest)
            router = cluster.start_router("--api-keys", keys.path)
            samples = refusal_times(router.address, (near, far), COMPARISONS // 2)
            t = welch(*samples)
            print(f"figure key_comparison_welch_t {t:.2f} t")
            self.assertLess(abs(t), 4.5)


def area_under_curve(low, high):
    """The probability that one of `low` is below one of `high`."""
    below = sum((a < b) + 0.5 * (a == b) for a in low for b in high)
    return below / (len(low) * len(high))


class TimingTest(unittest.TestCase):
    def test_nobody_can_tell_by_time_what_another_tenant_asked(self):
        """Times to the first token of prompts that another tenant has asked, and of new ones, can not be told apart.
        Those that the same tenant has asked can be."""
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            keys.add("victim")
            keys.add("spy")
            router = cluster.start_router("--api-keys", keys.path)
            # Room for all prompts of both: what was evicted tells nothing.
            cluster.start_worker("worker-a", "--kv-blocks", str(100 * PROBES))
            router.wait_for_workers(1)
            prompts = [text(60, f"what the victim asks {i}") for i in range(2 * PROBES)]
            for prompt in prompts[:PROBES]:
                self.ask(router, keys.secrets["victim"], prompt)
            # In turns, each as often the first of the two, so that whatever changes with time changes both.
            asked, new = [], []
            for i in range(PROBES):
                pair = [(asked, prompts[i]), (new, prompts[PROBES + i])]
                for times, prompt in pair if i % 2 else reversed(pair):
                    times.append(self.ask(router, keys.secrets["spy"], prompt))
            again = [self.ask(router, keys.secrets["spy"], prompts[i]) for i in range(PROBES)]
        other = area_under_curve(asked, new)
        own = area_under_curve(again, new)
        print(f"figure timing_auc_other_tenant {other:.3f} auc")
        print(f"figure timing_auc_same_tenant {own:.3f} auc")
        self.check_equal(other)
        self.assertGreaterEqual(own, 0.95)

    def test_a_diagnosis_takes_as_long_for_an_id_that_another_tenant_has(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            keys.add("victim")
            keys.add("spy")
            router = cluster.start_router("--api-keys", keys.path)
            cluster.start_worker("worker-a", "--kv-blocks", "4096")
            router.wait_for_workers(1)
            prompt = text(60, "what both ask")
            ids = [self.message(router, keys.secrets["victim"], prompt)[1]["id"] for _ in range(PROBES)]
            theirs, nobodys = [], []
            for i, known in enumerate(ids):
                unknown = known[:4] + known[:3:-1]  # of the same length
                pair = [(theirs, known), (nobodys, unknown)]
                for times, named in pair if i % 2 else reversed(pair):
                    seconds, answer = self.message(router, keys.secrets["spy"], prompt, diagnostics={"previous_message_id": named})
                    self.assertEqual(answer["diagnostics"]["cache_miss_reason"], {"type": "previous_message_not_found"})
                    times.append(seconds)
        area = area_under_curve(theirs, nobodys)
        print(f"figure timing_auc_diagnoses {area:.3f} auc")
        self.check_equal(area)

    def check_equal(self, area):
        """The area of equal distributions itself varies with so few probes: four times its deviation."""
        self.assertLessEqual(abs(area - 0.5), max(0.05, 4 * (1 / (6 * PROBES)) ** 0.5))

    def ask(self, router, secret, prompt):
        return self.timed(router, secret, "/v1/completions", {"prompt": prompt})[0]

    def message(self, router, secret, prompt, **fields):
        return self.timed(router, secret, "/v1/messages", {"messages": [{"role": "user", "content": prompt}], **fields})

    def timed(self, router, secret, path, fields):
        begin = time.perf_counter()
        answer = router.request("POST", path, {"model": "demo-model", "max_tokens": 1, "temperature": 0, **fields}, bearer(secret))
        self.assertEqual(answer.status, 200, answer.body)
        return time.perf_counter() - begin, answer.json()


def first_token(router, secret, prompt, max_tokens):
    """Seconds to the first token of a stream, which is read to its end."""
    connection = http.client.HTTPConnection(router.address, timeout=DEADLINE_SECONDS)
    try:
        body = {"prompt": prompt, "model": "demo-model", "max_tokens": max_tokens, "temperature": 0, "stream": True}
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json", **bearer(secret)})
        response = connection.getresponse()
        if response.status != 200:
            raise AssertionError(f"{response.status} {response.read()}")
        while not response.readline().startswith(b"data:"):
            pass
        seconds = time.perf_counter() - begin
        response.read()
        return seconds
    finally:
        connection.close()


class GreedyTenantTest(unittest.TestCase):
    TENANTS = 9
    REQUESTS = 20  # of each
    GREEDY_CLIENTS = 100

    def test_a_greedy_tenant_makes_the_others_wait_at_most_twice_as_long(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            keys = KeyFile(folder)
            for name in ("greedy", *(f"tenant-{i}" for i in range(self.TENANTS))):
                keys.add(name)
            router = cluster.start_router("--api-keys", keys.path)
            cluster.start_worker("worker-a", "--kv-blocks", "8192", "--max-running-requests", "16")
            router.wait_for_workers(1)
            alone = self.tenants(router, keys, "alone")
            stop = threading.Event()
            greedy = [threading.Thread(target=self.flood, args=(router, keys.secrets["greedy"], i, stop))
                      for i in range(self.GREEDY_CLIENTS)]
            for thread in greedy:
                thread.start()
            wait_until(lambda: router.metric("roost_router_active_requests") >= self.GREEDY_CLIENTS * 0.9, "a flood")
            beside = self.tenants(router, keys, "beside")
            stop.set()
            for thread in greedy:
                thread.join()
        p99 = [statistics.quantiles(times, n=100)[98] for times in (alone, beside)]
        medians = [statistics.median(times) for times in (alone, beside)]
        print(f"figure fairness_p99_ttft_ratio {p99[1] / p99[0]:.2f} ratio")
        print(f"figure fairness_median_ttft_ratio {medians[1] / medians[0]:.2f} ratio")
        # Time on a machine that others use is no verdict; an unfair router is off by an order of magnitude.
        self.assertLess(p99[1] / p99[0], 5)

    def tenants(self, router, keys, label):
        """Times to the first token of all of them, who ask at the same time, each one question after the other."""
        times = []

        def ask(index):
            for i in range(self.REQUESTS):
                times.append(first_token(router, keys.secrets[f"tenant-{index}"], text(40, f"{label} {index} {i}"), 8))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(self.TENANTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(times), self.TENANTS * self.REQUESTS)
        return times

    def flood(self, router, secret, index, stop):
        number = 0
        while not stop.is_set():
            number += 1
            first_token(router, secret, text(40, f"greedy {index} {number}"), 8)


if __name__ == "__main__":
    unittest.main(verbosity=2)

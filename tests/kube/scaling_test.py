"""Debian's Prometheus scrapes a running cluster as a PodMonitor would, and the queries that scale workers return what they
say.
"""

import concurrent.futures
import contextlib
import sys
import tempfile
import unittest

from manifests import ROOT, of_kind, rendered

sys.path.insert(0, str(ROOT / "tests/integration"))

from cluster import Cluster, text, wait_until  # noqa: E402
from prometheus import Prometheus, Target  # noqa: E402

def triggers():
    scaled = of_kind(rendered("overlays/production"), "ScaledObject")["roost-worker"]["spec"]
    return {trigger["name"]: trigger["metadata"] for trigger in scaled["triggers"]}


@contextlib.contextmanager
def running(case):
    """A router, a worker that runs one request at a time, and Prometheus, as members of `case`."""
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        case.router = cluster.start_router("--worker-queue-bound", "2")
        worker = cluster.start_worker("roost-worker-0", "--metrics-address", "127.0.0.1:0", "--max-running-requests", "1")
        case.router.wait_for_workers(1)
        address = worker.wait_for_log("worker ready")["metrics"].removeprefix("http://").removesuffix("/metrics")
        # The operator adds these labels to what it scrapes.
        router = Target(case.router.address_of("/metrics"), labels={"namespace": "roost", "pod": "roost-router-1"})
        worker = Target(address, labels={"namespace": "roost", "pod": "roost-worker-0"})
        with Prometheus(folder, {"roost/roost-router": [router], "roost/roost-worker": [worker]}) as case.prometheus:
            yield


class ScalingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(running(cls))

    def value(self, trigger, window="2m"):
        """The value that KEDA would read; None before the first scrape. It takes exactly one sample."""
        samples = self.prometheus.query(triggers()[trigger]["query"].replace("[2m]", f"[{window}]"))
        self.assertLessEqual(len(samples), 1, samples)
        return samples[0][1] if samples else None

    def test_there_is_a_value_from_the_beginning(self):
        for name in triggers():
            wait_until(lambda: self.value(name) is not None, f"a value of {name}")
            self.assertGreaterEqual(self.value(name), 0, name)  # not NaN

    def test_requests_that_wait_raise_both(self):
        highest = dict.fromkeys(triggers(), 0.0)

        def ask(i):
            status = self.router.completion(text(20, i), max_tokens=200, ignore_eos=True).status
            for name in highest:
                highest[name] = max(highest[name], self.value(name, "10s") or 0.0)
            return status

        def rises():
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.assertEqual(set(pool.map(ask, range(16))), {200})
            return highest["queue-seconds"] > 0.1 and highest["requests-at-workers"] >= 1

        wait_until(rises, f"values of both: {highest}")


if __name__ == "__main__":
    unittest.main()

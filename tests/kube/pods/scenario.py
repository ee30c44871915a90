"""Scales, rolls and breaks the rendered manifests under load, and counts what fails. Run by pods.sh.

    scenario.py          the short form
    scenario.py --long   with API keys and TLS, slower endpoints, more clients, and everything three times; then routers
                         that do not announce their end are rolled, and requests must fail: so this can see it
"""

import argparse
import re
import sys
import time
import urllib.request

from cluster_checks import check_names_and_doors
from controllers import Delays
from harness import Harness, Options, record_times, wait_for

TRAFFIC_SECONDS = 5.0
START_SECONDS = 60
LEAST_HITS = 0.9  # of those before, where no worker has another model
HITS_SECONDS = 10
LOOK_SECONDS = 0.05


def computes(pod):
    """Whether the worker has begun with a prompt, as its metrics tell."""
    try:
        with urllib.request.urlopen(f"http://{pod.address}:9101/metrics", timeout=1) as response:
            text = response.read().decode()
    except OSError:
        return False  # it does not listen yet
    found = re.search(r"^roost_worker_prompt_tokens_total(?:\{.*\})? (\S+)$", text, re.MULTILINE)
    return found is not None and float(found.group(1)) > 0


def hits(records):
    """The share of their tokens that requests found cached, of prompts that come again."""
    again = [record for record in records if " " not in record["prompt"] and "cached" in record]
    return sum(record["cached"] for record in again) / max(1, sum(record["prompt_tokens"] for record in again))


class Run:
    def __init__(self, harness, load):
        self.harness = harness
        self.load = load
        self.problems = []
        self.failed = {}  # figure -> count
        self.slowest_traffic = 0.0
        self.revision = "first"  # of the weights
        self.routers_from = None  # the value of the routers' annotation
        self.workers_from = None

    def expect(self, is_right, what):
        if not is_right:
            self.harness.log(f"WRONG: {what}")
            self.problems.append(what)

    def phase(self, name, figure, act, keeps_cache=False):
        """Counts the requests that fail from now until a while after `act` has settled, and the tokens that they find cached."""
        self.harness.log(f"== {name}")
        begin = time.monotonic()
        before = hits(self.load.since(begin - HITS_SECONDS))
        act()
        self.harness.settle(name)
        wait_for(3)
        records = self.load.since(begin)
        failed = [record for record in records if "error" in record]
        for record in failed[:5]:
            self.harness.log(f"failed: {record}")
        self.failed[figure] = self.failed.get(figure, 0) + len(failed)
        self.expect(bool(records), f"{name}: there was load")
        after = hits(records)
        self.harness.log(f"== {name}: {len(records)} requests, {len(failed)} failed, hits {before:.2f} before, {after:.2f} since")
        self.expect(not keeps_cache or after >= LEAST_HITS * before, f"{name}: hits stay")

    def scale(self, replicas, keeps_cache=False):
        def act():
            before = {pod.name for pod in self.harness.workers()}
            self.harness.cluster.scale("roost-worker", replicas)
            if replicas > len(before):
                self.expect_traffic(before, replicas)

        self.phase(f"scale to {replicas} workers", "scale_failed_requests", act, keeps_cache)

    def expect_traffic(self, before, replicas):
        """New workers compute a prompt within some seconds after a router has accepted them."""
        seen = {}  # worker -> seconds
        end = time.monotonic() + START_SECONDS
        while len(seen) < replicas - len(before) and time.monotonic() < end:
            for pod in self.harness.workers():
                if pod.name in before or pod.name in seen or not computes(pod):
                    continue
                seen[pod.name] = time.monotonic() - record_times(pod, "worker ready")[-1]
                self.harness.log(f"{pod.name}: first request {seen[pod.name]:.2f} s after it was accepted")
            wait_for(LOOK_SECONDS)
        self.expect(len(seen) == replicas - len(before), f"all new workers take traffic, not only {seen.keys()}")
        self.slowest_traffic = max([self.slowest_traffic, *seen.values()])

    def apply(self):
        self.harness.cluster.apply(
            self.harness.documents(self.revision, self.routers_from, self.worker_count(), self.workers_from))

    def worker_count(self):
        return self.harness.cluster.workloads["roost-worker"].replicas

    def roll_routers(self, number):
        self.routers_from = str(number)
        self.phase("roll the routers", "rollout_failed_requests",
                   self.apply)

    def restart_workers(self, number):
        self.workers_from = str(number)
        self.phase("restart the workers", "rollout_failed_requests", self.apply, keeps_cache=True)

    def roll_workers(self, revision):
        self.revision = revision
        begin = time.monotonic()
        self.phase(f"roll the workers to the {revision} weights", "rollout_failed_requests",
                   self.apply)
        self.expect(len({record["revision"] for record in self.load.since(begin) if "error" not in record}) == 2,
                    "both revisions served side by side")

    def kill_node(self):
        """One with workers and without routers: their streams continue elsewhere."""
        def act():
            with_routers = {pod.node.name for pod in self.harness.routers()}
            node = next(pod.node for pod in self.harness.workers() if pod.node.name not in with_routers)
            self.harness.cluster.kill_node(node)
            wait_for(5)  # only the routers have noticed
            self.harness.cluster.remove_node(node)

        self.phase("a node of workers dies", "scale_failed_requests", act)

    def check_texts(self):
        """Each prompt has one answer per revision, wherever and however often it was computed."""
        texts = {}
        for record in self.load.records:
            if "error" not in record:
                key = record["prompt"], record["tokens"], record["revision"]
                self.expect(texts.setdefault(key, record["text"]) == record["text"], f"one answer of {key}")

    def check_containers(self):
        for pod in self.harness.cluster.all_pods:
            self.expect(pod.exit_codes == [] or not pod.node.is_up, f"{pod.name} was not restarted or killed: {pod.exit_codes}")


def begin(harness):
    harness.settle("the first start")
    problems = check_names_and_doors(harness)
    run = Run(harness, harness.load())
    run.problems += problems
    wait_for(5)
    return run


def everything(harness, rounds):
    run = begin(harness)
    for number in range(rounds):
        run.scale(4)
        run.scale(1)
        run.scale(3)
        run.restart_workers(number)
        run.roll_routers(number)
        run.roll_workers("second" if run.revision == "first" else "first")
        run.kill_node()
        run.scale(2, keeps_cache=True)
    run.load.stop()
    run.check_texts()
    run.check_containers()
    for figure, failed in run.failed.items():
        print(f"figure {figure} {failed} requests")
        run.expect(failed == 0, f"{figure} is {failed}")
    run.expect(run.slowest_traffic <= TRAFFIC_SECONDS, f"new workers take traffic within {TRAFFIC_SECONDS} s")
    print(f"figure scale_new_worker_first_request_s {run.slowest_traffic:.2f} s")
    print(f"{len(run.load.records)} requests")
    return run.problems


def without_announcement(harness):
    run = begin(harness)
    run.roll_routers(0)
    run.load.stop()
    failed = run.failed["rollout_failed_requests"]
    return [] if failed else ["routers that do not announce their end lost no request: this test sees nothing"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true")
    is_long = parser.parse_args().long
    slow = Delays((0.5, 6.0), (1.0, 8.0))
    with Harness(Options(is_secure=True, clients=12, delays=slow) if is_long else Options()) as harness:
        problems = everything(harness, 3 if is_long else 1)
    if is_long:
        with Harness(Options(announces=False, delays=slow)) as harness:
            problems += without_announcement(harness)
    print(f"problems: {problems or 'none'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Scales, rolls and breaks the rendered manifests under load, and counts what fails. Run by pods.sh.

    scenario.py          the short form
    scenario.py --long   with API keys and TLS, slower endpoints, more clients, and everything three times
"""

import argparse
import sys
import time

from cluster_checks import check_names_and_doors
from controllers import Delays
from harness import Harness, Options, record_times, wait_for

TRAFFIC_SECONDS = 5.0


class Run:
    def __init__(self, harness, load):
        self.harness = harness
        self.load = load
        self.problems = []
        self.failed = {}  # figure -> count
        self.slowest_traffic = 0.0

    def expect(self, is_right, what):
        if not is_right:
            self.harness.log(f"WRONG: {what}")
            self.problems.append(what)

    def phase(self, name, figure, act):
        """Counts the requests that fail from now until a while after `act` has settled."""
        self.harness.log(f"== {name}")
        begin = time.monotonic()
        act()
        self.harness.settle(name)
        wait_for(3)
        records = self.load.since(begin)
        failed = [record for record in records if "error" in record]
        for record in failed[:5]:
            self.harness.log(f"failed: {record}")
        self.failed[figure] = self.failed.get(figure, 0) + len(failed)
        self.expect(len(records) > self.harness.options.clients, f"{name}: there was load")
        self.harness.log(f"== {name}: {len(records)} requests, {len(failed)} failed")

    def scale(self, replicas):
        def act():
            before = {pod.name for pod in self.harness.workers()}
            self.harness.cluster.scale("roost-worker", replicas)
            self.harness.settle(f"{replicas} workers")
            for pod in self.harness.workers():
                if pod.name not in before:
                    self.expect_traffic(pod)

        self.phase(f"scale to {replicas} workers", "scale_failed_requests", act)

    def expect_traffic(self, pod):
        """A new worker answers a request within some seconds after a router has accepted it."""
        ready = record_times(pod, "worker ready")[-1]
        end = time.monotonic() + 2 * TRAFFIC_SECONDS
        while time.monotonic() < end:
            answers = [record.get("first", record["end"]) for record in self.load.since(ready)
                       if record.get("worker") == pod.name and record["start"] >= ready - 60]
            if answers:
                seconds = max(0.0, min(answers) - ready)
                self.harness.log(f"{pod.name}: first answer {seconds:.2f} s after it was accepted")
                self.slowest_traffic = max(self.slowest_traffic, seconds)
                return
            wait_for(0.1)
        self.expect(False, f"{pod.name} takes no traffic")

    def roll_routers(self, number):
        self.phase("roll the routers", "rollout_failed_requests",
                   lambda: self.harness.cluster.apply(self.harness.documents(self.revision, f"{number}")))

    def roll_workers(self, revision):
        self.revision = revision
        begin = time.monotonic()
        self.phase(f"roll the workers to the {revision} weights", "rollout_failed_requests",
                   lambda: self.harness.cluster.apply(self.harness.documents(revision, self.routers_from)))
        self.expect(len({record["revision"] for record in self.load.since(begin) if "error" not in record}) == 2,
                    "both revisions served side by side")

    def kill_node(self):
        """One with workers and without routers: their streams continue elsewhere."""
        def act():
            with_routers = {pod.node.name for pod in self.harness.routers()}
            node = next(pod.node for pod in self.harness.workers() if pod.node.name not in with_routers)
            self.harness.cluster.kill_node(node)
            wait_for(5)  # nobody has noticed but the routers
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


def scenario(harness, rounds):
    harness.settle("the first start")
    problems = check_names_and_doors(harness)
    load = harness.load()
    run = Run(harness, load)
    run.problems += problems
    run.revision, run.routers_from = "first", None
    wait_for(5)
    for number in range(rounds):
        run.scale(4)
        run.scale(1)
        run.scale(3)
        run.routers_from = str(number)
        run.roll_routers(number)
        run.roll_workers("second" if run.revision == "first" else "first")
        run.kill_node()
        run.scale(2)
    load.stop()
    run.check_texts()
    run.check_containers()
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true")
    is_long = parser.parse_args().long
    options = Options(is_secure=True, clients=12, delays=Delays((0.5, 6.0), (1.0, 8.0))) if is_long else Options()
    with Harness(options) as harness:
        run = scenario(harness, 3 if is_long else 1)
    count = len(run.load.records)
    for figure, failed in run.failed.items():
        print(f"figure {figure} {failed} requests")
        run.expect(failed == 0, f"{figure} is {failed}")
    run.expect(run.slowest_traffic <= TRAFFIC_SECONDS, f"new workers take traffic within {TRAFFIC_SECONDS} s")
    print(f"figure scale_new_worker_first_answer_s {run.slowest_traffic:.2f} s")
    print(f"{count} requests; problems: {run.problems or 'none'}")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())

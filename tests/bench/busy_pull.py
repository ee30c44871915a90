#!/usr/bin/env python3
"""A worker that holds a prompt's prefix is busy and its neighbour is idle: the time to the first token of a request where the
router lets the neighbour fetch the prefix, beside waiting for the busy worker and computing at the neighbour; and what the
pull costs the busy worker's own prompts.

    busy_pull.py [--quick] [--rounds N]

ROOST_BIN names the folder of the programs. Two workers of one thread each, with a model of Qwen3-0.6B's shape, or the demo
model with --quick. Prints `figure <name> <value> <unit>`: medians, and ratios within each round.
"""

import argparse
import http.client
import json
import pathlib
import statistics
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cluster

BUSY_PROMPTS = 3


class Bench:
    def __init__(self, quick):
        self.model = cluster.DEMO_MODEL if quick else "synthetic:qwen3-0.6b"
        self.prefix_words, self.busy_words = (300, 300) if quick else (256, 128)  # about 4 tokens each
        self.texts = 0

    def new_text(self, words):
        self.texts += 1
        return cluster.text(words, f"busy pull {self.texts}")

    def ttft(self, router, prompt):
        """Seconds to the first token, and the worker that it came from."""
        body = {"model": self.name, "prompt": prompt, "max_tokens": 2, "stream": True, "ignore_eos": True}
        connection = http.client.HTTPConnection(urllib.parse.urlparse(router.url).netloc, timeout=300)
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(answer.read().decode())
        worker = answer.headers["x-roost-worker"]
        while not answer.readline().startswith(b"data:"):
            pass
        seconds = time.monotonic() - begin
        answer.read()
        connection.close()
        return seconds, worker

    def only(self, router, worker):
        """All other workers take no requests."""
        for each in router.workers():
            verb = "uncordon" if worker in (None, each["id"]) else "cordon"
            router.request("POST", f"/admin/v1/{verb}", {"worker": each["id"]})

    def while_busy(self, router, prompt, at):
        """The request's time and worker, and the mean time of worker-a's own prompts. `at`: where it may go, None: anywhere."""
        self.only(router, "worker-a")
        own = []
        prompts = [self.new_text(self.busy_words) for _ in range(BUSY_PROMPTS)]
        threads = [threading.Thread(target=lambda text=text: own.append(self.ttft(router, text)[0])) for text in prompts]
        for thread in threads:
            thread.start()
        cluster.wait_until(lambda: sum(each["running_requests"] + each["waiting_requests"] for each in router.workers()
                                       if each["id"] == "worker-a") == BUSY_PROMPTS, "that worker-a is busy")
        self.only(router, at)
        told = self.ttft(router, prompt) if prompt else None
        for thread in threads:
            thread.join()
        return told, statistics.mean(own)

    def held_by_a(self, router):
        prompt = self.new_text(self.prefix_words)
        self.only(router, "worker-a")
        self.ttft(router, prompt)
        return prompt + " " + self.new_text(4)

    def run(self, rounds):
        figures = {}
        with cluster.Cluster() as daemons:
            router = daemons.start_router()
            for name in ("worker-a", "worker-b"):
                daemons.start_worker(name, "--served-model-name", "model", model=self.model)
            self.name = "model"
            router.wait_for_workers(2)
            for turn in range(4):  # their speed, and how fast blocks travel
                for worker in ("worker-a", "worker-b"):
                    self.only(router, worker)
                    self.ttft(router, self.new_text(self.busy_words))
            prompt = self.held_by_a(router)
            self.only(router, None)
            body = {"model": self.name, "prompt": prompt, "workers": ["worker-b"], "from": "worker-a"}
            router.request("POST", "/admin/v1/warm", body)
            for _ in range(rounds):
                _, alone = self.while_busy(router, None, None)
                (waited, _), _ = self.while_busy(router, self.held_by_a(router), "worker-a")
                (computed, _), _ = self.while_busy(router, self.new_text(self.prefix_words), "worker-b")
                (pulled, where), own = self.while_busy(router, self.held_by_a(router), None)
                decision = router.decisions(1)[0]
                print(f"waited {waited:.2f} s, computed {computed:.2f}, pulled {pulled:.2f} at {where} "
                      f"({decision['reason']}); own prompts {own:.2f}, alone {alone:.2f}")
                for name, value in (("waited", waited), ("computed", computed), ("pulled", pulled),
                                    ("ratio", pulled / min(waited, computed)), ("own", own / alone)):
                    figures.setdefault(name, []).append(value)
        for name, unit, key in (("busy_pull_waited", "s", "waited"), ("busy_pull_computed", "s", "computed"),
                                ("busy_pull_pulled", "s", "pulled"), ("busy_pull_over_better", "x", "ratio"),
                                ("busy_pull_own_prompts", "x", "own")):
            print(f"figure {name} {statistics.median(figures[key]):.3g} {unit}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    Bench(options.quick).run(1 if options.quick else options.rounds)


if __name__ == "__main__":
    main()

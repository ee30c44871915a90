#!/usr/bin/env python3
"""What a worker's disk of blocks brings and costs: the time to the first token of a prompt that the worker held before a kill
and a start, beside computing one as long; and the tokens of a running stream while other requests' blocks are restored,
beside the same stream alone.

    disk_worker.py [--quick] [--rounds N] [--disk FOLDER]

ROOST_BIN names the folder of the programs. A worker with a model of Qwen3-0.6B's shape, or the demo model with --quick; the
disk is in memory (/dev/shm) unless FOLDER is given. Prints `figure <name> <value> <unit>`: medians of ratios within a round.
"""

import argparse
import http.client
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cluster
import transfers

RESTORE_INTERVAL = 10
STREAM_WORDS = 16


class Bench:
    def __init__(self, daemons, folder, quick):
        self.daemons = daemons
        self.model = cluster.DEMO_MODEL if quick else "synthetic:qwen3-0.6b"
        self.words = 250 if quick else 170  # about 1,024 tokens
        self.seconds = 2 if quick else 60
        self.flags = ["--served-model-name", "model", "--disk-cache", folder, "--disk-cache-bytes", 4 << 30, "--kv-blocks",
                      512, "--threads", 1 if quick else 2, "--metrics-address", "127.0.0.1:0"]
        self.router = daemons.start_router()
        self.texts = 0
        self.start()

    def start(self):
        self.worker = self.daemons.start_worker("worker-a", *map(str, self.flags), model=self.model)
        self.router.wait_for_workers(1)
        self.first_token(self.new_text())  # its speed

    def kill(self):
        self.worker.kill()
        cluster.wait_until(lambda: not [each for each in self.router.workers() if each["ready"]], "that the worker is gone")

    def new_text(self):
        self.texts += 1
        return cluster.text(self.words, f"disk {self.texts}")

    def stream(self, prompt, max_tokens):
        """Yields once for each token."""
        body = {"model": "model", "prompt": prompt, "max_tokens": max_tokens, "stream": True, "ignore_eos": True, "temperature": 0}
        connection = http.client.HTTPConnection(urllib.parse.urlparse(self.router.url).netloc, timeout=600)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(answer.read().decode())
        for line in answer:
            if line.startswith(b"data: {"):
                yield
        connection.close()

    def first_token(self, prompt):
        begin = time.monotonic()
        tokens = self.stream(prompt, 1)
        next(tokens)
        seconds = time.monotonic() - begin
        for _ in tokens:
            pass
        return seconds

    def wait_until_written(self):
        def blocks():
            return transfers.metric_of(self.worker, "roost_worker_disk_blocks")
        count = -1
        while count != blocks():  # it writes as long as there is something to write
            count = blocks()
            time.sleep(1)

    def restart(self):
        """First token after a kill and a start, over computing."""
        held = self.new_text()
        self.first_token(held)
        self.wait_until_written()
        self.kill()
        self.start()
        computed = self.first_token(self.new_text())
        restored = self.first_token(held)
        print(f"computed {computed:.2f} s, restored {restored:.2f} s")
        return restored / computed

    def tokens_of_stream(self, others):
        """The tokens that a stream gets within the time, while the other prompts' blocks are restored one after another."""
        tokens = self.stream(cluster.text(STREAM_WORDS, "a stream"), 3900)
        next(tokens)
        end = time.monotonic() + self.seconds
        stopped = threading.Event()

        def restore():
            interval = min(RESTORE_INTERVAL, self.seconds / 4)
            for text in others * self.seconds:
                if stopped.wait(interval):
                    return
                self.first_token(text)

        thread = threading.Thread(target=restore)
        if others:
            thread.start()
        count = 0
        for _ in tokens:
            count += 1
            if time.monotonic() >= end:
                break
        stopped.set()
        tokens.close()  # the answer ends here
        if others:
            thread.join()
        cluster.wait_until(lambda: not any(each["running_requests"] for each in self.router.workers()), "that all has ended")
        return count

    def restored_blocks(self):
        return transfers.metric_of(self.worker, "roost_worker_arrived_blocks_total", source="disk")

    def beside_restores(self, texts):
        alone = self.tokens_of_stream([])
        before = self.restored_blocks()
        beside = self.tokens_of_stream(texts)
        restored = self.restored_blocks() - before
        print(f"alone {alone} tokens, beside {beside}; {restored:.0f} blocks restored")
        if restored < len(texts):
            raise SystemExit("next to nothing was restored")
        return beside / alone


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--disk", default="/dev/shm")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    with tempfile.TemporaryDirectory(dir=options.disk, prefix="roost-disk-") as folder, cluster.Cluster() as daemons:
        bench = Bench(daemons, folder, options.quick)
        restarts = [bench.restart() for _ in range(rounds)]
        print(f"figure disk_restart_ttft_over_computed {statistics.median(restarts):.3g} x")
        texts = [bench.new_text() for _ in range(12)]  # more than the pool holds
        for text in texts:
            bench.first_token(text)
        bench.wait_until_written()
        ratios = [bench.beside_restores(texts) for _ in range(rounds)]
        print(f"figure disk_stream_beside_restores {statistics.median(ratios):.3g} x")


if __name__ == "__main__":
    main()

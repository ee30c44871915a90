"""The time that Roost's router and a worker beside an engine add to a request, before a double of vLLM that answers at
once: time to the first token against a direct request, in turns, and processor time of both daemons. The same of embeddings,
which are passed on: requests per second and the 99th percentile, of 8 clients at a time.

    adapter_cost.py [REQUESTS]      needs a release build; prints figures
"""

import concurrent.futures
import http.client
import json
import os
import random
import statistics
import sys
import time

from adapter_suite import events_of
from adapter_test import DoubleEngine

from cluster import Cluster, wait_until  # adapter_test knows where it is

PROMPT_TOKENS, OUTPUT_TOKENS = 1000, 100
EMBEDDINGS, CLIENTS, ROUNDS = 800, 8, 5


def ask(connection, prompt):
    """Seconds to the first chunk of a streamed answer with all its tokens."""
    body = {"model": "demo-model", "prompt": prompt, "temperature": 0, "max_tokens": OUTPUT_TOKENS, "ignore_eos": True,
            "stream": True, "return_token_ids": True}
    begin = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    first, tokens = None, 0
    for event in events_of(response):
        first = first or time.perf_counter() - begin
        tokens += sum(len(choice.get("token_ids") or []) for choice in event["choices"])
    assert tokens == OUTPUT_TOKENS, tokens
    return first


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def embed(address, count):
    """Seconds of each of `count` embeddings, one after the other."""
    connection = http.client.HTTPConnection(address)
    seconds = []
    for i in range(count):
        begin = time.perf_counter()
        connection.request("POST", "/v1/embeddings", json.dumps({"model": "demo-model", "input": f"text {i}" * 50}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read(), answer.status
        seconds.append(time.perf_counter() - begin)
    connection.close()
    return seconds


def embeddings():
    """Prints the figures of embeddings: medians of rounds in turns."""
    engine = DoubleEngine("--pooling", "--pooling-ms", "20")
    rates, tails = [], []
    try:
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("beside", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{engine.port}")
            wait_until(lambda: [w["ready"] for w in router.workers()] == [True], "a ready worker")
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
                for _ in range(ROUNDS):
                    rate, tail = [], []
                    for address in (f"127.0.0.1:{engine.port}", router.address):
                        begin = time.perf_counter()
                        parts = clients.map(lambda _, to=address: embed(to, EMBEDDINGS // CLIENTS), range(CLIENTS))
                        seconds = sorted(second for part in parts for second in part)
                        rate.append(len(seconds) / (time.perf_counter() - begin))
                        tail.append(seconds[len(seconds) * 99 // 100])
                    rates.append(rate[1] / rate[0])
                    tails.append(tail[1] - tail[0])
    finally:
        engine.kill()
    print(f"figure passed_on_rate_share {statistics.median(rates):.3f} of the engine's own")
    print(f"figure passed_on_added_p99_ms {statistics.median(tails) * 1000:.2f} ms")


def main():
    embeddings()
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    draw = random.Random(1)
    engine = DoubleEngine("--blocks", "4000", "--prefill-us", "0", "--token-ms", "0")
    try:
        with Cluster() as cluster:
            router = cluster.start_router()
            worker = cluster.start_worker("beside", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{engine.port}",
                                          "--engine-events", engine.events, "--engine-replay", engine.replay)
            router.wait_for_workers(1)
            direct = http.client.HTTPConnection("127.0.0.1", engine.port)
            through = http.client.HTTPConnection(router.address)
            times = {direct: [], through: []}
            before = cpu_seconds(router.process), cpu_seconds(worker.process)
            for _ in range(requests):
                for connection in (direct, through):
                    prompt = [draw.randrange(1900) for _ in range(PROMPT_TOKENS)]
                    times[connection].append(ask(connection, prompt))
            spent = [after - earlier for after, earlier in
                     zip((cpu_seconds(router.process), cpu_seconds(worker.process)), before)]
    finally:
        engine.kill()
    added = statistics.median(times[through]) - statistics.median(times[direct])
    print(f"figure adapter_added_ttft_p50_ms {added * 1000:.2f} ms")
    print(f"figure adapter_direct_ttft_p50_ms {statistics.median(times[direct]) * 1000:.2f} ms")
    for name, seconds in zip(("router", "worker"), spent):
        print(f"figure adapter_{name}_cpu_ms_per_request {seconds / requests * 1000:.2f} ms")


if __name__ == "__main__":
    main()

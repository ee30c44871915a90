"""The time that Roost's router and a worker beside an engine add to a request, before a double of vLLM that answers at
once: time to the first token against a direct request, in turns, and processor time of both daemons. The same of embeddings,
which are passed on, before a double that waits as long as an engine computes: the requests per second of 8 clients that
never pause, and the times of requests that come at a fifth of that rate, where nothing queues.

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
EMBEDDING_SECONDS = 0.02


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


def embed(address, count, first=0.0, interval=0.0):
    """Seconds of each of `count` embeddings, one after the other, none before its turn."""
    connection = http.client.HTTPConnection(address)
    seconds = []
    start = time.perf_counter() + first
    for i in range(count):
        time.sleep(max(0.0, start + i * interval - time.perf_counter()))
        begin = time.perf_counter()
        connection.request("POST", "/v1/embeddings", json.dumps({"model": "demo-model", "input": f"text {i}" * 50}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read(), answer.status
        seconds.append(time.perf_counter() - begin)
    connection.close()
    return seconds


def embed_all(clients, address, interval=0.0):
    """The seconds of EMBEDDINGS embeddings of all clients, sorted, and their rate."""
    begin = time.perf_counter()
    parts = clients.map(lambda i: embed(address, EMBEDDINGS // CLIENTS, i * interval / CLIENTS, interval), range(CLIENTS))
    seconds = sorted(second for part in parts for second in part)
    return seconds, len(seconds) / (time.perf_counter() - begin)


def embeddings():
    """Prints the figures of embeddings: medians of rounds in turns."""
    engine = DoubleEngine("--pooling", "--pooling-ms", str(EMBEDDING_SECONDS * 1000))
    shares, middles, tails = [], [], []
    try:
        with Cluster() as cluster:
            router = cluster.start_router()
            worker = cluster.start_worker("beside", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{engine.port}")
            wait_until(lambda: [w["ready"] for w in router.workers()] == [True], "a ready worker")
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
                direct = f"127.0.0.1:{engine.port}"
                embed_all(clients, router.address)
                daemons = {"router": router.process, "worker": worker.process}
                before = {name: cpu_seconds(process) for name, process in daemons.items()}
                for _ in range(ROUNDS):
                    _, own = embed_all(clients, direct)
                    _, through = embed_all(clients, router.address)
                    shares.append(through / own)
                spent = {name: cpu_seconds(process) - before[name] for name, process in daemons.items()}
                for _ in range(ROUNDS):
                    times = [embed_all(clients, address, 5 * EMBEDDING_SECONDS)[0] for address in (direct, router.address)]
                    middles.append(times[1][EMBEDDINGS // 2] - times[0][EMBEDDINGS // 2])
                    tails.append(times[1][EMBEDDINGS * 99 // 100] - times[0][EMBEDDINGS * 99 // 100])
    finally:
        engine.kill()
    print(f"figure passed_on_rate_share {statistics.median(shares):.3f} of the engine's own")
    print(f"figure passed_on_added_p50_ms {statistics.median(middles) * 1000:.2f} ms")
    print(f"figure passed_on_added_p99_ms {statistics.median(tails) * 1000:.2f} ms")
    for name, seconds in spent.items():
        print(f"figure passed_on_{name}_cpu_ms_per_request {seconds / (ROUNDS * EMBEDDINGS) * 1000:.2f} ms")


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

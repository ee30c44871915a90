"""The time that Roost's router and a worker beside an engine add to a request, before a double of vLLM that answers at
once: time to the first token against a direct request, in turns, and processor time of both daemons.

    adapter_cost.py [REQUESTS]      needs a release build; prints figures
"""

import http.client
import json
import os
import random
import statistics
import sys
import time

from adapter_suite import events_of
from adapter_test import DoubleEngine

from cluster import Cluster  # adapter_test knows where it is

PROMPT_TOKENS, OUTPUT_TOKENS = 1000, 100


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


def main():
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

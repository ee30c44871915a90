"""aiperf and cache-pressure against Roost, before two demo workers and before two doubles of vLLM (benches.sh).

    benches.py --programs FOLDER [--cluster demo|doubles]… [--policy NAME]…

aiperf: chats behind three system prompts, four at a time. cache-pressure: asks for more different prompts than the
caches of both workers hold, one after the other, and then for the same ones, the newest first, until the first that is
not cached any more.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "tests/engines")]
from cluster import DEMO_MODEL, Cluster  # noqa: E402
from adapter_test import DoubleEngine  # noqa: E402

WORKERS = 2
CACHE_TOKENS = 8192  # of each
PROMPT_TOKENS = 1000  # of cache-pressure
REQUESTS = 48  # of aiperf
PATIENCE_SECONDS = 900


@contextlib.contextmanager
def demo(policy):
    with Cluster() as cluster:
        router = cluster.start_router("--policy", policy)
        for i in range(WORKERS):
            cluster.start_worker(f"worker-{i}", "--kv-blocks", str(CACHE_TOKENS // 16))
        router.wait_for_workers(WORKERS)
        yield router


@contextlib.contextmanager
def doubles(policy):
    with contextlib.ExitStack() as ends:
        cluster = ends.enter_context(Cluster())
        router = cluster.start_router("--policy", policy)
        for i in range(WORKERS):
            engine = DoubleEngine("--blocks", str(CACHE_TOKENS // 32 + 1), "--paced", "--prefill-us", "100",
                                  "--max-context", "4096")
            ends.callback(engine.kill)
            cluster.start_worker(f"beside-{i}", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{engine.port}",
                                 "--engine-events", engine.events, "--engine-replay", engine.replay)
        router.wait_for_workers(WORKERS)
        yield router


CLUSTERS = {"demo": demo, "doubles": doubles}


def run(arguments, folder, **environment):
    ended = subprocess.run(list(map(str, arguments)), env={**os.environ, **environment}, cwd=folder, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_SECONDS, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"{arguments[0]} failed:\n{ended.stdout[-3000:]}")


def aiperf(programs, address, folder):
    """The tool's name for each figure, and its value."""
    run([programs / "aiperf", "profile", "--model", "demo-model", "--url", f"http://{address}", "--endpoint-type", "chat",
         "--streaming", "--tokenizer", DEMO_MODEL, "--use-server-token-count", "--concurrency", 4, "--request-count",
         REQUESTS, "--num-prefix-prompts", 3, "--prefix-prompt-length", 800, "--synthetic-input-tokens-mean", 300,
         "--output-tokens-mean", 16, "--extra-inputs", "ignore_eos:true", "--random-seed", 1, "--ui", "none",
         "--output-artifact-dir", folder / "aiperf"], folder, HF_HUB_DISABLE_TELEMETRY="1")
    report = json.loads((folder / "aiperf/profile_export_aiperf.json").read_text())
    assert report["request_count"]["avg"] == REQUESTS, report["request_count"]
    assert report["request_error_rate"]["avg"] == 0, report["error_summary"]
    for name, part in (("time_to_first_token", "avg"), ("time_to_first_token", "p99"), ("inter_token_latency", "avg"),
                       ("request_latency", "avg"), ("output_token_throughput", "avg"),
                       ("overall_usage_prompt_cache_read_pct", "avg")):
        yield f"{name}_{part}", report[name][part], report[name]["unit"]


def cache_pressure(programs, address, folder):
    report = folder / "pressure.json"
    run([programs / "cache-pressure", "--base-url", f"http://{address}/v1", "--kv-size", WORKERS * CACHE_TOKENS,
         "--context-tokens", PROMPT_TOKENS, "--output", report], folder)
    report = json.loads(report.read_text())
    errors = [row["error"] for row in report["hydrate"] + report["verify"] if row["error"]]
    assert not errors, errors
    yield "cold_ttft", 1e3 * report["cold_ttft"], "ms"
    yield "hit_ttft", 1e3 * report["hit_ttft"], "ms"
    if report["hit_ttft"] < report["cold_ttft"]:
        yield "retained_pct", report["retained_pct"], "%"
    else:  # it counts what is faster than 1.5 s then
        print("cache-pressure could not calibrate: a prompt asked twice was no faster the second time", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--cluster", choices=CLUSTERS, action="append")
    parser.add_argument("--policy", action="append")
    options = parser.parse_args()
    for name in options.cluster or CLUSTERS:
        for policy in options.policy or ["cache-aware"]:
            for bench in (cache_pressure, aiperf):
                with CLUSTERS[name](policy) as router, tempfile.TemporaryDirectory() as folder:
                    for what, value, unit in bench(options.programs, router.address, pathlib.Path(folder)):
                        print(f"figure {bench.__name__}_{name}_{policy}_{what} {value:.3g} {unit}", flush=True)
                    requests = [worker["requests_total"] for worker in router.workers()]
                    print(f"# requests at each worker: {requests}", flush=True)


if __name__ == "__main__":
    main()

"""Records conversations with a real vLLM for doubles and tests of the worker that stands beside one:

    folder=$(tests/engines/vllm_environment.sh)
    $folder/bin/python tests/engines/record_vllm.py [PART...]

Parts: conversations, lifecycle, defaults, drained, adapters; all of them by default. recordings/README.md describes the files.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

import lora_adapter
from vllm_engine import DEMO_MODEL, engine
from vllm_recorder import RECORDINGS, Events, Exchange, ask, completion, http_request, replay, write_bytes, write_lines

LOGS = pathlib.Path(os.environ.get("TMPDIR", "/tmp"))
BLOCK = 32
# 71 blocks hold content (one is vLLM's null block): three prompts of 25 blocks do not fit.
BLOCKS = 72


def tokens(count, seed):
    """Token ids of the demo model's vocabulary, without its special tokens."""
    draw = random.Random(seed)
    return [draw.randrange(2000) for _ in range(count)]


def blank_tokens():
    """Tokens of white space alone: a small model likes to write them where JSON allows them."""
    vocabulary = json.loads((DEMO_MODEL / "tokenizer.json").read_text())["model"]["vocab"]
    return [token for piece, token in vocabulary.items() if not piece.strip("\u0120\u010a\u0109\u010d")]


def record_events(vllm, events):
    """The events of prompts, prefixes, generation, salts, eviction and a reset; then their replay."""
    shared = tokens(3 * BLOCK, 1)
    ask(vllm, events, "three blocks and a half", completion(shared + tokens(BLOCK // 2, 2)))
    ask(vllm, events, "the same again", completion(shared + tokens(BLOCK // 2, 2)))
    ask(vllm, events, "shared prefix, other end", completion(shared + tokens(BLOCK + 4, 3)))
    ask(vllm, events, "exactly three blocks, all cached", completion(shared, max_tokens=2))
    ask(vllm, events, "generation fills two blocks",
        completion(tokens(BLOCK - 4, 4), max_tokens=2 * BLOCK + 8, ignore_eos=True))
    ask(vllm, events, "salted", completion(shared + tokens(4, 5), cache_salt="grain"))
    ask(vllm, events, "salted again", completion(shared + tokens(4, 6), cache_salt="grain"))
    ask(vllm, events, "shorter than a block", completion(tokens(5, 7), max_tokens=3))
    for seed in (10, 11, 12):
        ask(vllm, events, f"fills a third of the cache, {seed}", completion(tokens(25 * BLOCK + 1, seed), max_tokens=1))
    ask(vllm, events, "evicted prefix again", completion(shared + tokens(4, 5), max_tokens=1))
    ask(vllm, events, "two samples", completion(tokens(2 * BLOCK + 2, 13), n=2, temperature=0.8, seed=7))
    events.note(reset=vllm.call("POST", "/reset_prefix_cache"))
    events.settle()
    ask(vllm, events, "after the reset", completion(shared, max_tokens=1))
    events.note(asked="two at once", prompt=tokens(2 * BLOCK, 14), fields={"max_tokens": 1})
    pair = [Exchange(vllm, http_request("POST", "/v1/completions", completion(tokens(2 * BLOCK, 14), max_tokens=1)))
            for _ in range(2)]
    for exchange in pair:
        exchange.read_all()
    events.settle()
    events.write("events.jsonl")
    last = sum("frames" in entry for entry in events.entries) - 1
    for name, first in (("tail", last - 1), ("beyond", last + 10)):
        write_lines(f"replay-{name}.jsonl", replay(vllm.replay, first))


PROMPT = tokens(40, 20)
BIRDS = {"type": "object", "properties": {"birds": {"type": "boolean"}}, "required": ["birds"],
         "additionalProperties": False}
COMPLETIONS = {
    "greedy": completion(PROMPT),
    "greedy-again": completion(PROMPT),
    "greedy-plain": {**completion(PROMPT), "return_token_ids": False, "stream_options": None},
    "greedy-usage-at-end": completion(PROMPT, stream_options={"include_usage": True}),
    "not-streamed": {**completion(PROMPT), "stream": False, "stream_options": None},
    "sampled": completion(PROMPT, temperature=0.8, seed=7),
    "sampled-next-seed": completion(PROMPT, temperature=0.8, seed=8),
    "sampled-logprobs": completion(PROMPT, temperature=0.5, seed=7, logprobs=2, max_tokens=2),
    "two-greedy": completion(PROMPT, n=2),
    "two": completion(PROMPT, temperature=0.8, seed=7, n=2),
    "logprobs": completion(PROMPT, logprobs=3, max_tokens=3),
    "logprobs-as-ids": completion(PROMPT, logprobs=3, max_tokens=3, return_tokens_as_token_ids=True),
    "logprobs-zero": completion(PROMPT, logprobs=0, max_tokens=2),
    "logprobs-20": completion(PROMPT, logprobs=20, max_tokens=1, return_tokens_as_token_ids=True),
    "logprobs-21": completion(PROMPT, logprobs=21, max_tokens=1),
    "prompt-logprobs": completion(PROMPT[:6], prompt_logprobs=1, max_tokens=2),
    "prompt-logprobs-not-streamed": {**completion(PROMPT[:6], prompt_logprobs=1, max_tokens=2), "stream": False,
                                     "stream_options": None},
    "min-tokens": completion(PROMPT, min_tokens=5),
    "logit-bias": completion(PROMPT, logit_bias={"100": 100}, max_tokens=2),
    "penalties": completion(PROMPT, temperature=0.9, seed=3, frequency_penalty=0.5, presence_penalty=0.5,
                            repetition_penalty=1.1, min_p=0.05, top_k=40, top_p=0.9),
    "json-schema": completion(PROMPT, structured_outputs={"json": BIRDS}, max_tokens=40,
                              logit_bias={str(token): -100 for token in blank_tokens()}),
    "response-format": completion(PROMPT, max_tokens=3, response_format={
        "type": "json_schema", "json_schema": {"name": "birds", "schema": BIRDS}}),
    "regex": completion(PROMPT, structured_outputs={"regex": "(yes|no)!"}, max_tokens=20),
    "choice": completion(PROMPT, structured_outputs={"choice": ["north", "south"]}, max_tokens=20),
    "grammar-bad": completion(PROMPT, structured_outputs={"regex": "("}, max_tokens=20),
    "cache-salt": completion(PROMPT, cache_salt="grain", max_tokens=2),
    "stop-string": completion(PROMPT, stop=["e"], max_tokens=30),
    "interval": completion(PROMPT, stream_interval=4, max_tokens=11, ignore_eos=True),
    "several-prompts": completion([PROMPT, PROMPT[:10]], max_tokens=2),
    "priority": completion(PROMPT, priority=3, max_tokens=2),
    "too-long": completion(tokens(2048, 21)),
    "too-long-with-output": completion(tokens(2044, 21), max_tokens=20),
    "unknown-model": {**completion(PROMPT), "model": "nobody"},
    "invalid-token": completion([1, 2, 999_999]),
    "negative-token": completion([1, -2]),
    "empty-prompt": completion([]),
    "bad-field": completion(PROMPT, temperature=-1),
    "not-json": None,
}
PAGES = ("/health", "/v1/models", "/version", "/load", "/ping", "/kv_event_sources", "/is_sleeping")


def exchange_completion(vllm, name, body, headers=()):
    exchange = Exchange(vllm, http_request("POST", "/v1/completions", body, headers)).read_all()
    exchange.write(f"http/{name}")
    return exchange


def greedy_tokens(vllm):
    body = {**completion(PROMPT, max_tokens=4), "stream": False, "stream_options": None}
    return json.loads(vllm.call("POST", "/v1/completions", body)[1])["choices"][0]["token_ids"]


def record_completions(vllm):
    for name, body in COMPLETIONS.items():
        exchange_completion(vllm, name, body if body is not None else ["no object"])
    third = greedy_tokens(vllm)[2]
    exchange_completion(vllm, "stop-token", completion(PROMPT, stop_token_ids=[third]))
    exchange_completion(vllm, "stop-token-in-text",
                        completion(PROMPT, stop_token_ids=[third], include_stop_str_in_output=True))
    end = {"logit_bias": {"2047": 100}, "max_tokens": 4}
    exchange_completion(vllm, "end-of-text", completion(PROMPT, **end))
    exchange_completion(vllm, "ignore-eos", completion(PROMPT, ignore_eos=True, **end))
    exchange_completion(vllm, "min-tokens-before-end", completion(PROMPT, min_tokens=2, **end))
    exchange_completion(vllm, "request-id", completion(PROMPT, max_tokens=1), ["X-Request-Id: roost-1"])
    exchange_completion(vllm, "rank-0", completion(PROMPT, max_tokens=1), ["X-data-parallel-rank: 0"])
    exchange_completion(vllm, "rank-9", completion(PROMPT, max_tokens=1), ["X-data-parallel-rank: 9"])
    Exchange(vllm, http_request("POST", "/inference/v1/generate", {"token_ids": PROMPT, "sampling_params": {}})
             ).read_all().write("http/generate-off")


def record_pages(vllm):
    for page in PAGES:
        name = page.strip("/").replace("/", "-")
        Exchange(vllm, http_request("GET", page)).read_all().write(f"http/page-{name}")


def only_vllm_lines(page):
    """A page of metrics without the Python process's own, and without histogram buckets."""
    kept = [line for line in page.splitlines() if "vllm:" in line and "_bucket{" not in line and "_created" not in line]
    return "".join(f"{line}\n" for line in kept)


def watch_until_idle(vllm, name, begin):
    """The engine's load from the moment that its clients left until it has no requests."""
    watched = []
    pause = threading.Event()
    while not watched or watched[-1]["running"] + watched[-1]["waiting"] > 0:
        watched.append({"at": round(time.monotonic() - begin, 4), "running": vllm.metric("vllm:num_requests_running"),
                        "waiting": vllm.metric("vllm:num_requests_waiting"),
                        "usage": vllm.metric("vllm:kv_cache_usage_perc")})
        if watched[-1]["at"] > 60:
            break
        pause.wait(0.05)
    write_lines(name, watched)


def record_load(vllm):
    """Metrics of an idle engine and of one with more requests than it runs at once; and clients that leave."""
    write_bytes("metrics-idle.txt", only_vllm_lines(vllm.get("/metrics")[1]).encode())
    long = [Exchange(vllm, http_request("POST", "/v1/completions",
                                        completion(tokens(40, seed), max_tokens=1500, ignore_eos=True)))
            for seed in range(30, 36)]
    for exchange in long[:4]:
        exchange.read_until(b"data: ", 4)
    pause = threading.Event()
    while vllm.metric("vllm:num_requests_waiting") < 2:
        pause.wait(0.02)
    write_bytes("metrics-busy.txt", only_vllm_lines(vllm.get("/metrics")[1]).encode())
    Exchange(vllm, http_request("GET", "/load")).read_all().write("http/page-load-busy")
    begin = time.monotonic()
    for exchange in long:
        exchange.socket.close()
    watch_until_idle(vllm, "clients-leave.jsonl", begin)
    write_bytes("metrics-after-leave.txt", only_vllm_lines(vllm.get("/metrics")[1]).encode())


def record_death(vllm, name, kill, max_tokens=1500):
    """The answer to a client whose engine ends in the middle of a stream, and the answer to the next one."""
    body = completion(tokens(40, 40), max_tokens=max_tokens, ignore_eos=True)
    exchange = Exchange(vllm, http_request("POST", "/v1/completions", body)).read_until(b"data: ", 4)
    begin = time.monotonic()
    kill()
    exchange.read_all()
    after = {"connection": exchange.end, "after_seconds": round(time.monotonic() - begin, 3)}
    for path in ("/health", "/v1/models"):
        try:
            after[path] = vllm.get(path)
        except (OSError, EOFError) as error:
            after[path] = repr(error)
    with contextlib.suppress(Exception):
        vllm.process.wait(20)
    after["exit_status"] = vllm.process.poll()
    after["exited_after_seconds"] = round(time.monotonic() - begin, 3)
    exchange.write(f"death/{name}")
    write_lines(f"death/{name}.jsonl", [after])


SMALL = ["--block-size", str(BLOCK), "--num-gpu-blocks-override", str(BLOCKS), "--max-num-seqs", "4"]


def conversations(ports):
    with engine(flags=SMALL, log=LOGS / "vllm-conversations.log", **ports) as vllm:
        events = Events(vllm.events)
        try:
            record_events(vllm, events)
        finally:
            events.close()
        record_pages(vllm)
        record_completions(vllm)
        record_load(vllm)
        record_death(vllm, "core-killed", lambda: os.kill(vllm.core(), signal.SIGKILL))


def generate(vllm, name, **fields):
    body = {"token_ids": PROMPT, "model": DEMO_MODEL.name,
            "sampling_params": {"max_tokens": 4, "temperature": 0}, **fields}
    Exchange(vllm, http_request("POST", "/inference/v1/generate", body)).read_all().write(f"http/{name}")


def record_generate(vllm):
    usage = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    generate(vllm, "generate-whole")
    generate(vllm, "generate-stream", **usage)
    generate(vllm, "generate-stream-plain", stream=True)
    generate(vllm, "generate-salted", cache_salt="grain", request_id="roost-2", priority=-2, **usage)
    generate(vllm, "generate-logprobs", **usage,
             sampling_params={"max_tokens": 2, "temperature": 0, "logprobs": 2, "prompt_logprobs": 1})
    generate(vllm, "generate-logprobs-whole",
             sampling_params={"max_tokens": 2, "temperature": 0, "logprobs": 2, "prompt_logprobs": 1})
    generate(vllm, "generate-two", **usage,
             sampling_params={"max_tokens": 3, "temperature": 0.8, "seed": 7, "n": 2})
    generate(vllm, "generate-choice", **usage,
             sampling_params={"max_tokens": 20, "structured_outputs": {"choice": ["north", "south"]}})
    generate(vllm, "generate-bad-field", sampling_params={"temperature": -1})
    generate(vllm, "generate-invalid-token", token_ids=[1, 999_999])
    generate(vllm, "generate-too-long", token_ids=tokens(2048, 21))
    generate(vllm, "generate-unknown-model", model="nobody")
    record_abort(vllm)


def record_abort(vllm):
    """Another connection aborts a stream by its id."""
    body = {"token_ids": PROMPT, "model": DEMO_MODEL.name, "stream": True, "request_id": "roost-3",
            "sampling_params": {"max_tokens": 1500, "ignore_eos": True, "temperature": 0}}
    exchange = Exchange(vllm, http_request("POST", "/inference/v1/generate", body)).read_until(b"data: ", 3)
    begin = time.monotonic()
    abort = http_request("POST", "/inference/v1/abort_requests", {"request_ids": ["generate-tokens-roost-3"]})
    Exchange(vllm, abort).read_all().write("http/abort")
    exchange.read_all().write("http/generate-aborted")
    watch_until_idle(vllm, "abort.jsonl", begin)


def lifecycle(ports):
    """The next life of a killed engine, on the same ports, with the token API and priorities; hashes as bytes."""
    flags = [*SMALL, "--enable-scale-out", "--scheduling-policy", "priority"]
    with engine(flags=flags, settings={"VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": "0"},
                log=LOGS / "vllm-lifecycle.log", **ports) as vllm:
        events = Events(vllm.events)
        try:
            ask(vllm, events, "three blocks and a half", completion(tokens(3 * BLOCK, 1) + tokens(BLOCK // 2, 2)))
            ask(vllm, events, "salted", completion(tokens(3 * BLOCK, 1) + tokens(4, 5), cache_salt="grain"))
        finally:
            events.close()
        events.write("events-restarted-byte-hashes.jsonl")
        exchange_completion(vllm, "priority-scheduled", completion(PROMPT, priority=3, max_tokens=2))
        record_generate(vllm)
        record_death(vllm, "all-killed", vllm.kill)


def defaults(ports):
    """An engine with the default block size of a CPU, which is asked to end in the middle of a stream."""
    with engine(log=LOGS / "vllm-defaults.log", **ports) as vllm:
        events = Events(vllm.events)
        try:
            ask(vllm, events, "two blocks of 128", completion(tokens(300, 50), max_tokens=2))
        finally:
            events.close()
        events.write("events-defaults.jsonl")
        write_lines("replay-all.jsonl", replay(vllm.replay, 0))
        Exchange(vllm, http_request("GET", "/kv_event_sources")).read_all().write("http/page-kv_event_sources-defaults")
        write_bytes("metrics-defaults.txt", only_vllm_lines(vllm.get("/metrics")[1]).encode())
        record_death(vllm, "terminated", vllm.process.terminate)


def drained(ports):
    """An engine that is asked to end and has time for its last requests."""
    flags = [*SMALL, "--shutdown-timeout", "20", "--enable-server-load-tracking", "--enable-request-id-headers"]
    with engine(flags=flags, log=LOGS / "vllm-drained.log", **ports) as vllm:
        exchange_completion(vllm, "request-id-header", completion(PROMPT, max_tokens=1), ["X-Request-Id: roost-4"])
        busy = Exchange(vllm, http_request("POST", "/v1/completions",
                                           completion(PROMPT, max_tokens=300, ignore_eos=True)))
        busy.read_until(b"data: ", 2)
        Exchange(vllm, http_request("GET", "/load")).read_all().write("http/page-load-tracked")
        busy.socket.close()
        record_death(vllm, "terminated-with-time", vllm.process.terminate, max_tokens=150)


def adapters(ports):
    """An engine with two LoRA adapters of random weights: one prompt for the model alone and for each of them."""
    prompt = tokens(2 * BLOCK + 4, 60)
    with tempfile.TemporaryDirectory() as folder:
        modules = [f"{name}={lora_adapter.write(DEMO_MODEL, pathlib.Path(folder) / name, seed)}"
                   for seed, name in enumerate(("poet", "clerk"))]
        flags = [*SMALL, "--enable-lora", "--max-lora-rank", str(lora_adapter.RANK), "--lora-modules", *modules]
        with engine(flags=flags, log=LOGS / "vllm-adapters.log", **ports) as vllm:
            events = Events(vllm.events)
            try:
                ask(vllm, events, "the model alone", completion(prompt))
                ask(vllm, events, "poet", completion(prompt, model="poet"))
                ask(vllm, events, "poet again", completion(prompt, model="poet"))
                ask(vllm, events, "clerk", completion(prompt, model="clerk", max_tokens=BLOCK, ignore_eos=True))
                ask(vllm, events, "poet, salted", completion(prompt, model="poet", cache_salt="grain"))
            finally:
                events.close()
            events.write("events-adapters.jsonl")
            exchange_completion(vllm, "adapter", completion(PROMPT, model="poet", max_tokens=2))
            # The adapters' folder is this machine's alone.
            page = Exchange(vllm, http_request("GET", "/v1/models")).read_all()
            write_bytes("http/page-v1-models-adapters.request", page.request)
            place = b"/adapters".ljust(len(folder), b"_")
            write_bytes("http/page-v1-models-adapters.response", page.response.replace(folder.encode(), place))


PARTS = {"conversations": conversations, "lifecycle": lifecycle, "defaults": defaults, "drained": drained,
         "adapters": adapters}


def main():
    wanted = sys.argv[1:] or list(PARTS)
    ports = {"port": 18411, "events_port": 18412, "replay_port": 18413}
    for part in wanted:
        PARTS[part](ports)
    size = sum(path.stat().st_size for path in RECORDINGS.rglob("*") if path.is_file())
    print(f"{size} bytes in {RECORDINGS}")


if __name__ == "__main__":
    main()

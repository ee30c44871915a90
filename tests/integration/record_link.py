"""Records what a router and a worker of this release say to each other, for mixed_test.py of the next release:

    ROOST_BIN=build/release/bin tests/integration/record_link.py tests/integration/recordings/NAME.bin
"""

import http.client
import json
import pathlib
import sys

import wire_peer
from cluster import DEADLINE_SECONDS, Cluster, text, wait_until

LONG_PROMPT = text(30, "a recording")
BIRDS = {"type": "object", "properties": {"birds": {"type": "boolean"}}, "required": ["birds"],
         "additionalProperties": False}
MESSAGES = [{"role": "system", "content": "Answer in verse."}, {"role": "user", "content": "Who comes here?"}]


def completion(prompt, **fields):
    return {"path": "/v1/completions", "body": {"model": "demo-model", "prompt": prompt, **fields}}


CALLS = [
    completion("Who comes here?", temperature=0, max_tokens=8, ignore_eos=True),
    completion(LONG_PROMPT, seed=7, n=2, logprobs=2, min_p=0.05, max_tokens=6, ignore_eos=True),
    {"path": "/v1/chat/completions", "body": {"model": "demo-model", "messages": MESSAGES, "max_tokens": 12, "seed": 3}},
    {"path": "/v1/chat/completions",
     "body": {"model": "demo-model", "messages": MESSAGES, "max_tokens": 40, "temperature": 0,
              "response_format": {"type": "json_schema", "json_schema": {"name": "birds", "schema": BIRDS}}}},
    {"path": "/admin/v1/pin", "body": {"model": "demo-model", "prompt": LONG_PROMPT, "duration_ms": 60000}},
    completion(LONG_PROMPT, temperature=0, max_tokens=4, ignore_eos=True, cache_salt="grain"),
    completion(LONG_PROMPT, temperature=0, max_tokens=4, ignore_eos=True),
    {"path": "/admin/v1/unpin", "body": {"model": "demo-model", "prompt": LONG_PROMPT}},
    {"path": "/admin/v1/prefixes?top=5", "body": None},
    {"path": "/admin/v1/evict", "body": {"hash": "0123456789abcdef" * 2}},
    {**completion(LONG_PROMPT, temperature=0, max_tokens=400, ignore_eos=True, stream=True), "leave": True},
]


def ask(router, call):
    """Sends a call of a recording; returns what a later release must answer too."""
    method = "GET" if call["body"] is None else "POST"
    if not call.get("leave"):
        answer = router.request(method, call["path"], call["body"])
        result = {"status": answer.status}
        if answer.status == 200 and "choices" in answer.json():
            result["choices"] = [
                {"text": choice["text"] if "text" in choice else choice["message"]["content"],
                 "finish_reason": choice["finish_reason"]} for choice in answer.json()["choices"]]
        return result
    # The client goes away after the first event.
    connection = http.client.HTTPConnection(router.address, timeout=DEADLINE_SECONDS)
    connection.request(method, call["path"], json.dumps(call["body"]), {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.readline()
    connection.close()
    response.close()
    return {"status": response.status}


def record():
    """The entries of a session; wire_peer.py describes them."""
    with Cluster() as cluster:
        router = cluster.start_router()
        tap = wire_peer.Tap(router.link)
        router.link = tap.endpoint
        worker = cluster.start_worker("recorded", "--kv-blocks", "256")
        router.wait_for_workers(1)
        for call in CALLS:
            tap.note("ask", call)
            tap.note("told", ask(router, call))
        wait_until(lambda: not router.workers()[0]["running_requests"], "the end of the last request")
        wait_until(lambda: any(kind == "router" and wire_peer.router_kind(frame) == "ping" for kind, frame in tap.entries),
                   "a ping, which comes each second")
        worker.stop()
        tap.close()
    return tap.entries


if __name__ == "__main__":
    entries, target = record(), pathlib.Path(sys.argv[1])
    wire_peer.write_recording(target, entries)
    print(f"{len(entries)} entries, {target.stat().st_size} bytes")

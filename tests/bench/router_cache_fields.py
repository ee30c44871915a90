"""Instructions that a chat costs the router, without and with the fields of the prompt cache, by callgrind.

With them: session headers, prompt_cache_key, a breakpoint with a lifetime in each message, prompt_cache_options with a
lifetime and the answer before it to compare with, and a ledger. The chats are those of router_cost.py, with two
scripted workers. Counts of instructions do not depend on the machine's load: the difference of two runs, by the chats
that one has more.
"""

import concurrent.futures
import http.client
import json
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "tests/integration")]
import router_cost  # noqa: E402
from cluster import BIN, DEADLINE_SECONDS, FREE_PORTS, Cluster, Router  # noqa: E402

FEW, MANY, SESSIONS = 15, 115, 5
BREAKPOINT = {"mode": "explicit", "ttl": "30m"}


def add_fields(number, body, ids):
    for message in body["messages"]:
        message["content"] = [{"type": "text", "text": message["content"], "prompt_cache_breakpoint": BREAKPOINT}]
    body["prompt_cache_key"] = f"key-{number % 4}"
    body["prompt_cache_options"] = {"ttl": "30m"}
    if number >= SESSIONS:
        body["prompt_cache_options"]["comparison_response_id"] = ids[number - SESSIONS]
    return {"x-claude-code-session-id": f"session-{number % SESSIONS}", "x-claude-code-agent-id": "agent"}


def send_chats(address, count, has_fields):
    connection = http.client.HTTPConnection(address, timeout=DEADLINE_SECONDS)
    ids, diagnoses = [], 0
    for number, request in zip(range(count), router_cost.chats()):
        body = json.loads(request.split(b"\r\n\r\n", 1)[1])
        headers = add_fields(number, body, ids) if has_fields else {}
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json", **headers})
        answer = connection.getresponse().read().decode()
        assert "[DONE]" in answer, answer[:500]
        ids.append(re.search(r'"id":"([^"]+)"', answer)[1])
        diagnoses += '"cache_miss"' in answer or '"cache_hit"' in answer
    connection.close()
    assert diagnoses == (count - SESSIONS if has_fields else 0), f"{diagnoses} of {count} answers have a diagnosis"


def instructions(count, has_fields):
    with tempfile.TemporaryDirectory() as name, Cluster() as cluster:
        folder = pathlib.Path(name)
        profile = folder / "profile"
        answer = " ".join(router_cost.prompts()[0].split()[:40])
        (folder / "script.json").write_text(json.dumps([{"answer": answer}]))
        flags = ["--ledger", folder / "ledger"] if has_fields else []
        cluster.router = Router(
            ["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={profile}", BIN / "roost-router",
             "--http-address", "127.0.0.1:0", "--link-address", "tcp://127.0.0.1:0", *FREE_PORTS, "--log-format",
             "json", "--drain-announce-seconds", "0", *flags])
        cluster.daemons.append(cluster.router)
        router_cost.start_workers(cluster, folder / "script.json", 0)
        send_chats(cluster.router.address, count, has_fields)
        cluster.router.process.terminate()  # it writes the profile
        cluster.router.process.wait(DEADLINE_SECONDS)
        return int(re.search(r"^(?:summary|totals): (\d+)", profile.read_text(), re.MULTILINE)[1])


def main():
    runs = [(count, has_fields) for has_fields in (False, True) for count in (FEW, MANY)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        counts = list(pool.map(lambda run: instructions(*run), runs))
    plain, full = ((counts[i + 1] - counts[i]) / (MANY - FEW) for i in (0, 2))
    print(f"figure router_instructions_per_chat {plain / 1e6:.3f} million")
    print(f"figure router_cache_fields_instructions_ratio {full / plain:.3f} x")


if __name__ == "__main__":
    main()

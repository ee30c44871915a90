"""Recorded-like chat sessions before two real servers of llama.cpp with two slots each, more sessions than slots: the mean time to
the first token and the share of the prompts' tokens that were found, by who chooses the server. Started by llama_cpp.sh --sessions.

    shelf   Roost, with slots on disk          hash    the session's hash, as nginx does with a cookie
    slots   Roost, without                     robin   one server after the other
    openai  Roost, --engine openai             least   the server with the fewest requests under way
                                               one     a single server

With --promises COUNT [CASE …] one server with three slots behind Roost, prompts of sessions that grow, part and begin anew, one after
the other: how many find what the router promised, in whole blocks, and how many less.

    full     the demo model            windows  a small Gemma 3, checkpoints 256 tokens apart
    memory   with the server's memory  hybrid   a small LFM2, likewise
    foreign  while another client uses the server
"""

import concurrent.futures
import contextlib
import http.client
import json
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.parse

from llama_cpp_test import LlamaServer
from openai_test import Cluster, wait_until
from slots_test import GRAIN, VOCABULARY, posted

SESSIONS, TURNS = 6, 6
PAUSE = 6  # at most so many seconds between turns
LONGEST = 20 * 60  # of a case's promises; then those until then count
WORDS = "alpha beta gamma delta king lord night who goes there what shall come with us and never".split()
ROOST = {"shelf": "llama.cpp", "slots": "llama.cpp", "openai": "openai"}
MODES = (*ROOST, "hash", "robin", "least", "one")


def words(draw, count):
    return " ".join(draw.choice(WORDS) for _ in range(count))


def chat(port, messages, session):
    """Seconds to the first text, the text, the prompt's tokens and how many of them were found."""
    body = {"model": "demo-model", "messages": messages, "max_tokens": 24, "temperature": 0, "stream": True, "session_id": session,
            "stream_options": {"include_usage": True}}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        begin = time.monotonic()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        first, text, usage = None, "", {}
        for line in connection.getresponse():
            event = json.loads(line[6:]) if line.startswith(b"data: {") else {}
            usage = event.get("usage") or usage
            for choice in event.get("choices", []):
                text += choice.get("delta", {}).get("content") or ""
            if text and first is None:
                first = time.monotonic() - begin
        return first, text, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


class Choice:
    """Of a server, as the mode says; within it the request counts as under way."""

    def __init__(self, mode, ports):
        self.mode, self.ports = mode, ports
        self.lock = threading.Lock()
        self.turn, self.load = 0, [0] * len(ports)

    @contextlib.contextmanager
    def port(self, session):
        with self.lock:
            self.turn += 1
            index = {"robin": self.turn, "least": self.load.index(min(self.load))}.get(self.mode, session) % len(self.ports)
            self.load[index] += 1
        try:
            yield self.ports[index]
        finally:
            with self.lock:
                self.load[index] -= 1


def run(choice):
    """(first token, prompt tokens, found tokens) of each turn but the sessions' first."""
    system = words(random.Random(1), 60)

    def session(number):
        draw = random.Random(100 + number)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": words(draw, 260)}]
        turns = []
        for _ in range(TURNS):
            time.sleep(draw.random() * PAUSE)
            with choice.port(number) as port:
                first, text, prompt, found = chat(port, messages, f"session {number}")
            turns.append((first, prompt, found))
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": words(draw, 40)}]
        return turns[1:]

    with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
        return [turn for turns in pool.map(session, range(SESSIONS)) for turn in turns]


def measure(mode, memory_mib):
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(1 if mode == "one" else 2)]
        servers = []
        for folder in folders:
            saves = ("--slot-save-path", folder) if mode == "shelf" else ()
            servers.append(LlamaServer("--slots", "2", "--context", "8192", "--cache-ram", str(memory_mib), *saves))
            stack.callback(servers[-1].kill)
        ports = [server.port for server in servers]
        if mode in ROOST:
            cluster = stack.enter_context(Cluster())
            router = cluster.start_router()
            for number, (server, folder) in enumerate(zip(servers, folders, strict=True)):
                shelf = ("--slot-directory", folder, "--slot-bytes", "2000000000", "--slot-save-after", "1") if mode == "shelf" else ()
                cluster.start_worker(f"box-{number}", "--engine", ROOST[mode], "--engine-url", f"http://127.0.0.1:{server.port}", *shelf, model="")
            wait_until(lambda: [w["ready"] for w in router.workers()] == [True, True], "two ready workers")
            ports = [urllib.parse.urlparse(router.url).port]
        turns = run(Choice(mode, ports))
    firsts, prompts, found = zip(*turns, strict=True)
    print(f"figure slots_{mode}_{memory_mib}_ttft_ms {1000 * statistics.mean(firsts):.0f} ms")
    print(f"figure slots_{mode}_{memory_mib}_found {100 * sum(found) / sum(prompts):.1f} %", flush=True)


CASES = {"full": ("--cache-ram", "0"), "memory": (), "foreign": ("--cache-ram", "0"),
         "windows": ("--kind", "windows", "--checkpoint-min-step", "256", "--cache-ram", "0"),
         "hybrid": ("--kind", "hybrid", "--checkpoint-min-step", "256", "--cache-ram", "0")}


def promises(case, count):
    """(promised, found) tokens of each prompt."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = LlamaServer("--slots", "3", "--context", "12288", "--gguf", f"{folder}/model.gguf", *CASES[case])
        stack.callback(server.kill)
        cluster = stack.enter_context(Cluster())
        router = cluster.start_router()
        cluster.start_worker("box", "--engine", "llama.cpp", "--engine-url", f"http://127.0.0.1:{server.port}",
                             "--engine-timeout-seconds", "300", model="")
        wait_until(lambda: [w["ready"] for w in router.workers()] == [True], "a ready worker")
        draw = random.Random(3)

        def some(least, most):
            return [draw.randrange(VOCABULARY) for _ in range(draw.randrange(least, most))]

        system = some(200, 201)
        sessions = [system + some(100, 600) for _ in range(5)]
        outcomes = []
        end = time.monotonic() + LONGEST
        for turn in range(count):
            if time.monotonic() > end:
                break
            if case == "foreign" and turn % 4 == 3:
                posted(server.port, "/completion", {"prompt": some(50, 400), "n_predict": 2})
                time.sleep(draw.random())
            number = draw.randrange(len(sessions))
            session = sessions[number]
            if len(session) > 3000 or draw.random() < 0.03:
                session = system + some(100, 600)
            elif draw.random() < 0.1:  # the last turn is asked anew
                session = session[:-draw.randrange(1, 300)]
            session = session + some(10, 150)
            answer = router.completion(session, max_tokens=8, temperature=0, ignore_eos=True, return_token_ids=True)
            if answer.status != 200:
                raise RuntimeError(f"{answer.status} {answer.body}")
            sessions[number] = session + (answer.json()["choices"][0].get("token_ids") or [])
            decision = router.decisions(1)[0]
            outcomes.append((decision["predicted"]["cached_tokens"], decision["actual"]["cached_tokens"]))
        return outcomes


def tell_promises(case, count):
    outcomes = promises(case, count)
    count = len(outcomes)
    equal = sum(abs(promised - found) <= 1 or promised == found // GRAIN * GRAIN for promised, found in outcomes)
    over = [(i, promised, found) for i, (promised, found) in enumerate(outcomes) if promised > found + 1]
    print(f"figure slots_promised_{case}_prompts {count} prompts")
    print(f"figure slots_promised_{case}_equal {100 * equal / count:.1f} %")
    print(f"figure slots_promised_{case}_too_much {100 * len(over) / count:.2f} %")
    print(f"figure slots_promised_{case}_found {100 * sum(found > 0 for _, found in outcomes) / count:.1f} %", flush=True)
    print(f"{case}: too much: {over[:20]}", file=sys.stderr)
    under = [(i, promised, found) for i, (promised, found) in enumerate(outcomes) if promised < found // GRAIN * GRAIN - 1]
    print(f"{case}: too little: {len(under)} {under[:20]}", file=sys.stderr)


def main():
    if sys.argv[1:2] == ["--promises"]:
        for case in sys.argv[3:] or CASES:
            tell_promises(case, int(sys.argv[2]))
        return
    modes = sys.argv[1:] or MODES
    for memory_mib in (2, 8192):  # a quarter of the sessions' bytes, and the server's default
        for mode in modes:
            measure(mode, memory_mib)


if __name__ == "__main__":
    main()

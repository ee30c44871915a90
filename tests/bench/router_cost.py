"""The cost of a chat to a router: CPU time of its process per request, for Roost and SMG in one run.

    router_cost.py                      Roost, with two scripted workers
    router_cost.py --smg FILE           and SMG's program FILE, with two HTTP engines
    router_cost.py engine PORT PACE_MS  one such engine

Chats of some 1,000 tokens, eight ninths of which are one of four system prompts; 16 streamed tokens. They come at once,
and at each pace of PACES_MS as from real engines: an engine makes a step in that time, and each of its streams gets a
token at the end of the step. Both routers' engines have the same pace, and both routers the same clients.
ROOST_COST_PACES=3,20 chooses paces, ROOST_COST_ROUNDS=3 repeats all in turn.
"""

import asyncio
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "tests/integration")]
import router_load as load  # noqa: E402
from cluster import BIN, DEMO_MODEL, Cluster, Daemon, wait_until  # noqa: E402

REQUESTS, CLIENTS, TOKENS = 1500, 8, 16
PACED_CLIENTS = 16
PACES_MS = [int(pace) for pace in os.environ.get("ROOST_COST_PACES", "0,3,20").split(",")]
ROUNDS = int(os.environ.get("ROOST_COST_ROUNDS", "1"))
LONG_PROMPT_TOKENS = 100_000
MODEL = "demo-model"


def prompts():
    return [path.read_text() for path in sorted((ROOT / "deploy/demo-prompts").glob("system-*.txt"))]


def chats():
    draw = random.Random(5)
    systems = prompts()
    words = " ".join(systems).split()
    for _ in range(REQUESTS):
        question = " ".join(draw.choices(words, k=60))
        yield load.chat_request(MODEL, [{"role": "system", "content": draw.choice(systems)},
                                        {"role": "user", "content": question}], max_tokens=TOKENS, temperature=0)


def measure(name, port, pid, pace_ms):
    requests = list(chats())
    clients = PACED_CLIENTS if pace_ms else CLIENTS
    load.cost_of(port, pid, requests[:200], clients)
    milliseconds, answers, seconds = load.cost_of(port, pid, requests, clients)
    whole = sum(b"[DONE]" in answer for answer in answers)
    assert whole == REQUESTS, f"{whole} of {REQUESTS} answers ended as they should"
    if pace_ms:
        tell_pace(name, answers, seconds, pace_ms)
        return print(f"figure {name}_cpu_ms_per_request_{pace_ms}ms {milliseconds:.3f} ms", flush=True)
    print(f"figure {name}_cpu_ms_per_request {milliseconds:.3f} ms")
    print(f"figure {name}_requests_per_s {REQUESTS / seconds:.0f} requests/s", flush=True)


def tell_pace(name, answers, seconds, pace_ms):
    """So that one sees that both routers had the same work."""
    events = sum(answer.count(b"data: ") for answer in answers) / len(answers)
    answer_ms = 1e3 * seconds * PACED_CLIENTS / len(answers)
    print(f"{name}: {pace_ms} ms between tokens, {events:.1f} events and {answer_ms:.0f} ms for an answer")


def start_workers(cluster, script, pace_ms):
    for name in ("a", "b"):
        cluster.daemons.append(
            Daemon([BIN / "roost-scripted-worker", "--model", DEMO_MODEL, "--served-model-name", MODEL, "--script",
                    script, "--router", cluster.router.link, "--worker-id", name, "--context-tokens", 150_000,
                    "--step-ms", pace_ms]))
    router = cluster.router
    wait_until(lambda: sum(worker["ready"] for worker in router.workers()) == 2, "two ready workers")


def measure_roost(pace_ms):
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "script.json"
        script.write_text(json.dumps([{"answer": " ".join(prompts()[0].split()[:40])}]))
        router = cluster.start_router()
        start_workers(cluster, script, pace_ms)
        port, pid = int(router.address.rsplit(":", 1)[1]), router.process.pid
        measure("router", port, pid, pace_ms)
        if pace_ms == 0:
            measure_long_prompt(router, port, pid)


def measure_long_prompt(router, port, pid):
    """Prompts that share no part with earlier ones."""
    words = " ".join(prompts()).split()
    draw = random.Random(7)
    per_word = router.request("POST", "/tokenize", {"prompt": " ".join(words)}).json()["count"] / len(words)
    count = int(LONG_PROMPT_TOKENS / per_word)
    requests = [load.chat_request(MODEL, [{"role": "user", "content": " ".join(draw.choices(words, k=count))}],
                                  max_tokens=1) for _ in range(10)]
    milliseconds, answers, _ = load.cost_of(port, pid, requests, 1)
    assert all(b"[DONE]" in answer for answer in answers), answers[0][:500]
    print(f"figure router_cpu_ms_100k_prompt {milliseconds:.1f} ms")


# ---- SMG ----


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def answers_at(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def measure_smg(program, pace_ms):
    ports = [free_port() for _ in range(3)]
    urls = [f"http://127.0.0.1:{port}" for port in ports[1:]]
    commands = [[sys.executable, __file__, "engine", str(port), str(pace_ms)] for port in ports[1:]]
    commands.append([program, "launch", "--host", "127.0.0.1", "--port", str(ports[0]), "--policy", "cache_aware",
                     "--worker-urls", *urls])
    processes = []
    try:
        for command in commands:
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            port = ports[len(processes) % 3]
            wait_until(lambda port=port: answers_at(port), f"an answer at port {port}")
        request = next(chats())
        wait_until(lambda: b"[DONE]" in ask(ports[0], request), "an answer of SMG")
        measure("smg", ports[0], processes[-1].pid, pace_ms)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def ask(port, request):
    waiting = iter([request])
    # An answer that is not a stream never ends like one; then no answer comes in time.
    try:
        answers = asyncio.run(asyncio.wait_for(load.run_clients(port, 1, lambda: next(waiting, None)), 2))
    except asyncio.TimeoutError:
        return b""
    return b"".join(answers)


def chunk(text):
    return f"{len(text):x}\r\n{text}\r\n".encode()


DELTA = chunk("data: " + json.dumps({
    "id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
    "choices": [{"index": 0, "delta": {"content": "tok"}, "finish_reason": None}]}) + "\n\n")
STREAM_END = chunk("data: [DONE]\n\n") + load.END
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}], "model_path": MODEL}).encode()


class Engine:
    """An engine that computes nothing: while it has requests it makes steps, and each gives them all a token."""

    def __init__(self, step_seconds):
        self.step_seconds = step_seconds
        self.running = {}  # connection -> tokens that it still gets

    def begin(self, connection):
        if not self.running:
            self.end_of_step = asyncio.get_running_loop().time()
            self.wait_for_step()
        self.running[connection] = TOKENS

    def wait_for_step(self):
        loop = asyncio.get_running_loop()
        self.end_of_step = max(self.end_of_step + self.step_seconds, loop.time())
        loop.call_at(self.end_of_step, self.step)

    def step(self):
        for connection, left in list(self.running.items()):
            connection.transport.write(DELTA if left > 1 else DELTA + STREAM_END)
            self.running[connection] = left - 1
            if left == 1:
                del self.running[connection]
        if self.running:
            self.wait_for_step()


class EngineConnection(asyncio.Protocol):
    def __init__(self, engine):
        self.engine = engine
        self.bytes = b""

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.engine.running.pop(self, None)

    def data_received(self, data):
        self.bytes += data
        head, end, body = self.bytes.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if not end or len(body) < int(lengths[0] if lengths else 0):
            return
        self.bytes = b""
        if b"completions" in head.split(b"\r\n")[0]:
            self.transport.write(STREAM_HEAD)
            return self.engine.begin(self)
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                             % (len(MODELS), MODELS))


async def run_engine(port, pace_ms):
    engine = Engine(pace_ms / 1e3)
    server = await asyncio.get_running_loop().create_server(lambda: EngineConnection(engine), "127.0.0.1", port)
    await server.serve_forever()


def main(arguments):
    if arguments[:1] == ["engine"]:
        return asyncio.run(run_engine(int(arguments[1]), float(arguments[2])))
    for pace_ms in PACES_MS * ROUNDS:
        measure_roost(pace_ms)
        if arguments[:1] == ["--smg"]:
            measure_smg(arguments[1], pace_ms)


if __name__ == "__main__":
    main(sys.argv[1:])

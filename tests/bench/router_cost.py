"""The cost of a chat to a router: CPU time of its process per request, for Roost and SMG in one run.

    router_cost.py              Roost, with two scripted workers
    router_cost.py --smg FILE   and SMG's program FILE, with two HTTP engines that answer at once
    router_cost.py engine PORT  one such engine

Chats of some 1,000 tokens, eight ninths of which are one of four system prompts; 16 streamed tokens.
"""

import asyncio
import json
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


def measure(name, port, pid):
    requests = list(chats())
    load.cost_of(port, pid, requests[:200], CLIENTS)
    milliseconds, answers, seconds = load.cost_of(port, pid, requests, CLIENTS)
    whole = sum(b"[DONE]" in answer for answer in answers)
    assert whole == REQUESTS, f"{whole} of {REQUESTS} answers ended as they should"
    print(f"figure {name}_cpu_ms_per_request {milliseconds:.3f} ms")
    print(f"figure {name}_requests_per_s {REQUESTS / seconds:.0f} requests/s")


def start_workers(cluster, script):
    for name in ("a", "b"):
        cluster.daemons.append(
            Daemon([BIN / "roost-scripted-worker", "--model", DEMO_MODEL, "--served-model-name", MODEL, "--script",
                    script, "--router", cluster.router.link, "--worker-id", name, "--context-tokens", 150_000]))
    router = cluster.router
    wait_until(lambda: sum(worker["ready"] for worker in router.workers()) == 2, "two ready workers")


def measure_roost():
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "script.json"
        script.write_text(json.dumps([{"answer": " ".join(prompts()[0].split()[:40])}]))
        router = cluster.start_router()
        start_workers(cluster, script)
        port, pid = int(router.address.rsplit(":", 1)[1]), router.process.pid
        measure("router", port, pid)
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


def measure_smg(program):
    ports = [free_port() for _ in range(3)]
    urls = [f"http://127.0.0.1:{port}" for port in ports[1:]]
    commands = [[sys.executable, __file__, "engine", str(port)] for port in ports[1:]]
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
        measure("smg", ports[0], processes[-1].pid)
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


async def serve(reader, writer):
    """An engine that computes nothing."""
    delta = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
             "choices": [{"index": 0, "delta": {"content": "tok"}, "finish_reason": None}]}
    models = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}], "model_path": MODEL}).encode()
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            lengths = [line.split(":")[1] for line in head.split("\r\n") if line.startswith("content-length:")]
            await reader.readexactly(int(lengths[0]) if lengths else 0)
            if "completions" not in head.split("\r\n")[0]:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                             % (len(models), models))
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                for _ in range(TOKENS):
                    writer.write(chunk(f"data: {json.dumps(delta)}\n\n"))
                    await writer.drain()
                    await asyncio.sleep(0)
                writer.write(chunk("data: [DONE]\n\n") + load.END)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def run_engine(port):
    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 24)
    await server.serve_forever()


def main(arguments):
    if arguments[:1] == ["engine"]:
        return asyncio.run(run_engine(int(arguments[1])))
    measure_roost()
    if arguments[:1] == ["--smg"]:
        measure_smg(arguments[1])


if __name__ == "__main__":
    main(sys.argv[1:])

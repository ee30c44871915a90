"""What Roost adds to chats before a real server of llama.cpp, and what slots on disk cost those that run meanwhile. Started by
llama_cpp.sh --cost CHATS.

Of chats in turns, direct and through router and worker: the first token, the time between tokens, and the processor time of both
daemons; beside it that of an nginx, which passes on what it does not read, where one is installed. The daemons' processor time of
chats that run sixteen at a time, before the double. Of one long answer, while other chats are saved to disk and restored in turns,
and while they only run: the time between its tokens.
"""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from llama_cpp_test import LlamaServer
from openai_test import Cluster, Server, free_port, wait_until
from slot_sessions import words
from slots_test import DEMO_MODEL

TOKENS, LONG_TOKENS = 32, 400
CLIENTS = 16
CHATS_BESIDE = 20  # so that each of four is restored several times
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
SLOTS = ("--slots", "3", "--context", "12288", "--cache-ram", "0")


def stream(port, text, tokens):
    """Times at which its tokens came, from the request on; and the tokens of its prompt that were found."""
    body = {"model": "demo-model", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
        begin = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        times, found = [], 0
        for line in connection.getresponse():
            event = json.loads(line[6:]) if line.startswith(b"data: {") else {}
            found = ((event.get("usage") or {}).get("prompt_tokens_details") or {}).get("cached_tokens", found)
            if any(choice.get("delta", {}).get("content") for choice in event.get("choices", [])):
                times.append(time.perf_counter() - begin)
        return times, found


def processor_seconds(process):
    """Of all its threads, finer than the clock's ticks."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def gaps(times):
    return [after - before for before, after in itertools.pairwise(times)]


def p99(values):
    return sorted(values)[len(values) * 99 // 100]


@contextlib.contextmanager
def fleet(server, *worker_flags, model=""):
    """A worker beside the server: the router's port, and both daemons."""
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        cluster = stack.enter_context(Cluster())
        router = cluster.start_router()
        worker = cluster.start_worker("box", "--engine", "llama.cpp", "--engine-url", f"http://127.0.0.1:{server.port}", *worker_flags, model=model)
        wait_until(lambda: [w["ready"] for w in router.workers()] == [True], "a ready worker")
        yield urllib.parse.urlparse(router.url).port, router.process, worker.process


@contextlib.contextmanager
def nginx(to):
    """One before a port, which passes on at once what it gets: its own port, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        paths = "".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        pathlib.Path(folder, "nginx.conf").write_text(f"""
            daemon off; master_process off; pid {folder}/pid; error_log {folder}/log; events {{ }}
            http {{
              access_log off; {paths}
              upstream server {{ server 127.0.0.1:{to}; keepalive 8; }}
              server {{
                listen 127.0.0.1:{port};
                location / {{ proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
              }}
            }}""")
        with subprocess.Popen([NGINX, "-c", f"{folder}/nginx.conf"], stderr=subprocess.DEVNULL) as process:
            try:
                wait_until(lambda: answers(port), "nginx")
                yield port, process
            finally:
                process.kill()


def answers(port):
    with contextlib.suppress(OSError), contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200


def cost(count):
    draw = random.Random(1)
    direct = LlamaServer(*SLOTS)
    try:
        with fleet(LlamaServer(*SLOTS)) as (port, *daemons):
            firsts, between = {"direct": [], "through": []}, {"direct": [], "through": []}
            spent = []
            for _ in range(count):
                text = words(draw, 200)
                for way, at in (("direct", direct.port), ("through", port)):
                    before = [processor_seconds(daemon) for daemon in daemons]
                    times, _ = stream(at, text, TOKENS)
                    firsts[way].append(times[0])
                    between[way] += gaps(times)
                    if way == "through":
                        spent.append([processor_seconds(daemon) - earlier for daemon, earlier in zip(daemons, before, strict=True)])
    finally:
        direct.kill()
    for name, seconds in zip(("router", "worker"), zip(*spent, strict=True), strict=True):
        print(f"figure slots_{name}_cpu_ms_per_chat {1000 * statistics.mean(seconds):.2f} ms")
    added = statistics.median(firsts["through"]) - statistics.median(firsts["direct"])
    print(f"figure slots_added_ttft_ms {1000 * added:.2f} ms")
    print(f"figure slots_added_p99_between_tokens_ms {1000 * (p99(between['through']) - p99(between['direct'])):.2f} ms")


def cost_of_nginx(count):
    server = LlamaServer(*SLOTS)
    try:
        with nginx(server.port) as (port, process):
            draw = random.Random(1)
            before = processor_seconds(process)
            for _ in range(count):
                stream(port, words(draw, 200), TOKENS)
            spent = processor_seconds(process) - before
    finally:
        server.kill()
    print(f"figure slots_nginx_cpu_ms_per_chat {1000 * spent / count:.2f} ms")


def cost_of_many(count):
    with fleet(Server("--slots", str(CLIENTS), "--context", "65536", "--prefill-us", "0"), model=DEMO_MODEL) as (port, *daemons):
        draw = random.Random(3)
        texts = [words(draw, 200) for _ in range(count)]
        before = [processor_seconds(daemon) for daemon in daemons]
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda text: stream(port, text, TOKENS), texts))
        spent = [processor_seconds(daemon) - earlier for daemon, earlier in zip(daemons, before, strict=True)]
    for name, seconds in zip(("router", "worker"), spent, strict=True):
        print(f"figure slots_{name}_cpu_ms_of_{CLIENTS} {1000 * seconds / count:.2f} ms", flush=True)


def stalls(on_disk):
    """Seconds between the tokens of long answers beside four chats that share the other two slots, and how many of these were found:
    with slots on disk all that was restored."""
    with tempfile.TemporaryDirectory() as folder:
        shelf = ("--slot-directory", folder, "--slot-bytes", "2000000000", "--slot-save-after", "0.2") if on_disk else ()
        server = LlamaServer(*SLOTS, *(("--slot-save-path", folder) if on_disk else ()))
        with fleet(server, *shelf) as (port, *_):
            draw = random.Random(2)
            others = [words(draw, 500) for _ in range(4)]
            ended = threading.Event()
            found = []

            def ask_others():
                for text in itertools.cycle(others):
                    if ended.is_set():
                        return
                    found.append(stream(port, text, 2)[1])
                    ended.wait(0.5)  # idle slots are saved meanwhile

            asking = threading.Thread(target=ask_others)
            times = []
            asking.start()
            try:
                while len(found) < CHATS_BESIDE:
                    times += gaps(stream(port, words(draw, 20), LONG_TOKENS)[0])
            finally:
                ended.set()
                asking.join()
            return times, found


def main():
    cost(int(sys.argv[1]))
    if NGINX:
        cost_of_nginx(int(sys.argv[1]))
    cost_of_many(10 * int(sys.argv[1]))
    for on_disk in (False, True):
        times, found = stalls(on_disk)
        name = "disk" if on_disk else "chats"
        print(f"figure slots_beside_{name}_p99_between_tokens_ms {1000 * p99(times):.1f} ms")
        print(f"figure slots_beside_{name}_longest_between_tokens_ms {1000 * max(times):.1f} ms", flush=True)
        print(f"{name}: {sum(tokens > 100 for tokens in found)} of {len(found)} chats beside it were found")


if __name__ == "__main__":
    main()

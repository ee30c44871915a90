"""A cluster that Prometheus watches, under traffic of all kinds: two routers with API keys, three workers with small
pools (one of each with TLS), clients that share documents, come back, leave early, ask wrongly or too often.

    with WatchedCluster() as watched:
        watched.start_traffic()
        watched.overload()
        watched.kill_a_worker()
        watched.prometheus.curves("…")
"""

import concurrent.futures
import contextlib
import http.client
import http.server
import itertools
import json
import pathlib
import random
import tempfile
import threading
import urllib.parse
import urllib.request

from certificates import Authority
from cluster import DEADLINE_SECONDS, Cluster, text, wait_until
from keys import KeyFile, bearer
from prometheus import Prometheus, Target

WORKERS = ("worker-a", "worker-b", "worker-c")
CLIENTS = 4
CROWD = 24
DOCUMENTS = 6
DOCUMENT_WORDS = 100  # about 400 tokens
SMALL_WORKER = ("--kv-blocks", "160", "--max-running-requests", "2")
SMALL_QUEUE = ("--worker-queue-bound", "2", "--max-queue", "4")
GIB = 1 << 30
GPU_SERIES = """# TYPE roost_worker_gpu_memory_bytes gauge
roost_worker_gpu_memory_bytes{model="on-a-gpu",worker="double",gpu="0",state="used"} %d
roost_worker_gpu_memory_bytes{model="on-a-gpu",worker="double",gpu="0",state="free"} %d
""" % (70 * GIB, 10 * GIB)


def address_in(url):
    return urllib.parse.urlparse(url).netloc


class GpuDouble:
    """Exports what a worker on a GPU would: this machine may have none."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = GPU_SERIES.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.Handler)
        self.address = "127.0.0.1:%d" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class WatchedCluster:
    def __enter__(self):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self.cluster = stack.enter_context(Cluster())
            self.authority = Authority(folder, "authority")
            self.keys = KeyFile(folder)
            self.keys.add("chat", "--tenant", "acme")
            self.keys.add("batch", "--tenant", "acme", "--max-priority", "20")
            self.keys.add("bird")
            self.keys.add("limited", "--requests-per-minute", "2")
            server = self.authority.issue("server")
            self.tls = ("--tls-cert", server.certificate, "--tls-key", server.key)
            self.routers = self._start_routers()
            self.workers = {name: self._start_worker(name) for name in WORKERS}
            self.wait_for_workers()
            double = GpuDouble()
            stack.callback(double.close)
            self.prometheus = stack.enter_context(Prometheus(folder, self._jobs(double)))
            self.prometheus.wait_for_scrapes()
            self.stopping = threading.Event()
            self.pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(CLIENTS + CROWD))
            stack.callback(self.stopping.set)
            self.numbers = itertools.count()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _start_routers(self):
        flags = ("--api-keys", str(self.keys.path), *SMALL_QUEUE)
        return [self.cluster.start_router(*flags),
                self.cluster.start_router(*flags, *self.tls, tls=self.authority.client_context())]  # fmt: skip

    def _start_worker(self, name, metrics="127.0.0.1:0"):
        links = ",".join(router.link for router in self.routers)
        tls = self.tls if name == WORKERS[0] else ()
        return self.cluster.start_worker(name, "--router", links, "--metrics-address", metrics, *SMALL_WORKER, *tls)

    def _jobs(self, double):
        plain, secure = self.routers
        self.metrics_of = {name: worker.wait_for_log("worker ready")["metrics"] for name, worker in self.workers.items()}
        return {
            "roost-router": [Target(plain.address_of("/metrics")),
                             Target(secure.address_of("/metrics"), self.authority.certificate)],
            "roost-worker": [*map(self._target, self.metrics_of.values()), Target(double.address)],
        }  # fmt: skip

    def _target(self, url):
        return Target(address_in(url), self.authority.certificate if url.startswith("https:") else None)

    def metrics_texts(self):
        """(daemon, its metrics) of each process."""
        context = self.authority.client_context()
        texts = [("router", router.request("GET", "/metrics").body) for router in self.routers]
        for url in self.metrics_of.values():
            with urllib.request.urlopen(url, context=context if url.startswith("https:") else None) as response:
                texts.append(("worker", response.read().decode()))
        return texts

    def wait_for_workers(self):
        for router in self.routers:
            router.wait_for_workers(len(WORKERS))

    def counted(self, name, **labels):
        """The sum over both routers."""
        return sum(router.metric(name, **labels) for router in self.routers)

    # ---- traffic ----

    def ask(self, path="/v1/chat/completions", key="chat", **body):
        """On one router or the other. The status; 0 if the client left."""
        router = self.routers[next(self.numbers) % len(self.routers)]
        headers = bearer(self.keys.secrets[key]) if key else {}
        return router.request("POST", path, {"model": "demo-model", **body}, headers).status

    def converse(self, number):
        """A question about one of the documents, and a second one in the same conversation."""
        draw = random.Random(number)
        system = {"role": "system", "content": text(DOCUMENT_WORDS, f"document {draw.randrange(DOCUMENTS)}")}
        messages = [system, {"role": "user", "content": text(draw.randrange(5, 20), number)}]
        fields = {"max_tokens": draw.randrange(4, 24), "session_id": f"s{number}", "expect_return_ms": 2000, "ignore_eos": True}
        key = draw.choice(("chat", "batch", "bird"))
        self.ask(key=key, messages=messages, stream=draw.random() < 0.5, **fields)
        messages += [{"role": "assistant", "content": "I see."}, {"role": "user", "content": text(6, -number)}]
        self.ask(key=key, messages=messages, **fields)

    def err(self, number):
        """Mistakes of clients, and requests that others want to know of."""
        question = [{"role": "user", "content": text(10, number)}]
        self.ask(messages=question, key=None)
        self.ask(messages=question, model="no-such-model")
        self.ask(messages="none")
        self.ask(messages=question, key="limited", max_tokens=2)
        self.ask(messages=question, max_tokens=2, cache="off", of_no_api=1)
        self.ask("/v1/completions", prompt=text(10, number), max_tokens=2)
        self.leave_early(question)

    def leave_early(self, messages):
        body = json.dumps({"model": "demo-model", "messages": messages, "stream": True, "max_tokens": 400, "ignore_eos": True})
        connection = http.client.HTTPConnection(self.routers[0].address, timeout=DEADLINE_SECONDS)
        with contextlib.closing(connection):
            headers = {"Content-Type": "application/json", **bearer(self.keys.secrets["bird"])}
            connection.request("POST", "/v1/chat/completions", body, headers)
            response = connection.getresponse()
            if response.status == 200:
                response.readline()

    def start_traffic(self):
        def client(first):
            for number in itertools.count(first, CLIENTS):
                if self.stopping.is_set():
                    return
                self.converse(number)
                if number % 8 == 0:
                    self.err(number)

        self.clients = [self.pool.submit(client, number) for number in range(CLIENTS)]

    def check_traffic(self):
        """Raises what a client has met that it should not."""
        for client in self.clients:
            if client.done():
                client.result()

    # ---- trouble ----

    def overload(self, seconds=0):
        """More than queues hold, until some have waited and some were refused; at least for this long."""
        over = threading.Event()

        def push(number):
            for each in itertools.count():
                if over.is_set():
                    return
                self.ask("/v1/completions", key="batch", prompt=text(60, f"{number} {each}"), max_tokens=16, ignore_eos=True)

        crowd = [self.pool.submit(push, number) for number in range(CROWD)]
        try:
            wait_until(lambda: self.counted("roost_router_queue_refused_total") >= 20, "refused requests")
            wait_until(lambda: self.counted("roost_router_queue_wait_seconds_count") >= 20, "requests that waited")
            self.stopping.wait(seconds)
        finally:
            over.set()
        for each in crowd:
            each.result()

    def lose_a_worker(self):
        """Kills the last one while it has requests."""
        name = WORKERS[-1]
        wait_until(lambda: self.counted("roost_router_worker_in_flight_requests", worker=name) > 0, f"requests at {name}")
        self.workers[name].kill()
        return name

    def kill_a_worker(self, seconds=0):
        """The last one, while it has requests; starts it again after this long."""
        name = self.lose_a_worker()
        wait_until(lambda: self.counted("roost_router_workers_lost_total") >= len(self.routers), "the loss")
        self.stopping.wait(seconds)
        self.workers[name] = self._start_worker(name, address_in(self.metrics_of[name]))
        self.wait_for_workers()

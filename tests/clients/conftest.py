"""Daemons for tests with third-party clients, and the record of which client passed which test."""

import json
import os
import pathlib
import re
import sys
import threading

# Set before any client is imported, so that none of them contacts the internet.
os.environ.update(
    {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LANGSMITH_TRACING": "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "NO_PROXY": "127.0.0.1",
    }
)

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

from cluster import BIN, DEMO_MODEL, Cluster, Daemon, wait_until  # noqa: E402

# Enough tokens for the demo model, which writes many blanks, to end a small object.
MANY = 3000
DEMO = "demo-model"
SCRIPTED = "scripted"


# A base URL at whose port no process listens: a router that has ended.
@pytest.fixture(scope="session")
def closed_url():
    with Cluster() as cluster:
        return cluster.start_router().url


def start_scripted_worker(cluster, script=HERE / "script.json", *flags):
    arguments = [BIN / "roost-scripted-worker", "--model", DEMO_MODEL, "--served-model-name", SCRIPTED]
    arguments += ["--chat-template", HERE / "hermes.jinja", "--script", script, "--router", cluster.router.link, *flags]
    worker = Daemon(arguments)
    cluster.daemons.append(worker)
    return worker


def wait_for_models(router, names):
    def served():
        models = router.request("GET", "/v1/models").json()["data"]
        return {model["id"] for model in models} == set(names)

    wait_until(served, f"the models {names}")
    # A router that has just begun holds names that a worker may yet bring, and answers 503.
    ask = {"model": "nobody", "prompt": "Who?", "max_tokens": 1}
    wait_until(lambda: router.request("POST", "/v1/completions", ask).status == 404, "that others are not found")


@pytest.fixture(scope="session")
def router():
    """Serves the demo model, and the scripted model, which answers by the rules of script.json."""
    with Cluster() as cluster:
        router = cluster.start_router()
        cluster.start_worker("worker-a")
        start_scripted_worker(cluster)
        wait_for_models(router, [DEMO, SCRIPTED])
        yield router


@pytest.fixture
def base_url(router):
    return router.url + "/v1"


@pytest.fixture(scope="session")
def idle_router():
    """A router without workers."""
    with Cluster() as cluster:
        yield cluster.start_router()


class FullCluster:
    """One request runs, one waits at the worker and one at the router; the next one is refused, until free() is called."""

    # The choices of one request fill the worker, so that it takes seconds on a fast machine too.
    CHOICES = 16

    def __init__(self, cluster):
        self.cluster = cluster
        self.router = cluster.start_router("--worker-queue-bound", "1", "--max-queue", "1")
        cluster.start_worker("worker-a", "--max-running-requests", self.CHOICES)
        self.router.wait_for_workers(1)
        self.connections = []
        self.freed = threading.Event()

    def fill(self):
        self.freed.clear()
        threads = [threading.Thread(target=self._occupy, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()

        def is_full():
            queues = self.router.request("GET", "/admin/v1/queues").json()["queues"]
            return queues and queues[0]["waiting_requests"] == 1 and queues[0]["drain_seconds"] > 1

        wait_until(is_full, "a full queue")

    def free(self):
        self.freed.set()
        connections, self.connections = self.connections, []
        for connection in connections:
            connection.close()

    def _occupy(self):
        """Streams until free(); sends a new request when one was refused or has ended."""
        import http.client

        body = {"model": DEMO, "prompt": "Who waits?", "max_tokens": 3000, "ignore_eos": True, "stream": True, "n": self.CHOICES}
        while not self.freed.is_set():
            connection = http.client.HTTPConnection(self.router.address)
            self.connections.append(connection)
            try:
                connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                while not self.freed.is_set() and response.readline():
                    pass
            except (OSError, AttributeError, ValueError, http.client.HTTPException):
                pass  # closed by free()
            connection.close()


@pytest.fixture
def full_cluster():
    with Cluster() as cluster:
        full = FullCluster(cluster)
        full.fill()
        yield full
        full.free()


def recording_client(package, seen, on_first):
    """An HTTP client that records the status of each answer, and calls `on_first` at the first one."""

    def note(response):
        seen.append((response.status_code, response.headers.get("retry-after")))
        if len(seen) == 1:
            on_first()

    return package.DefaultHttpxClient(event_hooks={"response": [note]})


# ---- the matrix ----


def pytest_configure(config):
    config.addinivalue_line("markers", "feature(client, names): the cells of the matrix that a test is about")
    config.roost_cells = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    ended = report.when == "call" or (report.when == "setup" and not report.passed)
    for mark in item.iter_markers("feature") if ended else ():
        reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
        cell = {"client": mark.kwargs["client"], "names": list(mark.kwargs["names"]), "test": item.name}
        cell.update(outcome=report.outcome, reason=re.sub(r"^Skipped: ", "", reason))
        item.config.roost_cells.append(cell)
    return report


def pytest_sessionfinish(session):
    path = os.environ.get("ROOST_CLIENT_RESULTS")
    if path:
        pathlib.Path(path).write_text(json.dumps(session.config.roost_cells, indent=1))

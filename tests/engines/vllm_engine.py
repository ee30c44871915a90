"""A real vLLM engine for tests and recordings, as vllm_environment.sh installs it; ROOST_VLLM names another folder.
Standard library only.

    with engine(DEMO_MODEL, log="/tmp/vllm.log") as vllm:
        print(vllm.port, vllm.events, vllm.replay, vllm.get("/v1/models"))
"""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

from free_ports import free_port, free_ports  # noqa: F401  for those who have this module

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO_MODEL = ROOT / "deploy/demo-model"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
ENVIRONMENT = pathlib.Path(os.environ.get("ROOST_VLLM", CACHE / "roost/vllm-0.32.0"))
TOPIC = "kv-events"
START_SECONDS = 400
# VLLM_SERVER_DEV_MODE serves /reset_prefix_cache and /server_info.
SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1"}


class Engine:
    """A running server: the process that serves HTTP, its engine core and its workers, all in one process group."""

    def __init__(self, process, port, events_port, replay_port):
        self.process = process
        self.port = port
        self.events = f"tcp://127.0.0.1:{events_port}"
        self.replay = f"tcp://127.0.0.1:{replay_port}"

    def call(self, method, path, body=None, headers=None):
        """The status and the text of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.closing(connection):
            payload = None if body is None else json.dumps(body)
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, payload, {**kind, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def get(self, path):
        return self.call("GET", path)

    def metric(self, name):
        """The sum of a metric over its labels."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def is_healthy(self):
        try:
            return self.get("/health")[0] == 200
        except OSError:
            return False

    def core(self):
        """The process id of the engine core, which schedules and publishes the events."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            if "EngineCore" in pathlib.Path(f"/proc/{child}/cmdline").read_text():
                return int(child)
        raise LookupError("the engine core is not running")

    def kill(self):
        """Kills the whole group at once, as a machine that loses power does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            pass
        self.kill()


def command(model, port, events_port, replay_port, flags):
    # A publisher binds only to an address with a `*`; it connects to any other one, where no process listens.
    events = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": TOPIC,
              "endpoint": f"tcp://*:{events_port}", "replay_endpoint": f"tcp://*:{replay_port}"}
    # The folder is named from its parent, so that no recording holds this machine's paths.
    return ["nice", "-n", "19", str(ENVIRONMENT / "bin/vllm"), "serve", f"./{model.name}", "--served-model-name",
            model.name, "--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--dtype",
            "bfloat16", "--max-model-len", "2048", "--gpu-memory-utilization", "0.1", "--enable-prefix-caching",
            "--enable-prompt-tokens-details", "--kv-events-config", json.dumps(events), *flags]


@contextlib.contextmanager
def engine(model=DEMO_MODEL, port=0, events_port=0, replay_port=0, flags=(), settings=None, log=os.devnull):
    """Starts an engine, yields it once it is healthy, and ends it. A port of 0 is replaced by a free one."""
    model = pathlib.Path(model).resolve()
    port, events_port, replay_port = (wanted or free_port() for wanted in (port, events_port, replay_port))
    with open(log, "wb") as output:
        process = subprocess.Popen(command(model, port, events_port, replay_port, flags), stdout=output,
                                   stderr=subprocess.STDOUT, env={**os.environ, **SETTINGS, **(settings or {})},
                                   cwd=model.parent, start_new_session=True)
    vllm = Engine(process, port, events_port, replay_port)
    try:
        end = time.monotonic() + START_SECONDS
        pause = threading.Event()
        while not vllm.is_healthy():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"vLLM did not become healthy; see {log}")
            pause.wait(0.2)
        yield vllm
    finally:
        vllm.stop()

"""A cluster of the rendered manifests on this machine: processes in network namespaces (pod.py), the control plane that
moves them (controllers.py), and pods of others around it.
"""

import dataclasses
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import yaml

import page
from controllers import Cluster, Delays
from image import Images
from network import DNS_ADDRESS, Network
from outsider import Load, Outsider, file_server
from pod import Node, Surroundings

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "deploy"), str(ROOT / "tests/integration")]

import render  # noqa: E402
from certificates import Authority  # noqa: E402
from cluster import BIN, DEMO_MODEL, wait_until  # noqa: E402
from upgrade_test import other_weights  # noqa: E402

MODEL = "my-model"
SETTLE_SECONDS = 180
NODES = 4


@dataclasses.dataclass
class Options:
    is_secure: bool = False
    announces: bool = True  # routers announce their end
    clients: int = 6
    delays: Delays = dataclasses.field(default_factory=Delays)


class Harness:
    """Starts the base with a model of its own (components/model), secured if the options say so."""

    def __init__(self, options):
        self.options = options
        self.began = time.monotonic()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="roost-pods-"))
        self.outsiders = []
        self.contexts = []

    def log(self, what):
        print(f"{time.monotonic() - self.began:7.2f} {what}", flush=True)

    def __enter__(self):
        try:
            self.network = Network()
            self.dns, self.app, self.monitoring, self.stranger, self.store = (
                self.outsider(address) for address in (DNS_ADDRESS, None, None, None, None))
            self.make_archives()
            server = file_server(self.store, self.folder / "archives")
            self.models_url = server.__enter__()
            self.contexts.append(server)
            images = Images(self.folder / "images", BIN, DEMO_MODEL)
            for name in ("roost-router", "roost-worker-cpu"):
                images.root_of(name)
            around = Surroundings(self.network, images, self.folder, self.secrets())
            labels = {self.app.address: {"roost-clients": "true"}, self.monitoring.address: {"roost-monitoring": "true"}}
            self.cluster = Cluster(self.documents(), [Node(f"node-{i}") for i in range(NODES)], around, labels,
                                   self.options.delays, self.log)
            self.dns_server = self.dns.start(sys.executable, pathlib.Path(__file__).with_name("dns.py"), DNS_ADDRESS,
                                             str(self.cluster.names_file))
            self.cluster.start()
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if hasattr(self, "cluster"):
            self.cluster.stop()
            self.dns_server.kill()
            self.dns_server.wait()
            for pod in self.cluster.pods():
                pod.node.is_up = False
                pod.lose_node()
            for pod in self.cluster.pods():
                pod.thread.join()
        for context in reversed(self.contexts):
            context.__exit__(None, None, None)
        for outsider in self.outsiders:
            outsider.stop()
        shutil.rmtree(self.folder)

    def outsider(self, address):
        self.outsiders.append(Outsider(self.network, address))
        return self.outsiders[-1]

    # --- what is applied ----------------------------------------------------------------------------------------------

    def make_archives(self):
        """Two revisions of the model, as archives with their checksums."""
        folder = self.folder / "archives"
        folder.mkdir()
        self.checksums = {}
        for revision, source in (("first", DEMO_MODEL), ("second", other_weights(self.folder))):
            # As on the page.
            subprocess.run(["tar", "-cf", folder / f"{revision}.tar", "-C", source, "."], check=True)
            self.checksums[revision] = hashlib.sha256((folder / f"{revision}.tar").read_bytes()).hexdigest()

    def secrets(self):
        """The Secrets, made by the commands that the page has for them; the certificate is ours."""
        keys = self.folder / "keys"
        keys.mkdir()
        lines = page.commands("Start")
        page.run(lines, "roostctl key", keys, BIN)
        secrets = page.created_secrets(lines, keys)
        self.client_key = self.certificate = None
        if self.options.is_secure:
            lines = page.commands("Keys and TLS")
            page.run(lines, "roostctl key", keys, BIN)
            authority = Authority(keys, "ca", servers="DNS:roost.roost.svc,IP:10.96.0.1")
            files = authority.issue("server")
            self.certificate = authority.certificate
            for name, source in (("tls.crt", files.certificate), ("tls.key", files.key), ("ca.crt", authority.certificate)):
                shutil.copy(source, keys / name)
            secrets |= page.created_secrets(lines, keys)
            self.client_key = (keys / "my-app.key").read_text().strip()
        return secrets

    def documents(self, revision="first", restarted_at=None, workers=2, workers_restarted_at=None):
        """An overlay of a user's own. The workers share this machine's cores, so each gets one thread and a small pool."""
        components = ["model", "secure"] if self.options.is_secure else ["model"]
        worker = {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "roost-worker"},
            "spec": {"replicas": workers, "template": {
                "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": workers_restarted_at or ""}}, "spec": {
                "initContainers": [{"name": "fetch-model", "env": [
                    {"name": "MODEL_URL", "value": f"{self.models_url}/{revision}.tar"},
                    {"name": "MODEL_SHA256", "value": self.checksums[revision]}]}],
                "containers": [{"name": "worker", "env": [
                    {"name": "ROOST_SERVED_MODEL_NAME", "value": MODEL}, {"name": "ROOST_THREADS", "value": "1"},
                    {"name": "ROOST_KV_BLOCKS", "value": "2048"}]}]}}},
        }
        router = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "roost-router"},
                  "spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": restarted_at or ""}}}}}
        if not self.options.announces:
            silent = {"name": "ROOST_DRAIN_ANNOUNCE_SECONDS", "value": "0"}
            router["spec"]["template"]["spec"] = {"containers": [{"name": "router", "env": [silent]}]}
        overlay = self.folder / "overlay"
        overlay.mkdir(exist_ok=True)
        (overlay / "patches.yaml").write_text(yaml.safe_dump_all([worker, router]))
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump({
            "namespace": "roost", "resources": [str(ROOT / "deploy/base")], "components": [str(ROOT / "deploy/components" / c) for c in components],
            "patches": [{"path": "patches.yaml"}]}))
        return render.render(overlay)

    # --- what scenarios do --------------------------------------------------------------------------------------------

    def load(self):
        port = self.cluster.services["roost"]["ports"][0]["port"]
        load = Load(self.app, address=self.cluster.addresses["roost"], port=port, model=MODEL, clients=self.options.clients,
                    ca=self.certificate and str(self.certificate), key=self.client_key)
        self.log(f"load of {self.options.clients} clients begins")
        return load

    def is_settled(self):
        with self.cluster.lock:
            return all(workload.is_settled() for workload in self.cluster.workloads.values())

    def settle(self, what):
        wait_until(self.is_settled, what, SETTLE_SECONDS)
        self.log(f"settled: {what}")

    def routers(self):
        return self.cluster.workloads["roost-router"].pods

    def workers(self):
        return self.cluster.workloads["roost-worker"].pods

    def roostctl(self, *words):
        """The answer of roostctl in a router's pod, as the command of the page for `status` calls it."""
        command, file = page.executed(page.commands("Keys and TLS" if self.options.is_secure else "Start"))
        assert command[:2] == ["roostctl", "status"]
        standard_input = (self.folder / "keys" / file).read_bytes() if file else b""
        return self.routers()[0].execute(["roostctl", *words, *command[2:]], standard_input)


def record_times(pod, message):
    """The times when the pod's container logged records of this message, by the clock of time.monotonic()."""
    offset = time.time() - time.monotonic()
    times = []
    for line in pod.output(pod.container["name"]).splitlines():
        record = json.loads(line) if line.startswith("{") else {}
        if record.get("msg") == message:
            stamp = record["ts"].removesuffix("Z")
            whole, _, fraction = stamp.partition(".")
            seconds = time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone
            times.append(seconds + float("0." + fraction) - offset)
    return times


def wait_for(seconds):
    """Lets the load run. Nothing is waited for but time, of which the scenarios are made."""
    threading.Event().wait(seconds)

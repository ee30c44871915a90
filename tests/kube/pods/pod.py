"""A pod as a kubelet runs it: volumes, init containers, one container with its probes, restarts, and its end.

Times are those of the pod's own fields, as a kubelet takes them: a probe's first look comes at once, liveness and
readiness begin when the startup probe has succeeded, a pod that ends is given preStop, SIGTERM and its grace period.
"""

import dataclasses
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time

from network import DNS_ADDRESS

CONTAINER = pathlib.Path(__file__).with_name("container.py")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RESTART_SECONDS = 1.0  # doubled with each restart
LOOK_SECONDS = 0.02


@dataclasses.dataclass
class Node:
    name: str
    is_up: bool = True


@dataclasses.dataclass
class Surroundings:
    """The surroundings that pods of a cluster share."""

    network: object
    images: object
    folder: pathlib.Path
    secrets: dict  # name -> {file: bytes}
    claims: dict = dataclasses.field(default_factory=dict)  # name -> folder


def http_probe(address, ports, probe):
    """None, or why it fails."""
    get = probe["httpGet"]
    port = ports.get(get["port"], get["port"])
    timeout = probe.get("timeoutSeconds", 1)
    if get.get("scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, port, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request("GET", get["path"], headers={"Connection": "close"})
        status = connection.getresponse().status
        return None if 200 <= status < 400 else f"status {status}"
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()


class Pod:
    """Thread-safe. `log` is called with lines about it."""

    def __init__(self, name, template, owner, node, surroundings, log, claim_templates=()):
        self.name = name
        self.labels = template["metadata"]["labels"]
        self.template = template
        self.spec = template["spec"]
        self.owner = owner
        self.node = node
        self.around = surroundings
        self.log = lambda what: log(f"pod {name}: {what}")
        self.claim_templates = claim_templates
        self.container = self.spec["containers"][0]
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.folder = surroundings.folder / f"{name}-{time.monotonic_ns()}"
        self.address = None
        self.is_ready = False
        self.has_started = False
        self.ready_at = None
        self.deleted_at = None
        self.exit_codes = []  # of containers that ended by themselves or were killed by a probe
        self.gone = threading.Event()
        self.ending = threading.Event()
        self.process = None
        self.pause = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    @property
    def is_deleted(self):
        return self.deleted_at is not None

    # --- starting -----------------------------------------------------------------------------------------------------

    def _run(self):
        self.folder.mkdir(parents=True)
        self.pause = subprocess.Popen(
            ["unshare", "--net", "--uts", "--ipc", "sh", "-c", f"hostname {self.name}; echo; exec sleep infinity"],
            stdout=subprocess.PIPE, text=True)
        self.pause.stdout.readline()
        self.address, self.interface = self.around.network.connect(self.pause.pid)
        self.volumes = {volume["name"]: self._volume(volume) for volume in self.spec["volumes"]}
        self.volumes |= {claim["metadata"]["name"]: self._claim(claim) for claim in self.claim_templates}
        if self._initialise():
            self._serve()
        if not self.node.is_up:
            return  # its containers are gone with it
        self._clean_up()

    def _clean_up(self):
        self.is_ready = False
        self.pause.kill()
        self.pause.wait()
        self.pause.stdout.close()
        self.log("gone")
        self.gone.set()

    def _volume(self, volume):
        path = self.folder / "volumes" / volume["name"]
        path.mkdir(parents=True)
        group = self.spec["securityContext"]["fsGroup"]
        if "secret" in volume:
            for name, content in self.around.secrets[volume["secret"]["secretName"]].items():
                (path / name).write_bytes(content)
                os.chown(path / name, 0, group)
                (path / name).chmod(volume["secret"]["defaultMode"])
        elif "emptyDir" not in volume:
            raise AssertionError(f"volumes of this kind are not understood: {volume}")
        os.chown(path, 0, group)
        path.chmod(0o2775)
        return path

    def _claim(self, claim):
        name = f"{claim['metadata']['name']}-{self.name}"
        path = self.around.claims.setdefault(name, self.around.folder / "claims" / name)
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, self.spec["securityContext"]["fsGroup"])
        path.chmod(0o2775)
        return path

    def _environment(self, container):
        fields = {"metadata.name": self.name, "metadata.namespace": "roost", "status.podIP": self.address,
                  "spec.nodeName": self.node.name}
        values = {"PATH": DEFAULT_PATH, "HOSTNAME": self.name, "HOME": "/"}
        for entry in container.get("env", []):
            if "secretKeyRef" in entry.get("valueFrom", {}):
                source = entry["valueFrom"]["secretKeyRef"]
                secret = self.around.secrets.get(source["name"], {})
                if source["key"] in secret or not source.get("optional"):
                    values[entry["name"]] = secret[source["key"]].decode()
            elif "valueFrom" in entry:
                values[entry["name"]] = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            else:
                values[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: values.get(m.group(1), m.group(0)), entry["value"])
        return values

    def _start(self, container, standard_input=subprocess.DEVNULL):
        context = {**self.spec["securityContext"], **container["securityContext"]}
        scratch = self.folder / f"{container['name']}-{time.monotonic_ns()}"
        scratch.mkdir()
        spec = {
            "pause": self.pause.pid,
            "image": str(self.around.images.root_of(container["image"])),
            "scratch": str(scratch),
            "read_only": context["readOnlyRootFilesystem"],
            "mounts": [{"source": str(self.volumes[mount["name"]]), "target": mount["mountPath"],
                        "read_only": mount.get("readOnly", False)} for mount in container["volumeMounts"]],
            "files": {"/etc/hostname": f"{self.name}\n", "/etc/hosts": f"127.0.0.1 localhost\n{self.address} {self.name}\n",
                      "/etc/resolv.conf": f"nameserver {DNS_ADDRESS}\noptions ndots:5\n"
                                          "search roost.svc.cluster.local svc.cluster.local cluster.local\n"},
            "user": context["runAsUser"], "group": context["runAsGroup"], "groups": [context["fsGroup"]],
            "command": [*container["command"], *container.get("args", [])],
            "env": self._environment(container), "directory": "/",
        }
        with open(self.folder / f"{container['name']}.log", "ab") as output:
            return subprocess.Popen([sys.executable, CONTAINER, json.dumps(spec)], stdin=standard_input, stdout=output,
                                    stderr=output)

    def _initialise(self):
        for container in self.spec.get("initContainers", []):
            while not self.ending.is_set():
                process = self._start(container)
                while process.poll() is None:
                    if self.ending.wait(LOOK_SECONDS):
                        process.kill()
                if process.returncode == 0:
                    break
                self.log(f"{container['name']} ended with {process.returncode}: {self.output(container['name'])[-300:]}")
                self.ending.wait(RESTART_SECONDS)
        return not self.ending.is_set()

    # --- running ------------------------------------------------------------------------------------------------------

    def _serve(self):
        """Runs the container, again whenever it ends, until the pod's own end."""
        while not self.ending.is_set():
            self.process = self._start(self.container)
            self.has_started = "startupProbe" not in self.container
            over = threading.Event()
            probes = [threading.Thread(target=self._probe, args=(kind, over), daemon=True)
                      for kind in ("startupProbe", "readinessProbe", "livenessProbe") if kind in self.container]
            for probe in probes:
                probe.start()
            code = self.process.wait()
            over.set()
            self.is_ready = False
            if self.ending.is_set() or not self.node.is_up:
                break
            self.exit_codes.append(code)
            self.log(f"container ended with {code}: {self.output(self.container['name'])[-500:]}")
            self.ending.wait(RESTART_SECONDS * 2 ** min(len(self.exit_codes), 6))
        self.log(f"container has ended with {self.process.returncode}" if self.process else "ended before it began")

    def _probe(self, kind, over):
        probe = self.container[kind]
        if kind != "startupProbe":
            while not self.has_started and not over.wait(LOOK_SECONDS):
                pass
        over.wait(probe.get("initialDelaySeconds", 0))
        failures = 0
        while not over.is_set():
            problem = http_probe(self.address, self.ports, probe)
            failures = failures + 1 if problem else 0
            has_failed = failures >= probe.get("failureThreshold", 3)
            if kind == "startupProbe" and not problem:
                self.has_started = True
                return
            if kind == "readinessProbe":
                self._set_ready(not problem or (self.is_ready and not has_failed), problem)
            elif has_failed and not self.ending.is_set():
                self.log(f"{kind} failed: {problem}")
                self._end_container(probe.get("terminationGracePeriodSeconds", self.spec["terminationGracePeriodSeconds"]))
                return
            over.wait(probe.get("periodSeconds", 10))

    def _set_ready(self, is_ready, problem):
        if is_ready != self.is_ready:
            self.log("ready" if is_ready else f"not ready: {problem}")
        if is_ready and self.ready_at is None:
            self.ready_at = time.monotonic()
        self.is_ready = is_ready

    def output(self, container):
        path = self.folder / f"{container}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def execute(self, command, text):
        """As kubectl exec: runs a command in a container like the pod's, with this input; returns what subprocess.run
        returns."""
        container = {**self.container, "name": "exec", "command": command, "args": []}
        process = self._start(container, subprocess.PIPE)
        process.communicate(text, timeout=60)
        code = process.returncode
        output = self.output("exec")
        (self.folder / "exec.log").unlink()
        return subprocess.CompletedProcess(command, code, output)

    # --- ending -------------------------------------------------------------------------------------------------------

    def delete(self):
        """Begins the pod's end."""
        if self.is_deleted:
            return
        self.deleted_at = time.monotonic()
        self.log("is asked to end")
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self):
        deadline = self.deleted_at + self.spec["terminationGracePeriodSeconds"]
        hook = self.container.get("lifecycle", {}).get("preStop")
        if hook:
            # Its time comes out of the grace period.
            threading.Event().wait(min(hook["sleep"]["seconds"], deadline - time.monotonic()))
        self.ending.set()
        if self.process is not None:
            self._end_container(deadline - time.monotonic())

    def _end_container(self, grace_seconds):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(max(0.0, grace_seconds))
        except subprocess.TimeoutExpired:
            self.log(f"is killed after its grace period of {grace_seconds:.0f} s")
            self.exit_codes.append("killed")
            self.process.kill()

    def lose_node(self):
        """The node is gone without notice, with all that ran there. The node's is_up is false already."""
        self.around.network.disconnect(self.interface)
        if self.process is not None:
            self.process.kill()
        self.pause.kill()

    def forget(self):
        """The cluster removes a pod of a node that is gone."""
        self.deleted_at = self.deleted_at or time.monotonic()
        self.ending.set()
        self.is_ready = False
        self.gone.set()

    def remove_claims(self):
        for claim in self.claim_templates:
            path = self.around.claims.pop(f"{claim['metadata']['name']}-{self.name}", None)
            if path:
                shutil.rmtree(path)

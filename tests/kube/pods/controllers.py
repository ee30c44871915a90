"""The control plane's work for these manifests: keeps the pods of a Deployment and a StatefulSet, rolls them, and lets
Services, names and NetworkPolicies follow, each after a delay.
"""

import collections
import hashlib
import json
import random
import threading
import time

from network import Policy
from pod import Node, Pod

RECONCILE_SECONDS = 0.05


def revision_of(template):
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def selects(selector, labels):
    return selector.get("matchLabels", {}).items() <= labels.items()


class Delays:
    """Seconds from a change until it is in force everywhere. Drawn for each change."""

    def __init__(self, endpoints=(0.2, 1.5), names=(0.5, 3.0), seed=1):
        self.endpoints = endpoints
        self.names = names
        self.draw = random.Random(seed)


class Workload:
    """A Deployment or a StatefulSet and its pods."""

    def __init__(self, document, cluster):
        self.cluster = cluster
        self.pods = []
        self.count = 0
        self.replicas = document["spec"].get("replicas", 1)
        self.update(document)

    def update(self, document):
        """As kubectl apply; the number of replicas stays if the document has none."""
        self.document = document
        self.name = document["metadata"]["name"]
        self.template = document["spec"]["template"]
        self.revision = revision_of(self.template)
        self.replicas = document["spec"].get("replicas", self.replicas)

    def start(self, name):
        pod = Pod(name, self.template, self, self.cluster.node_for(self.template), self.cluster.surroundings, self.cluster.log,
                  self.document["spec"].get("volumeClaimTemplates", []))
        pod.revision = self.revision
        self.pods.append(pod)
        self.cluster.all_pods.append(pod)

    def remove_gone(self):
        self.pods = [pod for pod in self.pods if not pod.gone.is_set()]

    def is_settled(self):
        return (len(self.pods) == self.replicas
                and all(p.is_ready and not p.is_deleted and p.revision == self.revision for p in self.pods))


class Deployment(Workload):
    def reconcile(self):
        self.remove_gone()
        rolling = self.document["spec"]["strategy"]["rollingUpdate"]
        living = [pod for pod in self.pods if not pod.is_deleted]
        new = [pod for pod in living if pod.revision == self.revision]
        old = [pod for pod in living if pod.revision != self.revision]
        surge = rolling["maxSurge"] if old else 0
        while len(new) < self.replicas and len(living) < self.replicas + surge:
            self.count += 1
            self.start(f"{self.name}-{self.revision}-{self.count}")
            living.append(self.pods[-1])
            new.append(self.pods[-1])
        for pod in new[self.replicas:]:
            pod.delete()
        spare = sum(pod.is_ready for pod in living) - (self.replicas - rolling["maxUnavailable"])
        # Those that are not ready first: they cost nothing.
        for pod in sorted(old, key=lambda p: p.is_ready):
            if not pod.is_ready or spare > 0:
                spare -= pod.is_ready
                pod.delete()


class StatefulSet(Workload):
    def reconcile(self):
        self.remove_gone()
        by_number = {int(pod.name.rpartition("-")[2]): pod for pod in self.pods}
        for number, pod in by_number.items():
            if number >= self.replicas and not pod.is_deleted:
                pod.delete()
                threading.Thread(target=self._reclaim, args=(pod,), daemon=True).start()
        for number in range(self.replicas):
            if number not in by_number:
                self.start(f"{self.name}-{number}")
        if any(n not in by_number or by_number[n].is_deleted or not by_number[n].is_ready for n in range(self.replicas)):
            return
        outdated = [n for n in range(self.replicas) if by_number[n].revision != self.revision]
        if outdated:
            by_number[max(outdated)].delete()

    @staticmethod
    def _reclaim(pod):
        """As persistentVolumeClaimRetentionPolicy says for what is scaled away."""
        pod.gone.wait()
        pod.remove_claims()


KINDS = {"Deployment": Deployment, "StatefulSet": StatefulSet}


class Cluster:
    """The control plane. `documents` are the rendered manifests; objects of other kinds than those used here need
    controllers that are not part of Kubernetes, or change nothing that a process could see."""

    def __init__(self, documents, nodes, surroundings, outsiders, delays, log):
        self.nodes = nodes
        self.surroundings = surroundings
        self.outsiders = outsiders  # address -> labels of the namespace of a pod that is not of these manifests
        self.delays = delays
        self.log = log
        self.lock = threading.RLock()
        self.workloads = {}
        self.services = {}
        self.policies = []
        self.addresses = {}
        self.all_pods = []  # that ever were
        self.due = collections.defaultdict(list)  # what -> [(time, state)]
        self.announced = {}
        self.names_file = surroundings.folder / "names"
        self.names_file.write_text("")
        self.apply(documents)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.thread.join()

    def apply(self, documents):
        with self.lock:
            for document in documents:
                kind, name = document["kind"], document["metadata"]["name"]
                if kind in KINDS and name in self.workloads:
                    self.workloads[name].update(document)
                elif kind in KINDS:
                    self.workloads[name] = KINDS[kind](document, self)
                elif kind == "Service":
                    self.services[name] = document["spec"]
                    if document["spec"].get("clusterIP") != "None":
                        self.addresses.setdefault(name, self.surroundings.network.new_service_address())
            for document in documents:
                if document["kind"] == "HorizontalPodAutoscaler":  # without metrics
                    workload = self.workloads[document["spec"]["scaleTargetRef"]["name"]]
                    workload.replicas = max(workload.replicas, document["spec"]["minReplicas"])
            self.policies = [d["spec"] for d in documents if d["kind"] == "NetworkPolicy"]

    def scale(self, name, replicas):
        with self.lock:
            self.workloads[name].replicas = replicas

    def pods(self):
        with self.lock:
            return [pod for workload in self.workloads.values() for pod in workload.pods]

    def node_for(self, template):
        """The node that is up and has the fewest pods of these labels, as the spread constraints want it."""
        def load(node):
            there = [pod for pod in self.pods() if pod.node is node and not pod.gone.is_set()]
            return sum(pod.labels == template["metadata"]["labels"] for pod in there), len(there)

        return min((node for node in self.nodes if node.is_up), key=load)

    def kill_node(self, node):
        self.log(f"node {node.name}: dies")
        node.is_up = False
        for pod in self.pods():
            if pod.node is node:
                pod.lose_node()

    def remove_node(self, node):
        """The node's death is noticed, and its pods are replaced: by the controller after their tolerations, or once
        the node is marked as out of service. Another node comes in its place."""
        self.log(f"node {node.name}: is removed")
        with self.lock:
            self.nodes = [other for other in self.nodes if other is not node] + [Node(f"{node.name}x")]
            for pod in self.pods():
                if pod.node is node:
                    pod.forget()

    def _run(self):
        while not self.stopping.wait(RECONCILE_SECONDS):
            with self.lock:
                for workload in self.workloads.values():
                    workload.reconcile()
                self._announce("endpoints", self._services_state(), self.delays.endpoints)
                self._announce("names", self._names_state(), self.delays.names)
                services = self._in_force("endpoints") or []
                self.surroundings.network.apply(services, self._policy_state())
                names = self._in_force("names")
                if names is not None and names != self.names_file.read_text():
                    self.names_file.with_suffix(".new").write_text(names)
                    self.names_file.with_suffix(".new").rename(self.names_file)

    def _announce(self, what, state, delay):
        if self.announced.get(what) != state:
            self.announced[what] = state
            self.due[what].append((time.monotonic() + self.delays.draw.uniform(*delay), state))

    def _in_force(self, what):
        """The newest state whose time has come. None before the first."""
        come = [i for i, (at, _) in enumerate(self.due[what]) if at <= time.monotonic()]
        if come:
            self.due[what] = self.due[what][max(come):]
            return self.due[what][0][1]
        return None

    def _endpoints(self, service):
        chosen = [pod for pod in self.pods() if pod.address and service["selector"].items() <= pod.labels.items()]
        if service.get("publishNotReadyAddresses"):
            return chosen
        return [pod for pod in chosen if pod.is_ready and not pod.is_deleted]

    def _services_state(self):
        return [(self.addresses[name], port["port"],
                 sorted((pod.address, pod.ports[port["targetPort"]]) for pod in self._endpoints(service)))
                for name, service in self.services.items() if name in self.addresses for port in service["ports"]]

    def _names_state(self):
        lines = []
        for name, service in self.services.items():
            found = [self.addresses[name]] if name in self.addresses else [pod.address for pod in self._endpoints(service)]
            lines.append(f"{name}.roost.svc.cluster.local {' '.join(sorted(found))}\n")
        return "".join(lines)

    def _policy_state(self):
        result = []
        for pod in self.pods():
            if not pod.address:
                continue
            for direction in ("Ingress", "Egress"):
                selecting = [p for p in self.policies
                             if direction in p["policyTypes"] and selects(p["podSelector"], pod.labels)]
                if selecting:
                    rules = [self._rule(rule, pod, direction) for p in selecting for rule in p.get(direction.lower(), [])]
                    result.append(Policy(pod.address, direction, rules))
        return result

    def _rule(self, rule, pod, direction):
        peers = rule.get("from" if direction == "Ingress" else "to")
        ports = rule.get("ports")
        if ports is not None:
            ports = [(port.get("protocol", "TCP").lower(), self._port(port["port"], pod, direction)) for port in ports]
        if peers is None:
            return None, ports
        return {address for peer in peers for address in self._addresses_of(peer)}, ports

    def _port(self, port, pod, direction):
        """A name is that of the port's own pod; for egress of the target's."""
        if isinstance(port, int):
            return port
        candidates = [pod] if direction == "Ingress" else self.pods()
        return next((p.ports[port] for p in candidates if port in p.ports), 0)

    def _addresses_of(self, peer):
        if "namespaceSelector" in peer:
            return [address for address, labels in self.outsiders.items() if selects(peer["namespaceSelector"], labels)]
        return [pod.address for pod in self.pods() if pod.address and selects(peer["podSelector"], pod.labels)]

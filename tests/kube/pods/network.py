"""The network of the pods: a pair of interfaces for each, routed by this process's network namespace, which stands for
all nodes. Services are translated addresses, as kube-proxy has them; NetworkPolicies are filters by the pods' addresses.

It runs in a network namespace of its own (pods.sh), so nothing here touches the machine's network, and all of it ends
with the process.
"""

import ipaddress
import pathlib
import subprocess
import threading

NODE_ADDRESS = "10.77.0.1"
DNS_ADDRESS = "10.96.0.10"
POD_NETWORK = ipaddress.ip_network("10.77.0.0/16")
SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
GATEWAY = "169.254.1.1"
GATEWAY_HARDWARE_ADDRESS = "ee:ee:ee:ee:ee:ee"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def ip_in(pause, *arguments):
    subprocess.run(["nsenter", f"--net=/proc/{pause}/ns/net", "ip", *arguments], check=True, capture_output=True, text=True)


class Network:
    """Thread-safe."""

    def __init__(self):
        self.lock = threading.Lock()
        self.pod_addresses = POD_NETWORK.hosts()
        next(self.pod_addresses)  # the node's
        self.service_addresses = SERVICE_NETWORK.hosts()
        self.count = 0
        self.rules = None
        ip("link", "set", "lo", "up")
        ip("address", "replace", f"{NODE_ADDRESS}/32", "dev", "lo")
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def new_service_address(self):
        address = str(next(self.service_addresses))
        return address if address != DNS_ADDRESS else str(next(self.service_addresses))

    def connect(self, pause, address=None):
        """Connects the pod of the process `pause`; returns its address and the name of the node's end."""
        with self.lock:
            address = address or str(next(self.pod_addresses))
            self.count += 1
            name = f"pod{self.count}"
        ip("link", "add", name, "address", GATEWAY_HARDWARE_ADDRESS, "type", "veth", "peer", "name", "eth0", "netns", str(pause))
        ip("link", "set", name, "up")
        ip("route", "add", address, "dev", name, "src", NODE_ADDRESS)
        for arguments in (("link", "set", "lo", "up"), ("link", "set", "eth0", "up"),
                          ("address", "add", f"{address}/32", "dev", "eth0"),
                          ("neighbour", "add", GATEWAY, "lladdr", GATEWAY_HARDWARE_ADDRESS, "dev", "eth0", "nud", "permanent"),
                          ("route", "add", GATEWAY, "dev", "eth0"),
                          ("route", "add", "default", "via", GATEWAY, "dev", "eth0")):
            ip_in(pause, *arguments)
        return address, name

    def disconnect(self, name):
        """As if the pod's node were gone: nothing arrives any more, without notice."""
        ip("link", "set", name, "down")

    def apply(self, services, policies):
        """services: [(address, port, [(pod address, pod port)])]; policies: see Policy. All at once; open connections
        stay where they are."""
        rules = "\n".join(["table inet kube", "delete table inet kube", "table inet kube {",
                           *service_rules(services), *policy_rules(policies), "}"])
        with self.lock:
            if rules == self.rules:
                return
            done = subprocess.run(["nft", "-f", "-"], input=rules, capture_output=True, text=True)
            if done.returncode != 0:
                raise AssertionError(f"nft: {done.stderr}\n{rules}")
            self.rules = rules


def service_rules(services):
    yield "chain services { type nat hook prerouting priority dstnat; policy accept;"
    for address, port, endpoints in services:
        if endpoints:
            choices = ", ".join(f"{i} : {pod} . {pod_port}" for i, (pod, pod_port) in enumerate(endpoints))
            yield f"ip daddr {address} tcp dport {port} dnat ip to numgen random mod {len(endpoints)} map {{ {choices} }}"
    yield "}"


class Policy:
    """The rules for one pod in one direction. rules: [(addresses or None for all, [(protocol, port)] or None for
    all)]."""

    def __init__(self, address, direction, rules):
        self.address = address
        self.direction = direction
        self.rules = rules


def policy_rules(policies):
    """A connection must be allowed by its source's egress and by its target's ingress."""
    for number, policy in enumerate(policies):
        yield f"chain policy{number} {{"
        peer = "saddr" if policy.direction == "Ingress" else "daddr"
        for addresses, ports in policy.rules:
            if addresses is not None and not addresses:
                continue
            who = "" if addresses is None else f"ip {peer} {{ {', '.join(sorted(addresses))} }} "
            for what in [""] if ports is None else [f"{protocol} dport {port} " for protocol, port in ports]:
                yield f"{who}{what}return"
        yield "drop"
        yield "}"
    yield "chain policies { type filter hook forward priority filter; policy accept;"
    yield "ct state established,related accept"
    for number, policy in enumerate(policies):
        own = "daddr" if policy.direction == "Ingress" else "saddr"
        yield f"ip {own} {policy.address} jump policy{number}"
    yield "}"

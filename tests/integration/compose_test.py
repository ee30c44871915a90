"""deploy/compose.yaml: valid for Compose, understood by the daemons, closed, and run: its commands as processes on a
network of their own, where the names of its services lead to the loopback.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

from cluster import BIN, DEMO_MODEL, ROOT, Cluster, Daemon, Router

FILE = ROOT / "deploy/compose.yaml"
PROGRAMS = {"roost-router": "roost-router", "roost-worker-cpu": "roost-worker", "roost-worker-cuda": "roost-worker"}
IN_IMAGE = "/usr/share/roost/demo-model"
SERVICES = yaml.safe_load(FILE.read_text())["services"]


def command_of(service):
    return [BIN / PROGRAMS[service["image"].split(":")[0]], *service["command"]]


def seconds(service, flag):
    """The flag's value in the command, or else its default."""
    printed = subprocess.run([*command_of(service), "--print-config"], capture_output=True, text=True).stdout
    found = re.search(rf"^{flag}=(\S+)$", printed, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


class ComposeTest(unittest.TestCase):
    def test_compose_accepts_it(self):
        if shutil.which("docker-compose") is None:
            self.skipTest("needs docker-compose")
        check = ["docker-compose", "--file", "-", "config", "--quiet"]
        good = FILE.read_text()
        self.assertEqual(subprocess.run(check, input=good, capture_output=True, text=True).returncode, 0)
        bad = subprocess.run(check, input=good.replace("read_only:", "readonly:"), capture_output=True, text=True)
        self.assertNotEqual(bad.returncode, 0)

    def test_the_daemons_accept_their_commands(self):
        for name, service in SERVICES.items():
            done = subprocess.run([*command_of(service), "--print-config"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")

    def test_services_have_no_rights_and_can_not_write(self):
        for name, service in SERVICES.items():
            with self.subTest(name):
                self.assertTrue(service["read_only"])
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
                self.assertFalse({"privileged", "network_mode", "pid", "devices"} & service.keys())

    def test_only_the_api_is_published_and_only_to_this_machine(self):
        published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
        self.assertEqual(published, {"router": ["127.0.0.1:8000:8000"]})

    def test_daemons_have_time_to_drain(self):
        for name, service in SERVICES.items():
            drain = seconds(service, "drain-announce-seconds") + seconds(service, "drain-timeout-seconds")
            self.assertGreater(int(service["stop_grace_period"].removesuffix("s")), drain + 5, name)

    def test_its_commands_serve(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with tempfile.NamedTemporaryFile("w") as hosts:
            hosts.write("127.0.0.1 localhost " + " ".join(SERVICES) + "\n")
            hosts.flush()
            script = 'ip link set lo up; mount --bind "$1" /etc/hosts; shift; exec "$@"'
            here = [sys.executable, pathlib.Path(__file__).resolve(), "--serve"]
            done = subprocess.run(["unshare", "--net", "--mount", "sh", "-ec", script, "sh", hosts.name, *here],
                                  capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "(?s)worker-1 .*worker-2 ")


def serve():
    """In the namespaces: starts the services, asks the router, and prints what it knows of its workers."""
    with Cluster() as cluster:
        for name, service in sorted(SERVICES.items()):
            command = [str(word).replace(IN_IMAGE, str(DEMO_MODEL)) for word in command_of(service)]
            if name == "router":
                router = Router(command)
                cluster.daemons.append(router)
            else:
                cluster.daemons.append(Daemon([*command, "--threads=1", "--kv-blocks=1024"]))
        router.wait_for_workers(len(SERVICES) - 1)
        assert router.chat([{"role": "user", "content": "Who comes here?"}], max_tokens=4).status == 200
        healthy = SERVICES["router"]["healthcheck"]["test"]
        print(subprocess.run([BIN / healthy[1], *healthy[2:]], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        unittest.main()

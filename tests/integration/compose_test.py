"""deploy/compose.yaml, compose.vllm.yaml and compose.llama-cpp.yaml: valid for Compose, understood by the daemons, closed. The first one is run:
its commands as processes on a network of their own, where the names of its services lead to the loopback.
"""

import ipaddress
import json
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

FILES = {name: ROOT / "deploy" / name for name in ("compose.yaml", "compose.vllm.yaml", "compose.llama-cpp.yaml")}
PROGRAMS = {"roost-router": "roost-router", "roost-worker-cpu": "roost-worker", "roost-worker-cuda": "roost-worker"}
IN_IMAGE = "/usr/share/roost/demo-model"
VLLM = "vllm/vllm-openai"
LLAMA_CPP = "ghcr.io/ggml-org/llama.cpp"
# Variables of the machine that a file asks for.
VARIABLES = {"MODEL": "/models/my-model", "MODELS": "/models"}


def services(file):
    return yaml.safe_load(FILES[file].read_text())["services"]


def own_services(file):
    return {name: service for name, service in services(file).items() if not service["image"].startswith((VLLM + ":", LLAMA_CPP + ":"))}


def command_of(service):
    return [BIN / PROGRAMS[service["image"].split(":")[0]], *service["command"]]


def seconds(service, flag):
    """The flag's value in the command, or else its default."""
    printed = subprocess.run([*command_of(service), "--print-config"], capture_output=True, text=True).stdout
    found = re.search(rf"^{flag}=(\S+)$", printed, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


class Policy:
    """Checks that hold in each file; a test case of each is made below."""

    file = ""
    written = ()  # endings of volumes that are written to

    def test_compose_accepts_it(self):
        if shutil.which("docker-compose") is None:
            self.skipTest("needs docker-compose")

        def checked(text, **variables):
            command = ["docker-compose", "--file", "-", "config", "--quiet"]
            return subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, **variables})

        good = FILES[self.file].read_text()
        done = checked(good, **VARIABLES)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(checked(good.replace("read_only:", "readonly:"), **VARIABLES).returncode, 0)
        for name in VARIABLES:
            self.assertEqual(checked(good, **{**VARIABLES, name: ""}).returncode != 0, f"${{{name}" in good, f"{name} is asked for")

    def test_the_daemons_accept_their_commands(self):
        for name, service in own_services(self.file).items():
            done = subprocess.run([*command_of(service), "--print-config"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")

    def test_services_have_no_rights_and_can_not_write(self):
        for name, service in services(self.file).items():
            with self.subTest(name):
                self.assertTrue(service["read_only"])
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
                self.assertFalse({"privileged", "network_mode", "pid", "devices"} & service.keys())
                self.assertTrue(all(volume.endswith((":ro", *self.written)) for volume in service.get("volumes", [])))

    def test_only_the_api_is_published_and_only_to_this_machine(self):
        published = {name: service["ports"] for name, service in services(self.file).items() if "ports" in service}
        self.assertEqual(published, {"router": ["127.0.0.1:8000:8000"]})

    def test_daemons_have_time_to_drain(self):
        for name, service in own_services(self.file).items():
            drain = seconds(service, "drain-announce-seconds") + seconds(service, "drain-timeout-seconds")
            drain = max(drain, seconds(service, "last-drain-seconds"))
            self.assertGreater(int(service["stop_grace_period"].removesuffix("s")), drain + 5, name)


class ComposeTest(Policy, unittest.TestCase):
    file = "compose.yaml"

    def test_its_commands_serve(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        addresses = [service["networks"]["link"]["ipv4_address"] for name, service in services(self.file).items() if name != "router"]
        with tempfile.NamedTemporaryFile("w") as hosts:
            hosts.write("127.0.0.1 localhost " + " ".join(services(self.file)) + "\n")
            hosts.flush()
            script = "ip link set lo up; " + "".join(f"ip address add {address}/32 dev lo; " for address in addresses)
            script += 'mount --bind "$1" /etc/hosts; shift; exec "$@"'
            here = [sys.executable, pathlib.Path(__file__).resolve(), "--serve"]
            done = subprocess.run(["unshare", "--net", "--mount", "sh", "-ec", script, "sh", hosts.name, *here],
                                  capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "(?s)worker-1 .*worker-2 ")
        self.assertRegex(done.stdout, r"worker-2: holds (\d+) blocks, \1 pulled from worker-1 ")

    def test_workers_serve_blocks_at_addresses_of_their_own(self):
        link = yaml.safe_load(FILES[self.file].read_text())["networks"]["link"]
        subnet = ipaddress.ip_network(link["ipam"]["config"][0]["subnet"])
        seen = set()
        for name, service in services(self.file).items():
            if name == "router":
                continue
            address = service["networks"]["link"]["ipv4_address"]
            self.assertIn(ipaddress.ip_address(address), subnet)
            self.assertIn(f"--transfer-address={address}:7100", service["command"])
            seen.add(address)
        self.assertEqual(len(seen), len(services(self.file)) - 1)


class VllmComposeTest(Policy, unittest.TestCase):
    file = "compose.vllm.yaml"

    def setUp(self):
        self.services = services(self.file)
        self.flags = {name: dict(word.removeprefix("--").partition("=")[::2] for word in service["command"])
                      for name, service in self.services.items()}

    def test_vllm_is_the_version_that_the_manifests_have(self):
        component = yaml.safe_load((ROOT / "deploy/components/vllm/worker.yaml").read_text())
        engine = component["spec"]["template"]["spec"]["containers"][1]
        self.assertEqual(self.services["vllm"]["image"], engine["image"])
        self.assertEqual(self.services["vllm"]["environment"], {entry["name"]: entry["value"] for entry in engine["env"]})
        flags = {word for word in engine["command"][2:] if not word.startswith(("--host", "--port"))}
        self.assertEqual(set(self.services["vllm"]["command"]), flags)

    def test_the_worker_alone_reaches_vllm(self):
        networks = yaml.safe_load(FILES[self.file].read_text())["networks"]
        self.assertEqual(self.services["vllm"]["networks"], ["engine"])
        self.assertTrue(networks["engine"]["internal"])
        self.assertEqual([name for name, service in self.services.items() if "engine" in service["networks"]], ["vllm", "worker"])
        events = json.loads(self.flags["vllm"]["kv-events-config"])
        worker = self.flags["worker"]
        self.assertEqual(worker["engine-url"], "http://vllm:8000")
        self.assertEqual(worker["engine-events"], events["endpoint"].replace("*", "vllm"))
        self.assertEqual(worker["engine-replay"], events["replay_endpoint"].replace("*", "vllm"))

    def test_both_read_the_same_model(self):
        self.assertEqual(self.services["vllm"]["volumes"], self.services["worker"]["volumes"])
        self.assertEqual(self.services["vllm"]["command"][0], self.flags["worker"]["model"])
        self.assertTrue(self.services["vllm"]["volumes"][0].endswith(f":{self.flags['worker']['model']}:ro"))

    def test_the_worker_is_stopped_before_vllm(self):
        self.assertEqual(self.services["worker"]["depends_on"], ["vllm"])


class LlamaCppComposeTest(Policy, unittest.TestCase):
    file = "compose.llama-cpp.yaml"
    written = (":/slots",)

    def test_each_worker_has_a_server_whose_slots_are_its_own(self):
        of_file = services(self.file)
        for number in ("1", "2"):
            worker, llama = of_file[f"worker-{number}"], of_file[f"llama-{number}"]
            self.assertIn("--engine=llama.cpp", worker["command"])
            self.assertIn(f"--engine-url=http://llama-{number}:8080", worker["command"])
            self.assertEqual(worker["depends_on"], [f"llama-{number}"], "so it is stopped first")
            self.assertEqual(worker["volumes"], llama["volumes"], "the file that the server tells of is there")
            self.assertIn(f"./slots/{number}:/slots", llama["volumes"])
            self.assertEqual(llama["networks"], ["engine"])
            self.assertIn("-np", llama["command"])
            self.assertIn("--slots", llama["command"])


def serve():
    """In the namespaces: starts the services, asks the router, and prints what it knows of its workers."""
    with Cluster() as cluster:
        of_file = services(ComposeTest.file)
        for name, service in sorted(of_file.items()):
            command = [str(word).replace(IN_IMAGE, str(DEMO_MODEL)) for word in command_of(service)]
            if name == "router":
                router = Router(command)
                cluster.daemons.append(router)
            else:
                cluster.daemons.append(Daemon([*command, "--threads=1", "--kv-blocks=1024"]))
        router.wait_for_workers(len(of_file) - 1)
        assert router.chat([{"role": "user", "content": "Who comes here?"}], max_tokens=4).status == 200
        healthy = of_file["router"]["healthcheck"]["test"]
        print(subprocess.run([BIN / healthy[1], *healthy[2:]], capture_output=True, text=True, check=True).stdout)
        # A prefix that worker-1 has computed goes to worker-2 over their network.
        warm = [BIN / "roostctl", "warm", "--model", "demo-model", "--prompt", "Now is the winter of our discontent. " * 20, "--workers"]
        for worker in ("worker-1", "worker-2"):
            print(subprocess.run([*warm, worker], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        unittest.main()

"""The daemons understand the manifests in deploy/base."""

import re
import subprocess
import unittest

import yaml

from cluster import BIN, ROOT

BASE = ROOT / "deploy/base"


def documents():
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    return [doc for name in kustomization["resources"] for doc in yaml.safe_load_all((BASE / name).read_text())]


def of_kind(kind):
    return {doc["metadata"]["name"]: doc for doc in documents() if doc["kind"] == kind}


def pods():
    return {name: doc["spec"]["template"] for name, doc in of_kind("Deployment").items()}


class ManifestsTest(unittest.TestCase):
    def test_every_file_is_listed(self):
        listed = set(yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"])
        self.assertEqual(listed, {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"})

    def test_the_daemons_accept_their_arguments(self):
        for name, pod in pods().items():
            for container in pod["spec"]["containers"]:
                binary = BIN / container["command"][0]
                done = subprocess.run([binary, *container["args"], "--print-config"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")

    def test_services_select_pods_and_name_their_ports(self):
        for name, service in of_kind("Service").items():
            selected = [pod for pod in pods().values()
                        if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
            self.assertEqual(len(selected), 1, name)
            ports = {port["name"] for container in selected[0]["spec"]["containers"] for port in container["ports"]}
            for port in service["spec"]["ports"]:
                self.assertIn(port["targetPort"], ports, name)

    def test_workers_dial_the_routers_service(self):
        services = of_kind("Service")
        args = pods()["roost-worker"]["spec"]["containers"][0]["args"]
        host, port = re.search(r"--router=tcp://([\w-]+):(\d+)", " ".join(args)).groups()
        self.assertIn(int(port), [p["port"] for p in services[host]["spec"]["ports"]])

    def test_the_link_has_keys_from_the_secrets_that_are_mounted(self):
        for name, pod in pods().items():
            args = " ".join(pod["spec"]["containers"][0]["args"])
            mount = pod["spec"]["containers"][0]["volumeMounts"][0]
            secret = pod["spec"]["volumes"][0]["secret"]["secretName"]
            page = (ROOT / "deploy/README.md").read_text()
            made = re.search(rf"secret generic {secret} (.*)", page).group(1)
            for flag in ("link-secret-key", "link-peers"):
                path = re.search(rf"--{flag}=(\S+)", args).group(1)
                self.assertTrue(path.startswith(mount["mountPath"] + "/"), f"{name}: {path}")
                self.assertIn("--from-file=" + path.removeprefix(mount["mountPath"] + "/"), made.split(), name)

    def test_pods_have_all_that_the_restricted_standard_asks_for_and_can_not_write(self):
        namespace = of_kind("Namespace")["roost"]
        self.assertEqual(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted")
        for name, pod in pods().items():
            self.assertFalse(pod["spec"]["automountServiceAccountToken"], name)
            of_pod = pod["spec"]["securityContext"]
            self.assertTrue(of_pod["runAsNonRoot"] and of_pod["runAsUser"] > 0, name)
            self.assertEqual(of_pod["seccompProfile"], {"type": "RuntimeDefault"}, name)
            for container in pod["spec"]["containers"]:
                self.assertEqual(
                    container["securityContext"],
                    {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
                    name)
            self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & pod["spec"].keys(), name)
            self.assertFalse([volume for volume in pod["spec"].get("volumes", []) if "hostPath" in volume], name)

    def test_drain_ends_before_the_grace_period(self):
        for name, pod in pods().items():
            args = " ".join(pod["spec"]["containers"][0]["args"])
            drain = int(re.search(r"--drain-timeout-seconds=(\d+)", args).group(1))
            announcement = re.search(r"--drain-announce-seconds=(\d+)", args)
            self.assertEqual(announcement is not None, name == "roost-router", name)
            drain += int(announcement.group(1)) if announcement else 0
            self.assertGreater(pod["spec"]["terminationGracePeriodSeconds"], drain + 10, name)

    def test_readiness_is_looked_at_while_the_end_is_announced(self):
        container = pods()["roost-router"]["spec"]["containers"][0]
        announcement = int(re.search(r"--drain-announce-seconds=(\d+)", " ".join(container["args"])).group(1))
        probe = container["readinessProbe"]
        self.assertGreaterEqual(announcement, probe["periodSeconds"] * probe.get("failureThreshold", 3), "it must fail")


if __name__ == "__main__":
    unittest.main()

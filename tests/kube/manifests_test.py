"""The manifests in deploy/ agree with each other and with the daemons. Checks by schemas are in validate.py."""

import os
import re
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

import yaml

import manifests
from manifests import (
    DEPLOY,
    ENGINE,
    FIELDS,
    FOLDERS,
    ROOT,
    containers,
    environment,
    matches,
    of_kind,
    pods,
    rendered,
    variables,
)

sys.path.insert(0, str(ROOT / "tests/integration"))

from cluster import BIN, DEMO_MODEL, Cluster, Daemon  # noqa: E402

VERSION = re.search(r"^project\(roost VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE).group(1)
IMAGES = {"roost-router": "roost-router", "roost-worker-cpu": "roost-worker", "roost-worker-cuda": "roost-worker"}
OWN_CONTAINERS = {"router", "worker"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
PAGE = DEPLOY / "kubernetes.md"


def printed_configuration(binary, environment):
    """Option -> value, as the daemon understands its environment; all else of the environment is empty."""
    done = subprocess.run([BIN / binary, "--print-config"], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{binary}: {done.stderr}")
    pairs = re.findall(r"^([a-z-]+)=(.*)$", done.stdout, re.MULTILINE)
    return {name: value.strip('"') for name, value in pairs}


def own_containers(documents):
    for name, pod in pods(documents).items():
        for container in pod["spec"]["containers"]:
            if container["name"] != ENGINE:
                assert container["name"] in OWN_CONTAINERS
                yield name, pod, container


class Policy:
    """Checks that hold in every folder; a test case of each is made below."""

    folder = ""

    def setUp(self):
        self.documents = rendered(self.folder)

    def test_images_have_the_version_of_the_programs(self):
        for name, _, container in own_containers(self.documents):
            image, tag = container["image"].split(":")
            self.assertEqual(tag, VERSION, name)
            self.assertEqual(container["command"], [IMAGES[image]], name)
        for document in self.documents:
            self.assertEqual(document["metadata"]["labels"].get("app.kubernetes.io/version", VERSION), VERSION)

    def test_everything_is_in_the_namespace(self):
        for document in self.documents:
            if document["kind"] != "Namespace":
                self.assertEqual(document["metadata"].get("namespace"), "roost", manifests.render.identity(document))

    def test_every_variable_is_an_option_and_is_understood(self):
        for name, _, container in own_containers(self.documents):
            given = {key: value for key, value in environment(container).items() if key.startswith("ROOST_")}
            understood = printed_configuration(container["command"][0], given)
            if "ROOST_ADMIN" in given:  # for roostctl in the pod
                self.assertEqual(given["ROOST_ADMIN"], given["ROOST_ADMIN_ADDRESS"])
                del given["ROOST_ADMIN"]
            for variable, value in given.items():
                option = variable.removeprefix("ROOST_").lower().replace("_", "-")
                self.assertIn(option, understood, f"{name}: {variable}")
                self.assertEqual(understood[option].removeprefix("[").removesuffix("]").strip('"'), value, variable)

    def test_a_variable_stands_once_and_only_for_roost(self):
        for name, _, container in own_containers(self.documents):
            names = [entry["name"] for entry in container["env"]]
            self.assertEqual(len(names), len(set(names)), name)
            # Others only as parts of these.
            parts = {part for value in variables(container).values() for part in re.findall(r"\$\((\w+)\)", str(value))}
            self.assertEqual({variable for variable in names if not variable.startswith("ROOST_")}, parts, name)
            self.assertNotIn("args", container, "flags would win over variables that a patch changes")

    def test_ports_are_those_that_the_daemons_listen_on(self):
        addresses = {"http": "ROOST_HTTP_ADDRESS", "metrics": "ROOST_METRICS_ADDRESS", "link": "ROOST_LINK_ADDRESS",
                     "transfer": "ROOST_TRANSFER_ADDRESS"}
        for name, _, container in own_containers(self.documents):
            named = {port["name"] for port in container["ports"]}
            self.assertEqual(named, {"metrics", "transfer"} if container["name"] == "worker" else {"http", "metrics", "link"}, name)
            for port in container["ports"]:
                address = variables(container)[addresses[port["name"]]]
                self.assertEqual(int(address.rpartition(":")[2]), port["containerPort"], f"{name}: {port}")
            if name == "roost-router":
                self.assertRegex(variables(container)["ROOST_ADMIN_ADDRESS"], r"^127\.0\.0\.1:|^unix:/tmp/", "only within the pod")

    def test_probes_ask_a_port_and_a_scheme_that_are_there(self):
        for name, _, container in own_containers(self.documents):
            ports = {port["name"] for port in container["ports"]}
            scheme = "HTTPS" if "ROOST_TLS_CERT" in variables(container) else "HTTP"
            for kind in PROBES:
                probe = container[kind]["httpGet"]
                self.assertIn(probe["port"], ports, f"{name}: {kind}")
                self.assertEqual(probe.get("scheme", "HTTP"), scheme, f"{name}: {kind}")

    def test_services_select_pods_and_name_their_ports(self):
        for name, service in of_kind(self.documents, "Service").items():
            selected = [pod for pod in pods(self.documents).values()
                        if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
            self.assertEqual(len(selected), 1, name)
            ports = {port["name"] for container in selected[0]["spec"]["containers"] for port in container.get("ports", [])}
            for port in service["spec"]["ports"]:
                self.assertIn(port["targetPort"], ports, name)

    def test_workers_dial_the_routers_service(self):
        address = variables(pods(self.documents)["roost-worker"]["spec"]["containers"][0])["ROOST_ROUTER"]
        host, port = re.fullmatch(r"tcp://([\w-]+):(\d+)", address).groups()
        service = of_kind(self.documents, "Service")[host]["spec"]
        self.assertIn(int(port), [p["port"] for p in service["ports"]])
        self.assertEqual((service["clusterIP"], service["publishNotReadyAddresses"]), ("None", True))

    def test_workers_advertise_the_address_of_their_pod(self):
        for name, _, container in own_containers(self.documents):
            given = environment(container)
            if container["name"] == "worker":
                self.assertEqual(given["ROOST_TRANSFER_ADVERTISE"], FIELDS["status.podIP"] + ":7100", name)
                self.assertIn("ROOST_LINK_SECRET_KEY", given, "nothing travels in the clear")

    def test_selectors_take_the_pods_of_their_workload(self):
        for name, workload in of_kind(self.documents, "Deployment", "StatefulSet").items():
            spec = workload["spec"]
            labels = spec["template"]["metadata"]["labels"]
            selectors = [spec["selector"]]
            selectors += [c["labelSelector"] for c in spec["template"]["spec"]["topologySpreadConstraints"]]
            selectors += [d["spec"]["selector"] for d in self.documents
                          if d["kind"] in ("PodDisruptionBudget", "PodMonitor") and d["metadata"]["name"] == name]
            for selector in selectors:
                self.assertTrue(matches(selector, labels), f"{name}: {selector}")
                others = [other for other, pod in pods(self.documents).items()
                          if other != name and matches(selector, pod["metadata"]["labels"])]
                self.assertEqual(others, [], name)

    def test_every_workload_has_a_disruption_budget(self):
        self.assertEqual(of_kind(self.documents, "PodDisruptionBudget").keys(), pods(self.documents).keys())

    def test_what_is_scaled_by_itself_has_no_number_of_its_own(self):
        workloads = of_kind(self.documents, "Deployment", "StatefulSet")
        scaled = {document["spec"]["scaleTargetRef"]["name"]: document["spec"]
                  for document in self.documents if document["kind"] in ("HorizontalPodAutoscaler", "ScaledObject")}
        self.assertIn("roost-router", scaled)
        self.assertGreaterEqual(scaled["roost-router"]["minReplicas"], 2)
        for name, workload in workloads.items():
            self.assertEqual("replicas" in workload["spec"], name not in scaled, name)

    def test_pods_have_all_that_the_restricted_standard_asks_for_and_can_not_write(self):
        namespace = of_kind(self.documents, "Namespace")["roost"]
        self.assertEqual(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted")
        for name, pod in pods(self.documents).items():
            self.assertFalse(pod["spec"]["automountServiceAccountToken"], name)
            self.assertFalse(pod["spec"]["enableServiceLinks"], name)
            of_pod = pod["spec"]["securityContext"]
            self.assertTrue(of_pod["runAsNonRoot"] and of_pod["runAsUser"] > 0, name)
            self.assertEqual(of_pod["seccompProfile"], {"type": "RuntimeDefault"}, name)
            for container in containers(pod):
                self.assertEqual(
                    container["securityContext"],
                    {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
                    name)
                self.assertTrue(container["resources"]["requests"] and container["resources"]["limits"]["memory"], name)
            self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & pod["spec"].keys(), name)
            self.assertFalse([volume for volume in pod["spec"].get("volumes", []) if "hostPath" in volume], name)

    def test_mounts_have_a_volume_and_volumes_a_mount(self):
        for name, workload in of_kind(self.documents, "Deployment", "StatefulSet").items():
            pod = workload["spec"]["template"]
            volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
            mounted = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
            self.assertEqual(mounted, volumes, name)

    def test_files_that_options_name_are_in_volumes_that_the_daemon_can_only_read(self):
        for name, pod, container in own_containers(self.documents):
            mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
            paths = {variable: value for variable, value in variables(container).items()
                     if isinstance(value, str) and value.startswith("/")}
            for variable, path in paths.items():
                mount = next((m for folder, m in mounts.items() if path.startswith(folder + "/")), None)
                if path == "/usr/share/roost/demo-model":
                    continue  # in the image
                is_written = variable == "ROOST_DISK_CACHE"
                self.assertTrue(mount and mount.get("readOnly", False) != is_written, f"{name}: {path}")

    def test_the_page_makes_every_secret_with_the_files_that_are_used(self):
        page = PAGE.read_text().replace("\\\n", " ")
        for name, pod, container in own_containers(self.documents):
            secrets = {volume["name"]: volume["secret"]["secretName"]
                       for volume in pod["spec"]["volumes"] if "secret" in volume}
            for mount in container["volumeMounts"]:
                if mount["name"] not in secrets:
                    continue
                made = re.search(rf"secret (?:generic|tls) {secrets[mount['name']]} (.*)", page)
                self.assertTrue(made, f"the page does not make {secrets[mount['name']]}")
                used = [value.removeprefix(mount["mountPath"] + "/") for value in variables(container).values()
                        if isinstance(value, str) and value.startswith(mount["mountPath"] + "/")]
                for file in used:
                    self.assertRegex(made.group(1), rf"--from-file=(?:{re.escape(file)}=|\S*\b{re.escape(file)}(?: |$))", name)

    def test_drain_ends_before_the_grace_period(self):
        for name, pod, container in own_containers(self.documents):
            given = variables(container)
            drain = int(given["ROOST_DRAIN_TIMEOUT_SECONDS"])
            self.assertEqual("ROOST_DRAIN_ANNOUNCE_SECONDS" in given, name == "roost-router", name)
            drain += int(given.get("ROOST_DRAIN_ANNOUNCE_SECONDS", 0))
            self.assertEqual("ROOST_LAST_DRAIN_SECONDS" in given, name != "roost-router", name)
            drain = max(drain, int(given.get("ROOST_LAST_DRAIN_SECONDS", 0)))
            # A hook would run first, and its time would come out of the same grace.
            self.assertNotIn("lifecycle", container, name)
            self.assertGreater(pod["spec"]["terminationGracePeriodSeconds"], drain + 10, name)

    def test_readiness_is_looked_at_while_the_end_is_announced(self):
        for name, _, container in own_containers(self.documents):
            if name != "roost-router":
                continue
            probe = container["readinessProbe"]
            looks = probe["periodSeconds"] * probe.get("failureThreshold", 3) + probe["timeoutSeconds"]
            self.assertGreaterEqual(int(variables(container)["ROOST_DRAIN_ANNOUNCE_SECONDS"]), looks, "it must fail")


for each in FOLDERS:
    title = each.rpartition("/")[2].capitalize() + "PolicyTest"
    globals()[title] = type(title, (Policy, unittest.TestCase), {"folder": each})


class ProbesTest(unittest.TestCase):
    """Checks that the daemons answer the base's probes, with the right meaning."""

    def status(self, container, probe, router, worker):
        """The answer to the probe of a daemon at these addresses of its ports."""
        get = container[probe]["httpGet"]
        address = {"router": router, "worker": worker}[container["name"]][get["port"]]
        try:
            with urllib.request.urlopen(f"http://{address}{get['path']}", timeout=10) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_startup_readiness_and_liveness_follow_the_daemons(self):
        documents = rendered("base")
        of_router, of_worker = (pods(documents)[name]["spec"]["containers"][0] for name in ("roost-router", "roost-worker"))
        with Cluster() as cluster:
            router = cluster.start_router()
            addresses = {"http": router.address_of("/"), "metrics": router.address_of("/metrics")}

            def asked(container, probe, worker=None):
                return self.status(container, probe, addresses, {"metrics": worker})

            self.assertEqual([asked(of_router, probe) for probe in PROBES], [200, 503, 200])
            away = Daemon([BIN / "roost-worker", "--model", DEMO_MODEL, "--kv-blocks", "256", "--threads", "1",
                           "--metrics-address", "127.0.0.1:0", "--router", "tcp://127.0.0.1:1", "--log-format", "json"])
            cluster.daemons.append(away)
            there = cluster.start_worker("there", "--metrics-address", "127.0.0.1:0")
            router.wait_for_workers(1)
            away = urllib.parse.urlparse(away.wait_for_log("worker started")["metrics"]).netloc
            there = urllib.parse.urlparse(there.wait_for_log("worker ready")["metrics"]).netloc
            self.assertEqual([asked(of_router, probe) for probe in PROBES], [200, 200, 200])
            self.assertEqual([asked(of_worker, probe, there) for probe in PROBES], [200, 200, 200])
            self.assertEqual([asked(of_worker, probe, away) for probe in PROBES], [200, 503, 200])


class NetworkPolicyTest(unittest.TestCase):
    """Checks who may reach which port, in every folder."""

    def policies_of(self, documents, workload, direction):
        """The rules of all policies that select the pods of this workload."""
        labels = pods(documents)[workload]["metadata"]["labels"]
        selecting = [policy["spec"] for policy in of_kind(documents, "NetworkPolicy").values()
                     if matches(policy["spec"]["podSelector"], labels) and direction in policy["spec"]["policyTypes"]]
        self.assertTrue(selecting, f"{workload}: {direction} is open")
        return [rule for spec in selecting for rule in spec.get(direction.lower(), [])]

    def test_ports_of_rules_exist(self):
        for folder in FOLDERS:
            documents = rendered(folder)
            for workload, pod in pods(documents).items():
                ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
                for rule in self.policies_of(documents, workload, "Ingress"):
                    self.assertLessEqual({port["port"] for port in rule["ports"]}, ports, f"{folder}: {workload}")

    def test_only_the_api_of_the_secure_folders_is_open_to_all(self):
        for folder in FOLDERS:
            documents = rendered(folder)
            open_to_all = {port["port"] for workload in pods(documents)
                           for rule in self.policies_of(documents, workload, "Ingress") if "from" not in rule
                           for port in rule["ports"]}
            has_keys = "ROOST_API_KEYS" in variables(pods(documents)["roost-router"]["spec"]["containers"][0])
            self.assertEqual(open_to_all, {"http"} if has_keys else set(), folder)

    def test_metrics_and_link_are_not_for_clients(self):
        for folder in FOLDERS:
            documents = rendered(folder)
            for workload in pods(documents):
                for rule in self.policies_of(documents, workload, "Ingress"):
                    for port in rule["ports"]:
                        if port["port"] == "metrics":
                            self.assertEqual(rule["from"], [{"namespaceSelector": {"matchLabels": {"roost-monitoring": "true"}}}])
                        if port["port"] == "link":
                            worker = pods(documents)["roost-worker"]["metadata"]["labels"]
                            self.assertTrue(all(matches(peer["podSelector"], worker) for peer in rule["from"]))

    def test_workers_reach_each_others_blocks_and_nobody_else_does(self):
        for folder in FOLDERS:
            documents = rendered(folder)
            workers = {name: pod["metadata"]["labels"] for name, pod in pods(documents).items() if name.startswith("roost-worker")}
            outside = [pods(documents)["roost-router"]["metadata"]["labels"], {"app.kubernetes.io/component": "worker"},
                       {**workers["roost-worker"], "app.kubernetes.io/instance": "another-release"}]
            for name in workers:
                for direction, side in (("Ingress", "from"), ("Egress", "to")):
                    rules = [rule for rule in self.policies_of(documents, name, direction)
                             if any(port["port"] in ("transfer", 7100) for port in rule["ports"])]
                    # A namespaceSelector would admit pods of other namespaces.
                    peers = [peer for rule in rules for peer in rule[side]]
                    self.assertTrue(all(peer.keys() == {"podSelector"} for peer in peers), f"{folder}: {name}")
                    for other, labels in workers.items():
                        self.assertTrue(any(matches(peer["podSelector"], labels) for peer in peers),
                                        f"{folder}: {direction} of {name}: {other}")
                    for labels in outside:
                        self.assertFalse(any(matches(peer["podSelector"], labels) for peer in peers), f"{folder}: {labels}")

    def test_routers_open_no_connection(self):
        for folder in FOLDERS:
            self.assertEqual(self.policies_of(rendered(folder), "roost-router", "Egress"), [], folder)


class SecureTest(unittest.TestCase):
    def setUp(self):
        self.documents = rendered("overlays/secure")
        self.router = pods(self.documents)["roost-router"]["spec"]["containers"][0]

    def test_the_router_listens_without_insecure_bind(self):
        self.assertNotIn("ROOST_INSECURE_BIND", variables(self.router))
        self.assertLessEqual({"ROOST_API_KEYS", "ROOST_ADMIN_KEYS", "ROOST_TLS_CERT", "ROOST_TLS_KEY"},
                             variables(self.router).keys())

    def test_its_service_is_on_the_port_of_https(self):
        self.assertEqual(of_kind(self.documents, "Service")["roost"]["spec"]["ports"],
                         [{"name": "https", "port": 443, "targetPort": "http"}])

    def test_prometheus_shows_a_key_where_the_router_wants_one(self):
        monitor = of_kind(rendered("overlays/production"), "PodMonitor")["roost-router"]
        endpoint = monitor["spec"]["podMetricsEndpoints"][0]
        self.assertEqual(endpoint["scheme"], "https")
        self.assertIn("credentials", endpoint["authorization"])


class GpuTest(unittest.TestCase):
    def test_the_gpu_folders_ask_for_gpus_and_the_others_do_not(self):
        for folder in FOLDERS:
            container = pods(rendered(folder))["roost-worker"]["spec"]["containers"][0]
            gpus = container["resources"]["limits"].get("nvidia.com/gpu")
            is_cuda = folder in ("overlays/cuda", "overlays/production")
            self.assertEqual(gpus, variables(container)["ROOST_TENSOR_PARALLEL"] if is_cuda else None, folder)
            self.assertEqual(variables(container)["ROOST_BACKEND"], "cuda" if is_cuda else "cpu")
            self.assertEqual(container["image"].split(":")[0], "roost-worker-cuda" if is_cuda else "roost-worker-cpu")


class RenderTest(unittest.TestCase):
    def test_every_file_is_used(self):
        for path in DEPLOY.glob("*/**/kustomization.yaml"):
            fields = yaml.safe_load(path.read_text())
            listed = {*fields.get("resources", []), *(patch["path"] for patch in fields.get("patches", []) if "path" in patch)}
            for file in path.parent.glob("*.yaml"):
                self.assertTrue(file == path or file.name in listed, f"{file} is used by nothing")

    @unittest.skipUnless(shutil.which("kubectl"), "there is no kubectl")
    def test_kubectl_renders_the_same(self):
        version = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True).stdout
        release = re.search(r"v?1\.(\d+)", version)
        if not release or int(release.group(1)) < 22:
            self.skipTest(f"this kubectl is too old: {version}")
        for folder in FOLDERS:
            # Without a cluster, and without the user's configuration.
            environment = {**os.environ, "KUBECONFIG": os.devnull}
            done = subprocess.run(["kubectl", "kustomize", DEPLOY / folder], capture_output=True, text=True, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("deprecated", done.stderr, folder)
            theirs = {manifests.render.identity(d): d for d in yaml.safe_load_all(done.stdout)}
            self.assertEqual({manifests.render.identity(d): d for d in rendered(folder)}, theirs, folder)

    def test_a_field_that_is_not_known_is_refused(self):
        folder = manifests.render.Folder(DEPLOY / "base")
        with self.assertRaisesRegex(manifests.render.RenderError, "namePrefix"):
            folder.check({**folder.fields, "namePrefix": "a-"})


if __name__ == "__main__":
    unittest.main()

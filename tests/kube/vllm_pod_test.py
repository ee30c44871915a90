"""The pod with vLLM beside a worker: who serves whom, who ends when, and what its probes follow."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from manifests import ENGINE, ROOT, environment, matches, of_kind, pods, render, rendered, variables

sys.path[:0] = [str(ROOT / "tests/engines"), str(ROOT / "tests/integration")]
from vllm_double_test import double, free_port  # noqa: E402

from cluster import BIN, Cluster, Daemon  # noqa: E402


@contextlib.contextmanager
def answering(status):
    """The port of a server that answers every request with this status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


class VllmTest(unittest.TestCase):
    """vLLM beside a worker, in one pod."""

    def setUp(self):
        self.documents = rendered("overlays/vllm")
        self.pod = pods(self.documents)["roost-worker"]["spec"]
        self.worker, self.engine = self.pod["containers"]
        self.assertEqual((self.worker["name"], self.engine["name"]), ("worker", ENGINE))
        self.flags = dict(word.removeprefix("--").partition("=")[::2] for word in self.engine["command"][3:])
        self.events = json.loads(self.flags["kv-events-config"])

    def test_vllm_serves_the_worker_and_nobody_else(self):
        given = variables(self.worker)
        self.assertEqual(given["ROOST_ENGINE_URL"], f"http://{self.flags['host']}:{self.flags['port']}")
        self.assertEqual(self.flags["host"], "127.0.0.1")
        for variable, endpoint in (("ROOST_ENGINE_EVENTS", "endpoint"), ("ROOST_ENGINE_REPLAY", "replay_endpoint")):
            self.assertEqual(given[variable].replace("127.0.0.1", "*"), self.events[endpoint])

    def test_no_policy_admits_anyone_to_the_ports_of_vllm(self):
        self.assertNotIn("ports", self.engine)
        named = {port["name"]: port["containerPort"] for port in self.worker["ports"]}
        labels = pods(self.documents)["roost-worker"]["metadata"]["labels"]
        policies = [policy["spec"] for policy in of_kind(self.documents, "NetworkPolicy").values()
                    if matches(policy["spec"]["podSelector"], labels) and "Ingress" in policy["spec"]["policyTypes"]]
        admitted = {named[port["port"]] for spec in policies for rule in spec.get("ingress", []) for port in rule["ports"]}
        self.assertEqual(admitted, {9101, 7100}, "the worker's metrics and probes; nothing listens at 7100 beside an engine")

    def test_vllm_tells_what_the_worker_needs(self):
        self.assertEqual(self.engine["command"][:3], ["vllm", "serve", variables(self.worker)["ROOST_MODEL"]])
        self.assertLessEqual({"enable-prefix-caching", "enable-prompt-tokens-details"}, self.flags.keys())
        self.assertEqual((self.events["enable_kv_cache_events"], self.events["publisher"]), (True, "zmq"))
        version = (ROOT / "tests/engines/vllm_environment.sh").read_text()
        tag = self.engine["image"].rpartition(":v")[2]
        self.assertIn(f"\nversion={tag}\n", version, "the version that is tested")

    def test_the_gpus_are_those_of_vllm(self):
        gpus = self.engine["resources"]["limits"]["nvidia.com/gpu"]
        self.assertIn(f"--tensor-parallel-size={gpus}", self.engine["args"])

    def test_both_read_the_model_and_vllm_writes_only_what_is_its_own(self):
        mounts = {container["name"]: {mount["name"]: mount for mount in container["volumeMounts"]}
                  for container in self.pod["containers"]}
        shared = mounts["worker"].keys() & mounts[ENGINE].keys()
        self.assertEqual(shared, {"model"})
        self.assertTrue(mounts["worker"]["model"]["readOnly"] and mounts[ENGINE]["model"]["readOnly"])
        self.assertEqual({mount["mountPath"] for mount in mounts[ENGINE].values() if not mount.get("readOnly")},
                         {"/tmp", "/dev/shm"})
        self.assertEqual(variables(self.engine)["HOME"], "/tmp")

    def test_the_worker_gives_up_before_its_probe_does(self):
        probe = self.worker["startupProbe"]
        header = (ROOT / "worker/prepare.cc").read_text()
        minutes = int(re.search(r"kEngineStart = std::chrono::minutes\((\d+)\)", header)[1])
        self.assertLess(60 * minutes, probe["periodSeconds"] * probe["failureThreshold"])

    def test_there_is_time_to_end_one_after_the_other(self):
        drain = int(variables(self.worker)["ROOST_LAST_DRAIN_SECONDS"])
        self.assertGreaterEqual(self.pod["terminationGracePeriodSeconds"], drain + 20 + 30)
        # A failed probe must not wait for the hook, which waits for a worker that stays.
        for probe in ("startupProbe", "livenessProbe"):
            self.assertLessEqual(self.engine[probe]["terminationGracePeriodSeconds"], 10)

    def test_vllm_ends_when_the_worker_has_ended(self):
        hook = self.engine["lifecycle"]["preStop"]["exec"]["command"]
        port = self.worker["ports"][0]["containerPort"]
        self.assertEqual(hook[:2], ["bash", "-c"])
        self.assertIn(f"/127.0.0.1/{port})", hook[2])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            there = hook[2].replace(str(port), str(listener.getsockname()[1]))
            waiting = subprocess.Popen(["bash", "-c", there])
            listener.accept()[0].close()
            listener.accept()[0].close()
            self.assertIsNone(waiting.poll())
        self.assertEqual(waiting.wait(timeout=10), 0)

    def test_its_probes_follow_the_answer_of_vllm(self):
        for probe in ("startupProbe", "livenessProbe"):
            command = self.engine[probe]["exec"]["command"]
            self.assertEqual(command[:2], ["python3", "-c"])
            for status in (200, 503):
                with answering(status) as port:
                    ask = command[2].replace("127.0.0.1:8000/health", f"127.0.0.1:{port}/health")
                    self.assertNotEqual(ask, command[2])
                    done = subprocess.run([sys.executable, "-c", ask], capture_output=True)
                    self.assertEqual(done.returncode == 0, status == 200, status)


POD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: my-llm, labels: {roost-engine: vllm}}
spec:
  selector: {matchLabels: {app: my-llm}}
  template:
    metadata: {labels: {app: my-llm}}
    spec:
      containers:
        - name: server
          image: vllm/vllm-openai:v0.32.0
          args: [Qwen/Qwen3-8B, --max-model-len=8192]
          ports: [{containerPort: 8000}]
          volumeMounts: [{name: hub, mountPath: /root/.cache/huggingface}]
        - {name: logs, image: fluent-bit}
      volumes: [{name: hub, persistentVolumeClaim: {claimName: hub}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: other, labels: {app: other}}
spec:
  selector: {matchLabels: {app: other}}
  template:
    metadata: {labels: {app: other}}
    spec: {containers: [{name: server, image: other}]}
"""
KUSTOMIZATION = """
resources: [pod.yaml]
components: [COMPONENT]
patches:
  - target: {kind: Deployment, name: my-llm}
    path: model.yaml
"""


class PodsThatExistTest(unittest.TestCase):
    """components/beside-vllm, on a Deployment of a user's own."""

    def render(self, pod=POD):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "pod.yaml").write_text(pod)
            # The lines of the page, for these names.
            page = (ROOT / "deploy/kubernetes.md").read_text()
            (folder / "model.yaml").write_text(re.search(r"```yaml\n(# model.yaml\n.*?)```", page, re.DOTALL)[1])
            component = os.path.relpath(ROOT / "deploy/components/beside-vllm", folder.resolve())
            (folder / "kustomization.yaml").write_text(KUSTOMIZATION.replace("COMPONENT", component))
            return render.render(folder)

    def test_the_pod_gets_a_sidecar_and_its_flags_and_keeps_what_it_has(self):
        given = pods(self.render())
        names = {container["name"]: container for container in given["my-llm"]["spec"]["containers"]}
        self.assertEqual(names.keys(), {"server", "logs", "roost"})
        self.assertEqual(names["server"]["args"][:2], ["Qwen/Qwen3-8B", "--max-model-len=8192"])
        flags = dict(word.removeprefix("--").partition("=")[::2] for word in names["server"]["args"][2:])
        events = json.loads(flags.pop("kv-events-config"))
        self.assertEqual(flags.keys(), {"enable-prefix-caching", "enable-prompt-tokens-details"})
        told = variables(names["roost"])
        self.assertEqual(told["ROOST_MODEL"], "Qwen/Qwen3-8B")
        self.assertEqual(events["endpoint"], told["ROOST_ENGINE_EVENTS"].replace("127.0.0.1", "*"))
        self.assertEqual(events["replay_endpoint"], told["ROOST_ENGINE_REPLAY"].replace("127.0.0.1", "*"))
        self.assertEqual(names["roost"]["volumeMounts"], [{"name": "hub", "mountPath": "/hf", "readOnly": True}])
        self.assertEqual(names["server"]["ports"], [{"containerPort": 8000}], "its API and metrics stay reachable")
        self.assertEqual(given["my-llm"]["metadata"]["labels"], {"app": "my-llm", "roost-worker": "true"})
        self.assertEqual(given["other"]["spec"], {"containers": [{"name": "server", "image": "other"}]})

    def test_flags_and_ends_are_those_of_the_overlay(self):
        overlay = pods(rendered("overlays/vllm"))["roost-worker"]["spec"]
        worker, engine = overlay["containers"]
        given = pods(self.render())["my-llm"]["spec"]
        names = {container["name"]: container for container in given["containers"]}
        self.assertEqual(given["terminationGracePeriodSeconds"], overlay["terminationGracePeriodSeconds"])
        self.assertEqual(names["server"]["lifecycle"], engine["lifecycle"])
        self.assertLessEqual(set(names["server"]["args"][2:]), set(engine["command"]))
        theirs, ours = variables(worker), variables(names["roost"])
        for name in ("ROOST_ENGINE", "ROOST_ENGINE_URL", "ROOST_ENGINE_EVENTS", "ROOST_ENGINE_REPLAY", "ROOST_METRICS_ADDRESS",
                     "ROOST_DRAIN_TIMEOUT_SECONDS", "ROOST_LAST_DRAIN_SECONDS"):
            self.assertEqual(ours[name], theirs[name], name)

    def test_a_pod_without_args_is_named(self):
        with self.assertRaisesRegex(render.RenderError, "my-llm.*has no args"):
            self.render(POD.replace("          args: [Qwen/Qwen3-8B, --max-model-len=8192]\n", ""))

    def test_its_containers_run_as_processes(self):
        """The sidecar is there first, and vLLM fills the hub's cache before it serves."""
        names = {container["name"]: container for container in pods(self.render())["my-llm"]["spec"]["containers"]}
        ports = {port: free_port() for port in (8000, 5557, 5657)} | {9101: 0}
        with Cluster() as cluster, tempfile.TemporaryDirectory() as hub:
            router = cluster.start_router()
            told = {name: re.sub(r":(\d+)$", lambda port: f":{ports.get(int(port[1]), port[1])}", value)
                    for name, value in environment(names["roost"]).items()}
            told |= {"ROOST_ROUTER": router.link, "HF_HOME": hub}
            sidecar = Daemon(["env", *(f"{name}={value}" for name, value in told.items()), BIN / names["roost"]["command"][0]])
            cluster.daemons.append(sidecar)
            sidecar.wait_for_log("waiting for the engine")
            model = pathlib.Path(hub) / "hub/models--Qwen--Qwen3-8B"
            (model / "snapshots").mkdir(parents=True)
            (model / "snapshots" / ("0" * 40)).symlink_to(ROOT / "deploy/demo-model")
            (model / "refs").mkdir()
            (model / "refs/main").write_text("0" * 40)
            with double("--model", names["server"]["args"][0], port=ports[8000], events_port=ports[5557],
                        replay_port=ports[5657]):  # fmt: skip
                router.wait_for_workers(1)
                answers = [router.chat([{"role": "user", "content": "The hens came home. " * 20}], model="Qwen/Qwen3-8B",
                                       max_tokens=4) for _ in range(2)]  # fmt: skip
                self.assertEqual([answer.status for answer in answers], [200, 200])
                self.assertGreater(answers[1].cached_tokens(), 0)


if __name__ == "__main__":
    unittest.main()

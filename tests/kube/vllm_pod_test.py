"""The pod with vLLM beside a worker: who serves whom, who ends when, and what its probes follow."""

import contextlib
import http.server
import json
import re
import socket
import subprocess
import sys
import threading
import unittest

from manifests import ENGINE, ROOT, matches, of_kind, pods, rendered, variables


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


if __name__ == "__main__":
    unittest.main()

"""The Helm chart gives what the folders give, and refuses values that it does not know.

Helm is no package of Debian's. helm/render.go renders charts by the same library functions (Go's text/template, sprig).
"""

import copy
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import jsonschema
import yaml

import manifests
from manifests import DEPLOY, FOLDERS, ROOT, rendered

CHART = DEPLOY / "helm/roost"
OVERLAYS = CHART / "overlays"
# Labels of a release alone, or of a folder alone.
OWN_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "app.kubernetes.io/version")


@functools.lru_cache
def renderer():
    """The built program. Debian keeps the sources of Go packages under /usr/share/gocode."""
    folder = tempfile.mkdtemp(prefix="roost-helm-")
    unittest.addModuleCleanup(shutil.rmtree, folder)
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": ""}
    source = pathlib.Path(__file__).with_name("helm") / "render.go"
    subprocess.run(["go", "build", "-o", f"{folder}/render", source], check=True, env=environment)
    return pathlib.Path(folder) / "render"


def run_renderer(*arguments):
    return subprocess.run([renderer(), *arguments], capture_output=True, text=True)


def chart(values, *arguments):
    done = run_renderer("-values", values, *arguments, CHART)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def values_of(**fields):
    """A file with these values."""
    file = tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False)
    unittest.addModuleCleanup(os.unlink, file.name)
    with file:
        yaml.safe_dump(fields, file)
    return file.name


def all_values(overlay):
    return manifests.render.merged(yaml.safe_load((CHART / "values.yaml").read_text()), overlay)


def comparable(document):
    """Without what differs by intent: the labels above, the order of variables and volumes, defaults written out."""
    result = copy.deepcopy(document)
    result["metadata"]["labels"] = {name: value for name, value in result["metadata"].get("labels", {}).items()
                                    if name not in OWN_LABELS}
    pod = result.get("spec", {}).get("template", {}).get("spec", {})
    for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
        container["env"].sort(key=lambda entry: entry["name"])
        container["volumeMounts"].sort(key=lambda entry: entry["name"])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if "httpGet" in container.get(probe, {}):
                container[probe]["httpGet"].setdefault("scheme", "HTTP")
    if pod:
        pod["volumes"].sort(key=lambda entry: entry["name"])
    return result


@unittest.skipUnless(shutil.which("go"), "Go is not installed")
class ChartTest(unittest.TestCase):
    maxDiff = None

    def test_its_values_give_the_folders(self):
        for folder in FOLDERS:
            name = pathlib.PurePath(folder).name
            with self.subTest(folder):
                theirs = {manifests.render.identity(d): comparable(d) for d in rendered(folder) if d["kind"] != "Namespace"}
                ours = {manifests.render.identity(d): comparable(d) for d in chart(OVERLAYS / f"{name}.yaml")}
                self.assertEqual(ours.keys(), theirs.keys())
                for identity, document in theirs.items():
                    self.assertEqual(ours[identity], document, identity)

    def test_two_releases_share_no_object_and_no_pod(self):
        first, second = (chart(OVERLAYS / "production.yaml", "-release", release) for release in ("one", "two"))
        names = [{manifests.render.identity(d) for d in documents} for documents in (first, second)]
        self.assertEqual(names[0] & names[1], set())
        for document in first:
            selector = json.dumps(document.get("spec", {}).get("selector", {}))
            self.assertNotIn('"app.kubernetes.io/instance": "two"', selector)
        labels = [d["spec"]["template"]["metadata"]["labels"] for d in first if d["kind"] == "StatefulSet"][0]
        self.assertEqual(labels["app.kubernetes.io/instance"], "one")

    def test_options_of_the_values_win(self):
        values = values_of(worker={"env": {"ROOST_KV_MEMORY": "0.5", "ROOST_LOG_FORMAT": "text"}})
        worker = manifests.pods(chart(values))["roost-worker"]["spec"]["containers"][0]
        self.assertEqual(manifests.variables(worker)["ROOST_KV_MEMORY"], "0.5")
        self.assertEqual(manifests.variables(worker)["ROOST_LOG_FORMAT"], "text")
        self.assertEqual(manifests.variables(worker)["ROOST_WORKER_ID"], {"fieldRef": {"fieldPath": "metadata.name"}})

    def test_transfers_can_be_switched_off(self):
        documents = chart(values_of(transfer={"enabled": False}))
        worker = manifests.pods(documents)["roost-worker"]["spec"]["containers"][0]
        given = manifests.variables(worker)
        self.assertEqual(given["ROOST_TRANSFER"], "off")
        self.assertEqual({"POD_IP", "ROOST_TRANSFER_ADDRESS", "ROOST_TRANSFER_ADVERTISE"} & given.keys(), set())
        self.assertEqual([port["name"] for port in worker["ports"]], ["metrics"])
        self.assertNotIn("transfer", json.dumps(list(manifests.of_kind(documents, "NetworkPolicy").values())))

    def test_the_grace_period_follows_the_drain(self):
        for last in (60, 1800):
            values = values_of(router={"drainTimeoutSeconds": 900}, worker={"drainTimeoutSeconds": 120, "lastDrainSeconds": last})
            for pod in manifests.pods(chart(values)).values():
                given = manifests.variables(pod["spec"]["containers"][0])
                drain = int(given["ROOST_DRAIN_TIMEOUT_SECONDS"]) + int(given.get("ROOST_DRAIN_ANNOUNCE_SECONDS", 0))
                drain = max(drain, int(given.get("ROOST_LAST_DRAIN_SECONDS", 0)))
                self.assertGreater(pod["spec"]["terminationGracePeriodSeconds"], drain + 10)

    def test_a_shared_claim_is_mounted_and_nothing_is_fetched(self):
        values = values_of(model={"existingClaim": "models", "folder": "my-model-1"})
        pod = manifests.pods(chart(values))["roost-worker"]["spec"]
        self.assertNotIn("initContainers", pod)
        self.assertEqual(manifests.variables(pod["containers"][0])["ROOST_MODEL"], "/models/my-model-1")
        self.assertIn({"name": "models", "mountPath": "/models", "readOnly": True}, pod["containers"][0]["volumeMounts"])

    def test_each_model_of_the_list_has_workers_of_its_own(self):
        models = [{"name": "chat", "model": {"existingClaim": "models", "folder": "chat-1"}},
                  {"name": "coder", "gpus": 2, "worker": {"image": "roost-worker-cuda", "replicas": 5},
                   "model": {"url": "https://a/b.tar", "sha256": "0" * 64}}]
        documents = chart(values_of(workers=models, worker={"nodeSelector": {"disk": "fast"}}))
        sets = manifests.of_kind(documents, "StatefulSet")
        self.assertEqual(set(sets), {"roost-worker", "roost-worker-coder"})
        chat, coder = sets["roost-worker"]["spec"], sets["roost-worker-coder"]["spec"]
        self.assertEqual((chat["replicas"], coder["replicas"]), (2, 5))
        self.assertEqual(coder["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "2")
        self.assertNotIn("initContainers", chat["template"]["spec"])
        for own, other in ((chat, coder), (coder, chat)):
            self.assertEqual(own["template"]["spec"]["nodeSelector"], {"disk": "fast"})
            self.assertTrue(manifests.matches(own["selector"], own["template"]["metadata"]["labels"]))
            self.assertFalse(manifests.matches(own["selector"], other["template"]["metadata"]["labels"]))
        for kind in ("Service", "PodDisruptionBudget"):
            named = [name for name in manifests.of_kind(documents, kind) if name.endswith("-coder")]
            self.assertEqual(len(named), 1, kind)
        done = run_renderer("-values", values_of(workers=models, autoscale={"enabled": True}), CHART)
        self.assertIn("exclude each other", done.stderr)

    def test_values_that_can_not_work_are_refused_by_name(self):
        claim = {"existingClaim": "models", "folder": "my-model-1"}
        for values, problem in (({"model": {"url": "https://a/b.tar"}}, "model.sha256 is missing"),
                                ({"model": {"existingClaim": "models"}}, "model.folder is missing"),
                                ({"model": {"url": "https://a/b.tar", "existingClaim": "models"}}, "exclude each other"),
                                ({"engine": {"name": "vllm"}, "gpus": 1}, "the image of vLLM has no model"),
                                ({"engine": {"name": "vllm"}, "model": claim}, "gpus is missing")):
            done = run_renderer("-values", values_of(**values), CHART)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(problem, done.stderr)

    def test_vllm_gets_the_gpus_the_flags_and_the_shared_claim(self):
        model = {"existingClaim": "models", "folder": "my-model-1"}
        values = values_of(model=model, gpus=4, engine={"name": "vllm", "args": ["--max-model-len=8192"]})
        worker, engine = manifests.pods(chart(values))["roost-worker"]["spec"]["containers"]
        self.assertEqual(engine["args"], ["--tensor-parallel-size=4", "--max-model-len=8192"])
        self.assertEqual(engine["resources"]["limits"]["nvidia.com/gpu"], "4")
        self.assertNotIn("nvidia.com/gpu", worker["resources"]["limits"])
        self.assertEqual(engine["command"][2], manifests.variables(worker)["ROOST_MODEL"])
        self.assertIn({"name": "models", "mountPath": "/models", "readOnly": True}, engine["volumeMounts"])

    def test_the_notes_name_the_secrets(self):
        notes = run_renderer("-notes", "-values", OVERLAYS / "secure.yaml", CHART).stdout
        self.assertIn("https://roost.roost.svc", notes)
        for secret in ("roost-link-router", "roost-link-worker", "roost-keys", "roost-tls"):
            self.assertIn(secret, notes)
        self.assertIn("no keys", run_renderer("-notes", CHART).stdout)


class ValuesTest(unittest.TestCase):
    def setUp(self):
        self.schema = json.loads((CHART / "values.schema.json").read_text())

    def problems(self, overlay):
        return [error.message for error in jsonschema.Draft7Validator(self.schema).iter_errors(all_values(overlay))]

    def test_the_schema_takes_the_values_of_the_folders(self):
        for path in OVERLAYS.glob("*.yaml"):
            self.assertEqual(self.problems(yaml.safe_load(path.read_text())), [], path)
        self.assertEqual({path.stem for path in OVERLAYS.glob("*.yaml")}, {pathlib.PurePath(f).name for f in FOLDERS})

    def test_the_schema_knows_every_value_and_refuses_others(self):
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        for name, value in values.items():
            self.assertTrue(self.problems({name: {**value, "noSuchValue": 1}} if isinstance(value, dict) else {"x" + name: 1}), name)
        self.assertTrue(self.problems({"worker": {"env": {"KV_MEMORY": "1"}}}), "an option begins with ROOST_")
        self.assertTrue(self.problems({"router": {"drainAnnounceSeconds": 5}}), "shorter than three looks of the probe")

    def test_the_chart_has_the_version_of_the_programs(self):
        about = yaml.safe_load((CHART / "Chart.yaml").read_text())
        cmake = (ROOT / "CMakeLists.txt").read_text()
        self.assertIn(f"project(roost VERSION {about['version']} ", cmake)
        self.assertEqual(about["appVersion"], about["version"])

    def test_what_the_chart_reads_has_one_source(self):
        self.assertEqual((CHART / "dashboards").resolve(), ROOT / "dashboards")


if __name__ == "__main__":
    unittest.main()

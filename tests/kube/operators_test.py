"""Objects of the Prometheus operator and of KEDA: they agree with the dashboards, the metrics and the pods."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

from manifests import ROOT, examples, of_kind, pods, rendered

MAX_ANNOTATION_BYTES = 256 * 1024


def metric_names():
    return set(re.findall(r'"(roost_(?:router|worker)_\w+)"', (ROOT / "common/metrics/catalog.h").read_text()))


def undeclared_metrics(expression):
    used = re.findall(r"roost_\w+", re.sub(r'"[^"]*"', "", expression))
    return [name for name in used if re.sub(r"_(bucket|sum|count)$", "", name) not in metric_names()]


class OperatorsTest(unittest.TestCase):
    def test_the_alerts_are_those_of_the_dashboards_folder(self):
        rules = of_kind(rendered("overlays/monitoring"), "PrometheusRule")["roost"]["spec"]
        files = sorted((ROOT / "dashboards/rules").glob("*.yaml"))
        self.assertEqual(rules["groups"], [group for file in files for group in yaml.safe_load(file.read_text())["groups"]])

    def test_every_dashboard_is_in_the_config_map(self):
        maps = of_kind(rendered("overlays/monitoring"), "ConfigMap").values()
        boards = [each for each in maps if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
        data = {name: text for each in boards for name, text in each["data"].items()}
        self.assertEqual(data, {path.name: path.read_text() for path in (ROOT / "dashboards").glob("*.json")})
        self.assertTrue(all(json.loads(text)["uid"] for text in data.values()))
        # kubectl apply keeps the object in an annotation.
        for each in boards:
            self.assertLess(len(json.dumps(each)), MAX_ANNOTATION_BYTES, each["metadata"]["name"])

    def test_the_autoscaler_asks_for_declared_metrics(self):
        for trigger in of_kind(rendered("overlays/production"), "ScaledObject")["roost-worker"]["spec"]["triggers"]:
            self.assertIn("roost_", trigger["metadata"]["query"])
            self.assertEqual(undeclared_metrics(trigger["metadata"]["query"]), [])

    def test_the_example_keeps_a_worker_as_long_as_its_cache_is_worth_one(self):
        usual = of_kind(rendered("overlays/production"), "ScaledObject")["roost-worker"]["spec"]
        example = of_kind(examples(), "ScaledObject")["roost-worker"]["spec"]
        *triggers, cache = example.pop("triggers")
        self.assertEqual(triggers, usual.pop("triggers"))
        self.assertEqual(example, usual)
        query = cache["metadata"]["query"]
        self.assertEqual(undeclared_metrics(query), [])
        # Three workers, of which the last one's cache saves so many seconds an hour, and so many requests: the workers wanted.
        for saves, requests, wanted in ((0, 72, 1.5), (1800, 72, 2), (3600, 72, 2.5), (7200, 96, 3), (0, 480, 3)):
            with self.subTest(saves=saves, requests=requests):
                self.assertEqual(self.evaluated(query, (9e9, 9e9, saves), requests), wanted)

    def evaluated(self, query, saved, requests):
        """The query's one value, by promtool. Half of each worker's cache is one router's, half the other's."""
        series = [{"series": f'roost_router_worker_in_flight_requests{{namespace="roost",worker="roost-worker-0",pod="{pod}"}}',
                   "values": f"{requests / 2:g}x1"} for pod in "ab"]
        series += [{"series": f'roost_router_worker_cache_value_seconds{{namespace="roost",worker="roost-worker-{number}",pod="{pod}"}}',
                    "values": f"{seconds / 2:g}x1"} for number, seconds in enumerate(saved) for pod in "ab"]
        with tempfile.TemporaryDirectory() as folder:
            # A wrong expectation makes promtool say what it got.
            test = {"evaluation_interval": "1m", "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [
                {"expr": query, "eval_time": "1m", "exp_samples": [{"labels": "{}", "value": -1}]}]}]}
            path = pathlib.Path(folder) / "test.yaml"
            path.write_text(yaml.safe_dump(test))
            told = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
        values = re.findall(r"\{\} ([-\d.E+]+)", told.stdout + told.stderr)
        self.assertTrue(values, told.stdout + told.stderr)
        return float(next(value for value in values if float(value) != -1))

    def test_monitors_scrape_a_port_of_the_pods(self):
        documents = rendered("overlays/monitoring")
        monitors = of_kind(documents, "PodMonitor")
        self.assertEqual(monitors.keys(), pods(documents).keys())
        for name, monitor in monitors.items():
            ports = {port["name"] for port in pods(documents)[name]["spec"]["containers"][0]["ports"]}
            self.assertIn(monitor["spec"]["podMetricsEndpoints"][0]["port"], ports)


if __name__ == "__main__":
    unittest.main()

"""Objects of the Prometheus operator and of KEDA: they agree with the dashboards, the metrics and the pods."""

import json
import re
import unittest

import yaml

from manifests import ROOT, of_kind, pods, rendered

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

    def test_monitors_scrape_a_port_of_the_pods(self):
        documents = rendered("overlays/monitoring")
        monitors = of_kind(documents, "PodMonitor")
        self.assertEqual(monitors.keys(), pods(documents).keys())
        for name, monitor in monitors.items():
            ports = {port["name"] for port in pods(documents)[name]["spec"]["containers"][0]["ports"]}
            self.assertIn(monitor["spec"]["podMetricsEndpoints"][0]["port"], ports)


if __name__ == "__main__":
    unittest.main()

"""Debian's Prometheus watches a real cluster under load, errors, an overload and a kill: every panel of every dashboard
and every rule gets finite data, all series are there from the start, and what is there is what is declared."""

import json
import math
import re
import sys
import tempfile
import unittest
import urllib.request

import side_by_side
from cluster import ROOT, Cluster, wait_until
from prometheus import Prometheus, Target, with_all_chosen
from watched_cluster import GpuDouble, WatchedCluster

sys.path.insert(0, str(ROOT / "dashboards"))
import catalog  # noqa: E402

METRICS, LABELS = catalog.read()


def dashboards():
    return {path.name: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}


def queries():
    """Panel and legend -> query, of all targets of all panels."""
    found = {}
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                found[f"{name}: {panel['title']}: {target['legendFormat']}"] = with_all_chosen(target["expr"])
    return found


def has_finite_data(curves):
    values = [value for _, points in curves for _, value in points]
    assert not any(math.isinf(value) for value in values), curves
    return any(math.isfinite(value) for value in values)


def parse(text):
    """Name -> (type, help) and name -> label sets, of Prometheus' text format."""
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE))
    series = re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE)
    return types, helps, [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in series]


class DashboardsTest(unittest.TestCase):
    def test_every_panel_and_every_rule_has_data_through_load_errors_overload_and_a_kill(self):
        with WatchedCluster() as watched:
            watched.start_traffic()
            watched.overload()
            watched.kill_a_worker()
            panels = self.wait_for_panels(watched)
            rules = self.wait_for_rules(watched)
            watched.lose_a_worker()
            self.expect_alert(watched, "RoostWorkersLost")
            for name, share in (("panels", panels), ("rules", rules)):
                print(f"figure dashboard_{name}_with_data {share:g} ratio")

    def wait_for_panels(self, watched):
        open_queries = queries()
        count = len(open_queries)
        self.assertGreater(count, 150)

        def all_have_data():
            watched.check_traffic()
            for what, query in list(open_queries.items()):
                if has_finite_data(watched.prometheus.curves(query)):
                    del open_queries[what]
            return not open_queries

        try:
            wait_until(all_have_data, "data in all panels")
        except AssertionError:
            self.fail("no finite data:\n" + "\n".join(f"{what}: {query}" for what, query in open_queries.items()))
        return 1 - len(open_queries) / count

    def wait_for_rules(self, watched):
        """Those that record have data, and those that alert are evaluated without an error."""

        def rules():
            return [rule for group in watched.prometheus.ask("rules")["groups"] for rule in group["rules"]]

        wait_until(lambda: all(rule["health"] == "ok" for rule in rules()), "that all rules are evaluated")
        self.assertEqual([rule["lastError"] for rule in rules() if rule.get("lastError")], [])
        recorded = [rule["name"] for rule in rules() if rule["type"] == "recording"]
        self.assertGreater(len(recorded), 10)
        wait_until(lambda: all(has_finite_data(watched.prometheus.curves(name)) for name in recorded), "recorded data")
        return 1

    def expect_alert(self, watched, name):
        """It was raised, and its text is filled in."""
        def raised():
            return [alert for alert in watched.prometheus.ask("alerts")["alerts"] if alert["labels"]["alertname"] == name]

        alerts = wait_until(raised, name)
        for text in alerts[0]["annotations"].values():
            self.assertNotIn("{{", text)
            self.assertNotIn("error", text)

    def test_a_panel_without_data_is_found(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            router = cluster.start_router()
            with Prometheus(folder, {"roost-router": [Target(router.address_of("/metrics"))]}) as prometheus:
                wait_until(lambda: has_finite_data(prometheus.curves("roost_router_active_requests")), "the first scrape")
                self.assertFalse(has_finite_data(prometheus.curves("roost_worker_running_requests")))


class ContractTest(unittest.TestCase):
    """Checks that the daemons export the metrics that common/metrics/catalog.h declares."""

    @classmethod
    def setUpClass(cls):
        cls.watched = cls.enterClassContext(WatchedCluster())
        wait_until(lambda: all("roost_router_queued_requests" in cls.text_of(router) for router in cls.watched.routers),
                   "the models' series")
        cls.at_start = cls.all_series()
        cls.watched.start_traffic()
        cls.watched.overload()
        cls.watched.kill_a_worker()

    @classmethod
    def text_of(cls, router):
        return router.request("GET", "/metrics").body

    @classmethod
    def all_series(cls):
        return {
            (daemon, name, tuple(sorted(labels.items())))
            for daemon, text in cls.watched.metrics_texts()
            for name, labels in parse(text)[2]
        }

    def test_everything_declared_is_exported_and_everything_exported_is_declared(self):
        for daemon, text in self.watched.metrics_texts():
            types, helps, series = parse(text)
            expected = {name for name, metric in METRICS.items() if daemon in metric.daemons}
            self.assertEqual(set(types), expected)
            for name in expected:
                self.assertEqual((types[name], helps[name]), (METRICS[name].kind, METRICS[name].help))
            for name, labels in series:
                base = catalog.base_name(name, METRICS)
                self.assertEqual(set(labels) - {"le"}, set(METRICS[base].all_labels(daemon)), name)

    def test_no_series_begins_with_its_first_event(self):
        late = self.all_series() - self.at_start
        self.assertEqual(late, set())

    def test_labels_stay_within_their_bounds(self):
        for daemon, text in self.watched.metrics_texts():
            values = {}
            for name, labels in parse(text)[2]:
                for label, value in labels.items():
                    values.setdefault((name, label), set()).add(value)
            for (name, label), found in values.items():
                if label != "le":
                    self.assertLessEqual(len(found), LABELS[label].most, f"{daemon}: {name}: {label}")

    def test_probes_and_scrapes_are_not_counted(self):
        router = self.watched.routers[0]
        for path in ("/health", "/livez", "/ping", "/readyz", "/ready", "/metrics"):
            router.request("GET", path)
        routes = {labels["route"] for name, labels in parse(self.text_of(router))[2] if name == "roost_router_requests_total"}
        self.assertIn("chat_completions", routes)
        self.assertEqual(routes & {"health", "ready", "metrics"}, set())

    def test_the_double_exports_what_is_declared(self):
        double = GpuDouble()
        self.addCleanup(double.close)
        with urllib.request.urlopen(f"http://{double.address}/metrics") as response:
            types, _, series = parse(response.read().decode())
        for name, labels in series:
            self.assertEqual(types[name], METRICS[name].kind)
            self.assertEqual(set(labels), set(METRICS[name].all_labels("worker")))


if __name__ == "__main__":
    side_by_side.main(2)

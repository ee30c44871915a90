"""Debian's Prometheus scrapes a running cluster, and the query of every panel of every dashboard returns data."""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.parse
import urllib.request

from cluster import ROOT, Cluster, wait_until

SCRAPE = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: roost-router
    static_configs: [{targets: ["%s"]}]
  - job_name: roost-worker
    static_configs: [{targets: [%s]}]
"""


AT_A_TIME = 12


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def declared_metrics():
    """Name -> kind, as common/metrics/catalog.h declares them."""
    text = (ROOT / "common/metrics/catalog.h").read_text()
    return {name: kind for kind, name in re.findall(r'Kind::k(\w+), "(roost_\w+)"', text)}


def dashboards():
    return {path.name: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}


class DashboardFilesTest(unittest.TestCase):
    def test_queries_use_declared_metrics_only(self):
        kinds = declared_metrics()
        self.assertGreater(len(kinds), 20)
        for name, dashboard in dashboards().items():
            for panel in panels(dashboard):
                for target in panel["targets"]:
                    for metric in re.findall(r"roost_\w+", target["expr"]):
                        base = re.sub(r"_bucket$", "", metric)
                        self.assertIn(base, kinds, f"{name}: {panel['title']}")
                        if metric != base:
                            self.assertEqual(kinds[base], "Histogram", f"{name}: {panel['title']}")

    def test_panels_have_unit_description_and_the_datasource_variable(self):
        for name, dashboard in dashboards().items():
            self.assertIn("datasource", [variable["name"] for variable in dashboard["templating"]["list"]])
            for panel in panels(dashboard):
                self.assertTrue(panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"])
                for target in panel["targets"]:
                    self.assertEqual(target["datasource"]["uid"], "${datasource}", f"{name}: {panel['title']}")
                    if "rate(" in target["expr"]:
                        self.assertIn("[$__rate_interval]", target["expr"], panel["title"])


class Prometheus:
    def __init__(self, folder, targets, scrape=SCRAPE):
        config = pathlib.Path(folder) / "prometheus.yml"
        router, workers = targets
        config.write_text(scrape % (router, ", ".join(f'"{worker}"' for worker in workers)))
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             "--web.listen-address=127.0.0.1:0", "--log.format=json"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.address = self._read_address()

    def _read_address(self):
        for line in self.process.stderr:
            match = re.search(r'"address":"(127\.0\.0\.1:\d+)"', line)
            if match and "Listening on" in line:
                return match.group(1)
        raise AssertionError("prometheus did not start")

    def query(self, expression):
        url = f"http://{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=10) as response:
            return json.load(response)["data"]["result"]

    def stop(self):
        self.process.terminate()
        self.process.stderr.read()
        self.process.stderr.close()
        self.process.wait()


class DashboardDataTest(unittest.TestCase):
    other_count = 0

    def test_every_panel_returns_data(self):
        with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            # Of the concurrent requests, some wait at the router and some are refused.
            router = cluster.start_router("--worker-queue-bound", "1", "--max-queue", "2")
            small = ["--kv-blocks", "160", "--max-running-requests", "1"]
            workers = [cluster.start_worker(name, "--metrics-address", "127.0.0.1:0", *small)
                       for name in ("worker-a", "worker-b")]
            router.wait_for_workers(2)
            addresses = [worker.wait_for_log("worker ready")["metrics"].removeprefix("http://") for worker in workers]
            prometheus = Prometheus(folder, (router.address_of("/metrics"), [a.removesuffix("/metrics") for a in addresses]))
            try:
                for name, dashboard in dashboards().items():
                    for panel in panels(dashboard):
                        for target in panel["targets"]:
                            self.wait_for_data(router, prometheus, target["expr"], f"{name}: {panel['title']}")
            finally:
                prometheus.stop()

    def wait_for_data(self, router, prometheus, expression, what):
        """Sends requests meanwhile: some hit the cache, and there are enough others to evict blocks from the small pools."""
        expression = expression.replace("$__rate_interval", "5s").replace('"$instance"', '".+"')
        expression = expression.replace('"$job"', '".+"').replace('"$model"', '".+"')

        def has_data():
            self.other_count += 1
            same = ["The same words again and again, my lord? " * 8] * (AT_A_TIME - 1)
            other = f"Of {self.other_count} others, this is the one that nobody has heard. " * 8
            with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
                statuses = list(pool.map(lambda words: self.ask(router, words), [*same, other]))
            self.assertIn(200, statuses)
            self.assertLessEqual(set(statuses), {200, 429})
            return [s for s in prometheus.query(expression) if s["value"][1] != "NaN"]

        wait_until(has_data, f"data for {what}: {expression}")

    def ask(self, router, words):
        return router.chat([{"role": "user", "content": words}], max_tokens=4).status


if __name__ == "__main__":
    unittest.main()

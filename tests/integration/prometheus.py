"""Debian's Prometheus for tests: on loopback, scraping every other second, with the project's rules.

    with Prometheus(folder, {"roost-router": [Target("127.0.0.1:8002")]}) as prometheus:
        prometheus.query("up")
"""

import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from cluster import ROOT, wait_until

RULES = ROOT / "dashboards/rules"
SCRAPE_SECONDS = 2
RATE_INTERVAL = "30s"  # long enough for scrapes that a busy machine misses


@dataclasses.dataclass(frozen=True)
class Target:
    address: str
    authority: pathlib.Path = None  # certificate that signs the target's, for https
    labels: dict = dataclasses.field(default_factory=dict, hash=False)  # that Prometheus adds


def _config(jobs):
    scrapes = []
    for job, targets in jobs.items():
        for authority in {target.authority for target in targets}:
            served = [target for target in targets if target.authority == authority]
            configs = [{"targets": [target.address], "labels": {"job": job, **target.labels}} for target in served]
            scrape = {"job_name": job if authority is None else f"{job}-tls", "static_configs": configs}
            if authority is not None:
                scrape |= {"scheme": "https", "tls_config": {"ca_file": str(authority)}}
            scrapes.append(scrape)
    interval = f"{SCRAPE_SECONDS}s"
    every = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
    return {"global": every, "rule_files": [f"{RULES}/*.yaml"], "scrape_configs": scrapes}


class Prometheus:
    def __init__(self, folder, jobs):
        """`jobs`: name -> targets."""
        config = pathlib.Path(folder) / "prometheus.yml"
        config.write_text(json.dumps(_config(jobs)))  # JSON is YAML
        self.start = time.time()
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             "--web.listen-address=127.0.0.1:0", "--log.format=json"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)  # fmt: skip
        self.address = self._read_address()
        wait_until(self._is_ready, "that Prometheus is ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        with contextlib.closing(self.process.stderr):
            self.process.stderr.read()
        self.process.wait()

    def _read_address(self):
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            match = re.search(r'"address":"(127\.0\.0\.1:\d+)"', line)
            if match and "Listening on" in line:
                return match.group(1)
        raise AssertionError("prometheus did not start: " + "".join(lines[-3:]))

    def _is_ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=30):
                return True
        except urllib.error.HTTPError:
            return False

    def wait_for_scrapes(self):
        """Waits until rates see every later change: each target has been scraped before."""
        def all_are_up():
            targets = self.ask("targets")["activeTargets"]
            return targets and all(target["health"] == "up" for target in targets)

        wait_until(all_are_up, "a scrape of each target")

    def ask(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?" + urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(url, timeout=30) as response:
            return json.load(response)["data"]

    def query(self, expression):
        """(labels, value) of each series, now."""
        return [(series["metric"], float(series["value"][1])) for series in self.ask("query", query=expression)["result"]]

    def curves(self, expression, start=None, step=SCRAPE_SECONDS):
        """(labels, [(time, value), …]) of each series, since Prometheus began."""
        found = self.ask("query_range", query=expression, start=start or self.start, end=time.time(), step=step)["result"]
        return [(series["metric"], [(when, float(value)) for when, value in series["values"]]) for series in found]


def with_all_chosen(query, rate_interval=RATE_INTERVAL):
    """A panel's query as Grafana sends it when every variable is All."""
    return re.sub(r'"\$\w+"', '".+"', query.replace("$__rate_interval", rate_interval))

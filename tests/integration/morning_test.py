"""An operator's morning: a cordon, two models, a kill, a spike, a router that restarts. At each step /ready, roostctl,
the console's answers, the metrics and the alerts' expressions must tell the same truth."""

import json
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import yaml

from cluster import BIN, ROOT, Cluster, text, wait_until

RULES = ROOT / "dashboards/rules/roost.yaml"
ALERTS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
SPIKE = 24


def samples(body, names):
    """Series of /metrics -> value, of these metrics, with the labels that a scrape adds."""
    found = {}
    for line in body.splitlines():
        series, _, value = line.rpartition(" ")
        name, _, labels = series.partition("{")
        if name in names:
            found[f'{name}{{job="r",instance="a"{"," + labels if labels else "}"}'] = value
    return found


class MorningTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.router = self.cluster.start_router("--worker-queue-bound", "2")
        self.workers = {name: self.start(name, model) for name, model in
                        (("worker-a", "alpha"), ("worker-b", "alpha"), ("worker-c", "beta"))}  # fmt: skip
        self.router.wait_for_workers(3)
        self.asked = 0  # generations, of known models

    def start(self, name, model):
        return self.cluster.start_worker(name, "--served-model-name", model)

    def roostctl(self, *words):
        told = subprocess.run([BIN / "roostctl", words[0], "--admin", self.router.admin, *words[1:]], capture_output=True,
                              text=True, check=False)
        self.assertEqual(told.returncode, 0, f"{words}: {told.stdout} {told.stderr}")
        return told.stdout

    def ask(self, model, seed=""):
        self.asked += 1
        return self.router.completion(text(20, f"{model} {seed}"), model=model, max_tokens=2)

    def told(self):
        return self.router.request("GET", "/admin/v1/workers").json()

    # ---- one truth ----

    def ready_everywhere(self):
        """The number of ready workers of each model, by each place that tells it."""
        answer = self.router.request("GET", "/ready")
        by_ready = {model["id"]: model["ready_workers"] for model in answer.json().get("models", [])}
        told = self.told()
        by_status = {model["id"]: model["ready_workers"] for model in json.loads(self.roostctl("status", "--json"))["models"]}
        by_console = {model["id"]: sum(w["state"] == "ready" for w in told["workers"] if w["model"] == model["id"])
                      for model in told["models"]}  # fmt: skip
        by_metric = {model["id"]: int(self.router.metric("roost_router_workers", model=model["id"], state="ready"))
                     for model in told["models"]}  # fmt: skip
        return answer.status, by_ready, by_status, by_console, by_metric

    def check_truth(self, expected, level):
        """`expected`: ready workers by model. /ready lists models that have workers."""

        def agree():
            status, by_ready, *others = self.ready_everywhere()
            return status == 200 and by_ready == {model: count for model, count in expected.items() if model in by_ready} and \
                all(count == 0 for model, count in expected.items() if model not in by_ready) and \
                all(other == expected for other in others)  # fmt: skip

        wait_until(agree, f"that all places tell {expected}; now {self.ready_everywhere()}")
        for model, count in expected.items():
            one = self.router.request("GET", f"/ready?model={model}")
            self.assertEqual(one.status, 200 if count > 0 else 503, model)
        told = self.told()
        self.assertEqual(told["verdict"]["level"], level, told["verdict"])
        self.check_lines()
        self.check_alert({model for model, count in expected.items() if count == 0})

    def check_lines(self):
        """The verdict is one line, the same in every place. Ages in it go on, so it is compared without them."""
        def timeless(line):
            return " ".join(word for word in line.split() if not word.isdigit())

        verdict = timeless(self.told()["verdict"]["text"])
        self.assertEqual(timeless(self.roostctl("status").split("\n")[0]), verdict)
        top = self.roostctl("top", "--metrics", self.router.metrics, "--once", "--interval", "0.1", "--no-prefixes")
        self.assertIn(verdict, [timeless(line) for line in top.split("\n")])

    def check_alert(self, models):
        """RoostNoReadyWorker's expression, by promtool, on what /metrics tells now: one result for each of the models."""
        if shutil.which("promtool") is None:
            return
        series = samples(self.router.request("GET", "/metrics").body, {"roost_router_workers", "roost_router_active_requests"})
        expected = [{"labels": f'{{job="r", model="{model}"}}', "value": 0} for model in sorted(models)]
        test = {
            "interval": "1m",
            "input_series": [{"series": name, "values": f"{value}+0x5"} for name, value in series.items()],
            "promql_expr_test": [{"expr": ALERTS["RoostNoReadyWorker"], "eval_time": "3m", "exp_samples": expected}],
        }
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}, file)
            file.flush()
            done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check_saved(self):
        """Checks that the console's sums are those that the workers count themselves."""

        def of_workers():
            total = 0.0
            for worker in self.workers.values():
                url = worker.wait_for_log("worker ready")["metrics"]
                with urllib.request.urlopen(url if url.endswith("/metrics") else f"{url}/metrics") as answer:
                    lines = answer.read().decode().splitlines()
                total += sum(float(line.rsplit(" ", 1)[1]) for line in lines
                             if line.startswith("roost_worker_saved_prefill_seconds_total{"))  # fmt: skip
            return total

        wait_until(lambda: abs(of_workers() - sum(w["saved_prefill_seconds_total"] for w in self.told()["workers"])) < 1e-6,
                   "that the router has heard what the workers saved")  # fmt: skip

    def check_counts(self):
        """All generations that were asked for are counted by model, once."""

        def counts():
            counted = sum(self.router.metric("roost_router_generations_total", model=model) for model in ("alpha", "beta"))
            history = self.router.request("GET", "/admin/v1/history").json()
            return counted, sum(point["ended"] for model in history["models"] for point in model["points"])

        # An answer is counted when it has been written, which its client may see before.
        wait_until(lambda: min(counts()) >= self.asked, "that all are counted")
        self.assertEqual(counts(), (self.asked, self.asked))

    # ---- the morning ----

    def test_every_place_tells_the_same_at_each_step(self):
        with self.subTest("quiet"):
            for seed in range(3):
                for model in ("alpha", "beta"):
                    self.assertEqual(self.ask(model, seed).status, 200)
                    self.assertEqual(self.ask(model, seed).status, 200)
            self.check_truth({"alpha": 2, "beta": 1}, "ok")
            self.check_saved()
            self.check_counts()
            self.assertTrue(all(worker["host"] and worker["release"] for worker in self.told()["workers"]))
        with self.subTest("a cordon"):
            self.roostctl("cordon", "worker-a")
            self.check_truth({"alpha": 1, "beta": 1}, "degraded")
            self.assertIn("worker-a is cordoned", self.told()["verdict"]["text"])
        with self.subTest("a killed worker"):
            self.kill_the_only_worker_of_beta()
        with self.subTest("it comes back"):
            self.workers["worker-c"] = self.start("worker-c", "beta")
            self.roostctl("uncordon", "worker-a")
            self.check_truth({"alpha": 2, "beta": 1}, "ok")
            [lost] = self.told()["lost"]
            self.assertTrue(lost["back"])
            self.assertEqual(self.ask("beta").status, 200)
        with self.subTest("a spike"):
            self.spike()
        with self.subTest("the router restarts"):
            self.restart_the_router()

    def kill_the_only_worker_of_beta(self):
        self.workers["worker-c"].kill()
        wait_until(lambda: self.told()["lost"], "that it is lost")
        self.check_truth({"alpha": 1, "beta": 0}, "down")
        told = self.told()
        self.assertRegex(told["verdict"]["text"], r"^beta: no worker takes requests since \d\d:\d\d UTC; worker-c lost \d+ s ago \(")
        [lost] = told["lost"]
        self.assertEqual((lost["id"], lost["model"], lost["back"]), ("worker-c", "beta", False))
        self.assertEqual(self.router.metric("roost_router_workers_lost_total", model="beta", reason=lost["reason"]), 1)
        self.assertEqual(self.router.metric("roost_router_workers_lost_total", model="alpha"), 0)
        self.assertIn("worker-c", self.roostctl("status"))
        self.assertTrue(any(event["worker"] == "worker-c" and "lost" in event["what"] for event in told["events"]))
        refused = self.ask("beta")
        self.assertEqual(refused.status, 503)
        wait_until(lambda: self.router.metric("roost_router_generations_total", model="beta", outcome="unavailable") == 1,
                   "that it counts under its model")  # fmt: skip
        self.assertEqual(self.ask("alpha").status, 200)
        self.assertEqual(self.router.completion("Who?", model="no-such-model").status, 404)
        self.assertEqual(self.router.metric("roost_router_generations_total", model="no-such-model"), 0)
        self.check_counts()

    def spike(self):
        answers = []
        threads = [threading.Thread(target=lambda seed=seed: answers.append(self.ask("alpha", f"spike {seed}")))
                   for seed in range(SPIKE)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([answer.status for answer in answers], [200] * SPIKE)
        self.check_truth({"alpha": 2, "beta": 1}, "ok")
        wait_until(lambda: self.router.metric("roost_router_queued_requests") == 0, "that nobody waits")
        self.check_counts()

    def restart_the_router(self):
        """Its first requests wait for the workers, which come back: none is refused."""
        http, link, admin, metrics = (url.split("//")[1] for url in
                                      (self.router.url, self.router.link, self.router.admin, self.router.metrics))  # fmt: skip
        self.router.kill()
        self.router = self.cluster.start_router("--admin-address", admin, "--metrics-address", metrics, http=http,
                                                link=f"tcp://{link}")  # fmt: skip
        self.asked = 0
        begun = time.monotonic()
        self.assertEqual([self.ask(model, "back").status for model in ("beta", "alpha")], [200, 200])
        self.assertLess(time.monotonic() - begun, 10)
        self.router.wait_for_workers(3)
        self.check_truth({"alpha": 2, "beta": 1}, "ok")
        self.check_counts()
        wait_until(lambda: self.router.completion("Who?", model="no-such-model").status == 404, "that others are unknown")


if __name__ == "__main__":
    unittest.main()

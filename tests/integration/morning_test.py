"""An operator's morning: a cordon, two models, a drain, a kill, a spike, a router that restarts. At each step /ready,
roostctl status, top and doctor, the console's answers and the metrics must tell the same truth; and promtool judges what
the alerts say of the whole morning, in which each step lasts for a quarter of an hour."""

import json
import re
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
SPIKE = 24
STEP_MINUTES = 15


class Recording:
    """Scrapes of a router, one for each step, as series for promtool."""

    def __init__(self):
        self.steps = []  # their names
        self.series = {}  # series -> {step: value}

    def add(self, step, body):
        """The last scrape of a step counts."""
        if step not in self.steps:
            self.steps.append(step)
        for line in body.splitlines():
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            if name.startswith(("roost_router_", "process_", "roost_build_info")):
                key = f'{name}{{job="r",instance="a"{"," + labels if labels else "}"}'
                self.series.setdefault(key, {})[step] = value

    def values(self, by_step):
        parts = [f"{by_step[step]}+0x{STEP_MINUTES - 1}" if step in by_step else f"_x{STEP_MINUTES}" for step in self.steps]
        return " ".join(parts)

    def check(self, expected):
        """`expected`: step -> labels of the alerts that fire at its end. Returns what promtool says against that."""
        tests = [
            {
                "expr": 'ALERTS{alertstate="firing",severity=~"critical|warning"}',
                "eval_time": f"{(place + 1) * STEP_MINUTES - 1}m",
                "exp_samples": [{"labels": 'ALERTS{job="r",alertstate="firing",' + labels + "}", "value": 1}
                                for labels in expected.get(step, [])],
            }
            for place, step in enumerate(self.steps)
        ]
        series = [{"series": name, "values": self.values(by_step)} for name, by_step in self.series.items()]
        test = {"interval": "1m", "input_series": series, "promql_expr_test": tests}
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}, file)
            file.flush()
            done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr


class MorningTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.__exit__)
        self.router = self.cluster.start_router("--worker-queue-bound", "2")
        self.workers = {name: self.start(name, model) for name, model in
                        (("worker-a", "alpha"), ("worker-b", "alpha"), ("worker-c", "beta"))}  # fmt: skip
        self.router.wait_for_workers(3)
        self.asked = 0  # generations, of known models
        self.recording = Recording()

    def start(self, name, model):
        return self.cluster.start_worker(name, "--served-model-name", model, "--drain-timeout-seconds", "120")

    def roostctl(self, *words, codes=(0,)):
        told = subprocess.run([BIN / "roostctl", words[0], "--admin", self.router.admin, *words[1:]], capture_output=True,
                              text=True, check=False)
        self.assertIn(told.returncode, codes, f"{words}: {told.stdout} {told.stderr}")
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

    def check_truth(self, step, expected, level):
        """`expected`: ready workers by model."""

        def agree():
            status, by_ready, *others = self.ready_everywhere()
            return (status == 200 and all(other == expected for other in (by_ready, *others))
                    and self.told()["verdict"]["level"] == level)  # fmt: skip

        wait_until(agree, f"that all places tell {expected}, {level}; now {self.ready_everywhere()}, {self.told()['verdict']}")
        for model, count in expected.items():
            one = self.router.request("GET", f"/ready?model={model}")
            self.assertEqual(one.status, 200 if count > 0 else 503, model)
        self.check_lines()
        self.check_doctor(expected)
        self.recording.add(step, self.router.request("GET", "/metrics").body)

    def check_lines(self):
        """The verdict is one line, the same in every place. It is compared without ages, which go on; times of day may differ by
        a minute: they are the present in whole seconds less an age, so that two answers may differ by a second."""
        def timeless(line):
            return " ".join(word for word in line.split() if not word.replace(":", "").isdigit())

        def minutes(line):
            return [60 * int(hour) + int(minute) for hour, minute in re.findall(r"\b(\d\d):(\d\d)\b", line)]

        verdict = self.told()["verdict"]["text"]
        top = self.roostctl("top", "--metrics", self.router.metrics, "--once", "--interval", "0.1", "--no-prefixes")
        for told in (self.roostctl("status").split("\n")[0], top):
            same = [line for line in told.split("\n") if timeless(line) == timeless(verdict)]
            self.assertEqual(len(same), 1, f"{verdict}\n{told}")
            for here, there in zip(minutes(same[0]), minutes(verdict), strict=True):
                self.assertIn((here - there) % 1440, (1439, 0, 1), f"{verdict}\n{told}")

    def check_doctor(self, expected):
        """What it finds of the models is what the router's verdict says of them, and it counts as /ready does."""
        told = self.roostctl("doctor", "--router", self.router.url, "--metrics", self.router.metrics, "--no-requests", "--json",
                             codes=(0, 1, 2))  # fmt: skip
        findings = json.loads(told)["findings"]
        severities = {"ok": "ok", "degraded": "note", "down": "failure"}
        by_doctor = {f["subject"]: f["severity"] for f in findings if f["check"] == "model"}
        self.assertEqual(by_doctor, {model["id"]: severities[model["level"]] for model in self.told()["models"]}, findings)
        ready = sum(expected.values())
        [finding] = [f for f in findings if f["check"] == "ready"]
        self.assertEqual(finding["what"], f"takes requests: {ready} worker{' is' if ready == 1 else 's are'} ready")

    def check_alerts(self):
        """Only the model that nobody serves is an alert, and only while that lasts."""
        if shutil.which("promtool") is None:
            return
        lost = ['alertname="RoostNoReadyWorker",model="beta",severity="critical"',
                'alertname="RoostWorkersLost",model="beta",severity="warning"']  # fmt: skip
        self.assertEqual(self.recording.check({"a killed worker": lost}), "")

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
        step = "quiet"
        with self.subTest(step):
            for seed in range(3):
                for model in ("alpha", "beta"):
                    self.assertEqual(self.ask(model, seed).status, 200)
                    self.assertEqual(self.ask(model, seed).status, 200)
            self.check_truth(step, {"alpha": 2, "beta": 1}, "ok")
            self.check_saved()
            self.check_counts()
            self.assertTrue(all(worker["host"] and worker["release"] for worker in self.told()["workers"]))
        step = "a cordon"
        with self.subTest(step):
            self.roostctl("cordon", "worker-a")
            self.check_truth(step, {"alpha": 1, "beta": 1}, "degraded")
            self.assertIn("worker-a is cordoned", self.told()["verdict"]["text"])
        with self.subTest("a killed worker"):
            self.kill_the_only_worker_of_beta("a killed worker")
        step = "it comes back"
        with self.subTest(step):
            self.workers["worker-c"] = self.start("worker-c", "beta")
            self.roostctl("uncordon", "worker-a")
            self.check_truth(step, {"alpha": 2, "beta": 1}, "ok")
            [lost] = self.told()["lost"]
            self.assertTrue(lost["back"])
            self.assertEqual(self.ask("beta").status, 200)
        with self.subTest("a spike"):
            self.spike("a spike")
        with self.subTest("a worker drains"):
            self.drain_a_worker("a worker drains")
        with self.subTest("the router restarts"):
            self.restart_the_router("the router restarts")
        with self.subTest("the alerts of the morning"):
            self.check_alerts()

    def kill_the_only_worker_of_beta(self, step):
        self.workers["worker-c"].kill()
        wait_until(lambda: self.told()["lost"], "that it is lost")
        self.check_truth(step, {"alpha": 1, "beta": 0}, "down")
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

    def drain_a_worker(self, step):
        """It ends what it runs, takes nothing new, and is not lost when it has gone."""
        self.asked += 1
        body = {"model": "beta", "prompt": "Long.", "max_tokens": 3900, "n": 4, "ignore_eos": True, "stream": True}
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.router.request("POST", "/v1/completions", body)))
        thread.start()
        wait_until(lambda: any(w["running_requests"] for w in self.told()["workers"] if w["id"] == "worker-c"), "that it runs")
        self.workers["worker-d"] = self.start("worker-d", "beta")
        self.router.wait_for_workers(4)
        self.workers["worker-c"].process.terminate()
        self.check_truth(step, {"alpha": 2, "beta": 1}, "degraded")
        self.assertIn("beta: 1 of 2 workers take requests; worker-c is draining", self.told()["verdict"]["text"])
        thread.join()
        self.assertTrue(answers[0].done)
        self.assertEqual(self.workers.pop("worker-c").stop(), 0)
        self.check_truth(step, {"alpha": 2, "beta": 1}, "ok")
        self.assertEqual([lost["id"] for lost in self.told()["lost"] if not lost["back"]], [])
        self.check_counts()

    def spike(self, step):
        answers = []
        threads = [threading.Thread(target=lambda seed=seed: answers.append(self.ask("alpha", f"spike {seed}")))
                   for seed in range(SPIKE)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([answer.status for answer in answers], [200] * SPIKE)
        self.check_truth(step, {"alpha": 2, "beta": 1}, "ok")
        wait_until(lambda: self.router.metric("roost_router_queued_requests") == 0, "that nobody waits")
        self.check_counts()

    def restart_the_router(self, step):
        """Its first requests wait for the workers, which come back: none is refused."""
        http, link, admin, metrics = (url.split("//")[1] for url in
                                      (self.router.url, self.router.link, self.router.admin, self.router.metrics))  # fmt: skip
        self.router.kill()
        self.router = self.cluster.start_router("--admin-address", admin, "--metrics-address", metrics, http=http,
                                                link=f"tcp://{link}")  # fmt: skip
        self.asked = 0
        self.assertEqual([self.ask(model, "back").status for model in ("beta", "alpha")], [200, 200])
        self.router.wait_for_workers(3)
        self.check_truth(step, {"alpha": 2, "beta": 1}, "ok")
        self.check_counts()
        wait_until(lambda: self.router.completion("Who?", model="no-such-model").status == 404, "that others are unknown")


if __name__ == "__main__":
    unittest.main()

"""The dashboards follow Grafana's conventions, ask for declared metrics only, and use all of them; so do the rules.
Checked on the JSON that Grafana reads, without the code that writes it."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "dashboards"))

import catalog  # noqa: E402

METRICS, LABELS = catalog.read()
BOARDS = {path.name: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards").glob("*.json"))}
RULE_FILES = sorted((ROOT / "dashboards/rules").glob("*.yaml"))
RULES = [rule for path in RULE_FILES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
# Units of Grafana's, and its way to write one's own.
UNITS = {"short", "none", "percentunit", "s", "bytes", "Bps", "reqps", "cps"}
SEVERITIES = {"critical", "warning", "info"}
# Variable -> label.
FILTERS = {"job": "job", "instance": "instance", "model": "model", "worker": "worker"}


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def variables(board):
    return [variable["name"] for variable in board["templating"]["list"] if variable["name"] != "datasource"]


def everything():
    """(board's file, board, panel, target) of all."""
    for name, board in BOARDS.items():
        for panel in panels(board):
            for target in panel["targets"]:
                yield name, board, panel, target


def without_variables(query):
    """As Prometheus gets it when all is chosen."""
    return re.sub(r'"\$\w+"', '".+"', query.replace("$__rate_interval", "5m"))


def selectors(query):
    """(series, its matchers) of a query."""
    return re.findall(r"\b((?:roost|process)_\w+)\{([^}]*)\}", query)


class ConventionsTest(unittest.TestCase):
    def test_the_files_are_what_the_script_writes(self):
        done = subprocess.run([sys.executable, ROOT / "dashboards/generate.py", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_boards_can_be_provisioned(self):
        self.assertEqual(set(BOARDS), {"cluster.json", "router.json", "worker.json", "cache-and-routing.json"})
        self.assertEqual(len({board["uid"] for board in BOARDS.values()}), len(BOARDS))
        for name, board in BOARDS.items():
            self.assertRegex(board["uid"], r"^[a-z-]{1,40}$", name)
            self.assertNotIn("__inputs", board, name)  # only the import dialogue fills them in
            self.assertIsNone(board["id"], name)
            self.assertFalse(board["editable"], name)
            self.assertEqual((board["refresh"], board["tags"], board["schemaVersion"]), ("30s", ["roost"], 39), name)

    def test_the_provisioning_file_is_one(self):
        [provider] = yaml.safe_load((ROOT / "dashboards/provisioning.yaml").read_text())["providers"]
        self.assertEqual((provider["type"], provider["folder"]), ("file", "Roost"))
        self.assertTrue(pathlib.PurePosixPath(provider["options"]["path"]).is_absolute())

    def test_panels_say_what_they_are(self):
        for name, board in BOARDS.items():
            self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]), name)
            titles = [panel["title"] for panel in panels(board)]
            for panel in panels(board):
                what = f"{name}: {panel['title']}"
                self.assertTrue(panel["title"], what)
                self.assertRegex(panel["description"], r"^[A-Za-z0-9].*\.$", what)
                unit = panel["fieldConfig"]["defaults"]["unit"]
                self.assertTrue(unit in UNITS or unit.startswith("suffix: "), f"{what}: {unit}")
                self.assertTrue(panel["targets"], what)
                for target in panel["targets"]:
                    self.assertTrue(target["legendFormat"], what)
                legends = [target["legendFormat"] for target in panel["targets"]]
                self.assertEqual(len(set(legends)), len(legends), what)
            for row in board["panels"]:
                if row["type"] == "row":
                    self.assertTrue(row["title"], name)
            self.assertGreater(len(set(titles)), 0.9 * len(titles), name)

    def test_good_and_bad_have_fixed_colours(self):
        colours = {}
        for name, _, panel, target in everything():
            fixed = {o["matcher"]["options"]: o["properties"][0]["value"]["fixedColor"] for o in panel["fieldConfig"]["overrides"]}
            if panel["type"] == "timeseries":
                self.assertEqual(panel["fieldConfig"]["defaults"]["color"], {"mode": "palette-classic-by-name"}, panel["title"])
            if target["legendFormat"] in ("{{outcome}}", "{{state}}", "{{code}}"):
                self.assertTrue(fixed, f"{name}: {panel['title']}")
                colours |= fixed
        for bad in ("overloaded", "unavailable", "internal", "stalled", "ejected", "429", "503"):
            self.assertNotIn("green", colours[bad], bad)
        for good in ("stop", "ready", "200"):
            self.assertIn("green", colours[good], good)

    def test_trouble_comes_first(self):
        rows = [panel["title"] for panel in BOARDS["cluster.json"]["panels"] if panel["type"] == "row"]
        self.assertEqual(rows[:2], ["Now", "Trouble"])

    def test_panels_do_not_overlap(self):
        for name, board in BOARDS.items():
            taken = {}
            for panel in board["panels"]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24, f"{name}: {panel['title']}")
                for x in range(place["x"], place["x"] + place["w"]):
                    for y in range(place["y"], place["y"] + place["h"]):
                        other = taken.setdefault((x, y), panel["title"])
                        self.assertEqual(other, panel["title"], f"{name}: '{panel['title']}' lies over '{other}'")

    def test_everything_asks_the_datasource_of_the_variable(self):
        for name, board in BOARDS.items():
            first = board["templating"]["list"][0]
            self.assertEqual((first["name"], first["type"], first["query"]), ("datasource", "datasource", "prometheus"), name)
            asking = [*panels(board), *board["templating"]["list"][1:], *(t for panel in panels(board) for t in panel["targets"])]
            for each in asking:
                self.assertEqual(each["datasource"], {"type": "prometheus", "uid": "${datasource}"}, f"{name}: {each}")

    def test_variables_can_mean_all_and_several(self):
        for name, board in BOARDS.items():
            for variable in board["templating"]["list"][1:]:
                what = f"{name}: {variable['name']}"
                self.assertTrue(variable["includeAll"] and variable["multi"] and variable["label"], what)
                self.assertEqual((variable["allValue"], variable["refresh"]), (".+", 2), what)
                self.assertRegex(variable["query"]["query"], r"^label_values\(.+, \w+\)$", what)

    def test_legends_name_labels_that_the_query_keeps(self):
        for name, _, panel, target in everything():
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
                grouped = "by (" in target["expr"]
                self.assertTrue(label in kept or not grouped or "and on" in target["expr"], f"{name}: {panel['title']}: {label}")


class QueriesTest(unittest.TestCase):
    def test_every_variable_filters_every_panel_that_it_can(self):
        for name, board, panel, target in everything():
            found = selectors(target["expr"])
            self.assertEqual(len(found), len(catalog.series_in(target["expr"])), f"{name}: {panel['title']}: one has no selector")
            for series, matchers in found:
                metric = METRICS[catalog.base_name(series, METRICS)]
                # On the worker's board process_* are the workers', which have more labels.
                daemons = ["worker"] if name == "worker.json" and len(metric.daemons) == 2 else metric.daemons
                common = set.intersection(*(set(metric.all_labels(daemon)) for daemon in daemons)) | {"job", "instance"}
                for variable in variables(board):
                    has = f'{FILTERS[variable]}=~"${variable}"' in matchers
                    self.assertEqual(has, FILTERS[variable] in common, f"{name}: {panel['title']}: {series} and ${variable}")

    def test_every_variable_filters_something(self):
        for name, board in BOARDS.items():
            for variable in variables(board):
                users = [panel for panel in panels(board) if any(f"${variable}" in t["expr"] for t in panel["targets"])]
                self.assertGreaterEqual(len(users), 5, f"{name}: ${variable}")

    def test_matchers_and_groups_name_labels_of_the_metric(self):
        queries = [(f"{name}: {panel['title']}", target["expr"]) for name, _, panel, target in everything()]
        queries += [(rule.get("alert", rule.get("record")), rule["expr"]) for rule in RULES]
        for what, query in queries:
            own = {"job", "instance", "le"}
            for series in catalog.series_in(query):
                base = catalog.base_name(series, METRICS)
                self.assertIsNotNone(base, f"{what}: {series} is not declared")
                for daemon in METRICS[base].daemons:
                    own |= set(METRICS[base].all_labels(daemon))
            own |= {"model", "worker"} if ":roost" in query else set()  # of recorded series
            for labels in re.findall(r"(?:by|on) \(([^)]*)\)", query):
                self.assertLessEqual(set(re.findall(r"\w+", labels)), own, f"{what}: {query}")
            for series, matchers in selectors(query):
                for label in re.findall(r"(\w+)(?:=|!)", matchers):
                    self.assertIn(label, own, f"{what}: {series}")

    def test_counters_are_asked_for_rates_and_gauges_are_not(self):
        queries = [(f"{name}: {panel['title']}", target["expr"]) for name, _, panel, target in everything()]
        queries += [(rule.get("alert", rule.get("record")), rule["expr"]) for rule in RULES]
        for what, query in queries:
            rated = set(re.findall(r"\b(?:rate|increase)\((\w+)", query))
            for series in catalog.series_in(query):
                counts = METRICS[catalog.base_name(series, METRICS)].kind in ("counter", "histogram")
                self.assertEqual(series in rated, counts, f"{what}: {series}")

    def test_rates_follow_the_scrape_interval(self):
        for name, _, panel, target in everything():
            for window in re.findall(r"\[([^\]]*)\]", target["expr"]):
                self.assertEqual(window, "$__rate_interval", f"{name}: {panel['title']}")

    def test_quantiles_keep_the_buckets(self):
        queries = [target["expr"] for _, _, _, target in everything()] + [rule["expr"] for rule in RULES]
        for query in queries:
            self.assertEqual(query.count("histogram_quantile("), query.count("_bucket"), query)
            if "histogram_quantile(" in query:
                self.assertRegex(query, r"sum by \([^)]*\ble\b[^)]*\)")

    def test_promtool_reads_every_query(self):
        rules = [
            {"record": f"panel:{index}".replace("panel:", "panel_"), "expr": without_variables(target["expr"])}
            for index, (_, _, _, target) in enumerate(everything())
        ]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}, file)
            file.flush()
            done = subprocess.run(
                ["promtool", "check", "rules", "--lint=none", file.name, *map(str, RULE_FILES)], capture_output=True, text=True
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class ContractTest(unittest.TestCase):
    def test_names_say_kind_and_unit(self):
        for metric in METRICS.values():
            self.assertRegex(metric.name, r"^(roost|process)_[a-z0-9_]+$")
            self.assertEqual(metric.name.endswith("_total"), metric.kind == "counter", metric.name)
            self.assertFalse(re.search(r"_(ms|us|milliseconds|kb|mb|percent)\b", metric.name), metric.name)
            self.assertTrue(metric.help.endswith("."), metric.name)
            if metric.kind == "histogram":
                self.assertIn(metric.unit, ("seconds", "bytes", "tokens"), metric.name)
                self.assertEqual(list(metric.buckets), sorted(set(metric.buckets)), metric.name)
            self.assertEqual(bool(metric.buckets), metric.kind == "histogram", metric.name)

    def test_labels_are_declared_and_bounded(self):
        used = {label for metric in METRICS.values() for daemon in metric.daemons for label in metric.all_labels(daemon)}
        self.assertEqual(used, set(LABELS))
        for label in LABELS.values():
            self.assertGreater(label.most, 0)
            self.assertTrue(label.bound == "fixed" or label.most >= 256, label)

    def test_every_metric_is_used(self):
        used = {catalog.base_name(series, METRICS) for _, _, _, target in everything() for series in catalog.series_in(target["expr"])}
        used |= {catalog.base_name(series, METRICS) for rule in RULES for series in catalog.series_in(rule["expr"])}
        self.assertEqual(set(METRICS) - used, set(), "add a panel or a rule, or take the metric away")

    def test_code_makes_metrics_of_the_catalog_only(self):
        """worker/adapters reads those of other programs."""
        daemons = [*(ROOT / "router").rglob("*.cc"), *(ROOT / "worker").rglob("*.cc"), *(ROOT / "common").rglob("*.cc")]
        for path in (path for path in daemons if "adapters" not in path.parts):
            names = re.findall(r'"(roost_(?:router|worker)_\w+|process_(?!id)\w+)"', path.read_text())
            self.assertEqual(names, [], f"{path} names metrics that catalog.h should declare")

    def test_every_declared_metric_is_made(self):
        constants = re.findall(r"inline constexpr Metric (k\w+)\{", catalog.SOURCE.read_text())
        sources = [*ROOT.glob("router/**/*.cc"), *ROOT.glob("worker/**/*.cc"), *ROOT.glob("common/metrics/*.cc")]
        code = "\n".join(path.read_text() for path in sources)
        for constant in constants:
            self.assertRegex(code, rf"\b{constant}\b")


class RulesTest(unittest.TestCase):
    def test_alerts_say_what_it_is_and_what_to_do(self):
        alerts = [rule for rule in RULES if "alert" in rule]
        for rule in alerts:
            self.assertRegex(rule["alert"], r"^Roost[A-Z]\w+$")
            self.assertIn(rule["labels"]["severity"], SEVERITIES, rule["alert"])
            self.assertEqual(set(rule["annotations"]), {"summary", "description", "runbook_url"}, rule["alert"])
            self.assertRegex(rule["annotations"]["description"], r"\.$", rule["alert"])
        self.assertEqual(len({rule["alert"] for rule in alerts}), len(alerts))

    def test_texts_name_flags_and_metrics_that_exist(self):
        options = "".join((ROOT / f"{daemon}/options.cc").read_text() for daemon in ("router", "worker"))
        options += "".join(path.read_text() for path in (ROOT / "common").rglob("*.cc"))
        texts = [text for rule in RULES for text in rule.get("annotations", {}).values()]
        texts += [panel["description"] for board in BOARDS.values() for panel in panels(board)]
        for text in texts:
            for flag in re.findall(r"--([a-z][a-z-]+)", text):
                self.assertIn(f'"{flag}"', options, text)
            for name in re.findall(r"\broost_\w+", text):
                self.assertIn(name, [*METRICS, *(name + "_sum" for name in METRICS)], text)

    def test_recorded_names_say_their_labels(self):
        for rule in RULES:
            if "record" not in rule:
                continue
            levels, _, _ = rule["record"].split(":")
            grouped = re.search(r"by \(([^)]*)\)", rule["expr"]).group(1)
            self.assertEqual("_".join(label for label in re.findall(r"\w+", grouped) if label != "le"), levels)


if __name__ == "__main__":
    unittest.main()

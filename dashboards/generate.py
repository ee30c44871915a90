#!/usr/bin/env python3
"""Writes what follows from the boards, the rules and common/metrics/catalog.h: the dashboards, metrics.md, and the rules as
an object of the Prometheus operator.

    dashboards/generate.py            writes them
    dashboards/generate.py --check    writes nothing; fails and names the files that would change
"""

import argparse
import json
import pathlib
import re
import sys

import catalog
from board_cache import CACHE
from board_cluster import CLUSTER
from board_router import ROUTER
from board_worker import WORKER
from panels import COLOURS

HERE = pathlib.Path(__file__).resolve().parent
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # of Grafana's grid
# File -> board.
BOARDS = {"cluster.json": CLUSTER, "router.json": ROUTER, "worker.json": WORKER, "cache-and-routing.json": CACHE}
METRICS, LABELS = catalog.read()

# Variable -> the label that it filters by, its name for people, and the query of its values by board.
ANY_DAEMON = '{__name__=~"roost_router_active_requests|roost_worker_running_requests"}'
ROUTERS = "roost_router_active_requests"
WORKERS = "roost_worker_running_requests"
VARIABLES = {
    "job": ("job", "Job", {"roost-router": ROUTERS, "roost-worker": WORKERS}, ANY_DAEMON),
    "instance": ("instance", "Router", {}, ROUTERS + '{job=~"$job"}'),
    "model": ("model", "Model", {"roost-router": 'roost_router_queued_requests{job=~"$job"}'}, WORKERS + '{job=~"$job"}'),
    "worker": ("worker", "Worker", {}, WORKERS + '{job=~"$job",model=~"$model"}'),
}


# ---- queries ----


def labels_on(board, metric):
    """The labels by which this board's variables can filter the metric. A metric of both daemons is on the worker's
    board a worker's, elsewhere anyone's."""
    daemons = metric.daemons if board["uid"] != "roost-worker" or len(metric.daemons) == 1 else ("worker",)
    common = set.intersection(*(set(metric.all_labels(daemon)) for daemon in daemons))
    return {"job", "instance"} | common


def with_selectors(board, query):
    """Adds the board's variables to every metric of a query."""

    def select(match):
        base = catalog.base_name(match.group(1), METRICS)
        if base is None:
            raise ValueError(f"{match.group(1)} is no series of a declared metric: {query}")
        can = labels_on(board, METRICS[base])
        conditions = [
            f'{VARIABLES[name][0]}=~"${name}"' for name in board["variables"] if VARIABLES[name][0] in can
        ]
        if match.group(2):
            conditions.append(match.group(2))
        return f"{match.group(1)}{{{','.join(conditions)}}}"

    return re.sub(r"\b((?:roost|process)_\w+)(?:\{([^}]*)\})?", select, query)


# ---- Grafana's JSON ----


def thresholds_of(panel):
    steps = [{"value": value, "color": color} for value, color in panel.get("thresholds", [(None, "green")])]
    return {"mode": "absolute", "steps": steps}


def field_config(panel):
    defaults = {"unit": panel["unit"], "thresholds": thresholds_of(panel)}
    for bound in ("min", "max"):
        if bound in panel:
            defaults[bound] = panel[bound]
    if panel["kind"] == "timeseries":
        stack = {"mode": "normal" if panel.get("stack") else "none", "group": "A"}
        defaults["custom"] = {"fillOpacity": 20 if panel.get("stack") else 0, "lineWidth": 1, "showPoints": "never", "stacking": stack}
        defaults["color"] = {"mode": "palette-classic-by-name"}
    return {"defaults": defaults, "overrides": overrides_of(panel)}


def overrides_of(panel):
    """Fixed colours for the legends that are a label's value alone."""
    names = {}
    for legend, _ in panel["targets"]:
        label = re.fullmatch(r"\{\{(\w+)\}\}", legend)
        names |= COLOURS.get(label.group(1), {}) if label else {}
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for name, colour in names.items()
    ]


def options_of(panel):
    if panel["kind"] == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def panel_json(board, panel, number, place):
    targets = [
        {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": with_selectors(board, query), "legendFormat": legend}
        for index, (legend, query) in enumerate(panel["targets"])
    ]
    return {
        "id": number,
        "type": panel["kind"],
        "title": panel["title"],
        "description": panel["description"],
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": field_config(panel),
        "options": options_of(panel),
        "targets": targets,
    }


def panels_json(board):
    panels = []
    top = 0
    for row in board["rows"]:
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        panels.append({"id": len(panels) + 1, "type": "row", "title": row["title"], "collapsed": False, "gridPos": place, "panels": []})
        top += 1
        left = 0
        height = 4 if row["panels"][0]["kind"] == "stat" else 8
        for panel in row["panels"]:
            width = panel.get("width", 8)
            if left + width > WIDTH:
                left, top = 0, top + height
            place = {"x": left, "y": top, "w": width, "h": height}
            panels.append(panel_json(board, panel, len(panels) + 1, place))
            left += width
        top += height
    return panels


def variable_json(board, name):
    label, title, by_board, elsewhere = VARIABLES[name]
    query = f"label_values({by_board.get(board['uid'], elsewhere)}, {label})"
    return {
        "name": name,
        "label": title,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def board_json(board):
    datasource = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    links = [
        {"title": "Roost", "type": "dashboards", "tags": ["roost"], "asDropdown": True, "keepTime": True, "includeVars": True}
    ]
    return {
        "uid": board["uid"],
        "title": board["title"],
        "tags": ["roost"],
        "id": None,
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": links,
        "templating": {"list": [datasource, *(variable_json(board, name) for name in board["variables"])]},
        "annotations": {"list": []},
        "panels": panels_json(board),
    }


# ---- metrics.md ----


def users():
    """Metric -> the boards and rules that use it."""
    used = {name: [] for name in METRICS}

    def note(queries, user):
        for name in sorted({catalog.base_name(series, METRICS) for series in catalog.series_in(queries)} - {None}):
            used[name].append(user)

    for file, board in BOARDS.items():
        queries = [query for row in board["rows"] for panel in row["panels"] for _, query in panel["targets"]]
        note("\n".join(queries), file.removesuffix(".json"))
    for path in sorted((HERE / "rules").glob("*.yaml")):
        note(path.read_text(), "rules")
    return used


def buckets_by_bounds():
    """Upper bounds -> the histograms that have them."""
    found = {}
    for metric in METRICS.values():
        if metric.buckets:
            found.setdefault(metric.buckets, []).append(metric.name)
    return found


def bound_of(label):
    return {"fixed": f"at most {label.most}", "registry": f"{label.most}, then `other`", "owner": f"at most {label.most}"}[label.bound]


def metrics_page():
    used = users()
    lines = [
        "# Metrics",
        "",
        "<!-- Written by dashboards/generate.py from common/metrics/catalog.h. -->",
        "",
        "Every metric of both daemons. What changes here breaks somebody's dashboard or alert: add, do not rename. All",
        "series of a fixed list exist from the daemon's start, those of a model since a worker of it connected, those of a",
        "worker as long as it is connected. `roost_worker_…` and the worker's own `process_…` carry the labels `model` and",
        "`worker` too.",
        "",
        "## Labels",
        "",
        "| label | values of a metric in one process | what it is |",
        "| --- | --- | --- |",
        *(f"| `{label.name}` | {bound_of(label)} | {label.help} |" for label in LABELS.values()),
    ]
    for title, belongs in (
        ("Both daemons", lambda metric: len(metric.daemons) == 2),
        ("Router", lambda metric: metric.daemons == ("router",)),
        ("Worker", lambda metric: metric.daemons == ("worker",)),
    ):
        lines += ["", f"## {title}", "", "| metric | type | unit | labels | what it counts | used by |", "| --- | --- | --- | --- | --- | --- |"]
        for metric in filter(belongs, METRICS.values()):
            labels = ", ".join(f"`{name}`" for name in metric.labels)
            lines.append(
                f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} | {', '.join(used[metric.name])} |"
            )
    lines += ["", "## Buckets of histograms", ""]
    for bounds, names in buckets_by_bounds().items():
        lines += [f"- {', '.join(f'{bound:.10g}' for bound in bounds)}: {', '.join(f'`{name}`' for name in names)}"]
    return "\n".join(lines) + "\n"


# ---- the Prometheus operator's rules ----

PROMETHEUS_RULE = """# Written by dashboards/generate.py from dashboards/rules.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: roost
  labels: {app.kubernetes.io/name: roost, app.kubernetes.io/instance: roost}
spec:
  groups:
"""


def prometheus_rule():
    groups = []
    for path in sorted((HERE / "rules").glob("*.yaml")):
        _, _, text = path.read_text().partition("groups:\n")
        groups += ["  " + line if line else "" for line in text.splitlines()]
    return PROMETHEUS_RULE + "\n".join(groups) + "\n"


def outputs():
    """File -> text."""
    files = {HERE / name: json.dumps(board_json(board), indent=2) + "\n" for name, board in BOARDS.items()}
    files[HERE / "metrics.md"] = metrics_page()
    files[HERE.parent / "deploy/components/monitoring/rules.yaml"] = prometheus_rule()
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    changed = [path for path, text in outputs().items() if not path.exists() or path.read_text() != text]
    for path in changed:
        print(f"{path.name} {'is not up to date: run dashboards/generate.py' if check else 'written'}")
        if not check:
            path.write_text(outputs()[path])
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())

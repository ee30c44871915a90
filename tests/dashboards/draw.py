"""Draws dashboards with the data of a real cluster; see draw.sh. Prints: figure dashboard_picture_kib N KiB"""

import argparse
import datetime
import json
import math
import pathlib
import re
import sys
import tempfile

import matplotlib
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib import dates, ticker  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))

from prometheus import with_all_chosen  # noqa: E402
from watched_cluster import WatchedCluster  # noqa: E402

PICTURES = ROOT / "dashboards/pictures"
DRAWN = ("cluster", "cache-and-routing")
GRID_WIDTH = 24
INCHES_WIDE = 15
INCHES_PER_ROW = 0.22  # of the grid
DPI = 90
COLOURS = 128
MAX_BYTES = 1_000_000
INK, PALE = "#2b2f36", "#8a919c"
MOST_LEGENDS = 8
LEGEND_WIDTH = 90  # letters
RATE_INTERVAL = "15s"  # the run is short


def number(value, unit):
    """As Grafana writes it, about."""
    if not math.isfinite(value):
        return "–"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return f"{value / 3600:.3g} h" if value >= 7200 else f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"
    if unit in ("bytes", "Bps"):
        power = max(0, min(4, int(math.log(max(abs(value), 1), 1024))))
        return f"{value / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}" + ("/s" if unit == "Bps" else "")
    suffix = {"reqps": " req/s", "cps": " /s"}.get(unit, "")
    return f"{value:.3g}{suffix}" if abs(value) < 1000 else f"{value / 1000:.3g}k{suffix}"


def legend_of(template, labels):
    for name, value in labels.items():
        template = template.replace("{{" + name + "}}", value)
    return re.sub(r"\{\{\w+\}\}", "", template).strip()


def curves_of(prometheus, panel):
    """[(legend, times, values)] of a panel, without those that have no number."""
    found = []
    for target in panel["targets"]:
        for labels, points in prometheus.curves(with_all_chosen(target["expr"], RATE_INTERVAL)):
            points = [(datetime.datetime.fromtimestamp(when), value) for when, value in points if math.isfinite(value)]
            if points:
                found.append((legend_of(target["legendFormat"], labels), *map(list, zip(*points))))
    return found


def draw_stat(axes, curves, unit):
    axes.set_axis_off()
    text = number(curves[0][2][-1], unit) if curves else "no data"
    axes.text(0.5, 0.4, text, ha="center", va="center", fontsize=17, color="#1f7a4d", transform=axes.transAxes)


def draw_curves(axes, panel, curves):
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    if stacked and curves:
        times = sorted({when for _, moments, _ in curves for when in moments})
        rows = [[dict(zip(moments, values)).get(when, 0) for when in times] for _, moments, values in curves]
        axes.stackplot(times, rows, labels=[legend for legend, _, _ in curves], alpha=0.75)
    else:
        for legend, moments, values in curves:
            axes.plot(moments, values, linewidth=1.1, label=legend)
    axes.set_ylim(bottom=defaults.get("min"), top=defaults.get("max"))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(value, defaults["unit"])))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
    axes.xaxis.set_major_locator(ticker.MaxNLocator(4))
    axes.tick_params(labelsize=6, colors=PALE, length=2)
    axes.grid(color="#e6e8eb", linewidth=0.6)
    for side in axes.spines.values():
        side.set_visible(False)
    if curves:
        handles, legends = (each[:MOST_LEGENDS] for each in axes.get_legend_handles_labels())
        columns = max(1, min(4, LEGEND_WIDTH // max(map(len, legends))))
        axes.legend(handles, legends, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=columns, fontsize=5.5, frameon=False,
                    handlelength=1, columnspacing=1)


def draw(board, prometheus, path):
    panels = board["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) + 2
    figure = plt.figure(figsize=(INCHES_WIDE, rows * INCHES_PER_ROW), dpi=DPI)
    figure.text(0.01, 1 - 1 / rows, board["title"], fontsize=14, color=INK, va="center")
    for panel in panels:
        place = panel["gridPos"]
        left, top = place["x"] / GRID_WIDTH, 1 - (place["y"] + 2) / rows
        if panel["type"] == "row":
            figure.text(0.01, top - 0.5 / rows, panel["title"], fontsize=10, color=INK, va="center", weight="bold")
            continue
        width, height = place["w"] / GRID_WIDTH, place["h"] / rows
        own_unit = panel["fieldConfig"]["defaults"]["unit"].partition("suffix: ")[2]
        title = panel["title"] + (f", {own_unit}" if own_unit else "")
        figure.text(left + 0.012, top - 0.7 / rows, title, fontsize=7.5, color=INK, va="center")
        axes = figure.add_axes((left + 0.035, top - height + 2.2 / rows, width - 0.045, height - 3.6 / rows))
        curves = curves_of(prometheus, panel)
        if panel["type"] == "stat":
            draw_stat(axes, curves, panel["fieldConfig"]["defaults"]["unit"])
        else:
            draw_curves(axes, panel, curves)
    figure.savefig(path, bbox_inches="tight")  # a long legend of the last row reaches below the figure
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short run into a folder of its own")
    quick = parser.parse_args().quick
    folder = pathlib.Path(tempfile.mkdtemp()) if quick else PICTURES
    folder.mkdir(exist_ok=True)
    calm, trouble = (1, 1) if quick else (45, 20)
    with WatchedCluster() as watched:
        watched.start_traffic()
        watched.stopping.wait(calm)
        watched.overload(trouble)
        watched.stopping.wait(calm)
        watched.kill_a_worker(trouble)
        watched.stopping.wait(calm)
        watched.check_traffic()
        for name in DRAWN:
            path = folder / f"{name}.png"
            draw(json.loads((ROOT / f"dashboards/{name}.json").read_text()), watched.prometheus, path)
            size = path.stat().st_size
            if size > MAX_BYTES:
                raise SystemExit(f"{path} has {size} bytes, at most {MAX_BYTES} are wanted")
            print(f"{path}\nfigure dashboard_picture_kib_{name.replace('-', '_')} {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()

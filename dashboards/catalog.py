"""The metrics contract, read from common/metrics/catalog.h: every metric and label of the daemons."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / "common/metrics/catalog.h"
# Last words of names that are not the unit themselves.
UNITS = {"ratio": "0 to 1", "info": "1", "mode": "0 or 1", "fds": "descriptors"}
# Prometheus makes these of a histogram.
HISTOGRAM_SUFFIXES = ("_bucket", "_count", "_sum")


@dataclasses.dataclass(frozen=True)
class Metric:
    kind: str  # counter, gauge or histogram
    name: str
    labels: tuple  # without the worker's constant ones
    help: str
    buckets: tuple  # upper bounds, as they are written; of histograms

    @property
    def unit(self):
        word = self.name.removesuffix("_total").rsplit("_", 1)[-1]
        return UNITS.get(word, word)

    @property
    def daemons(self):
        """Those that export it."""
        named = re.match(r"roost_(router|worker)_", self.name)
        return (named.group(1),) if named else ("router", "worker")

    def all_labels(self, daemon):
        return (*CONSTANT_LABELS[daemon], *self.labels)


@dataclasses.dataclass(frozen=True)
class Label:
    name: str
    most: int
    bound: str  # fixed, registry or owner
    help: str


# On all series of the daemon.
CONSTANT_LABELS = {"router": (), "worker": ("model", "worker")}


def _text(literals):
    """C++ string literals side by side."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


def read():
    """The metrics and the labels, by name."""
    source = SOURCE.read_text()
    metrics = re.findall(
        r'inline constexpr Metric k\w+\{Kind::k(\w+), "(\w+)", "([\w,]*)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)(?:, (k\w+))?\};', source
    )
    bounds = {
        name: tuple(float(bound) for bound in values.split(","))
        for name, values in re.findall(r"inline constexpr std::array (k\w+)\{([\d.,\s]+)\};", source)
    }
    labels = re.findall(r'Label\{"(\w+)", (\d+), Label::Bound::k(\w+), ("(?:[^"\\]|\\.)*")\}', source)
    if len(metrics) != source.count("inline constexpr Metric "):
        raise ValueError(f"{SOURCE}: a metric is not declared like the others")
    return (
        {
            name: Metric(kind.lower(), name, tuple(filter(None, names.split(","))), _text(help_text), bounds.get(buckets, ()))
            for kind, name, names, help_text, buckets in metrics
        },
        {name: Label(name, int(most), bound.lower(), _text(help_text)) for name, most, bound, help_text in labels},
    )


def base_name(series, metrics):
    """The declared metric that a series' name belongs to, or None."""
    if series in metrics:
        return None if metrics[series].kind == "histogram" else series
    for suffix in HISTOGRAM_SUFFIXES:
        base = series.removesuffix(suffix)
        if base != series and base in metrics and metrics[base].kind == "histogram":
            return base
    return None


def series_in(query):
    """The names of a query's series: declared ones or not, without recorded ones, which have a colon."""
    return [name for name in re.findall(r"(?<![\w:])(?:roost|process)_\w+(?![\w:])", query)]

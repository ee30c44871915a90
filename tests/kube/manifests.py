"""Renders the folders of deploy/, for tests."""

import copy
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
sys.path.insert(0, str(DEPLOY))

import render  # noqa: E402

FOLDERS = ("base", "overlays/apart", "overlays/cpu", "overlays/cuda", "overlays/disk", "overlays/models", "overlays/monitoring", "overlays/secure",
           "overlays/production", "overlays/vllm")
ENGINE = "engine"  # the container of another program, beside a worker


@functools.lru_cache
def rendered_once(folder):
    return render.render(DEPLOY / folder)


def rendered(folder):
    """The caller may change the result."""
    return copy.deepcopy(rendered_once(folder))


def examples():
    """The objects of deploy/examples. Those that are patches of the base, patched."""
    base = {render.identity(document): document for document in rendered("base")}
    found = [document for path in sorted((DEPLOY / "examples").glob("*.yaml")) for document in render.documents(path)]
    return [render.merged(base.get(render.identity(document), {}), document) for document in found]


def of_kind(documents, *kinds):
    return {document["metadata"]["name"]: document for document in documents if document["kind"] in kinds}


def pods(documents):
    """Name of the workload -> its pod template."""
    return {name: document["spec"]["template"]
            for name, document in of_kind(documents, "Deployment", "StatefulSet").items()}


def containers(pod):
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def variables(container):
    """Its environment; a value that comes from a field or a Secret is given as {…}."""
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container.get("env", [])}


# What fields of a pod may be, for a daemon that reads them.
FIELDS = {"metadata.name": "roost-worker-0", "status.podIP": "10.77.0.5"}


def environment(container):
    """The variables as a kubelet passes them on: fields filled in, and $(NAME) of variables that stand before."""
    values = {}
    for name, value in variables(container).items():
        text = value if isinstance(value, str) else FIELDS[value["fieldRef"]["fieldPath"]]
        values[name] = re.sub(r"\$\((\w+)\)", lambda found: values.get(found[1], found[0]), text)
    return values


def matches(selector, labels):
    """Whether a label selector takes these labels."""
    unknown = selector.keys() - {"matchLabels"}
    assert not unknown, f"selectors with {unknown} are not understood"
    return selector.get("matchLabels", {}).items() <= labels.items()

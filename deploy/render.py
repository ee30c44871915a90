#!/usr/bin/env python3
"""Renders a folder of these manifests for a kubectl that is too old to (before 1.22), or without one.

    python3 deploy/render.py deploy/overlays/cpu | kubectl apply -f -

It knows the part of Kustomize that the folders here use, and refuses the rest by name. `kubectl kustomize` gives the
same objects; a test compares them. Needs Debian's python3-yaml.
"""

import argparse
import copy
import json
import pathlib
import sys

import yaml

KNOWN_FIELDS = {"apiVersion", "kind", "namespace", "labels", "resources", "components", "patches", "images",
                "configMapGenerator"}
# By what the entries of a list are told apart in a strategic merge. Lists of other names are replaced as a whole.
MERGE_KEYS = {
    "containers": ["name"], "initContainers": ["name"], "env": ["name"], "volumes": ["name"],
    "volumeMounts": ["mountPath"], "ports": ["containerPort", "port"],
}  # fmt: skip
# Objects of operators have no merge keys: their lists are replaced as a whole.
BUILT_IN = ("v1", "apps/", "autoscaling/", "batch/", "policy/", "networking.k8s.io/")
CLUSTER_WIDE = {"Namespace"}


class RenderError(Exception):
    pass


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def identity(document):
    return document["kind"], document["metadata"]["name"]


def merged(base, patch, field=None, lists=True):
    """`patch` merged into `base` strategically; with lists=False as a JSON merge patch, without keys."""
    if isinstance(base, dict) and isinstance(patch, dict):
        result = dict(base)
        for name, value in patch.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = merged(base.get(name), value, name, lists)
        return result
    key = merge_key(field, patch) if lists and isinstance(base, list) and isinstance(patch, list) else None
    return merged_lists(base, patch, key) if key else copy.deepcopy(patch)


def merge_key(field, entries):
    return next((key for key in MERGE_KEYS.get(field, []) if all(key in entry for entry in entries)), None)


def merged_lists(base, patch, key):
    """The entries of the patch first, as Kustomize has them, then the others."""
    by_key = {entry[key]: entry for entry in base}
    named = {entry[key] for entry in patch}
    kept = [merged(by_key.get(entry[key]), entry) for entry in patch if entry.get("$patch") != "delete"]
    return kept + [entry for entry in base if entry[key] not in named]


def apply_operations(document, operations):
    for operation in operations:
        *parents, last = operation["path"].strip("/").split("/")
        target = document
        for name in parents:
            try:
                target = target[int(name) if isinstance(target, list) else name]
            except (KeyError, IndexError):
                raise RenderError(f"{identity(document)}: has no {name}, which {operation['path']} needs") from None
        if operation["op"] == "add" and isinstance(target, list) and last == "-":
            target.append(copy.deepcopy(operation["value"]))
        elif operation["op"] == "add" and isinstance(target, dict):
            target[last] = copy.deepcopy(operation["value"])
        elif operation["op"] == "remove" and last in target:
            del target[last]
        else:
            raise RenderError(f"{identity(document)}: only existing members can be removed: {operation}")


def is_target(target, document):
    """Does a patch with this `target` change the document?"""
    if target["kind"] != document["kind"] or target.get("name", document["metadata"]["name"]) != document["metadata"]["name"]:
        return False
    wanted = dict(pair.split("=") for pair in target.get("labelSelector", "").split(",") if pair)
    return wanted.items() <= document["metadata"].get("labels", {}).items()


class Folder:
    """A folder with a kustomization.yaml."""

    def __init__(self, path):
        self.path = path
        self.fields = yaml.safe_load((path / "kustomization.yaml").read_text())
        self.check(self.fields)

    def check(self, fields):
        unknown = fields.keys() - KNOWN_FIELDS
        if unknown:
            raise RenderError(f"{self.path}: fields that this script does not know: {', '.join(sorted(unknown))}")

    def render(self, below=()):
        """The documents of this folder. A component changes those `below` it."""
        result = list(below)
        for name in self.fields.get("resources", []):
            target = self.path / name
            result += Folder(target.resolve()).render() if target.is_dir() else documents(target)
        result += [self.config_map(generator) for generator in self.fields.get("configMapGenerator", [])]
        for name in self.fields.get("components", []):
            result = Folder((self.path / name).resolve()).render(result)
        for patch in self.fields.get("patches", []):
            result = self.patched(result, patch)
        for document in result:
            self.transform(document)
        return result

    def config_map(self, generator):
        options = generator["options"]
        if not options.get("disableNameSuffixHash"):
            raise RenderError(f"{self.path}: names with a hash are not rendered: {generator['name']}")
        return {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": generator["name"], "labels": dict(options.get("labels", {}))},
                "data": {name: (self.path / name).read_text() for name in generator["files"]}}

    def patched(self, result, patch):
        changes = documents(self.path / patch["path"]) if "path" in patch else [yaml.safe_load(patch["patch"])]
        for change in changes:
            operations = change if isinstance(change, list) else None
            target = patch.get("target") or dict(zip(("kind", "name"), identity(change)))
            hit = [i for i, document in enumerate(result) if is_target(target, document)]
            if not hit and "target" not in patch:
                raise RenderError(f"{self.path}: there is no {target} to patch")
            for i in hit:
                result[i] = copy.deepcopy(result[i])
                if operations:
                    apply_operations(result[i], operations)
                else:
                    result[i] = merged(result[i], change, lists=result[i]["apiVersion"].startswith(BUILT_IN))
        return result

    def transform(self, document):
        if "namespace" in self.fields and document["kind"] not in CLUSTER_WIDE:
            document["metadata"]["namespace"] = self.fields["namespace"]
        for labels in self.fields.get("labels", []):
            if labels.get("includeSelectors"):
                raise RenderError(f"{self.path}: labels of selectors are not rendered")
            document["metadata"].setdefault("labels", {}).update(labels["pairs"])
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
            for image in self.fields.get("images", []):
                container["image"] = self.renamed(container["image"], image)

    @staticmethod
    def renamed(reference, image):
        name, colon, tag = reference.partition(":")
        if name != image["name"]:
            return reference
        tag = str(image.get("newTag", tag))
        return image.get("newName", name) + (f":{tag}" if tag else colon)


def render(path):
    """The objects of the folder at `path`, with all that it is made of."""
    return Folder(pathlib.Path(path).resolve()).render()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="for example deploy/overlays/cpu")
    options = parser.parse_args()
    try:
        rendered = render(options.folder)
    except (OSError, RenderError, yaml.YAMLError) as error:
        print(f"render.py: {error}", file=sys.stderr)
        return 1
    # JSON is YAML, and no YAML reader takes its strings for numbers.
    print("\n---\n".join(json.dumps(document, indent=1) for document in rendered))
    return 0


if __name__ == "__main__":
    sys.exit(main())

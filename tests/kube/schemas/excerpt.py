#!/usr/bin/env python3
"""Makes the JSON Schema of one version of a CustomResourceDefinition, without descriptions and strict: a field that the
definition does not have is an error. README.md has the commands that made the files beside this script.

    excerpt.py crd.yaml v1 [--without FIELD …] > podmonitor-v1.json

--without leaves out the properties of that name; a manifest that uses one is then refused, so nothing passes unseen.
"""

import argparse
import json
import sys

import yaml

KEPT = {"type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "format",
        "required", "anyOf", "oneOf", "not"}


def strict(schema, without):
    kept = {name: value for name, value in schema.items() if name in KEPT}
    if schema.get("x-kubernetes-int-or-string"):
        kept = {"type": ["integer", "string"]}
    if "items" in schema:
        kept["items"] = strict(schema["items"], without)
    if "properties" in schema:
        kept["properties"] = {name: strict(value, without) for name, value in schema["properties"].items()
                              if name not in without}
        kept["required"] = [name for name in kept.get("required", []) if name not in without]
        kept["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    elif isinstance(schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = strict(schema["additionalProperties"], without)
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("crd")
    parser.add_argument("version")
    parser.add_argument("--without", nargs="*", default=[])
    options = parser.parse_args()
    with open(options.crd, encoding="utf-8") as file:
        definition = yaml.safe_load(file)
    version = next(v for v in definition["spec"]["versions"] if v["name"] == options.version)
    schema = strict(version["schema"]["openAPIV3Schema"], set(options.without))
    schema["properties"]["metadata"] = {"type": "object"}
    schema["properties"]["kind"] = {"enum": [definition["spec"]["names"]["kind"]]}
    schema["properties"]["apiVersion"] = {"enum": [f"{definition['spec']['group']}/{options.version}"]}
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    json.dump(schema, sys.stdout, indent=None, separators=(",", ":"), sort_keys=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Validates every rendered manifest strictly; see validate.sh."""

import json
import pathlib
import sys

import jsonschema
import kubernetes_validate

import manifests

SCHEMAS = pathlib.Path(__file__).parent / "schemas"
# The oldest release that the manifests are for, and the newest that the package knows.
RELEASES = ("1.27", kubernetes_validate.latest_version())


def operators_schemas():
    """(apiVersion, kind) -> schema, of the files beside this one."""
    schemas = {}
    for path in SCHEMAS.glob("*.json"):
        schema = json.loads(path.read_text())
        members = schema["properties"]
        schemas[members["apiVersion"]["enum"][0], members["kind"]["enum"][0]] = schema
    return schemas


def problems(document, schemas):
    schema = schemas.get((document["apiVersion"], document["kind"]))
    if schema:
        return [error.message + " at " + error.json_path
                for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]
    found = []
    for release in RELEASES:
        try:
            kubernetes_validate.validate(document, release, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{error.message} at {error.json_path} (Kubernetes {release})")
        except kubernetes_validate.SchemaNotFoundError as error:
            found.append(error.message)
    return found


def broken(document):
    """Copies of the document with one unknown field each, at its top, in its spec and in its first container."""
    for path in ([], ["spec"], ["spec", "template", "spec", "containers", 0]):
        copy = json.loads(json.dumps(document))
        target = copy
        try:
            for step in path:
                target = target[step]
        except KeyError:
            continue
        target["noSuchField"] = 1
        yield path, copy


def main():
    schemas = operators_schemas()
    sets = {folder: manifests.rendered(folder) for folder in manifests.FOLDERS}
    sets["examples"] = manifests.examples()
    valid = 0
    is_failed = False
    for name, documents in sets.items():
        for document in documents:
            found = problems(document, schemas)
            found += [f"an unknown field in {path or 'it'} was accepted" for path, wrong in broken(document)
                      if not problems(wrong, schemas)]
            for problem in found:
                print(f"{name}: {document['kind']} {document['metadata']['name']}: {problem}")
            valid += not found
            is_failed = is_failed or bool(found)
    print(f"figure manifests_validated {valid} manifests")
    return 1 if is_failed else 0


if __name__ == "__main__":
    sys.exit(main())

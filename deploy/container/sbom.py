#!/usr/bin/env python3
"""Prints the list of parts of an image (a software bill of materials) as SPDX 2.3 JSON: Debian's packages in its root
with their versions, and what is compiled into the programs. Scanners find known holes by it.

  sbom.py roost-router 0.1.0 --root IMAGE --build-root BUILD [--wheels cuda.txt] [--created 2026-11-25T00:00:00Z]

It reads only var/lib/dpkg/status of both roots. The same input gives the same output.
"""

import argparse
import hashlib
import json
import pathlib
import re
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
# Debian package of the build -> SPDX licence. Programs hold code of these. They load other libraries as shared objects,
# whose packages are in the image.
HEADERS = {
    "cppzmq-dev": "MIT",
    "libboost1.81-dev": "BSL-1.0",
    "libcli11-dev": "BSD-3-Clause",
    "libhwy-dev": "Apache-2.0",
}
# Sources that xgrammar brings along, and Roost compiles.
IN_XGRAMMAR = {"dlpack": "Apache-2.0", "picojson": "BSD-2-Clause"}
COMPILE_ONLY_WHEELS = {"nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt"}
NVIDIA_LICENCE = "LicenseRef-NVIDIA-CUDA"


def installed(root):
    """The stanzas of the packages that are installed in `root`, by name."""
    stanzas = (pathlib.Path(root) / "var/lib/dpkg/status").read_text().split("\n\n")
    fields = [dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.MULTILINE)) for stanza in stanzas]
    return {each["Package"]: each for each in fields if each.get("Status") == "install ok installed"}


def xgrammar_version(packages_script):
    return re.search(r"^xgrammar_version=(\S+)$", packages_script.read_text(), re.MULTILINE).group(1)


def package(name, version=None, purl=None, licence="NOASSERTION", **more):
    """`licence` is that of the package as a whole, as its authors state it."""
    entry = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", more.pop("key", name)),
        "name": name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        **more,
    }
    if version is not None:
        entry["versionInfo"] = version
    if purl is not None:
        entry["externalRefs"] = [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
        ]
    return entry


def debian_purl(fields):
    """Scanners look for holes by the source package, which `upstream` names where its name is another one."""
    version = urllib.parse.quote(fields["Version"], safe="")
    source = re.match(r"\S+", fields.get("Source", fields["Package"])).group(0)
    upstream = "" if source == fields["Package"] else f"&upstream={urllib.parse.quote(source, safe='')}"
    name = urllib.parse.quote(fields["Package"], safe="")
    return f"pkg:deb/debian/{name}@{version}?arch={fields['Architecture']}&distro=debian-12{upstream}"


def debian_package(fields, **more):
    supplier = "Organization: " + re.sub(r"\s*<(.*)>$", r" (\1)", fields["Maintainer"])
    return package(fields["Package"], fields["Version"], debian_purl(fields), supplier=supplier, **more)


def compiled_in(build_root, packages_script):
    version = xgrammar_version(packages_script)
    yield package("xgrammar", version, f"pkg:pypi/xgrammar@{version}", "Apache-2.0")
    for name, licence in IN_XGRAMMAR.items():
        yield package(name, licence=licence, comment=f"as it comes with xgrammar {version}")
    of_build = installed(build_root)
    for name, licence in HEADERS.items():
        yield debian_package(of_build[name], key=f"compiled-{name}", licence=licence)


def wheels(listing):
    """Packages that the CUDA backend holds or loads."""
    for name, version in re.findall(r"^([\w-]+)==(\S+) ", pathlib.Path(listing).read_text(), re.MULTILINE):
        if name not in COMPILE_ONLY_WHEELS:
            yield package(name, version, f"pkg:pypi/{name}@{version}", NVIDIA_LICENCE)


def relationship(element, kind, related):
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": related}


def document(arguments, packages_script):
    image = package(arguments.name, arguments.version, licence="Apache-2.0", primaryPackagePurpose="CONTAINER")
    held = [debian_package(fields) for _, fields in sorted(installed(arguments.root).items())]
    linked = list(compiled_in(arguments.build_root, packages_script))
    held += wheels(arguments.wheels) if arguments.wheels else []
    relationships = [relationship("SPDXRef-DOCUMENT", "DESCRIBES", image["SPDXID"])]
    relationships += [relationship(image["SPDXID"], "CONTAINS", part["SPDXID"]) for part in held]
    relationships += [relationship(image["SPDXID"], "STATIC_LINK", part["SPDXID"]) for part in linked]
    packages = [image, *held, *linked]
    content = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    made = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{arguments.name}-{arguments.version}",
        "documentNamespace": f"urn:sha256:{content}",
        "creationInfo": {"created": arguments.created, "creators": ["Tool: roost-sbom"]},
        "documentDescribes": [image["SPDXID"]],
        "packages": packages,
        "relationships": relationships,
    }
    if arguments.wheels:
        made["hasExtractedLicensingInfos"] = [{
            "licenseId": NVIDIA_LICENCE,
            "name": "End user licence agreement of NVIDIA's CUDA toolkit",
            "extractedText": "The text is in the image, in /usr/share/doc/roost/nvidia.",
        }]
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the image")
    parser.add_argument("version")
    parser.add_argument("--root", required=True, help="root of the image")
    parser.add_argument("--build-root", required=True, help="root of the system that compiled the programs")
    parser.add_argument("--wheels", help="list of NVIDIA's wheels, if the CUDA backend is in the image")
    parser.add_argument("--created", default="1970-01-01T00:00:00Z", help="time of the document")
    arguments = parser.parse_args()
    beside = [folder / "packages.sh" for folder in (HERE, HERE.parent)]
    print(json.dumps(document(arguments, next(path for path in beside if path.is_file())), indent=1))


if __name__ == "__main__":
    main()

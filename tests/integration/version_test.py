"""A release has one version, that of CMakeLists.txt: programs, images, packages, manifests and pages have it too."""

import json
import re
import subprocess
import unittest

from cluster import BIN, ROOT, Cluster

VERSION = re.search(r"^project\(roost VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE).group(1)
# Matches the versions of Roost in a file of deploy/.
MENTIONS = re.compile(
    r"roost-(?:router|worker-cpu|worker-cuda):(\d[\w.]*)"  # an image
    r"|(?:newTag|appVersion|app\.kubernetes\.io/version): \"?(\d[\w.]*)"
    r"|(?:roost-router|roost-worker|roostctl)_(\d[\w.]*)_"  # a package
)


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True,
                            text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


class VersionTest(unittest.TestCase):
    def test_programs(self):
        for program in ("roost-router", "roost-worker", "roostctl"):
            printed = subprocess.run([BIN / program, "--version"], capture_output=True, text=True, check=True).stdout
            self.assertEqual(printed.strip(), VERSION, program)

    def test_a_running_router(self):
        with Cluster() as cluster:
            answer = cluster.start_router().request("GET", "/version")
            self.assertEqual(json.loads(answer.body)["version"], VERSION)

    def test_images(self):
        command = [ROOT / "deploy/container/build.sh", "--version"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.strip(), VERSION)

    def test_manifests_and_pages(self):
        found = {}
        for path in tracked("deploy/*.yaml", "deploy/*.md", "README.md"):
            for mention in MENTIONS.finditer(path.read_text()):
                found.setdefault(path.name, set()).add(next(filter(None, mention.groups())))
        self.assertLessEqual({"kustomization.yaml", "compose.yaml", "README.md"}, found.keys())
        self.assertEqual({name: versions for name, versions in found.items() if versions != {VERSION}}, {})

    def test_the_chart(self):
        chart = ROOT / "deploy/helm/roost/Chart.yaml"
        found = re.findall(r"^(version|appVersion): \"?([\w.]+)\"?$", chart.read_text(), re.MULTILINE)
        self.assertEqual(dict(found), {"version": VERSION, "appVersion": VERSION})


if __name__ == "__main__":
    unittest.main()

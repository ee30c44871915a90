"""deploy/release/workflow.yaml, without GitHub: its shape, its rights, its scripts and what they name. And what the scripts
that build images hand on behind a proxy."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOW = yaml.safe_load((ROOT / "deploy/release/workflow.yaml").read_text())
JOBS = WORKFLOW["jobs"]
VERSION = subprocess.run([ROOT / "deploy/container/build.sh", "--version"], capture_output=True, text=True, check=True).stdout.strip()
# YAML reads the key `on` as true.
TRIGGER = WORKFLOW[True]
RIGHTS = {
    "check": {"contents": "read"},
    "packages": {"contents": "read"},
    "images": {"contents": "read", "packages": "write", "id-token": "write"},
    "publish": {"contents": "write", "id-token": "write"},
}


def scripts():
    """(job, name of the step, script with what GitHub would fill in)."""
    for job, fields in JOBS.items():
        for step in fields["steps"]:
            if "run" in step:
                yield job, step["name"], step["run"].replace("${{ matrix.image }}", "router")


def script(name):
    return next(text for _, step, text in scripts() if step == name)


class ReleaseTest(unittest.TestCase):
    def test_it_starts_by_a_tag_alone_and_jobs_have_the_rights_they_need(self):
        self.assertEqual(TRIGGER, {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}})
        self.assertEqual(WORKFLOW["permissions"], {})
        self.assertEqual({name: job["permissions"] for name, job in JOBS.items()}, RIGHTS)

    def test_nothing_is_published_before_all_is_built(self):
        self.assertEqual(JOBS["publish"]["needs"], ["packages", "images"])
        for name in ("packages", "images"):
            self.assertEqual(JOBS[name]["needs"], "check")

    def test_scripts_are_correct_shell_and_hold_no_expression(self):
        for job, step, text in scripts():
            checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
            self.assertEqual((checked.returncode, checked.stderr), (0, ""), (job, step))
            # The value of an expression in a script could be a command.
            self.assertNotIn("${{", text, (job, step))

    def test_what_scripts_name_is_there(self):
        for _, step, text in scripts():
            for path in re.findall(r"\./(deploy/[\w./-]+)", text):
                self.assertTrue((ROOT / path).is_file(), (step, path))
        targets = set(re.findall(r"--target (\w+)", script("Make packages")))
        self.assertEqual(targets, {"packages"})
        self.assertIn("add_custom_target(packages", (ROOT / "deploy/debian/CMakeLists.txt").read_text())
        known = re.search(r"router \| worker-cpu \| worker-cuda\)", (ROOT / "deploy/container/build.sh").read_text())
        self.assertTrue(known)
        self.assertEqual(JOBS["images"]["strategy"]["matrix"]["image"], ["router", "worker-cpu", "worker-cuda"])

    def run_step(self, name, **environment):
        return subprocess.run(["bash", "-e", "-c", script(name)], cwd=ROOT, capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", **environment})

    def test_only_the_tag_of_the_version_is_released(self):
        self.assertEqual(self.run_step("The tag is the version", GITHUB_REF_NAME=f"v{VERSION}").returncode, 0)
        for tag in ("v99.0.0", VERSION, f"v{VERSION}1"):
            refused = self.run_step("The tag is the version", GITHUB_REF_NAME=tag)
            self.assertNotEqual(refused.returncode, 0, tag)
            self.assertIn(tag, refused.stderr)

    def test_variables_that_are_missing_are_named(self):
        whole = {"ROOST_IMAGE_PREFIX": "registry.example.org/team/", "ROOST_MAINTAINER": "A B <a@b.example>"}
        self.assertEqual(self.run_step("The variables are set", **whole).returncode, 0)
        for name, wrong in (("ROOST_IMAGE_PREFIX", "registry.example.org/team"), ("ROOST_MAINTAINER", "")):
            refused = self.run_step("The variables are set", **{**whole, name: wrong})
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(name, refused.stderr)


class ProxyTest(unittest.TestCase):
    """A network with an authority and an index of its own."""

    CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *command, **environment):
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **environment})

    def test_images_are_built_with_its_settings(self):
        engine = self.folder / "engine"
        engine.write_text("#!/bin/sh\nfor each; do printf '%s\\0' \"$each\"; done\n")
        engine.chmod(0o755)
        (self.folder / "own.pem").write_text(self.CERTIFICATE)
        build = [ROOT / "deploy/container/build.sh", "router"]
        given = {"ROOST_BUILD_CA": str(self.folder / "own.pem"), "PIP_INDEX_URL": "https://index.example/simple",
                 "https_proxy": "http://proxy.example:3128", "ROOST_BASE_IMAGE": "localhost/debian:12"}
        built = self.run_script(*build, ROOST_CONTAINER_ENGINE=str(engine), **given)
        arguments = built.stdout.split("\0")
        for argument in (f"BUILD_CA={self.CERTIFICATE}", "PIP_INDEX_URL=https://index.example/simple",
                         "https_proxy=http://proxy.example:3128", "DEBIAN=localhost/debian:12"):
            self.assertEqual(arguments[arguments.index(argument) - 1], "--build-arg")
        version = self.run_script(build[0], "--version").stdout.strip()
        self.assertEqual(arguments[arguments.index("-t") + 1], f"roost-router:{version}")
        plain = self.run_script(*build, ROOST_CONTAINER_ENGINE=str(engine)).stdout
        self.assertNotIn("BUILD_CA", plain)
        self.assertNotIn("DEBIAN=", plain)
        wrong = self.run_script(*build, ROOST_CONTAINER_ENGINE=str(engine), ROOST_BUILD_CA="/no/such/file")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("ROOST_BUILD_CA", wrong.stderr)

    def test_images_have_the_time_that_is_asked_for(self):
        build = [ROOT / "deploy/container/build.sh", "router"]
        for name, flag, value in (("buildah", "--timestamp", "86400"), ("docker", "--build-arg", "SOURCE_DATE_EPOCH=86400")):
            engine = self.folder / name
            engine.write_text("#!/bin/sh\nfor each; do printf '%s\\0' \"$each\"; done\n")
            engine.chmod(0o755)
            built = self.run_script(*build, ROOST_CONTAINER_ENGINE=str(engine), SOURCE_DATE_EPOCH="86400")
            arguments = built.stdout.split("\0")
            self.assertEqual(arguments[arguments.index(value) - 1], flag)
            self.assertIn("CREATED=1970-01-02T00:00:00Z", arguments)
            self.assertEqual("--timestamp" in arguments, name == "buildah")

    def test_a_build_that_can_not_have_its_parts_stops_at_once_and_says_what_to_set(self):
        script = ROOT / "deploy/packages.sh"
        no_text = self.run_script(script, "build", BUILD_CA="/etc/own.pem")
        self.assertEqual(no_text.returncode, 2)
        self.assertIn("BUILD_CA is no certificate", no_text.stderr)
        away = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_FIND_LINKS": "",
                "ROOST_XGRAMMAR": str(self.folder / "xgrammar")}
        refused = self.run_script(script, "build", ROOST_REQUIRE_GRAMMAR="1", BUILD_CA=self.CERTIFICATE, **away)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        for name in ("https_proxy", "BUILD_CA", "PIP_INDEX_URL"):
            self.assertIn(name, refused.stderr)
        warned = self.run_script(script, "build", **away)
        self.assertEqual(warned.returncode, 0, warned.stderr)
        self.assertIn("without constrained output", warned.stderr)

    def test_every_stage_that_asks_the_network_knows_the_authority(self):
        text = (ROOT / "deploy/container/Containerfile").read_text()
        for stage in re.split(r"^(?=FROM )", text, flags=re.MULTILINE)[1:]:
            if re.search(r"^RUN .*(packages|cuda|root)\.sh", stage, re.MULTILINE):
                self.assertIn("ARG BUILD_CA", stage, stage.split("\n")[0])
            self.assertNotIn("apt-get", stage)


if __name__ == "__main__":
    unittest.main()

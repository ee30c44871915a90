"""The Debian packages: built, looked at by lintian, installed, upgraded and purged in a root of Debian 12. There
systemd runs as the first process of namespaces, and starts the daemons by their units.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from cluster import BIN, wait_until
from debian_root import Machine, make_root, why_not

BUILD = BIN.parent
NOT_HERE = why_not("lintian", "dpkg-deb")
NO_MACHINE = NOT_HERE or Machine.why_not()
UNITS = ("roost-router.service", "roost-worker.service", "roost-worker@.service")
# systemd's measure of what a unit may do, from 0 to 100. One that says nothing of it has 96.
MOST_EXPOSURE = 16


def run(*command, **settings):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **settings)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return done.stdout


def build():
    run("cmake", "--build", BUILD, "--target", "packages")
    version = run(BIN / "roostctl", "--version").strip()
    return {path.name.split("_")[0]: path for path in (BUILD / "packages").glob(f"*_{version}_*.deb")}


def setUpModule():
    """Builds the packages, and a root in which they are installed."""
    if NOT_HERE:
        return
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    global FOLDER, PACKAGES, INSTALLED
    FOLDER = pathlib.Path(scratch.name)
    PACKAGES = build()
    INSTALLED = make_root(FOLDER / "root", "systemd", "systemd-sysv", "curl", files=PACKAGES.values())


def copy_of_root(name):
    run("cp", "--archive", "--reflink=auto", INSTALLED, FOLDER / name)
    return FOLDER / name


def newer(package, folder):
    """The same package with a version after its own, and a new line in its configuration."""
    run("dpkg-deb", "--raw-extract", package, folder)
    control = folder / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: (.*)$", r"Version: \1.1", control.read_text(), flags=re.MULTILINE))
    for name in (folder / "etc/roost").glob("*.toml"):
        name.write_text(name.read_text() + "# of the newer version\n")
    file = folder.with_suffix(".deb")
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", folder, file)
    return file


@unittest.skipIf(NOT_HERE, NOT_HERE)
class PackagesTest(unittest.TestCase):
    """The packages and what is in them."""

    def test_there_are_three(self):
        self.assertEqual(set(PACKAGES), {"roost-router", "roost-worker", "roostctl"})

    def test_lintian_finds_nothing(self):
        # A distributor names a maintainer with -DROOST_MAINTAINER; the default has no address.
        address = "--suppress-tags=bogus-mail-host,bogus-mail-host-in-debian-changelog"
        run("lintian", "--allow-root", "--fail-on=error,warning,info", address,
            # Tags of the demo model; of a script for other init systems than systemd; of names that the compiler has
            # made.
            "--suppress-tags=arch-dep-package-has-big-usr-share,package-supports-alternative-init-but-no-init.d-script",
            "--suppress-tags=spelling-error-in-binary,binary-has-unneeded-section", *PACKAGES.values())

    def test_the_version_is_that_of_the_programs(self):
        for name, package in PACKAGES.items():
            version = run("dpkg-deb", "--field", package, "Version").strip()
            self.assertEqual(run(BIN / name, "--version").strip(), version)

    def test_programs_start_with_what_the_packages_depend_on(self):
        for name in PACKAGES:
            run("chroot", "--userspec=65534:65534", INSTALLED, name, "--version")

    def test_configuration_files_name_options_that_there_are(self):
        for name in ("router", "worker"):
            text = (INSTALLED / f"etc/roost/{name}.toml").read_text()
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                for line in text.splitlines():
                    file.write(re.sub(r"^# ([a-z-]+ = )", r"\1", line) + "\n")
                file.flush()
                printed = run(BIN / f"roost-{name}", "--config", file.name, "--print-config")
            for option, value in re.findall(r"^(?:# )?([a-z-]+) = (.*)$", text, re.MULTILINE):
                self.assertRegex(printed, rf"(?m)^{option}=")

    def test_defaults_in_the_routers_configuration_are_its_defaults(self):
        printed = run(BIN / "roost-router", "--print-config")
        text = (INSTALLED / "etc/roost/router.toml").read_text()
        for option, value in re.findall(r"^# ([a-z-]+) = (.*)$", text, re.MULTILINE):
            if "/etc/roost/" not in value:
                self.assertIn(f"\n{option}={value}\n", printed)

    def test_units_are_sound_and_closed(self):
        units = [f"/lib/systemd/system/{name}" for name in UNITS]
        run("chroot", INSTALLED, "systemd-analyze", "verify", "--man=no", *units)
        for unit in units:
            threshold = f"--threshold={MOST_EXPOSURE}"
            run("chroot", INSTALLED, "systemd-analyze", "security", "--offline=yes", threshold, unit)

    def test_keys_are_for_the_daemons_user_alone(self):
        users = dict(re.findall(r"^([\w-]+):x:(\d+):", (INSTALLED / "etc/group").read_text(), re.MULTILINE))
        for name in ("router", "worker"):
            folder = (INSTALLED / "etc/roost" / name).stat()
            self.assertEqual((folder.st_uid, folder.st_gid, folder.st_mode & 0o777),
                             (0, int(users[f"roost-{name}"]), 0o750))

    def test_an_upgrade_keeps_what_the_operator_wrote_and_a_purge_leaves_nothing(self):
        root = copy_of_root("upgraded")
        configuration = root / "etc/roost/router.toml"
        configuration.write_text('http-address = "127.0.0.1:9000"\n')
        (root / "var/lib/roost-router").mkdir()
        (root / "etc/roost/worker/link.key").write_text("the operator's")
        for name, package in PACKAGES.items():
            shutil.copy(newer(package, FOLDER / f"newer-{name}"), root / "root")
        run("chroot", root, "sh", "-ec", "dpkg --install --force-confold /root/*.deb")
        self.assertEqual(configuration.read_text(), 'http-address = "127.0.0.1:9000"\n')
        self.assertIn("# of the newer version", (root / "etc/roost/worker.toml").read_text())
        self.assertTrue((root / "usr/bin/roost-router").exists())
        run("chroot", root, "dpkg", "--remove", *PACKAGES)
        self.assertFalse((root / "usr/bin/roost-router").exists())
        self.assertTrue(configuration.exists())
        run("chroot", root, "dpkg", "--purge", *PACKAGES)
        places = ("etc", "usr", "lib/systemd", "var/lib/systemd")
        found = [*(path for place in places for path in (root / place).rglob("*roost*")), *root.glob("var/lib/roost*")]
        left = {str(path.relative_to(root)) for path in found}
        self.assertEqual(left, {"etc/roost"})
        self.assertEqual(os.listdir(root / "etc/roost"), ["worker"])
        self.assertEqual(os.listdir(root / "etc/roost/worker"), ["link.key"])

    def test_the_manual_names_every_option(self):
        for program, page in (("roost-router", "man8/roost-router.8"), ("roost-worker", "man8/roost-worker.8")):
            text = run("zcat", INSTALLED / f"usr/share/man/{page}.gz").replace("\\", "")
            for option in re.findall(r"^  (--[\w-]+)", run(BIN / program, "--help"), re.MULTILINE):
                self.assertIn(f"fB{option}fR", text, program)
        text = run("zcat", INSTALLED / "usr/share/man/man1/roostctl.1.gz").replace("\\", "")
        for command in re.findall(r"^  ([a-z][\w-]+) ", run(BIN / "roostctl", "--help"), re.MULTILINE):
            self.assertIn(f".SS roostctl {command} ", text)


@unittest.skipIf(NO_MACHINE, NO_MACHINE)
class ServicesTest(unittest.TestCase):
    """Units under systemd."""

    @classmethod
    def setUpClass(cls):
        root = copy_of_root("machine")
        # So that the watchdog's end can be waited for.
        for unit in ("roost-router", "roost-worker"):
            folder = root / f"etc/systemd/system/{unit}.service.d"
            folder.mkdir(parents=True)
            (folder / "watchdog.conf").write_text("[Service]\nWatchdogSec=6\n")
        with (root / "etc/roost/worker.toml").open("a") as file:
            file.write('model = "/usr/share/roost/demo-model"\nthreads = 1\nkv-blocks = 1024\n')
        (root / "etc/roost/worker-second.toml").write_text((root / "etc/roost/worker.toml").read_text())
        cls.machine = Machine(root)
        cls.addClassCleanup(cls.machine.end)
        for unit in ("roost-router", "roost-worker", "roost-worker@second"):
            started = cls.machine.run("systemctl", "start", unit)
            assert started.returncode == 0, started.stderr + cls.machine.journal(unit)

    def ready_workers(self):
        asked = self.machine.run("curl", "--silent", "http://127.0.0.1:8001/admin/v1/workers")
        return sorted(each["id"] for each in json.loads(asked.stdout)["workers"] if each["ready"])

    def wait_for_workers(self, count):
        return wait_until(lambda: len(self.ready_workers()) == count and self.ready_workers(), f"{count} ready workers")

    def wait_for_property(self, unit, name, value):
        wait_until(lambda: self.machine.property(unit, name) == value, f"{name} of {unit}: {value}")

    def test_1_services_serve_within_their_sandbox(self):
        self.assertEqual([name.split("-")[-1] for name in self.wait_for_workers(2)], ["0", "second"])
        body = json.dumps({"model": "demo-model", "prompt": "Who comes", "max_tokens": 4})
        asked = self.machine.run("curl", "--silent", "--fail", "http://127.0.0.1:8000/v1/completions", "--json", body)
        self.assertEqual(json.loads(asked.stdout)["usage"]["completion_tokens"], 4, asked.stderr)
        self.assertEqual(self.machine.property("roost-router", "StatusText"), "serves")
        self.wait_for_property("roost-worker", "StatusText", "serves demo-model")
        for unit, user in (("roost-router", "roost-router"), ("roost-worker", "roost-worker")):
            process = self.machine.property(unit, "MainPID")
            self.assertEqual(self.machine.run("stat", "--format=%U", f"/proc/{process}").stdout.strip(), user)
            status = self.machine.run("cat", f"/proc/{process}/status").stdout
            self.assertRegex(status, r"CapBnd:\t0{16}")
            self.assertRegex(status, r"Seccomp:\t2")

    def test_2_a_service_that_stands_still_is_started_again(self):
        for unit in ("roost-router", "roost-worker"):
            before = self.machine.property(unit, "MainPID")
            restarts = int(self.machine.property(unit, "NRestarts"))
            self.machine.run("sh", "-c", f"kill -STOP {before}")
            wait_until(lambda: int(self.machine.property(unit, "NRestarts")) > restarts, f"a restart of {unit}")
            self.assertIn("Watchdog timeout", self.machine.journal(unit))
            self.wait_for_property(unit, "ActiveState", "active")
            self.assertNotEqual(self.machine.property(unit, "MainPID"), before)
        self.wait_for_workers(2)

    def test_3_a_reload_is_no_end(self):
        before = self.machine.property("roost-router", "MainPID")
        self.assertEqual(self.machine.run("systemctl", "reload", "roost-router").returncode, 0)
        self.assertEqual(self.machine.property("roost-router", "MainPID"), before)
        self.assertEqual(self.machine.property("roost-router", "ActiveState"), "active")

    def test_4_a_wrong_configuration_is_not_tried_again_and_again(self):
        self.machine.run("sh", "-c", "echo 'no-such-option = 1' >/etc/roost/worker-wrong.toml")
        self.assertNotEqual(self.machine.run("systemctl", "start", "roost-worker@wrong").returncode, 0)
        self.assertEqual(self.machine.property("roost-worker@wrong", "ActiveState"), "failed")
        self.assertEqual(self.machine.property("roost-worker@wrong", "NRestarts"), "0")
        self.assertIn("no-such-option", self.machine.journal("roost-worker@wrong"))

    def test_5_a_stop_is_a_clean_end(self):
        for unit in ("roost-worker@second", "roost-worker", "roost-router"):
            self.assertEqual(self.machine.run("systemctl", "stop", unit).returncode, 0)
            self.assertEqual(self.machine.property(unit, "Result"), "success")
            self.assertEqual(self.machine.property(unit, "ExecMainStatus"), "0")


if __name__ == "__main__":
    unittest.main()

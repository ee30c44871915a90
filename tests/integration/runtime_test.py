"""Compares the packages that ./deploy/packages.sh runtime lists for a program with those that the built program loads:
no more, no less."""

import os
import re
import subprocess
import unittest

from cluster import BIN, ROOT

PROGRAMS = {"router": "roost-router", "worker": "roost-worker", "roostctl": "roostctl"}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def libraries(program):
    """The files of the libraries that the program names itself."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", program))
    found = dict(re.findall(r"^\s*(\S+) => (\S+)", run("ldd", program), re.MULTILINE))
    return [os.path.realpath(found.get(name, name)) for name in needed if not name.startswith("ld-linux")]


def packages_of(paths):
    """The Debian packages of these files. Each is asked for by two names, because packages still call /usr/lib /lib."""
    names = {name: path for path in paths for name in (path, path.removeprefix("/usr"))}
    found = subprocess.run(["dpkg-query", "--search", *names], capture_output=True, text=True).stdout
    owners = {names[name]: package for package, name in re.findall(r"^([^:\n]+)(?::\w+)?: (\S+)$", found, re.MULTILINE)}
    assert owners.keys() == set(paths), f"of no package: {set(paths) - owners.keys()}"
    return set(owners.values())


class RuntimeTest(unittest.TestCase):
    def listed(self, *names):
        return set(run(ROOT / "deploy/packages.sh", "list", "runtime", *names).split())

    def test_the_list_is_what_programs_load(self):
        for name, program in PROGRAMS.items():
            with self.subTest(program):
                wanted = packages_of(libraries(BIN / program))
                self.assertGreater(len(wanted), 8)
                self.assertEqual(self.listed(name), wanted)

    def test_without_a_name_it_lists_what_all_programs_load(self):
        self.assertEqual(self.listed(), set().union(*(self.listed(name) for name in PROGRAMS)))

    def test_an_unknown_program_is_refused(self):
        command = [ROOT / "deploy/packages.sh", "list", "runtime", "kernel"]
        asked = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((asked.returncode, asked.stdout), (2, ""))
        self.assertIn("unknown program 'kernel'", asked.stderr)


if __name__ == "__main__":
    unittest.main()

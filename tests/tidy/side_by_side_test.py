"""The exit code and the last lines of programs whose tests run side by side (tests/integration/side_by_side.py)."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "integration"
PROGRAM = """
import os, sys, unittest
sys.path.insert(0, {folder!r})
import side_by_side

class OwnTest(unittest.TestCase):
{tests}

class SharedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = os.getpid()
        {fixture}

    def test_a(self):
        self.assertEqual(os.getpid(), self.process)

    def test_b(self):
        self.assertEqual(os.getpid(), self.process)

side_by_side.main(2)
"""
PASSES = "    def test_c(self): pass"


class SideBySideTest(unittest.TestCase):
    def run_program(self, tests, *names, fixture="pass"):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.py"
            program.write_text(PROGRAM.format(folder=str(FOLDER), tests=tests, fixture=fixture))
            done = subprocess.run([sys.executable, program, *names], capture_output=True, text=True, timeout=60, check=False)
            return done.returncode, done.stderr

    def test_all_run_once(self):
        code, told = self.run_program(PASSES)
        self.assertEqual((code, told), (0, "Ran 3 tests\n\nOK\n"))

    def test_one_that_fails_is_told(self):
        code, told = self.run_program(PASSES + "\n    def test_d(self): self.fail('of a cause')")
        self.assertEqual(code, 1)
        self.assertIn("of a cause", told)
        self.assertTrue(told.endswith("Ran 4 tests\n\nFAILED\n"), told)

    def test_skips_are_counted_as_run_ctest_reads_them(self):
        code, told = self.run_program(PASSES + "\n    def test_d(self): self.skipTest('of a cause')")
        self.assertEqual((code, told), (0, "Ran 4 tests\n\nOK (skipped=1)\n"))

    def test_a_fixture_that_fails_is_red(self):
        code, told = self.run_program(PASSES, fixture="raise OSError('no room')")
        self.assertEqual(code, 1)
        self.assertIn("no room", told)

    def test_a_process_that_dies_is_red(self):
        code, told = self.run_program(PASSES + "\n    def test_d(self): os._exit(0)")
        self.assertNotEqual(code, 0, told)

    def test_names_run_alone(self):
        code, told = self.run_program(PASSES, "SharedTest.test_a")
        self.assertEqual(code, 0, told)
        self.assertIn("Ran 1 test in", told)


if __name__ == "__main__":
    unittest.main()

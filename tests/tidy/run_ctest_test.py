"""What tests/run_ctest.py makes of tests that fail, are flaky or skipped; with ctest itself on tests of one line."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import run_ctest  # noqa: E402

PASSES_WHEN_RUN_AGAIN = "test -e ran || { touch ran; exit 1; }"


class RunCtestTest(unittest.TestCase):
    def outcome(self, listed=(), **tests):
        """`tests`: name -> (label, shell command)."""
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for name, (label, command) in tests.items():
                lines.append(f'add_test({name} "/bin/sh" "-c" [==[cd {folder}; {command}]==])')
                lines.append(f"set_tests_properties({name} PROPERTIES LABELS {label} SKIP_RETURN_CODE 77)")
            (pathlib.Path(folder) / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
            code, flaky = run_ctest.run(pathlib.Path(folder), [], listed)
            return code != 0, flaky, run_ctest.skipped_cases(pathlib.Path(folder))

    def test_a_test_of_daemons_that_passes_by_itself_is_flaky_and_green(self):
        red, flaky, _ = self.outcome(a=("integration", PASSES_WHEN_RUN_AGAIN), b=("unit", "true"))
        self.assertEqual((red, flaky), (False, ["a"]))

    def test_a_second_time_is_red(self):
        red, flaky, _ = self.outcome(listed=["a"], a=("clients", PASSES_WHEN_RUN_AGAIN))
        self.assertEqual((red, flaky), (True, ["a"]))

    def test_a_unit_test_is_not_run_again(self):
        red, flaky, _ = self.outcome(a=("unit", PASSES_WHEN_RUN_AGAIN))
        self.assertEqual((red, flaky), (True, []))

    def test_a_report_of_a_sanitizer_is_red_though_it_comes_once(self):
        report = "test -e ran || { touch ran; echo 'SUMMARY: AddressSanitizer: heap-use-after-free'; exit 1; }"
        red, flaky, _ = self.outcome(a=("threads", report), b=("threads", PASSES_WHEN_RUN_AGAIN.replace("ran", "ran_b")))
        self.assertEqual((red, flaky), (True, ["b"]))

    def test_a_test_that_fails_twice_is_red_beside_one_that_is_flaky(self):
        red, flaky, _ = self.outcome(a=("integration", "exit 1"), b=("kube", PASSES_WHEN_RUN_AGAIN))
        self.assertEqual((red, flaky), (True, ["b"]))

    def test_a_test_whose_output_is_lost_is_red(self):
        asks_for_names = "ctest -N >&2; "  # which empties the log of a run in the same folder
        red, flaky, _ = self.outcome(a=("integration", asks_for_names + PASSES_WHEN_RUN_AGAIN))
        self.assertEqual((red, flaky), (True, []))

    def test_skipped_cases_are_counted_by_reason(self):
        gtest = "printf '[ RUN      ] A.B\\na_test.cc:7: Skipped\\nno device\\n\\n[  SKIPPED ] A.B (0 ms)\\n'"
        python = "echo 'OK (skipped=2)'"
        red, _, skipped = self.outcome(a=("gpu", f"{gtest}; exit 77"), b=("integration", python))
        self.assertEqual((red, dict(skipped)), (False, {"no device": 1, "b": 2}))

    def test_each_listed_name_has_one_line_with_a_date_and_a_cause(self):
        names = run_ctest.listed_names()
        self.assertEqual(len(names), len(set(names)))
        for line in run_ctest.LISTED.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                self.assertRegex(line, r"^\S+ \| 20\d\d-\d\d-\d\d \| \S.{20,}")


if __name__ == "__main__":
    unittest.main()

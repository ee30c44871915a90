"""tests/planted_faults.py runs at night; that the texts it changes and the tests it names are still there is seen at once."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import planted_faults  # noqa: E402


class PlantedTest(unittest.TestCase):
    def test_texts_and_tests_are_there(self):
        sources = "\n".join(path.read_text() for path in (ROOT / "tests/worker").rglob("*.cc"))
        for fault in planted_faults.FAULTS:
            with self.subTest(fault.name):
                planted_faults.changed(fault)  # ends the process where a text is gone
                name = fault.test.split(".")[1].split("/")[0]
                self.assertIn(f", {name})", sources)
                self.assertIn(f"roost_test({fault.program} ", self.programs())

    @staticmethod
    def programs():
        return "\n".join(path.read_text() for path in (ROOT / "tests/worker").rglob("CMakeLists.txt"))


if __name__ == "__main__":
    unittest.main()

"""The generator of the codec refuses a schema that it could not make a bounded decoder of.

  generator_test.py CAPNP GENERATOR    the compiler, and the program of schema/generator
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
GENERATOR = sys.argv.pop()
CAPNP = sys.argv.pop()
HEAD = """@0xb1c2f0a6d3e94588;
using import "annotations.capnp".most;
using import "annotations.capnp".form;
using import "annotations.capnp".cxx;
using import "annotations.capnp".mostEntries;
using import "annotations.capnp".needs;
using import "annotations.capnp".shown;
using import "annotations.capnp".valuesIn;
$valuesIn("roost::example");
"""


class GeneratorTest(unittest.TestCase):
    def make(self, body):
        """The finished run over a schema with this body, and the text of messages.h."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "annotations.capnp").write_text((ROOT / "schema/annotations.capnp").read_text())
            (path / "example.capnp").write_text(HEAD + body)
            run = subprocess.run([CAPNP, "compile", f"-o{GENERATOR}:{folder}", f"--src-prefix={folder}",
                                  str(path / "example.capnp")], capture_output=True, text=True)
            made = path / "messages.h"
            return run, made.read_text() if made.exists() else ""

    def test_a_field_becomes_a_member_with_its_comment_and_default(self):
        run, text = self.make("struct Tea {\n  cups @0 :UInt16 = 3;\n  # For each guest.\n}\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("namespace roost::example {", text)
        self.assertIn("struct Tea {\n  // For each guest.\n  std::uint32_t cups = 3;\n", text)

    def test_every_list_and_text_has_a_bound(self):
        for field in ("names @0 :List(UInt32)", "name @0 :Text", "name @0 :Data", "names @0 :List(Text) $most(9)"):
            run, text = self.make(f"struct Tea {{ {field}; }}\n")
            self.assertNotEqual(run.returncode, 0, field)
            self.assertIn(": a list", run.stderr)
            self.assertIn("Tea.name", run.stderr)
            self.assertEqual(text, "")
        run, text = self.make("struct Tea { names @0 :List(Text) $most(9) $mostEntries(2); }\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("std::vector<std::string> names = {};", text)

    SKILLS = 'struct Host { skills :group $form(set) $cxx(type = "Skill") { brewsGreen @0 :Bool; } }\n'

    def test_a_message_needs_what_its_fields_need_that_are_not_as_in_a_new_one(self):
        run, text = self.make(self.SKILLS + 'struct Tea { degrees @0 :UInt16 = 100 $needs("brewsGreen"); }\n'
                              "struct Order { tea @0 :Tea; cups @1 :UInt16; }\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("inline Skills NeedsOf(const Tea& value) {\n  const Tea plain;\n  Skills needs;\n"
                      "  if (value.degrees != plain.degrees) needs.insert(Skill::kBrewsGreen);\n", text)
        self.assertIn("inline Skills NeedsOf(const Order& value) {", text)
        self.assertIn("  needs.insert(NeedsOf(value.tea));\n", text)
        self.assertNotIn("NeedsOf(const Host&", text)

    def test_a_need_that_no_set_has_is_refused(self):
        run, text = self.make(self.SKILLS + 'struct Tea { degrees @0 :UInt16 $needs("brewsOolong"); }\n')
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("brewsOolong", run.stderr)
        self.assertEqual(text, "")

    def test_numbers_that_operators_see_have_the_names_of_the_schema(self):
        run, text = self.make('struct Pot { fullCups @0 :UInt16 $shown("cups"); crumbs @1 :UInt16; }\n')
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("void ForEachShown(const Pot& value, const Show& show) {\n"
                      '  show(std::string_view("cups"), value.full_cups);\n}\n', text)


if __name__ == "__main__":
    unittest.main()

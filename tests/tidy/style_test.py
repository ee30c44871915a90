"""Rules of style that a machine can check. Run by ctest, or by hand: python3 tests/tidy/style_test.py"""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".h", ".cc", ".cu", ".cuh"}
MAX_FILE_LINES = 600
MAX_FILE_BYTES = 10_000_000
# Banned pattern -> what to do instead. Regular expressions over code outside of this file.
BANNED = {
    r"\b(TODO|FIXME|XXX|HACK)\b": "do it, or say in the README what is missing",
    r"\bsleep_for\b|\busleep\(": "take a Clock, or wait for what should happen",
    r"\bstd::(cout|cerr)\b": "log.h for daemons; an ostream parameter or fmt::print for tools",
    r"\busing namespace (?!std::\w*literals|roost;)": "name what you use",
    r"\bthrow\b(?! away)": "return a Result",
    r"\b(rand|srand|time)\(": "rng.h and clock.h",
}
# File -> patterns that it needs: at the boundary to a library that works this way, and in prose.
EXCEPTIONS = {
    "common/config/config.cc": [r"\bstd::(cout|cerr)\b"],
    # The library reports errors this way.
    "worker/grammar/grammar_library_xgrammar.cc": [r"\bthrow\b(?! away)"],
    "deploy/roostctl/main.cc": [r"\bstd::(cout|cerr)\b"],
    # The library throws on failure; the caller catches it.
    # Templates may print the date.
    "deploy/roostctl/text_commands.cc": [r"\b(rand|srand|time)\("],
}
# Beginnings of comments that ask or leave out their subject, and words that name no one: say what the thing is or does.
RIDDLE = re.compile(r"(What|Whose|Which|Who|Of)\b")
NO_ONE = re.compile(r"\b(nobody|somebody|someone|whoever)\b", re.IGNORECASE)


def tracked(suffixes):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    return [path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes)]


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def comments(text):
    """Yields the comments of a C++ file: line number, text, and whether it begins a paragraph of comment lines."""
    is_paragraph = False
    for number, line in enumerate(text.splitlines(), 1):
        found = re.search(r"(?:^|\s)//+<?\s*(.*)$", line)
        if found:
            yield number, found.group(1), not is_paragraph and line.lstrip().startswith("//")
        is_paragraph = line.lstrip().startswith("//") and found is not None and found.group(1) != ""


class StyleTest(unittest.TestCase):
    def test_no_banned_words(self):
        for path in tracked(CODE):
            name = str(path.relative_to(ROOT))
            text = path.read_text()
            for pattern, instead in BANNED.items():
                if pattern in EXCEPTIONS.get(name, []):
                    continue
                searched = text if "TODO" in pattern else without_comments(text)
                found = re.search(pattern, searched)
                self.assertIsNone(found, f"{name}: '{found.group(0) if found else ''}': {instead}")

    def test_headers_open_with_their_contract(self):
        for path in tracked({".h", ".cuh"}):
            lines = path.read_text().splitlines()
            name = path.relative_to(ROOT)
            self.assertTrue(lines[0].startswith("//"), f"{name}: the first line is no comment that says what it is")
            # A Highway file is included once per target, and has its own guard.
            if not path.name.endswith("-inl.h"):
                self.assertIn("#pragma once", lines, name)

    def test_comments_state(self):
        found = []
        for path in tracked(CODE):
            for number, comment, begins in comments(path.read_text()):
                if (begins and RIDDLE.match(comment)) or NO_ONE.search(comment):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {comment}")
        self.assertFalse(found, "say what the thing is or does, and name who acts:\n" + "\n".join(found))

    def test_files_stay_short(self):
        for path in tracked(CODE):
            count = len(path.read_text().splitlines())
            self.assertLessEqual(count, MAX_FILE_LINES, f"{path.relative_to(ROOT)} has {count} lines: split it")

    def test_no_large_files(self):
        for path in tracked(set()):
            self.assertLessEqual(path.stat().st_size, MAX_FILE_BYTES, path)

    def test_files_end_with_one_newline(self):
        for path in tracked(CODE | {".py", ".sh", ".md", ".txt", ".yaml", ".capnp"}):
            text = path.read_bytes()
            self.assertTrue(text.endswith(b"\n") and not text.endswith(b"\n\n"), path.relative_to(ROOT))


if __name__ == "__main__":
    unittest.main()

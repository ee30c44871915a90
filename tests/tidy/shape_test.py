"""Counts what a reader of the tree stumbles over, and holds each count to a limit: headers that one file uses, which could be
a part of it; folders with many files; classes with many public functions. Run by ctest, or by hand:

    python3 tests/tidy/shape_test.py             the check
    python3 tests/tidy/shape_test.py --list      which these are
"""

import collections
import pathlib
import re
import subprocess
import sys
import unittest

from layers_test import ALLOWED, INCLUDE, ROOT, sources

MAX_HEADERS_WITH_ONE_USER = 100
MANY_FILES = 40
MAX_LARGE_FOLDERS = 4
MANY_FUNCTIONS = 15
MAX_LARGE_CLASSES = 10
FOLDERS = [*ALLOWED, "deploy"]


# ---- headers and folders ----


def users_of_headers(folders):
    """Included name -> the files of these folders that include it."""
    users = collections.defaultdict(set)
    for folder in folders:
        for path in sources(folder):
            for include in INCLUDE.findall(path.read_text()):
                users[include].add(str(path.relative_to(ROOT)))
    return users


def own_sources(header):
    return {str(pathlib.Path(header).with_suffix(suffix)) for suffix in (".cc", ".cu")}


def headers_with_one_user():
    """(header, its only user or "", the tests that include it). A header's own source is no user of it."""
    users, tests = users_of_headers(FOLDERS), users_of_headers(["tests"])
    for folder in FOLDERS:
        for path in sources(folder):
            header = str(path.relative_to(ROOT))
            others = users[header] - own_sources(header)
            if path.suffix in {".h", ".cuh"} and len(others) <= 1:
                yield header, "".join(others), sorted(tests[header])


def large_folders():
    """(files, folder) of the folders outside tests with more than MANY_FILES files of their own, the largest first."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    counts = collections.Counter(str(pathlib.PurePath(name).parent) for name in listed if name and not name.startswith("tests/"))
    return [(count, folder) for folder, count in counts.most_common() if count > MANY_FILES]


# ---- classes ----

CLASS = re.compile(r"\b(class|struct)\s+(?:alignas\([^)]*\)\s*)?([\w:]+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
NO_FUNCTION = ("using", "friend", "typedef", "enum", "static_assert", "class", "struct", "union")


def bare(text):
    """The text without comments, literals and lines of the preprocessor."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', '""', text, flags=re.DOTALL)
    text = re.sub(r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])'", "0", text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)


def end_of_braces(text, begin):
    depth = 0
    for place in range(begin, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return place
    return len(text)


def declarations(body):
    """The declarations of a class's body without what stands in braces, and its labels as "public:"."""
    found, text, place, brackets = [], "", 0, 0
    while place < len(body):
        char = body[place]
        brackets += (char == "(") - (char == ")")
        label = re.search(r"(?:^|[\s}])(public|private|protected)\s*$", text) if char == ":" else None
        if char == "{" and brackets == 0:
            place = end_of_braces(body, place)
            is_type = re.match(r"\s*(?:class|struct|union|enum)\b", text)
            text += " {} "
            if not is_type and body[place + 1 :].lstrip()[:1] not in (";", ",", "{"):  # a function
                found.append(text)
                text = ""
        elif brackets == 0 and (char == ";" or label):
            found.append(label.group(1) + ":" if label else text)
            text = ""
        else:
            text += char
        place += 1
    return found


def function_of(declaration, name):
    """The name of the function that a declaration in class `name` is of; None for all else, constructors and what
    overrides a function, which its interface counts."""
    text = re.sub(r"\[\[[^\]]*\]\]", "", declaration.strip())
    text = re.sub(r"^template\s*<.*?>\s*", "", text, flags=re.DOTALL)
    if text.startswith(NO_FUNCTION) or re.search(r"=\s*(?:default|delete)\b|\(\s*\*|\b(?:override|final)\b", text):
        return None
    match = re.search(r"(operator\s*(?:\(\)|[^\s(]+)|~?\w+)\s*\(", text)
    if match is None or "std::function" in text[: match.start()]:
        return None
    is_data = "=" in text[: match.start()] and not match.group(1).startswith("operator")
    return None if is_data or match.group(1).lstrip("~") == name else match.group(1)


def public_functions(text):
    """(class, names of its public functions) of each class that the text defines. A set of overloads has one name."""
    text = bare(text)
    for match in CLASS.finditer(text):
        begin = match.end() - 1
        name = match.group(2).split("::")[-1]
        access, names = ("public:" if match.group(1) == "struct" else "private:"), set()
        for declaration in declarations(text[begin + 1 : end_of_braces(text, begin)]):
            if declaration in ("public:", "private:", "protected:"):
                access = declaration
            elif access == "public:" and (function := function_of(declaration, name)):
                names.add(function)
        yield match.group(2), names


def large_classes():
    """(functions, class, file), the largest first."""
    found = []
    for folder in FOLDERS:
        for path in sources(folder):
            for name, functions in public_functions(path.read_text()):
                found.append((len(functions), name, str(path.relative_to(ROOT))))
    return sorted((each for each in found if each[0] > MANY_FUNCTIONS), reverse=True)


class ShapeTest(unittest.TestCase):
    def test_few_headers_have_one_user(self):
        found = [header for header, _, _ in headers_with_one_user()]
        self.assertLessEqual(len(found), MAX_HEADERS_WITH_ONE_USER, "\n".join(["fold some into their users:", *found]))

    def test_few_folders_are_large(self):
        self.assertLessEqual(len(large_folders()), MAX_LARGE_FOLDERS, large_folders())

    def test_few_classes_have_many_public_functions(self):
        found = large_classes()
        self.assertLessEqual(len(found), MAX_LARGE_CLASSES, "\n".join(["part some:", *map(str, found)]))

    def test_public_functions_are_counted_by_name(self):
        text = """
            class A final : public B {
             public:
              explicit A(int x) : x_{x} {}  // void Comment();
              ~A();
              A(const A&) = delete;
              [[nodiscard]] int one() const { return Help(x_); }
              void Two(std::function<void(int)> done = {});
              void Two(double);
              template <typename T> T Three(T value) { if (value) { return value; } return {}; }
              bool operator==(const A&) const = default;
              explicit operator bool() const;
              void Overridden() override;
              struct Part { int a = 0; int Four() const; };
              std::function<void(int)> callback = [] { return 1; };
              static constexpr int kTime = Of(1);
              void (*pointer)(int) = nullptr;
             private:
              void Hidden();
              int x_{};
            };"""
        self.assertEqual(
            [(name, sorted(functions)) for name, functions in public_functions(text)],
            [("A", ["Three", "Two", "one", "operator bool"]), ("Part", ["Four"])],
        )


def print_lists():
    found = list(headers_with_one_user())
    untested = [header for header, _, tests in found if not tests]
    print(f"headers with one user: {len(found)}, of which no test includes {len(untested)}")
    for header, user, tests in found:
        lines = len((ROOT / header).read_text().splitlines())
        print(f"  {header} {lines} <- {user or 'nothing'}; {' '.join(tests) or 'no test'}")
    lists = {f"folders above {MANY_FILES} files": large_folders(), f"classes above {MANY_FUNCTIONS} functions": large_classes()}
    for title, counts in lists.items():
        print(f"{title}: {len(counts)}")
        for count, *names in counts:
            print(f"  {count} {' '.join(names)}")


if __name__ == "__main__":
    print_lists() if "--list" in sys.argv else unittest.main()

"""Counts what a reader of the tree stumbles over, and holds each to a limit: headers that one file uses, which could be a part
of it; folders with many files; classes with many functions; long functions. Run by ctest, or by hand:

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

MAX_HEADERS_WITH_ONE_USER = 104
MAX_FILES = 40  # of a folder
MAX_PUBLIC_FUNCTIONS = 40  # of a class
MAX_SCHEDULER_FUNCTIONS = (30, 60)  # public, and all
MAX_FUNCTION_LINES = 80
MANY_FUNCTIONS = 15  # classes above are listed
LARGE_FOLDERS = {"common/base"}  # each file there is a tool of its own
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


def files_of_folders():
    """(files, folder) of the folders outside tests, the largest first."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    counts = collections.Counter(str(pathlib.PurePath(name).parent) for name in listed if name and not name.startswith("tests/"))
    return [(count, folder) for folder, count in counts.most_common()]


# ---- classes ----

CLASS = re.compile(r"\b(class|struct)\s+(?:alignas\([^)]*\)\s*)?([\w:]+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
NO_FUNCTION = ("using", "friend", "typedef", "enum", "static_assert", "class", "struct", "union")


TEXT = re.compile(r"""
    (?P<comment>//[^\n]*|/\*.*?\*/) | (?P<string>R"(\w*)\(.*?\)\3"|"(?:\\.|[^"\\\n])*") | (?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])')
    """, re.DOTALL | re.VERBOSE)  # fmt: skip


def bare(text):
    """The text without comments, literals and lines of the preprocessor, each on the line where it was."""

    def lines_of(match):
        word = {"comment": "", "string": '""', "char": "0"}[match.lastgroup] if match.lastgroup else ""
        return word + "\n" * match.group(0).count("\n")

    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lines_of, TEXT.sub(lines_of, text), flags=re.MULTILINE)


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


def functions_of_classes(text):
    """(class, names of its public functions, names of all) of each class that the text defines. A set of overloads has one name."""
    text = bare(text)
    for match in CLASS.finditer(text):
        begin = match.end() - 1
        name = match.group(2).split("::")[-1]
        access, public, all_names = ("public:" if match.group(1) == "struct" else "private:"), set(), set()
        for declaration in declarations(text[begin + 1 : end_of_braces(text, begin)]):
            if declaration in ("public:", "private:", "protected:"):
                access = declaration
            elif function := function_of(declaration, name):
                all_names.add(function)
                if access == "public:":
                    public.add(function)
        yield match.group(2), public, all_names


def classes():
    """(public functions, all functions, class, file), the largest first."""
    found = []
    for folder in FOLDERS:
        for path in sources(folder):
            for name, public, all_names in functions_of_classes(path.read_text()):
                found.append((len(public), len(all_names), name, str(path.relative_to(ROOT))))
    return sorted(found, reverse=True)


# ---- functions ----

SCOPE = re.compile(r"\s*(?:inline\s+|template\s*<.*>\s*)*(?:namespace|class|struct|union|enum|extern)\b", re.DOTALL)


def function_lines(text):
    """(lines, what stands before the brace) of each block that is no scope, no table and in no other such block."""
    text, head, place = bare(text), "", 0
    while place < len(text):
        char = text[place]
        if char == "{" and SCOPE.match(head) and not head.rstrip().endswith(")"):
            head = ""
        elif char == "{":
            end = end_of_braces(text, place)
            if not head.rstrip().endswith(("=", "(")):
                yield text.count("\n", place, end) + 1, " ".join(head.split())
            place, head = end, ""
        elif char in ";}":
            head = ""
        else:
            head += char
        place += 1


def long_functions(most):
    """(lines, function, file) of functions with more lines than `most`, the longest first."""
    found = []
    for folder in FOLDERS:
        for path in sources(folder):
            found += [(lines, head, str(path.relative_to(ROOT))) for lines, head in function_lines(path.read_text()) if lines > most]
    return sorted(found, reverse=True)


class ShapeTest(unittest.TestCase):
    def test_few_headers_have_one_user(self):
        found = [header for header, _, _ in headers_with_one_user()]
        self.assertLessEqual(len(found), MAX_HEADERS_WITH_ONE_USER, "\n".join(["fold some into their users:", *found]))

    def test_folders_hold_few_files(self):
        found = [(count, folder) for count, folder in files_of_folders() if count > MAX_FILES and folder not in LARGE_FOLDERS]
        self.assertEqual(found, [], "make rooms of them")

    def test_classes_have_few_functions(self):
        found = [each for each in classes() if each[0] > MAX_PUBLIC_FUNCTIONS]
        self.assertEqual(found, [], "part them")
        ((public, every),) = [each[:2] for each in classes() if each[2] == "Scheduler"]
        self.assertLessEqual(public, MAX_SCHEDULER_FUNCTIONS[0])
        self.assertLessEqual(every, MAX_SCHEDULER_FUNCTIONS[1])

    def test_functions_are_short(self):
        self.assertEqual(long_functions(MAX_FUNCTION_LINES), [], "part them")

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
            [(name, sorted(public), len(every)) for name, public, every in functions_of_classes(text)],
            [("A", ["Three", "Two", "one", "operator bool"], 5), ("Part", ["Four"], 1)],
        )

    def test_lines_of_functions_are_counted(self):
        text = "namespace a {\nconst int kTable[] = {\n1,\n};\nint F(char c) {\n  // {\n  return c == '\"' ? 1 : 2;\n}\n}"
        self.assertEqual(list(function_lines(text)), [(4, "int F(char c)")])


def print_lists():
    found = list(headers_with_one_user())
    untested = [header for header, _, tests in found if not tests]
    print(f"headers with one user: {len(found)}, of which no test includes {len(untested)}")
    for header, user, tests in found:
        lines = len((ROOT / header).read_text().splitlines())
        print(f"  {header} {lines} <- {user or 'nothing'}; {' '.join(tests) or 'no test'}")
    lists = {
        f"folders above {MAX_FILES} files": [each for each in files_of_folders() if each[0] > MAX_FILES],
        f"classes above {MANY_FUNCTIONS} public functions (public, all)": [each for each in classes() if each[0] > MANY_FUNCTIONS],
        f"functions above {MAX_FUNCTION_LINES} lines": long_functions(MAX_FUNCTION_LINES),
    }
    for title, counts in lists.items():
        print(f"{title}: {len(counts)}")
        for each in counts:
            print(" ", *each)


if __name__ == "__main__":
    print_lists() if "--list" in sys.argv else unittest.main()

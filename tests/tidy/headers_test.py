"""Public headers stand alone: each compiles without what others include, and includes the header of every name of
the standard library that it uses.

  headers_test.py BUILD_DIR    BUILD_DIR/public_headers.txt lists the headers, and the build's own flags are used, whose generated
                               files must be there

Most of the time to compile a header goes to the standard library and to what LIBRARIES names. So these are compiled once, before
all headers; then the text of each header is searched for their names: it must include the standard library's header of each
name, and reach that of a library. A header that compiled is
compiled again only when it, a header that it includes, or the flags change.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build/release"
STAMPS = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "roost-tidy"
OWN_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
ANGLED = re.compile(r"^#include <([^>]+)>", re.MULTILINE)
STD_NAME = re.compile(r"\bstd::(?:(?:chrono|filesystem|this_thread)::)?(\w+)")
# Header -> names of namespace std that it is included for.
STD_HEADERS = {
    "algorithm": "min_element clamp copy count equal fill find lower_bound max min sort transform upper_bound all_of any_of find_if",
    "array": "array",
    "atomic": "atomic memory_order_acq_rel memory_order_acquire memory_order_relaxed memory_order_release memory_order_seq_cst atomic_thread_fence",
    "bit": "bit_cast bit_ceil bit_width countl_zero countr_zero endian has_single_bit popcount rotl",
    "charconv": "from_chars to_chars",
    "chrono": "chrono duration duration_cast hours microseconds milliseconds minutes nanoseconds seconds steady_clock sys_seconds system_clock time_point",
    "cmath": "abs ceil exp exp2 floor isfinite log log2 pow sqrt",
    "compare": "strong_ordering",
    "concepts": "convertible_to same_as integral invocable floating_point",
    "condition_variable": "condition_variable",
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t size_t",
    "cstdint": "int16_t int32_t int64_t int8_t uint16_t uint32_t uint64_t uint8_t uintptr_t",
    "cstdio": "FILE",
    "cstdlib": "abort aligned_alloc exit free",
    "cstring": "memcpy memset memcmp",
    "ctime": "time_t tm",
    "deque": "deque",
    "exception": "exception exception_ptr",
    "filesystem": "filesystem path",
    "fstream": "ifstream ofstream",
    "functional": "equal_to function greater hash invoke less reference_wrapper",
    "future": "future promise",
    "initializer_list": "initializer_list",
    "iosfwd": "istream ostream",
    "iterator": "back_inserter forward_iterator_tag input_iterator_tag next size",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "align enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr addressof",
    "mutex": "lock_guard mutex scoped_lock unique_lock once_flag",
    "new": "align_val_t bad_alloc",
    "numeric": "accumulate midpoint",
    "optional": "nullopt nullopt_t optional",
    "queue": "queue priority_queue",
    "random": "random_device",
    "set": "multiset set",
    "shared_mutex": "shared_mutex shared_lock",
    "span": "as_bytes dynamic_extent span",
    "stop_token": "stop_token stop_source",
    "string": "string to_string",
    "string_view": "string_view",
    "system_error": "error_code",
    "thread": "get_id jthread thread yield",
    "tuple": "tie tuple",
    "type_traits": "conditional_t decay_t enable_if_t false_type invoke_result_t is_constructible_v is_convertible_v is_enum_v "
    "is_floating_point_v is_integral_v is_pointer_v is_same_v is_trivially_copyable_v is_trivially_destructible_v is_unsigned_v is_void_v remove_const_t "
    "remove_cv_t remove_cvref_t true_type type_identity_t underlying_type_t void_t",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "as_const declval exchange forward in_place in_place_index in_place_t integer_sequence make_integer_sequence make_pair move pair swap",
    "variant": "get get_if holds_alternative monostate variant variant_size_v visit",
    "vector": "vector",
}
# Namespace of a library that many headers include -> its header, and what the includes of it begin with.
LIBRARIES = {"fmt": ("fmt/format.h", "fmt/"), "simdjson": ("simdjson.h", "simdjson.h")}
HEADERS_OF_NAME = {}
for header, names in STD_HEADERS.items():
    for name in names.split():
        HEADERS_OF_NAME.setdefault(name, set()).add(header)
# Names that come with several headers.
HEADERS_OF_NAME["size_t"] |= {"cstdint", "cstdio", "cstring"}
HEADERS_OF_NAME["less"] |= {"map", "set"}
HEADERS_OF_NAME["hash"] |= {"string", "string_view"}
HEADERS_OF_NAME["erase_if"] = {"deque", "map", "set", "string", "unordered_map", "unordered_set", "vector"}
HEADERS_OF_NAME["get"] |= {"tuple", "array", "utility"}
HEADERS_OF_NAME["istream"] |= {"istream"}
HEADERS_OF_NAME["ostream"] |= {"ostream"}


def code_of(path):
    return re.sub(r"//[^\n]*", "", path.read_text())


def public_headers():
    return [pathlib.Path(line) for line in (BUILD / "public_headers.txt").read_text().splitlines()]


def compiler_and_flags():
    """The flags of this build's libraries, merged because some see more folders than others, for clang: it takes a tenth of GCC's
    time to read what was compiled before."""
    flags = []
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"].replace("-isystem ", "-isystem"))
        if "cmake_pch.hxx" not in entry["command"] or "-fPIC" not in words or "-emit-pch" in words:
            continue
        while not words[0].endswith(("g++", "clang++", "c++")):
            words.pop(0)  # ccache and its settings
        for word in words[1 : words.index("-include")]:
            if word not in [*flags, "-Winvalid-pch"]:
                flags.append(word)
    return ["clang++", *flags]


def with_included(path, found):
    """Adds the file and what it includes of this tree, generated headers too, to `found`."""
    found.add(path)
    for name in OWN_INCLUDE.findall(path.read_text()):
        for included in (ROOT / name, BUILD / name):
            if included.exists() and included not in found:
                with_included(included, found)
    return found


def stamp_of(header, command):
    """The file that is there once this header, as it is, has compiled."""
    key = hashlib.sha256(shlex.join(command).replace(str(ROOT), "").encode())
    for path in sorted(with_included(header, set())):
        key.update(path.read_bytes())
    return STAMPS / f"header-{key.hexdigest()}"


class HeadersTest(unittest.TestCase):
    def test_each_compiles_alone(self):
        command = compiler_and_flags()
        stamps = {header: stamp_of(header, command) for header in public_headers()}
        headers = [header for header, stamp in stamps.items() if not stamp.exists()]
        STAMPS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            standard = pathlib.Path(folder) / "standard.h"
            libraries = [header for header, _ in LIBRARIES.values()]
            standard.write_text("".join(f"#include <{name}>\n" for name in [*STD_HEADERS, *libraries]))
            # Templates that these headers use are made once, not for each header: a third of the time.
            instantiate = "-fpch-instantiate-templates"
            subprocess.run([*command, instantiate, "-x", "c++-header", str(standard), "-o", f"{standard}.pch"], check=True)

            def compile_alone(header):
                # A source that includes it, because a header that is compiled directly may not have #pragma once.
                source = pathlib.Path(folder) / f"{str(header.relative_to(ROOT)).replace('/', '_')}.cc"
                source.write_text(f'#include "{header}"\n')
                words = [*command, "-include-pch", f"{standard}.pch", "-fsyntax-only", str(source)]
                return header, subprocess.run(words, capture_output=True, text=True)

            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                for header, done in pool.map(compile_alone, headers):
                    with self.subTest(header=str(header.relative_to(ROOT))):
                        self.assertEqual(done.returncode, 0, done.stderr)
                        stamps[header].touch()

    def test_each_includes_what_it_uses_of_the_standard_library(self):
        for header in public_headers():
            code = code_of(header)
            included = set(ANGLED.findall(code))
            for name in sorted(set(STD_NAME.findall(code))):
                if not name:
                    continue
                with self.subTest(header=str(header.relative_to(ROOT)), name=f"std::{name}"):
                    self.assertIn(name, HEADERS_OF_NAME, "STD_HEADERS does not say where this name comes from")
                    wanted = HEADERS_OF_NAME[name]
                    self.assertTrue(wanted & included, f"needs one of {sorted(wanted)}")

    def test_each_reaches_the_libraries_whose_names_it_uses(self):
        for header in public_headers():
            code = code_of(header)
            for namespace, (_, beginning) in LIBRARIES.items():
                if not re.search(rf"\b{namespace}::", code):
                    continue
                with self.subTest(header=str(header.relative_to(ROOT)), library=namespace):
                    reached = (ANGLED.findall(path.read_text()) for path in with_included(header, set()))
                    self.assertTrue(any(name.startswith(beginning) for names in reached for name in names))


if __name__ == "__main__":
    unittest.main()

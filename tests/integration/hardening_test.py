"""The properties of the built programs that make exploits harder, read from the files themselves; deploy/security.md."""

import pathlib
import re
import subprocess
import unittest

from cluster import BIN

PROGRAMS = ("roost-router", "roost-worker", "roostctl")
BACKENDS = ("libroost_cuda.so",)
IS_X86 = pathlib.Path("/lib64/ld-linux-x86-64.so.2").exists()
ENDBR64 = bytes.fromhex("f30f1efa")


def readelf(path, *flags):
    return subprocess.run(["readelf", "--wide", *flags, path], capture_output=True, text=True, check=True).stdout


class HardeningTest(unittest.TestCase):
    def each(self, names):
        """The built files of these names, each as a subtest. One that is not built is skipped visibly."""
        for name in names:
            with self.subTest(name):
                if not (BIN / name).exists():
                    self.skipTest(f"{BIN / name} is not built")
                yield BIN / name

    def test_programs_are_position_independent(self):
        for path in self.each(PROGRAMS):
            self.assertRegex(readelf(path, "-h"), r"Type: +DYN")
            self.assertRegex(readelf(path, "-d"), r"FLAGS_1\).*\bPIE\b")

    def test_relocations_are_done_at_the_start_and_then_read_only(self):
        for path in self.each(PROGRAMS + BACKENDS):
            self.assertIn("GNU_RELRO", readelf(path, "-l"))
            self.assertRegex(readelf(path, "-d"), r"BIND_NOW|FLAGS_1\).*\bNOW\b")

    def test_neither_stack_nor_code_is_both_writable_and_executable(self):
        for path in self.each(PROGRAMS + BACKENDS):
            segments = readelf(path, "-l")
            self.assertRegex(segments, r"GNU_STACK +\S+ \S+ \S+ \S+ \S+ RW +0x")
            self.assertNotRegex(segments, r"LOAD +\S+ \S+ \S+ \S+ \S+ RWE")

    def test_stacks_are_protected_and_calls_of_the_c_library_are_checked(self):
        for path in self.each(PROGRAMS + BACKENDS):
            symbols = readelf(path, "--dyn-syms")
            self.assertIn("__stack_chk_fail", symbols)
            if path.suffix != ".so":  # the backend has few such calls
                self.assertRegex(symbols, r"__mem(cpy|set|move)_chk|__(v?f|v?sn)printf_chk|__read_chk|__explicit_bzero_chk")

    @unittest.skipUnless(IS_X86, "only x86 has these instructions")
    def test_indirect_calls_land_on_marked_instructions(self):
        # The linker marks a file only if all of its parts are, and Debian 12's crt1.o is not. So this looks at our code.
        for path in self.each(PROGRAMS):
            found = re.search(r"^ *\d+: ([0-9a-f]+) +\d+ FUNC +GLOBAL \S+ +\d+ main$", readelf(path, "-s"), re.MULTILINE)
            self.assertTrue(found, "no symbol main")
            self.assertEqual(self.bytes_at(path, int(found.group(1), 16), 4), ENDBR64)

    def bytes_at(self, path, address, count):
        for offset, start, size in re.findall(r"LOAD +(\S+) (\S+) \S+ (\S+)", readelf(path, "-l")):
            offset, start, size = int(offset, 16), int(start, 16), int(size, 16)
            if start <= address < start + size:
                with path.open("rb") as file:
                    file.seek(offset + address - start)
                    return file.read(count)
        raise AssertionError(f"{address:x} is in no segment")


if __name__ == "__main__":
    unittest.main()

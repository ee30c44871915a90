"""The device code in the built objects of the CUDA kernels: each has code for sm_80 and sm_90, and PTX that drivers translate
for later devices. Exits with 77, which ctest reports as skipped, if nothing is built.

    fatbinary_test.py FOLDER     folder of the objects: build/release/kernels/CMakeFiles/roost_cuda.dir
"""

import pathlib
import struct
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
MAGIC = struct.pack("<I", 0xBA55ED50)
KINDS = {1: "PTX", 2: "code"}
WANTED = {("code", 80), ("code", 90), ("PTX", 90)}


def contents(path):
    """The (kind, architecture) pairs of an object's fatbinaries. A fatbinary is a header (magic, version, its own size and the
    size of what follows) and entries: kind, version, size of the entry's header, size of its payload, at 28 the architecture.
    """
    data = path.read_bytes()
    found = set()
    start = data.find(MAGIC)
    while start >= 0:
        _, _, header_bytes, bytes_behind = struct.unpack_from("<IHHQ", data, start)
        entry = start + header_bytes
        end = entry + bytes_behind
        while entry < end:
            kind, _, entry_header_bytes, payload_bytes = struct.unpack_from("<HHIQ", data, entry)
            [architecture] = struct.unpack_from("<I", data, entry + 28)
            found.add((KINDS.get(kind, kind), architecture))
            entry += entry_header_bytes + payload_bytes
        start = data.find(MAGIC, end)
    return found


class FatbinaryTest(unittest.TestCase):
    def test_every_kernels_file_has_code_for_all_devices(self):
        for source in sorted((ROOT / "kernels/cuda").glob("*_cuda.cu")):
            with self.subTest(source=source.name):
                self.assertEqual(contents(FOLDER / "cuda" / f"{source.name}.o"), WANTED)

    def test_an_object_that_lacks_some_is_told_from_others(self):
        entry = struct.pack("<HHIQ", 2, 0x101, 64, 8) + bytes(12) + struct.pack("<I", 80) + bytes(32) + bytes(8)
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "one.o"
            path.write_bytes(b"ELF" + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry + b"rest")
            self.assertEqual(contents(path), {("code", 80)})


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv.pop()) if len(sys.argv) > 1 else None
    if FOLDER is None or not any(FOLDER.glob("cuda/*.cu.o")):
        print("skipped: there is no CUDA toolkit, or the backend was not built")
        sys.exit(SKIPPED)
    unittest.main()

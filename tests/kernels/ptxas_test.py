"""What ptxas reports of every CUDA kernel: no spilled registers and no local memory, for every architecture that is built.
Needs nvcc, whose path is in ROOST_NVCC, and no device; exits with 77, for ctest to say that it was skipped, without it.

By hand, with a line of registers and shared memory per kernel:
  ROOST_NVCC=/usr/local/cuda/bin/nvcc python3 tests/kernels/ptxas_test.py
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVCC = os.environ.get("ROOST_NVCC", "")
ARCHITECTURES = ("sm_80", "sm_90")
# As in kernels/CMakeLists.txt.
FLAGS = ["-std=c++20", "--expt-relaxed-constexpr", "-DFMT_USE_CONSTEXPR=1", "-O3"]
SKIPPED = 77

ENTRY = re.compile(r"Compiling entry function '(?P<kernel>\S+)' for '(?P<architecture>\S+)'")
FRAME = re.compile(r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
USED = re.compile(r"Used (?P<registers>\d+) registers")
SHARED = re.compile(r"(?P<shared>\d+) bytes smem")
# A kernel that can not keep its array in registers: what the check must find.
WITH_LOCAL_MEMORY = """
__global__ void Kernel(const int* in, int* out) {
  int values[64];
  for (int i = 0; i < 64; ++i) values[i] = in[i];
  for (int i = 0; i < 64; ++i) out[i] = values[in[i] & 63];
}
"""


def reports(source, architecture):
    """One dict per kernel of the file."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [NVCC, *FLAGS, f"-I{ROOT}", f"-arch={architecture}", "-cubin", "-Xptxas", "-v", str(source), "-o",
                   f"{scratch}/out.cubin"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}:\n{done.stderr[-3000:]}")
    found = []
    for line in done.stderr.splitlines():
        if entry := ENTRY.search(line):
            found.append({"kernel": entry["kernel"]})
        elif found:
            for pattern in (FRAME, USED, SHARED):
                if match := pattern.search(line):
                    found[-1].update({key: int(value) for key, value in match.groupdict().items()})
    return found


def short(kernel):
    """A mangled name without the namespace that stands for its file."""
    return re.sub(r"^.*_cu_[0-9a-f]{8}", "", kernel)


class PtxasTest(unittest.TestCase):
    def test_no_kernel_spills_or_uses_local_memory(self):
        sources = sorted((ROOT / "kernels").glob("*_cuda.cu"))
        self.assertTrue(sources)
        for source in sources:
            for architecture in ARCHITECTURES:
                kernels = reports(source, architecture)
                self.assertTrue(kernels, source)
                for report in kernels:
                    print(f"{architecture} {source.stem} {short(report['kernel'])}: {report['registers']} registers, "
                          f"{report.get('shared', 0)} bytes of static shared memory")
                    with self.subTest(kernel=report["kernel"], architecture=architecture):
                        self.assertEqual((report["stack"], report["stores"], report["loads"]), (0, 0, 0),
                                         "bytes of stack frame, spill stores, spill loads")

    def test_local_memory_is_found_where_it_is_used(self):
        with tempfile.TemporaryDirectory() as scratch:
            source = pathlib.Path(scratch) / "local.cu"
            source.write_text(WITH_LOCAL_MEMORY)
            [report] = reports(source, ARCHITECTURES[0])
        self.assertGreater(report["stack"], 0)


if __name__ == "__main__":
    if not NVCC:
        print("skipped: ROOST_NVCC names no nvcc")
        sys.exit(SKIPPED)
    unittest.main()

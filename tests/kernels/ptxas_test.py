"""ptxas's report for every CUDA kernel: no spilled registers, no local memory, and few
enough registers and little enough shared memory that as many blocks run on a multiprocessor as the launch expects.
Needs nvcc, whose path is in ROOST_NVCC, and no device; without it exits with 77, which ctest reports as skipped.

To run it by hand, with a line of registers and shared memory per kernel:
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
# In nightly.sh all that are built, else the one that figures are of.
ARCHITECTURES = ("sm_90", "sm_80") if "ROOST_NIGHT" in os.environ else ("sm_90",)
# Kernel -> (threads per block, blocks per multiprocessor that its registers must allow).
BLOCKS_WANTED = {
    "AttentionKernel<64>": (128, 3),
    "AttentionKernel<128>": (128, 2),
    "LogprobsKernel": (1024, 1),
    "MergeKernel": (128, 16),
    "CopyRowsKernel": (256, 8),
    "GatherKernel": (256, 8),
    "GatherVectorsKernel": (256, 8),
    "MoveBlocksKernel": (256, 5),
    "PlaceKernel": (256, 8),
    "RmsNormKernel": (1024, 2),
    "RopeAnglesKernel": (128, 16),
    "RopeToCacheKernel": (256, 6),
    "SampleKernel": (1024, 1),
    "SiluMulKernel": (256, 8),
}
# Static shared memory: the sums of a block's warps.
MAX_STATIC_SHARED = {"RmsNormKernel": 128}
# Bytes of shared memory per multiprocessor; the driver takes some for each block.
SHARED_OF_MULTIPROCESSOR = {"sm_80": 164 << 10, "sm_86": 100 << 10, "sm_90": 228 << 10, "sm_120": 100 << 10}
SHARED_OF_DRIVER = 1 << 10
# The dynamic shared memory of attention by head size, and the most that a kernel may have, as in the sources.
SIZES = """
#include "kernels/cuda/attention_cuda.cu"
namespace roost::kernels {
extern "C" __device__ const unsigned of_64 = kSharedBytes<64>;
extern "C" __device__ const unsigned of_128 = kSharedBytes<128>;
extern "C" __device__ const unsigned most = kMaxSharedBytes;
}
"""
# As in kernels/CMakeLists.txt.
FLAGS = ["-std=c++20", "--expt-relaxed-constexpr", "-DFMT_USE_CONSTEXPR=1", "-O3"]
SKIPPED = 77

ENTRY = re.compile(r"Compiling entry function '(?P<kernel>\S+)' for '(?P<architecture>\S+)'")
FRAME = re.compile(r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
USED = re.compile(r"Used (?P<registers>\d+) registers")
SHARED = re.compile(r"(?P<shared>\d+) bytes smem")
# A kernel that can not keep its array in registers: the check must find it.
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
    """A mangled name without the namespace of its file."""
    return re.sub(r"^.*_cu_[0-9a-f]{8}", "", kernel)


def key_of(kernel, table):
    """A kernel's name in the table: its name, with its first template argument if instances differ."""
    [(length, rest)] = re.findall(r"^(\d+)(.*)$", short(kernel))
    name, rest = rest[: int(length)], rest[int(length) :]
    argument = re.match(r"ILj(\d+)E", rest)
    with_argument = f"{name}<{argument[1]}>" if argument else name
    return with_argument if with_argument in table else name


def most_registers(threads, blocks):
    """Registers per thread: a multiprocessor's 65,536 are given to warps in units of 256."""
    return min(255, 65536 // (blocks * threads // 32) // 256 * 8)


def sizes():
    """The constants of SIZES."""
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch) / "sizes.cu"
        source.write_text(SIZES)
        command = [NVCC, *FLAGS, f"-I{ROOT}", "-arch=compute_80", "-ptx", str(source), "-o", f"{scratch}/out.ptx"]
        subprocess.run(command, check=True)
        ptx = (pathlib.Path(scratch) / "out.ptx").read_text()
    return {name: int(value) for name, value in re.findall(r"\.u32 (\w+) = (\d+);", ptx)}


def loaded(source):
    """The number of kernels that the file's Load…Kernels names; see kernels/cuda/cuda_kernels.h."""
    [body] = re.findall(r"^void Load\w+Kernels\(Device& device\) \{(.*?)\}", source.read_text(), re.MULTILINE | re.DOTALL)
    return len(re.findall(r"\w+Kernel\b", body))


class PtxasTest(unittest.TestCase):
    def test_what_loads_a_files_kernels_is_called_when_a_device_is_opened(self):
        opened = (ROOT / "kernels/cuda/cuda_ops.cc").read_text()
        for source in sorted((ROOT / "kernels/cuda").glob("*_cuda.cu")):
            [load] = re.findall(r"^void (Load\w+Kernels)\(Device& device\)", source.read_text(), re.MULTILINE)
            self.assertRegex(opened, rf"\b{load}\b", source.name)

    def test_no_kernel_spills_and_each_has_room_for_the_blocks_that_it_wants(self):
        seen = set()
        sources = sorted((ROOT / "kernels/cuda").glob("*_cuda.cu"))
        self.assertTrue(sources)
        for source in sources:
            for architecture in ARCHITECTURES:
                kernels = reports(source, architecture)
                self.assertTrue(kernels, source)
                self.assertEqual(loaded(source), len(kernels), f"kernels of {source.name} that are loaded at start")
                for report in kernels:
                    print(f"{architecture} {source.stem} {short(report['kernel'])}: {report['registers']} registers, "
                          f"{report.get('shared', 0)} bytes of static shared memory")
                    with self.subTest(kernel=report["kernel"], architecture=architecture):
                        self.assertEqual((report["stack"], report["stores"], report["loads"]), (0, 0, 0),
                                         "bytes of stack frame, spill stores, spill loads")
                        key = key_of(report["kernel"], BLOCKS_WANTED)
                        seen.add(key)
                        self.assertLessEqual(report["registers"], most_registers(*BLOCKS_WANTED[key]), "registers")
                        self.assertLessEqual(report.get("shared", 0), MAX_STATIC_SHARED.get(key, 0), "static shared memory")
        self.assertEqual(seen, set(BLOCKS_WANTED))

    def test_attentions_shared_memory_fits_every_device(self):
        told = sizes()
        self.assertEqual(told["most"], 99 << 10)
        for head_dim in (64, 128):
            shared = told[f"of_{head_dim}"]
            self.assertLessEqual(shared, told["most"])
            blocks = {name: whole // (shared + SHARED_OF_DRIVER) for name, whole in SHARED_OF_MULTIPROCESSOR.items()}
            print(f"attention of heads of {head_dim}: {shared} bytes of dynamic shared memory; blocks of a multiprocessor: {blocks}")
            self.assertGreaterEqual(min(blocks.values()), 1)
            self.assertGreaterEqual(blocks["sm_90"], BLOCKS_WANTED[f"AttentionKernel<{head_dim}>"][1])

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

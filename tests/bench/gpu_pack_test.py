"""A pack as it is made here: small enough to be sent with the checkout, and complete for a machine that has only Debian's
base, Python, cuBLASLt in a Python package and a driver in its usual folder. Stand-ins take the places of the last two.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import debian_root

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/release/bin").resolve()
MOST_BYTES = 60 << 20
SAYS_THAT_IT_IS_LOADED = '#include <stdio.h>\n__attribute__((constructor)) static void Loaded(void) { fputs("stand-in driver\\n", stderr); }\n'


def tracked():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def shared_object(source, path):
    """Its symbols have a version of the library's name, as cuBLASLt's have."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".map") as versions:
        versions.write(f"{path.name} {{ global: *; }};\n")
        versions.flush()
        linker = [f"-Wl,--version-script={versions.name}", f"-Wl,-soname,{path.name}"]
        subprocess.run(["cc", "-shared", "-fPIC", *linker, "-x", "c", "-o", path, "-"], input=source, text=True, check=True)


def stand_in_of(library, user):
    """C functions for all that `user` takes from the library by its prefix."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", user], capture_output=True, text=True, check=True).stdout
    return "".join(f"int {name}(void) {{ return 1; }}\n" for name in sorted(set(re.findall(rf"\b({library}\w+)", listed))))


class GpuPackTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (BIN / "libroost_cuda.so").exists():
            raise unittest.SkipTest("the CUDA backend was not built")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.pack = pathlib.Path(cls.folder.name) / "pack.tar.gz"
        script = f". tests/bench/gpu_pack.sh; make_gpu_pack {cls.pack} {BIN}"
        subprocess.run(["bash", "-ec", script], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)

    def test_pack_and_checkout_are_small_enough_to_be_sent(self):
        checkout = sum(path.stat().st_size for path in tracked())
        self.assertLess(checkout + self.pack.stat().st_size, MOST_BYTES)

    def test_in_a_bare_debian_the_programs_find_all_libraries_and_the_driver(self):
        reason = debian_root.why_not("cc", "nm")
        if reason:
            self.skipTest(reason)
        root = debian_root.make_root(pathlib.Path(self.folder.name) / "root", "python3")
        for path in tracked():
            copy = root / "roost" / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
        shutil.copy(self.pack, root / "roost/pack.tar.gz")
        shared_object(SAYS_THAT_IT_IS_LOADED, root / "usr/local/nvidia/lib64/libcuda.so.1")
        cublas = "usr/lib/python3/dist-packages/nvidia/cu13/lib"
        module = BIN / "libroost_cuda.so"
        version = re.search(rb"libcublasLt\.so\.\d+", module.read_bytes()).group().decode()
        shared_object(stand_in_of("cublasLt", module), root / cublas / version)
        command = ["bash", "/roost/tests/bench/gpu_lease.sh", "/roost/pack.tar.gz", "/tmp/out", "60"]
        # The log and the records are in a file system that ends with the command.
        show = " ".join(command) + "; echo rc $?; cat /tmp/out/log /tmp/out/stages.jsonl"
        done = subprocess.run(debian_root.inside(root, "sh", "-c", show), capture_output=True, text=True, check=False)
        self.assertIn("stand-in driver", done.stdout, done.stderr)
        self.assertNotIn("lacks:", done.stdout)
        self.assertIn(f"/{cublas}", done.stdout)
        # The driver is none, so the probe ends the rest and says why.
        self.assertIn("gpu_probe.sh: the worker finds no device: ", done.stdout)
        record = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((record["stage"], record["rc"]), ("probe", 77), done.stdout)
        self.assertIn("rc 77", done.stdout)


if __name__ == "__main__":
    unittest.main()

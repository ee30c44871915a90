"""The lease of a device with stand-ins for the device and the programs: order, limits, reasons, repeats, sizes."""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import gpu_lease
import gpu_tests
from gpu_lease import Stage

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ORDER = ["probe", "ops", "model", "serve", "kernels", "0.6B", "8B", "torch", "ranks", "sanitizer", "start", "ncu", "failures",
         "start-8B"]
# A program that does as the real one: $STAND_IN_<NAME> replaces it.
STAND_IN = """#!/bin/sh
name=$(basename "$0")
[ "$name" != nvidia-smi ] || { echo Stand-in; exit; }
echo "stand-in $name $*"
eval "$(printenv "STAND_IN_$(echo $name | tr -d -c 'a-z_')" || true)"
case "$name $*" in
  *--gtest_list_tests*) printf 'Suite.\\n  A\\nDeviceFailureSuite.\\n  B\\nCudaRanksSuite.\\n  C\\n' ;;
  *--gtest_filter*) echo "[  PASSED  ] 1 test." ;;
  "roost_gpu_bench --list") printf 'gpu_copy_bandwidth\\ngpu_qwen3-0.6b_decode_1\\ngpu_llama-3.1-8b_prefill\\n' ;;
  roost_gpu_bench*) shift 0; echo "device Stand-in"; for figure in "$@"; do echo "figure $figure 4 GB/s"; done ;;
  roost-worker*) echo "no model"; exit 66 ;;
esac
"""


class StagesTest(unittest.TestCase):
    """The runner, with stages that hang, fail, skip and leave processes behind."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "out"

    def run_stages(self, stages, seconds=60, *more):
        arguments = ["gpu_lease.py", "/nowhere", str(self.out), str(seconds), *more]
        out = io.StringIO()
        with mock.patch.object(gpu_lease, "stages", lambda *_: stages), mock.patch.object(sys, "argv", arguments), \
                contextlib.redirect_stdout(out):
            self.code = gpu_lease.main()
        self.printed = out.getvalue()
        lines = (self.out / "stages.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def test_a_stage_that_hangs_is_cut_at_its_limit_and_the_rest_goes_on(self):
        # It takes no SIGTERM, and a child of its has a group of its own.
        hang = "trap '' TERM; setsid sleep 1000 & echo child $!; while :; do sleep 1000; done"
        with mock.patch.object(gpu_lease, "KILL_AFTER", "1"):
            records = self.run_stages([Stage("a", 1, ["sh", "-c", hang]), Stage("b", 5, ["true"])])
        self.assertEqual([(record["stage"], record["rc"]) for record in records], [("a", 137), ("b", 0)])
        self.assertIn("cut at its limit of 1 s", records[0]["reason"])
        child = re.search(r"^child (\d+)$", (self.out / "log").read_text(), re.MULTILINE).group(1)
        self.assertFalse(pathlib.Path(f"/proc/{child}").exists())
        self.assertEqual(self.code, 1)

    def test_a_stage_that_fails_is_named_and_the_rest_goes_on(self):
        records = self.run_stages([Stage("probe", 5, ["true"]), Stage("a", 5, ["sh", "-c", "echo why >&2; exit 3"]), Stage("b", 5, ["true"])])
        self.assertEqual([record["rc"] for record in records], [0, 3, 0])
        self.assertIn("why", (self.out / "log").read_text())
        self.assertRegex(self.printed, r"a +FAILED \(3\)")

    def test_only_a_failing_probe_stops_the_rest(self):
        records = self.run_stages([Stage("probe", 5, ["sh", "-c", "exit 77"]), Stage("a", 5, ["true"])])
        self.assertEqual([record["stage"] for record in records], ["probe"])
        self.assertEqual(self.code, 77)

    def test_a_stage_without_time_is_skipped_with_that_reason(self):
        records = self.run_stages([Stage("a", 100, ["true"]), Stage("b", 4, ["true"]), Stage("c", 5, ["true"], least=30)], 20)
        self.assertEqual([record["rc"] for record in records], [None, 0, None])
        self.assertRegex(records[0]["reason"], r"^\d+ s are left, and it needs 50$")
        self.assertEqual(self.code, 0)

    def test_only_repeats_the_named_stages_after_the_probe_and_adds_to_the_results(self):
        stages = [Stage("probe", 5, ["true"]), Stage("a", 5, ["false"]), Stage("b", 5, ["true"]), Stage("c", 5, ["true"], by_name_only=True)]
        self.assertEqual([record["stage"] for record in self.run_stages(stages)], ["probe", "a", "b"])
        stages[1].command = ["true"]
        records = self.run_stages(stages, 60, "--only", "a,c")
        self.assertEqual([record["stage"] for record in records[3:]], ["probe", "a", "c"])
        self.assertEqual(self.code, 0)
        with self.assertRaises(SystemExit) as ended:
            self.run_stages(stages, 60, "--only", "d")
        self.assertIn("there is no stage d", str(ended.exception))

    def test_a_groups_name_runs_its_stages(self):
        """Of those that run only by name; others' names may have dashes, too."""
        stages = [Stage("probe", 5, ["true"]), Stage("a", 5, ["true"]), Stage("a-1", 5, ["true"]),
                  *(Stage(f"travel-{each}", 5, ["true"], by_name_only=True) for each in "bc")]
        self.assertEqual([record["stage"] for record in self.run_stages(stages, 60, "--only", "travel,a")],
                         ["probe", "a", "travel-b", "travel-c"])

    def test_the_stages_of_travel_take_150_seconds_at_most(self):
        stages = gpu_lease.chosen(gpu_lease.stages(pathlib.Path("/bin"), self.out), "travel")
        self.assertEqual([stage.name for stage in stages],
                         ["probe", "travel-copies", "travel-decodes", "travel-fetch", "travel-soak", "travel-kill"])
        self.assertLessEqual(sum(stage.limit for stage in stages[1:]), 150)

    def test_a_log_that_is_too_large_keeps_its_ends(self):
        with mock.patch.object(gpu_lease, "MAX_LOG_BYTES", 1000):
            self.run_stages([Stage("a", 5, ["sh", "-c", "echo first; yes | head -c 5000; echo last"])])
        log = (self.out / "log").read_bytes()
        self.assertLess(len(log), 1100)
        self.assertIn(b"first", log)
        self.assertIn(b"last", log)


class LeaseTest(unittest.TestCase):
    """gpu_lease.sh as a whole, with a pack of stand-ins."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        inner = self.folder / "inner"
        for name in ("bin", "programs", "lib", "tools"):
            (inner / name).mkdir(parents=True)
        for name in ("roost_gpu_bench", "roost-worker", "roost-router", "kernels_cuda_gpu_test", "worker_model_gpu_test"):
            self.program(inner / "bin" / name)
            self.program(inner / "programs" / name)
        (inner / "programs" / "libroost_cuda.so").write_bytes(b"libcublasLt.so.13\0")
        (inner / "commit").write_text("abc123\n")
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        for name in ("nvidia-smi", "ncu", "compute-sanitizer", "ldd"):
            self.program(self.tools / name)
        self.pack = self.folder / "pack.tar.gz"
        subprocess.run(["tar", "-C", inner, "-czf", self.pack, "."], check=True)

    @staticmethod
    def program(path):
        path.write_text(STAND_IN)
        path.chmod(0o755)

    def lease(self, *arguments, **environment):
        command = [HERE / "gpu_lease.sh", self.pack, self.out, *arguments]
        env = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", **environment}
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        self.records = [json.loads(line) for line in (self.out / "stages.jsonl").read_text().splitlines()]
        return done

    def outcome(self, stage):
        return next(record for record in reversed(self.records) if record["stage"] == stage)

    def test_all_stages_run_in_order_and_are_reported(self):
        done = self.lease("600")
        self.assertEqual([record["stage"] for record in self.records], ORDER, done.stderr)
        for record in self.records:
            self.assertEqual((record["commit"], record["device"]), ("abc123", "Stand-in"))
        for stage in ("probe", "ops", "model", "kernels", "0.6B", "8B", "ranks", "sanitizer", "ncu", "failures"):
            self.assertEqual(self.outcome(stage)["rc"], 0, (stage, (self.out / "log").read_text()))
        # The stand-ins serve nothing.
        self.assertEqual(self.outcome("serve")["rc"], 1)
        self.assertEqual(done.returncode, 1)
        last = done.stdout.splitlines()[-40:]
        self.assertTrue(any(line.startswith("serve") and "FAILED" in line for line in last), done.stdout)
        self.assertTrue(any(line.startswith("gpu_qwen3-0.6b_decode_1") for line in last), done.stdout)
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["device", "figures.json", "log", "stages.jsonl"])

    def test_only_after_a_partial_run_measures_what_is_missing(self):
        self.lease("600", "--only", "kernels", STAND_IN_roost_gpu_bench='[ "$1" = --list ] || exit 71')
        self.assertEqual(self.outcome("kernels")["rc"], 1)
        done = self.lease("600", "--only", "kernels,0.6B")
        self.assertEqual(done.returncode, 0, done.stdout)
        figures = json.loads((self.out / "figures.json").read_text())
        self.assertEqual(sorted(figures["figures"]), ["gpu_copy_bandwidth", "gpu_qwen3-0.6b_decode_1"])
        self.assertEqual(figures["failed"], {})

    def test_without_a_device_the_probe_says_why_and_nothing_else_runs(self):
        done = self.lease("600", STAND_IN_roostworker="echo the driver is too old >&2; exit 69")
        self.assertEqual([record["stage"] for record in self.records], ["probe"])
        self.assertEqual(done.returncode, 77)
        self.assertIn("finds no device: stand-in roost-worker", (self.out / "log").read_text())
        self.assertIn("the driver is too old", (self.out / "log").read_text())

    def test_a_library_that_is_missing_is_named(self):
        self.lease("600", STAND_IN_ldd='echo "libzmq.so.5 => not found"')
        self.assertEqual(self.outcome("probe")["rc"], 1)
        self.assertIn("lacks: ", (self.out / "log").read_text())

    def test_programs_find_the_driver_where_the_machine_keeps_it(self):
        """The wrappers of a real pack add to LD_LIBRARY_PATH, and do not replace it."""
        script = f"""
          . {HERE}/gpu_pack.sh
          gpu_programs=(roost-worker)
          packed_libraries() {{ echo /bin/true; }}
          make_gpu_pack {self.folder}/real.tar.gz {self.folder}/built
          mkdir {self.folder}/opened
          open_gpu_pack {self.folder}/real.tar.gz {self.folder}/opened
          {self.folder}/opened/bin/roost-worker"""
        built = self.folder / "built"
        built.mkdir()
        (built / "roost-worker").write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH"\n')
        (built / "roost-worker").chmod(0o755)
        (built / "libroost_cuda.so").write_bytes(b"libcublasLt.so.13\0")
        self.program(self.tools / "strip")
        environment = {**os.environ, "LD_LIBRARY_PATH": "/of/the/image", "PATH": f"{self.tools}:{os.environ['PATH']}",
                       "CUDA_PATH": str(self.folder / "cuda")}
        for library in ("libcublasLt.so.13", "libnccl.so.2"):
            path = self.folder / "cuda/lib64" / library
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        folders = done.stdout.splitlines()[-1].split(":")
        self.assertEqual(folders[0], f"{self.folder}/opened/lib")
        self.assertIn(f"{self.folder}/cuda/lib64", folders)
        self.assertEqual(folders[-2:], ["/of/the/image", "/usr/local/nvidia/lib64"])


class TestsTest(unittest.TestCase):
    """The runner of GoogleTest's programs."""

    OUTPUT = """[ RUN      ] Suite.A
/a/file.cc:1: Skipped
2 devices are needed: there is no device 1
[  SKIPPED ] Suite.A (0 ms)
[ RUN      ] Suite.B
[       OK ] Suite.B (0 ms)
"""

    def test_a_skipped_test_is_a_problem_unless_its_reason_is_accepted(self):
        self.assertEqual([name for name, _ in gpu_tests.skipped(self.OUTPUT)], ["Suite.A"])
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write(f"cat <<'END'\n{self.OUTPUT}END\n")
            file.flush()
            command = ["gpu_tests.problems_of", file.name]
            with mock.patch.object(subprocess, "run", self.run_script(file.name)), contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(len(gpu_tests.problems_of(command[1], "Suite", None)), 1)
                self.assertEqual(gpu_tests.problems_of(command[1], "Suite", "devices are needed"), [])

    @staticmethod
    def run_script(script):
        run = subprocess.run
        return lambda command, **keywords: run(["sh", script], **keywords)


if __name__ == "__main__":
    signal.alarm(240)
    unittest.main()

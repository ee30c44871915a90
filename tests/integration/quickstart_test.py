"""The quickstart shows the effect of cache-aware routing, serves a user's model folder, uses CUDA if it is available, and
leaves no process behind."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from cluster import BIN, DEMO_MODEL, ROOT, Cluster, wait_until

QUICKSTART = ROOT / "deploy/quickstart.sh"


def environment(programs=BIN, **more):
    return {**os.environ, "ROOST_BIN": str(programs), **more}


def quickstart(*arguments, **fields):
    return subprocess.run([QUICKSTART, "--once", "--backend", "cpu", *arguments], capture_output=True, text=True,
                          env=environment(**fields))


def last_line(done):
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="quickstart_test.")))

    def programs(self, **instead):
        """A folder with the real programs, except those that are given as shell scripts."""
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("roost-router", "roost-worker", "roostctl"):
            if name in instead:
                script(programs / name, instead[name])
            else:
                (programs / name).symlink_to(BIN / name)
        return programs


class DemonstrationTest(unittest.TestCase):
    def reference_answers(self):
        """The answers of one worker that holds all documents, asked one question at a time."""
        flags = subprocess.run(["bash", "-c", '. deploy/lib/demonstration.sh; printf "%s\n" "${demo_load[@]}"'],
                               cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        with Cluster() as cluster:
            router = cluster.start_router()
            cluster.start_worker("worker-a", "--kv-blocks", "4096")
            router.wait_for_workers(1)
            flags[flags.index("--concurrency") + 1] = "1"
            done = subprocess.run([BIN / "roostctl", "bench", "--router", router.url, *flags], cwd=ROOT,
                                  capture_output=True, text=True, check=True)
        return re.search(r"answers=(\w+)", done.stdout).group(1)

    def test_cache_aware_routing_finds_far_more_in_caches_and_answers_the_same(self):
        done = quickstart()
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        found = re.fullmatch(r"quickstart: ok requests=56 ttft_gain=([\d.]+) cached_gain=([\d.]+) answers=(\w+) "
                             r"backend=cpu", last_line(done))
        self.assertIsNotNone(found, last_line(done))
        self.assertGreaterEqual(float(found.group(1)), 3, done.stdout)
        self.assertGreaterEqual(float(found.group(2)), 1.5, done.stdout)
        self.assertEqual(found.group(3), self.reference_answers())
        for policy in ("round-robin", "cache-aware"):
            self.assertRegex(done.stdout, rf"(?m)^{policy} +56 +0 ")
            self.assertRegex(done.stdout, rf"(?m)^  {policy} +[#█]+ [\d.]+ ms$")
            self.assertRegex(done.stdout, rf"(?m)^  {policy} +[#█]+ \d+ %$")


class WrongAnswersTest(Folder):
    def once_with_figures(self, round_robin, cache_aware):
        """The quickstart with a fake load that only prints these lines."""
        bench = f"""
case "$*" in
  bench*round-robin*) printf 'row\\n%s\\n' '{round_robin}' ;;
  bench*cache-aware*) printf 'row\\n%s\\n' '{cache_aware}' ;;
  *) exec {BIN}/roostctl "$@" ;;
esac
"""
        return quickstart(programs=self.programs(roostctl=bench))

    @staticmethod
    def figures(ttft, ratio, answers):
        return f"bench: label=x requests=96 failed=0 cached_ratio={ratio} ttft_p50_ms={ttft} answers={answers}"

    def test_figures_are_shown_as_they_were_measured(self):
        done = self.once_with_figures(self.figures(80, 0.25, "aa"), self.figures(160, 0.5, "aa"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ttft_gain=0.5 cached_gain=2.0", last_line(done))
        bars = [len(bar) for bar in re.findall(r"(?m)^  [\w-]+ +([#█]+) ", done.stdout)]
        self.assertEqual(bars, [20, 40, 10, 20])

    def test_answers_that_differ_are_a_failure(self):
        done = self.once_with_figures(self.figures(80, 0.25, "aa"), self.figures(8, 0.9, "bb"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("FAILED the two policies got different answers", done.stderr)

    def test_answers_that_are_missing_are_a_failure(self):
        done = quickstart(programs=self.programs(
            roostctl=f'[ "$1" != bench ] || {{ echo row; echo figures; exit 1; }}; exec {BIN}/roostctl "$@"'))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("FAILED round-robin: not every answer came", done.stderr)


class ProcessesTest(Folder):
    def test_nothing_runs_on_after_sigterm(self):
        note = self.folder / "pids"
        daemons = {name: f'echo $$ >>{note}; exec {BIN}/{name} "$@"' for name in ("roost-router", "roost-worker")}
        bench = f'[ "$1" != bench ] || {{ echo $$ >>{note}; exec sleep 1000; }}; exec {BIN}/roostctl "$@"'
        process = subprocess.Popen([QUICKSTART, "--once", "--backend", "cpu"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL,
                                   env=environment(self.programs(roostctl=bench, **daemons)))
        pids = wait_until(lambda: note.exists() and len(note.read_text().split()) == 4 and note.read_text().split(),
                          "a router, two workers and a load")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 143)
        self.assertEqual([pid for pid in pids if pathlib.Path("/proc", pid).exists()], [])


    def test_a_process_that_ends_is_named(self):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c",
             ". deploy/lib/cluster.sh; logs=/logs; "
             "(exit 7) & pids=($!); names[$!]=router; sleep 1000 & pids+=($!); names[$!]=worker-0; "
             "kill -KILL ${pids[1]}; watch_cluster"], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("quickstart: router ended with status 7; see /logs/router.log", done.stderr)
        self.assertIn("quickstart: worker-0 ended with status 137; see /logs/worker-0.log", done.stderr)


class AddressTest(unittest.TestCase):
    def test_an_address_in_use_is_named_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = "127.0.0.1:%d" % server.getsockname()[1]
            done = subprocess.run([QUICKSTART, "--backend", "cpu"], capture_output=True, text=True,
                                  env=environment(ROOST_HTTP_ADDRESS=address))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{address} already; ROOST_HTTP_ADDRESS", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_the_address_of_metrics_is_the_routers_alone(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            done = quickstart("--model", "synthetic:tiny",
                              ROOST_METRICS_ADDRESS="127.0.0.1:%d" % server.getsockname()[1])
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])


class OwnModelTest(Folder):
    def test_a_folder_is_measured_and_served(self):
        model = self.folder / "my model"
        shutil.copytree(DEMO_MODEL, model)
        done = quickstart("--model", model)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertEqual(last_line(done), "quickstart: ok model=my model backend=cpu")
        self.assertRegex(done.stdout, r"(?m)^weights +[\d.]+ MB of memory per worker, as (f32|bf16)$")
        self.assertRegex(done.stdout, r"(?m)^KV +[\d.]+ .B of memory per worker: \d+ tokens of \d+ bytes each")
        self.assertRegex(done.stdout, r'"role":"assistant","content":"[^"]')

    def test_a_model_without_a_chat_template_completes(self):
        model = self.folder / "model"
        shutil.copytree(DEMO_MODEL, model)
        config = json.loads((model / "tokenizer_config.json").read_text())
        del config["chat_template"]
        (model / "tokenizer_config.json").write_text(json.dumps(config))
        done = quickstart("--model", model)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertRegex(done.stdout, r'"object":"text_completion".*"text":"[^"]')

    def test_a_folder_without_a_file_is_refused_before_anything_starts(self):
        model = self.folder / "model"
        shutil.copytree(DEMO_MODEL, model)
        (model / "tokenizer.json").unlink()
        done = quickstart("--model", model, programs=self.programs(**{"roost-router": "echo started >&2"}))
        self.assertEqual(done.returncode, 1)
        self.assertIn("tokenizer.json", done.stderr)
        self.assertNotIn("started", done.stderr)


    def test_a_folder_without_a_config_is_refused_before_anything_is_built(self):
        done = quickstart("--model", self.folder, ROOST_BIN="")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.folder} is no model folder on this host: it has no config.json", done.stderr)
        self.assertEqual(done.stdout, "")

    def worker_arguments(self, *arguments):
        """The arguments of the worker that the quickstart starts."""
        note = self.folder / "arguments"
        worker = f'echo "$*" >>{note}; exec {BIN}/roost-worker "$@"'
        done = quickstart("--model", "synthetic:tiny", *arguments, programs=self.programs(**{"roost-worker": worker}))
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        (line,) = note.read_text().splitlines()
        return line

    def test_one_worker_has_all_processors_unless_some_are_left_for_others(self):
        self.assertIn("--threads 0", self.worker_arguments())

    def test_a_second_start_answers_from_the_disk(self):
        disk = self.folder / "disk"
        arguments = ("--model", str(DEMO_MODEL), "--disk-cache", str(disk))
        first = quickstart(*arguments)
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertRegex(first.stdout, rf"{disk} has [1-9]\d* KV blocks now: the next start")
        second = quickstart(*arguments)
        self.assertEqual(second.returncode, 0, second.stdout + second.stderr)
        self.assertRegex(second.stdout, r"The disk answered: [1-9]\d* KV blocks of the prompt came from ")

    def test_threads_are_the_workers(self):
        self.assertIn("--threads 1", self.worker_arguments("--threads", "1"))

    def test_a_model_with_random_weights_needs_no_folder(self):
        done = quickstart("--model", "synthetic:tiny")
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertEqual(last_line(done), "quickstart: ok model=tiny backend=cpu")


class HelpTest(unittest.TestCase):
    def test_help_has_every_flag_and_variable(self):
        done = quickstart("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("--model DIR", "--threads N", "--disk-cache DIR", "--once", "--backend cpu", "ROOST_HTTP_ADDRESS", "ROOST_BIN"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("set -e", done.stdout)

    def test_threads_that_can_not_be_are_refused(self):
        for arguments, reason in ((("--model", "synthetic:tiny", "--threads", "0"), "--threads needs a number"),
                                  (("--threads", "2"), "--threads is for --model")):
            done = quickstart(*arguments)
            self.assertEqual(done.returncode, 64)
            self.assertIn(reason, done.stderr)

    def test_a_flag_that_is_not_known_is_named(self):
        done = quickstart("--served-model-name", "mine")
        self.assertEqual(done.returncode, 64)
        self.assertIn("--served-model-name is not known", done.stderr)


class BackendTest(Folder):
    """The choice of the backend, with fakes of the programs that it calls in PATH. cmake records its arguments."""

    def setUp(self):
        super().setUp()
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        (self.tools / "grep").symlink_to(shutil.which("grep"))
        (self.folder / "deploy").mkdir()
        script(self.folder / "deploy/packages.sh", "exit 0")
        script(self.tools / "cmake", f'echo "$@" >>{self.folder}/cmake.log')

    def fake_nvcc(self):
        script(self.tools / "nvcc", "exit 0")

    def fake_devices(self, *names):
        script(self.tools / "nvidia-smi", "".join(f"echo 'GPU {i}: {name}'\n" for i, name in enumerate(names)))

    def choose(self, wanted="auto"):
        """Sources the script, chooses and builds. Returns (exit code, output, cmake's arguments)."""
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c",
             f'. {ROOT}/deploy/lib/backend.sh; choose_backend {wanted}; echo "$backend $device_count"; build_programs'],
            cwd=self.folder, capture_output=True, text=True,
            env={"PATH": str(self.tools), "CUDA_PATH": str(self.folder / "none")})
        log = self.folder / "cmake.log"
        return done.returncode, done.stdout.strip() + done.stderr.strip(), log.read_text() if log.exists() else ""

    def test_toolkit_and_device_are_built_for_and_used(self):
        self.fake_nvcc()
        self.fake_devices("NVIDIA H200", "NVIDIA H200")
        code, said, cmake = self.choose()
        self.assertEqual((code, said), (0, "cuda 2"))
        self.assertIn("-DROOST_CUDA=ON", cmake)
        self.assertRegex(cmake, r"--build .* roost_cuda")

    def test_a_toolkit_without_a_device_is_left_alone(self):
        self.fake_nvcc()
        script(self.tools / "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
        code, said, cmake = self.choose()
        self.assertEqual((code, said), (0, "cpu 0"))
        self.assertNotIn("CUDA", cmake)
        self.assertNotIn("roost_cuda", cmake)

    def test_a_device_without_a_toolkit_is_left_alone(self):
        self.fake_devices("NVIDIA L4")
        code, said, cmake = self.choose()
        self.assertEqual((code, said), (0, "cpu 1"))
        self.assertNotIn("roost_cuda", cmake)

    def test_cpu_leaves_both_alone(self):
        self.fake_nvcc()
        self.fake_devices("NVIDIA L4")
        self.assertEqual(self.choose("cpu")[:2], (0, "cpu 1"))

    def test_cuda_without_a_device_ends_with_the_reason(self):
        self.fake_nvcc()
        code, said, cmake = self.choose("cuda")
        self.assertEqual(code, 69)
        self.assertIn("nvidia-smi lists no GPU", said)
        self.assertEqual(cmake, "")

    def test_workers_go_round_the_devices(self):
        note = self.folder / "workers"
        programs = self.programs(**{"roost-worker": f'echo "$@" >>{note}; exec sleep 1000',
                                    "roostctl": "echo no worker"})
        self.fake_nvcc()
        self.fake_devices("NVIDIA L4", "NVIDIA L4")
        process = subprocess.Popen([QUICKSTART, "--once"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   env=environment(programs, PATH=f"{self.tools}:/usr/bin:/bin"))
        lines = wait_until(lambda: note.exists() and len(note.read_text().splitlines()) == 2
                           and note.read_text().splitlines(), "two workers")
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[0]
        self.assertIn("backend: cuda (nvcc is", said)
        devices = [re.search(r"--backend cuda --device (\d)", line).group(1) for line in lines]
        self.assertEqual(sorted(devices), ["0", "1"])


if __name__ == "__main__":
    unittest.main()

"""roost-worker on machines with and without a CUDA device: what it logs, which backend it takes, how it exits."""

import subprocess
import tempfile
import unittest

from cluster import BIN, DEMO_MODEL, Cluster


def run_worker(*arguments):
    """Runs a worker that can not start; it must exit by itself."""
    command = [str(BIN / "roost-worker"), "--model", str(DEMO_MODEL), "--metrics-address", "", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


class BackendTest(unittest.TestCase):
    def assert_one_line(self, done, *parts):
        self.assertEqual(done.returncode, 69, done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_a_wanted_device_that_is_not_there_is_one_line_and_an_exit_code(self):
        self.assert_one_line(run_worker("--backend", "cuda", "--device", "1000"), "the worker can not start")

    def test_a_module_that_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as empty:
            module = f"{empty}/libroost_cuda.so"
            self.assert_one_line(run_worker("--backend", "cuda", "--cuda-module", module), module, "not there")

    def test_more_kv_memory_than_the_machine_has_is_refused_with_both_numbers(self):
        done = run_worker("--backend", "cpu", "--kv-memory", "1e13")
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertRegex(done.stderr, r"kv-memory: 9\d{12} bytes of KV blocks \(9\.09 TiB\) and \d+ bytes of weights \(.*\), "
                         r"with \d+ bytes \(.*\) for blocks that travel between workers \(transfer-memory\), are more than the \d+ ")

    def test_auto_without_a_module_serves_on_the_cpu_and_says_why(self):
        with Cluster() as cluster:
            cluster.start_router()
            worker = cluster.start_worker("worker-a", "--backend", "auto", "--cuda-module", "/nowhere/libroost_cuda.so")
            record = worker.wait_for_log("compute device")
            self.assertEqual(record["device"], "cpu")
            self.assertIn("none: /nowhere/libroost_cuda.so is not there", record["gpus"])

    def test_ranks_that_can_not_share_the_model_are_one_line(self):
        done = run_worker("--backend", "cpu", "--tensor-parallel", "3")
        lines = done.stderr.splitlines()
        self.assertEqual(done.returncode, 78, done.stderr)
        errors = [line for line in lines if '"level":"error"' in line]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn("cpu, 3 ranks", lines[0])
        self.assertIn("tensor_parallel: 3 ranks can not share 4 query heads evenly", errors[0])

    def test_ranks_on_the_cpu_answer_as_one_does(self):
        texts = []
        for ranks in ("1", "2"):
            with Cluster() as cluster:
                router = cluster.start_router()
                worker = cluster.start_worker(
                    "worker-a", "--backend", "cpu", "--compute-dtype", "f32", "--tensor-parallel", ranks
                )
                self.assertEqual(worker.wait_for_log("compute device")["device"], "cpu" if ranks == "1" else "cpu, 2 ranks")
                router.wait_for_workers(1)
                answer = router.chat([{"role": "user", "content": "Who comes here?"}], temperature=0, max_tokens=24)
                self.assertEqual(answer.status, 200, answer.body)
                texts.append(answer.text())
        self.assertNotEqual(texts[0], "")
        self.assertEqual(texts[1], texts[0])

    def test_auto_takes_what_it_finds(self):
        with Cluster() as cluster:
            cluster.start_router()
            worker = cluster.start_worker("worker-a", "--backend", "auto")
            record = worker.wait_for_log("compute device")
            if record["device"] == "cpu":
                self.assertTrue(record["gpus"].startswith("none: "), record)
            else:
                self.assertIn(record["device"], record["gpus"])


if __name__ == "__main__":
    unittest.main()

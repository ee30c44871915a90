"""roostctl bench against real daemons: loads, two sides, and what it writes."""

import csv
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from cluster import BIN, Cluster, wait_until


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.router = cls.cluster.start_router()
        for name in ("worker-a", "worker-b"):
            cls.cluster.start_worker(name, "--kv-blocks", "2048")
        cls.router.wait_for_workers(2)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def bench(self, *flags, code=0):
        told = subprocess.run([BIN / "roostctl", "bench", *flags], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(told.returncode, code, f"{flags}: {told.stdout} {told.stderr}")
        return told.stdout

    def measure(self, *flags):
        """The runs of the result in JSON."""
        text = self.bench("--router", self.router.url, "--max-tokens", "4", "--json", "-", *flags)
        return json.loads(text)

    def test_an_open_loop_with_warm_up_finds_the_shared_prompts_and_writes_all_results(self):
        files = {name: self.folder / name for name in ("out.json", "out.csv", "out.svg")}
        text = self.bench("--router", self.router.url, "--workload", "shared-prompt", "--conversations", "40", "--rate", "20",
                          "--shared-tokens", "300", "--question-tokens", "30", "--max-tokens", "4", "--warm-up", "12",
                          "--slo-ttft-ms", "60000", "--histogram", "--json", files["out.json"], "--csv", files["out.csv"],
                          "--plot", files["out.svg"])
        self.assertIn("shared-prompt: 40 sessions, 40 requests, open loop: 20 requests/s, poisson arrivals, after 12 to warm up",
                      text)
        self.assertIn("goodput (first token <= 60000 ms)", text)
        run = json.loads(files["out.json"].read_text())["runs"][0]
        self.assertEqual((run["requests"], run["failed"], run["good_requests"]), (40, 0, 40))
        self.assertGreater(run["cached_ratio"], 0.7)
        # Texts have about the wanted tokens, whatever the vocabulary.
        self.assertLess(abs(run["prompt_tokens"] / 40 - 330), 90)
        rows = list(csv.DictReader(files["out.csv"].open()))
        self.assertEqual(len(rows), 40)
        self.assertEqual({row["error"] for row in rows}, {""})
        self.assertEqual(sum(int(row["cached_tokens"]) for row in rows), run["cached_tokens"])
        svg = xml.etree.ElementTree.parse(files["out.svg"])
        self.assertEqual(len(svg.findall(".//{http://www.w3.org/2000/svg}polyline")), 2)

    def test_workloads_find_as_much_as_their_names_say(self):
        few = ["--conversations", "8", "--turns", "2", "--shared-tokens", "200", "--question-tokens", "40"]
        shares = {workload: self.measure("--workload", workload, *few, "--seed", "5")["runs"][0]["cached_ratio"]
                  for workload in ("chat", "multi-turn", "documents", "agents", "no-reuse")}
        # A second turn finds the first, and all but no-reuse share something.
        self.assertLess(self.measure("--workload", "no-reuse", "--conversations", "8", "--question-tokens", "100")["runs"][0][
            "cached_ratio"], 0.05)
        for workload in ("chat", "multi-turn", "agents"):
            self.assertGreater(shares[workload], 0.2, shares)

    def test_completions_and_a_trace_are_sent_too(self):
        trace = self.folder / "trace.jsonl"
        lines = [{"timestamp": 100 * i, "input_length": 600, "output_length": 3, "hash_ids": [1, 10 + i]} for i in range(6)]
        trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
        run = self.measure("--api", "completions", "--trace", trace, "--format", "mooncake", "--speed", "0.2")["runs"][0]
        self.assertEqual((run["requests"], run["failed"]), (6, 0))
        self.assertGreater(run["cached_ratio"], 0.4)
        self.assertGreater(run["seconds"], 2.4)  # the last request comes after 0.5 s of the trace

    def test_two_equal_endpoints_differ_by_noise_and_the_cache_by_more(self):
        common = ["--workload", "shared-prompt", "--shared-tokens", "400", "--conversations", "48", "--concurrency", "2",
                  "--blocks", "6", "--question-tokens", "20"]
        result = self.measure("--compare", self.router.url + "/v1", "--warm-up", "8", *common)
        self.assertEqual([run["label"] for run in result["runs"]], ["A", "B"])
        self.assertEqual([run["requests"] for run in result["runs"]], [48, 48])
        self.assertEqual(result["runs"][0]["answers"], result["runs"][1]["answers"])
        verdicts = {each["figure"]: each for each in result["comparison"]}
        self.assertEqual({each["blocks"] for each in verdicts.values()}, {6})
        self.assertEqual(verdicts["ttft mean"]["verdict"], "noise", verdicts["ttft mean"])

        text = self.bench("--router", self.router.url, "--max-tokens", "4", "--compare-cache", *common, "--seed", "9")
        self.assertRegex(text, r"ttft mean .*  better\n")
        self.assertRegex(text, r"cache gain: ttft_p50=\S+x ttft_p99=\S+x tokens_per_second=\S+x\n$")

    def test_errors_are_counted_by_kind_and_are_the_exit_code(self):
        told = self.bench("--router", self.router.url, "--model", "demo-model", "--workload", "no-reuse", "--conversations", "3",
                          "--question-tokens", "100000", code=1)
        self.assertIn("3 requests in", told)
        self.assertIn("3 failed: 3 status 400", told)
        self.bench("--url", "http://127.0.0.1:1", code=1)
        self.bench("--router", self.router.url, "--seconds", "5", code=64)
        self.bench("--router", self.router.url, "--trace", "/none", code=66)
        self.bench("--router", self.router.url, "--conversations", "1", "--plot", "/none/x.svg", code=73)

    def test_ctrl_c_ends_the_load_and_counts_what_ended(self):
        load = subprocess.Popen([BIN / "roostctl", "bench", "--router", self.router.url, "--conversations", "100000",
                                 "--max-tokens", "2", "--shared-tokens", "50"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        before = self.router.metric("roost_router_worker_requests_total")
        wait_until(lambda: self.router.metric("roost_router_worker_requests_total") > before + 20, "some requests")
        load.send_signal(signal.SIGINT)
        out, err = load.communicate(timeout=60)
        self.assertEqual(load.returncode, 1)
        self.assertIn("stopped; what ended before is counted", err)
        self.assertRegex(out, r"bench: label=- requests=\d+ failed=0 ")


if __name__ == "__main__":
    unittest.main()

"""The collector of figures against programs that measure, fail, fall silent or skip as instructed."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

COLLECTOR = pathlib.Path(__file__).with_name("gpu_figures.py")
# Arguments: name=value-unit, name=fail or name=silent for each figure; skip for a machine without a device.
PROGRAM = """
import sys
told = dict(argument.split("=") for argument in sys.argv[1:] if "=" in argument)
asked = [argument for argument in sys.argv[1:] if "=" not in argument]
if "skip" in asked:
    print("there is no device", file=sys.stderr)
    sys.exit(77)
if asked == ["--list"]:
    print("\\n".join(told))
    sys.exit()
print("device a device")
for name in asked:
    if told[name] == "fail":
        print("it broke", file=sys.stderr)
        sys.exit(71)
    if told[name] == "silent":
        sys.stdout.flush()
        sys.stdin.read()
    print("figure", name, *told[name].split("-"), flush=True)
"""


class GpuFiguresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = pathlib.Path(folder.name) / "figures.json"

    def collect(self, *programs, silence="60", figures=""):
        command = [sys.executable, COLLECTOR, self.json, "--silence", silence, "--figures", figures]
        for told in programs:
            command += ["--", sys.executable, "-c", PROGRAM, *told]
        # A silent program waits for input that never comes.
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            self.out = process.stdout.read()
            self.err = process.stderr.read()
            code = process.wait()
        self.report = json.loads(self.json.read_text()) if self.json.exists() else None
        return code

    def test_figures_stand_beside_ceiling_target_and_others(self):
        code = self.collect(
            ["gpu_copy_bandwidth=4000-GB/s", "gpu_decode_attention_64x4096=3400-GB/s", "gpu_llama-3.1-8b_inter_token=5-ms"],
            ["torch_decode_attention_64x4096=2000-GB/s", "transformers_llama-3.1-8b_inter_token=20-ms"],
        )
        self.assertEqual(code, 0, self.err)
        figures = self.report["figures"]
        self.assertEqual(self.report["device"], "a device")
        self.assertEqual(
            figures["gpu_decode_attention_64x4096"],
            {
                "value": 3400,
                "unit": "GB/s",
                "of_ceiling": 0.85,
                "torch": 2000,
                "target": ">= 80% of the bound",
                "met": True,
                "date": self.report["date"],
                "commit": self.report["commit"],
            },
        )
        self.assertEqual(figures["gpu_llama-3.1-8b_inter_token"]["target"], ">= 80% of the bound")
        self.assertNotIn("met", figures["gpu_llama-3.1-8b_inter_token"])  # a ceiling is missing
        self.assertEqual(figures["gpu_llama-3.1-8b_inter_token"]["transformers"], 20)
        self.assertNotIn("of_ceiling", figures["gpu_copy_bandwidth"])
        self.assertIn("gpu_prefill_attention", self.report["targets_without_figure"])
        self.assertIn("figure gpu_copy_bandwidth 4000 GB/s\n", self.out)

    def test_figures_of_models_stand_beside_what_the_ceilings_allow(self):
        # 15,009 MB of weights and 576 tokens of 131,072 bytes at 4,000 GB/s; 4,096 tokens at 790 TFLOP/s.
        self.collect(
            ["gpu_copy_bandwidth=4000-GB/s", "gpu_product_peak=790-TFLOP/s", "gpu_llama-3.1-8b_inter_token=5-ms"],
            ["gpu_llama-3.1-8b_prefill=26276-tokens/s", "gpu_llama-3.1-8b_start=5-s"],
            ["transformers_llama-3.1-8b_inter_token=20-ms"],
        )
        figures = self.report["figures"]
        self.assertEqual(figures["gpu_llama-3.1-8b_inter_token"]["bound"], 3.771)
        self.assertEqual(figures["gpu_llama-3.1-8b_inter_token"]["of_ceiling"], 0.7542)
        self.assertIs(figures["gpu_llama-3.1-8b_inter_token"]["met"], False)
        self.assertEqual(figures["gpu_llama-3.1-8b_prefill"]["of_ceiling"], 0.5)
        self.assertEqual(figures["transformers_llama-3.1-8b_inter_token"]["of_ceiling"], 0.1886)
        self.assertNotIn("bound", figures["gpu_llama-3.1-8b_start"])
        self.assertRegex(self.out, r"gpu_llama-3.1-8b_inter_token +5 +ms +3.771 +75% ")

    def test_without_both_ceilings_nothing_is_bounded(self):
        self.collect(["gpu_copy_bandwidth=4000-GB/s", "gpu_llama-3.1-8b_inter_token=5-ms"])
        self.assertNotIn("bound", self.report["figures"]["gpu_llama-3.1-8b_inter_token"])

    def test_a_figure_that_fails_takes_no_other_with_it(self):
        code = self.collect(["a=1-x", "b=fail", "c=fail", "d=4-x"], ["e=5-x"])
        self.assertEqual(code, 1)
        self.assertEqual(sorted(self.report["figures"]), ["a", "d", "e"])
        self.assertEqual(self.report["failed"], {"b": "it broke", "c": "it broke"})
        for name in "bc":
            self.assertIn(f"gpu_figures.py: {name} failed: it broke\n", self.err)

    def test_a_figure_that_never_comes_is_given_up(self):
        code = self.collect(["a=1-x", "b=silent", "c=3-x"], silence="2")
        self.assertEqual(code, 1)
        self.assertEqual(sorted(self.report["figures"]), ["a", "c"])
        self.assertIn("nothing was heard", self.report["failed"]["b"])

    def test_a_share_of_a_ceiling_that_failed_is_not_judged(self):
        self.collect(["gpu_copy_bandwidth=fail", "gpu_decode_attention_64x4096=3400-GB/s"])
        self.assertNotIn("met", self.report["figures"]["gpu_decode_attention_64x4096"])

    def test_without_a_device_nothing_is_measured(self):
        self.assertEqual(self.collect(["skip"], ["skip"]), 77)
        self.assertIsNone(self.report)
        self.assertIn("there is no device", self.err)

    def test_the_others_need_not_be_there(self):
        self.assertEqual(self.collect(["a=1-x"], ["skip"]), 0)
        self.assertEqual(self.collect(["skip"], ["a=1-x"]), 1, "our own program saw no device where another one did")

    def test_a_second_run_keeps_what_the_first_has_measured(self):
        self.collect(["a=1-x", "b=fail"])
        self.assertEqual(self.collect(["b=2-x", "c=3-x"]), 0)
        self.assertEqual({name: figure["value"] for name, figure in self.report["figures"].items()}, {"a": 1, "b": 2, "c": 3})
        self.assertEqual(self.report["failed"], {})

    def test_only_the_figures_that_are_asked_for_are_measured(self):
        self.assertEqual(self.collect(["a=1-x", "ab=2-x", "c=3-x"], figures="^a"), 0)
        self.assertEqual(sorted(self.report["figures"]), ["a", "ab"])

    def test_figures_of_another_device_are_not_mixed_in(self):
        self.collect(["a=1-x"])
        self.report["device"] = "another device"
        self.json.write_text(json.dumps(self.report))
        self.assertEqual(self.collect(["b=1-x"]), 1)
        self.assertIn("has figures of another device, and this is a device", self.err)

    def test_a_program_that_can_not_run_is_a_failure(self):
        command = [sys.executable, COLLECTOR, self.json, "--", "/nowhere/program"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/program failed", done.stderr)


if __name__ == "__main__":
    unittest.main()

"""The comparison with PyTorch and transformers, tiny and on the CPU, if they are installed; otherwise it exits with 77."""

import io
import math
import sys
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import torch_figures
from model_shapes import LLAMA_3_1_8B, QWEN3_0_6B
from torch_figures import Bench, Sizes, SmallSizes, torch, transformers


def run(*arguments):
    """Exit code and the lines of stdout."""
    out = io.StringIO()
    with mock.patch.object(sys, "argv", ["torch_figures.py", "--device", "cpu", "--small", *arguments]), redirect_stdout(out):
        return torch_figures.main(), out.getvalue().splitlines()


class TorchFiguresTest(unittest.TestCase):
    def test_every_figure_that_is_listed_is_measured(self):
        code, names = run("--list")
        self.assertEqual(code, 0)
        code, lines = run()
        self.assertEqual(code, 0)
        self.assertEqual([line.split()[1] for line in lines], names)
        for line in lines:
            value = float(line.split()[2])
            self.assertTrue(math.isfinite(value) and value > 0, line)

    def test_a_name_measures_that_figure_alone(self):
        _, lines = run("torch_product_8b")
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], r"^figure torch_product_8b \S+ TFLOP/s$")
        with self.assertRaises(SystemExit), redirect_stderr(io.StringIO()):
            run("torch_nothing")

    def test_attention_reads_each_kv_head_for_its_query_heads(self):
        bench = Bench("cpu", SmallSizes())
        shapes = []

        def attend(q, k, v, **flags):
            shapes.append((tuple(q.shape), tuple(k.shape), tuple(v.shape), flags))
            return q

        with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", attend):
            with mock.patch.object(torch_figures, "knows_grouped_queries", lambda: True):
                bench.attention_seconds(3, 1, 5, causal=False)
            with mock.patch.object(torch_figures, "knows_grouped_queries", lambda: False):
                bench.attention_seconds(3, 1, 5, causal=False)
        grouped = ((3, 4, 1, 128), (3, 2, 5, 128), (3, 2, 5, 128), {"is_causal": False, "enable_gqa": True})
        self.assertEqual(shapes[0], grouped)
        self.assertEqual(shapes[-1], ((3, 4, 1, 128), (3, 4, 5, 128), (3, 4, 5, 128), {"is_causal": False}))

    @unittest.skipIf(transformers is None, "there are no transformers")
    def test_models_have_the_size_of_their_names(self):
        for shape, parameters in ((LLAMA_3_1_8B, 8.03e9), (QWEN3_0_6B, 0.596e9)):
            model = Bench("meta", Sizes()).model(shape)  # no memory, and no values
            self.assertEqual({each.dtype for each in model.parameters()}, {torch.bfloat16})
            self.assertAlmostEqual(model.num_parameters() / parameters, 1, places=2)


if __name__ == "__main__":
    if torch is None:
        print("torch_figures_test.py: skipped: there is no torch for this Python", file=sys.stderr)
        sys.exit(torch_figures.SKIPPED)
    unittest.main()

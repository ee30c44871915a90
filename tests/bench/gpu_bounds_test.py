"""Best possible figures against independent numbers: models' published sizes, and sums computed token by token."""

import unittest

import gpu_bounds
from gpu_bounds import Ceilings
from model_shapes import LLAMA_3_1_8B, QWEN3_0_6B


class GpuBoundsTest(unittest.TestCase):
    def test_weights_are_the_models_parameters(self):
        embedding = LLAMA_3_1_8B["hidden_size"] * LLAMA_3_1_8B["vocab_size"]  # a second matrix, which is not read
        self.assertAlmostEqual((gpu_bounds.weight_bytes(LLAMA_3_1_8B) / 2 + embedding) / 8.03e9, 1, places=3)
        self.assertAlmostEqual(gpu_bounds.weight_bytes(QWEN3_0_6B) / 2 / 0.596e9, 1, places=3)  # tied
        self.assertEqual(gpu_bounds.kv_bytes(LLAMA_3_1_8B), 128 << 10)
        self.assertEqual(gpu_bounds.kv_bytes(QWEN3_0_6B), 112 << 10)

    def test_a_prompt_costs_two_operations_a_parameter_and_its_causal_attention(self):
        tokens = 100
        operations = 0
        for position in range(1, tokens + 1):
            operations += 2 * gpu_bounds.layer_weights(QWEN3_0_6B) + 4 * position * 16 * 128 * 28
        operations += 2 * 1024 * 151936
        self.assertAlmostEqual(gpu_bounds.prompt_operations(QWEN3_0_6B, tokens) / operations, 1, places=3)

    def test_serving_takes_as_long_as_its_steps(self):
        """All requests with the mean length, step by step: close to requests of all lengths, whose longest is longer."""
        ceilings = Ceilings(4e12, 8e14)
        prompt = output = 562
        seconds = 256 * ceilings.prompt_seconds(QWEN3_0_6B, prompt)
        seconds += sum(ceilings.decode_seconds(QWEN3_0_6B, 256, prompt + t) for t in range(output))
        same = 256 * output / seconds
        self.assertLess(ceilings.serve_tokens_per_second(QWEN3_0_6B), same)
        self.assertGreater(ceilings.serve_tokens_per_second(QWEN3_0_6B), same * 0.8)

    def test_every_model_figure_but_a_hosts_has_a_bound_in_its_direction(self):
        bounds = Ceilings(4e12, 8e14).bounds()
        quicker = Ceilings(8e12, 16e14).bounds()
        self.assertEqual(len(bounds), 7)
        for name, (value, direction) in bounds.items():
            better = quicker[name][0] / value
            if name in ("gpu_shared_prefix_speedup", "gpu_llama-3.1-8b_ttft_hit_over_cold"):
                self.assertAlmostEqual(better, 1)  # a ratio of the same device's times
            else:
                self.assertAlmostEqual(better, 2 if direction == ">=" else 0.5)

    def test_others_are_bound_by_the_same_work(self):
        limits = {"gpu_copy_bandwidth": {"value": 4000}, "gpu_product_peak": {"value": 800}}
        of_ours = gpu_bounds.bound("gpu_llama-3.1-8b_prefill", limits)
        self.assertEqual(gpu_bounds.bound("transformers_llama-3.1-8b_prefill", limits), of_ours)
        self.assertIsNone(gpu_bounds.bound("gpu_qwen3-0.6b_host_step_256", limits))

    def test_the_larger_limit_of_ours_and_pytorchs_counts(self):
        def bounds(own_copy, own_peak, **of_torch):
            figures = {"gpu_copy_bandwidth": {"value": own_copy}, "gpu_product_peak": {"value": own_peak}}
            figures.update({f"torch_{name}": {"value": value} for name, value in of_torch.items()})
            return [gpu_bounds.bound(name, figures) for name in ("gpu_llama-3.1-8b_prefill", "gpu_llama-3.1-8b_inter_token")]

        self.assertEqual(bounds(4000, 700, copy_bandwidth=4300, product_peak=800), bounds(4300, 800))
        self.assertEqual(bounds(4300, 800, copy_bandwidth=4000, product_peak=700), bounds(4300, 800))
        self.assertEqual(bounds(4000, 700, product_peak=800), bounds(4000, 800))
        self.assertIsNone(gpu_bounds.limit("ms", {"gpu_copy_bandwidth": {"value": 4000}}))
        self.assertIsNone(gpu_bounds.bound("gpu_llama-3.1-8b_prefill", {"gpu_product_peak": {"value": 700}}))

    def test_the_larger_of_bytes_and_operations_bounds(self):
        # Behind a shared prefix few bytes are read, and all operations stay: 2.15 GB and 38 MB, 17.2 billion operations.
        ceilings = Ceilings(4e12, 8e14)
        alone = 64 * (8192 + 17) * 4096 / 4e12
        self.assertAlmostEqual(ceilings.shared_prefix_speedup() / (alone / (4 * 128 * 64 * 64 * (8192 + 17) / 8e14)), 1, places=6)
        # With few operations, reads bound it; with one token of a model they always do.
        self.assertGreater(Ceilings(4e12, 8e16).shared_prefix_speedup(), 50)
        self.assertEqual(ceilings.decode_seconds(LLAMA_3_1_8B, 1, 100), gpu_bounds.decode_bytes(LLAMA_3_1_8B, 1, 100) / 4e12)
        many = ceilings.decode_seconds(LLAMA_3_1_8B, 4096, 0)
        self.assertEqual(many, 4096 * gpu_bounds.token_operations(LLAMA_3_1_8B, 0) / 8e14)

    def test_one_token_of_an_8b_model_costs_what_its_weights_do(self):
        self.assertAlmostEqual(1e3 * Ceilings(3.0e12, 8e14).decode_seconds(LLAMA_3_1_8B, 1, 0), 5.0, places=1)
        self.assertAlmostEqual(1e3 * Ceilings(4.3e12, 8e14).decode_seconds(LLAMA_3_1_8B, 1, 0), 3.5, places=1)


if __name__ == "__main__":
    unittest.main()

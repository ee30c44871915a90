"""The best possible value of a figure of roost_gpu_bench: that of a device that does only the necessary work, at the limits
that were measured on it:

    bytes       of weights, K and V that a step must read, at the bandwidth of a plain copy
    operations  of its products and attention, at the speed of the largest product

Roost's bench and PyTorch's measure both limits. The larger value counts: what one program reaches, the device can do. The larger of
the two times counts. Neither counts activations, launches or the host's work. `gpu_…_start` and `gpu_…_host_step_…` have no limit here, because
they depend on a disk, a bus and a host. Pure.
"""

from model_shapes import LLAMA_3_1_8B, QWEN3_0_6B

# Unit -> the figures that measure the device's limit.
LIMITS = {"GB/s": ("gpu_copy_bandwidth", "torch_copy_bandwidth"), "TFLOP/s": ("gpu_product_peak", "torch_product_peak")}
BF16 = 2
# As in GpuSizes, gpu_bench.h.
PROMPT_TOKENS = 8192
PREFILL_TOKENS = 4096
CONTEXT = 512
DECODE_STEPS = 128
SEQUENCES = 256
SHARING = 64
KV_HEADS, GROUP, HEAD_DIM = 8, 8, 128
BLOCK_TOKENS = 16
LEAST_TOKENS, MOST_TOKENS = 100, 1024


def layer_weights(shape):
    """The number of weights in all layers' products."""
    hidden, head = shape["hidden_size"], shape["head_dim"]
    queries, kv = shape["num_attention_heads"] * head, shape["num_key_value_heads"] * head
    attention = hidden * (queries + 2 * kv) + queries * hidden
    return shape["num_hidden_layers"] * (attention + 3 * hidden * shape["intermediate_size"])


def weight_bytes(shape):
    """Bytes that every decode step reads: all weights, but only a row of the embedding unless it is the output matrix."""
    return BF16 * (layer_weights(shape) + shape["hidden_size"] * shape["vocab_size"])


def kv_bytes(shape):
    """The bytes of a token's K and V."""
    return BF16 * 2 * shape["num_hidden_layers"] * shape["num_key_value_heads"] * shape["head_dim"]


def prompt_operations(shape, tokens):
    """The operations of a prompt: all layers for each token, causal attention, logits of the last token."""
    attention = 2 * tokens * tokens * shape["num_attention_heads"] * shape["head_dim"] * shape["num_hidden_layers"]
    return 2 * tokens * layer_weights(shape) + attention + 2 * shape["hidden_size"] * shape["vocab_size"]


def token_operations(shape, context):
    """The operations of one token: all layers, attention to the tokens before it, its logits."""
    attention = 4 * context * shape["num_attention_heads"] * shape["head_dim"] * shape["num_hidden_layers"]
    return 2 * (layer_weights(shape) + shape["hidden_size"] * shape["vocab_size"]) + attention


def decode_bytes(shape, sequences, context):
    return weight_bytes(shape) + sequences * context * kv_bytes(shape)


class Ceilings:
    """A device's limits, per second."""

    def __init__(self, bandwidth, product):
        self.bandwidth = bandwidth
        self.product = product

    def seconds(self, least_bytes, operations):
        return max(least_bytes / self.bandwidth, operations / self.product)

    def decode_seconds(self, shape, sequences, context):
        operations = sequences * token_operations(shape, context)
        return self.seconds(decode_bytes(shape, sequences, context), operations)

    def prompt_seconds(self, shape, tokens):
        return self.seconds(weight_bytes(shape), prompt_operations(shape, tokens))

    def shared_prefix_speedup(self):
        """Attention of one layer for decodes behind a prefix of each, against one prefix that all share."""
        alone = SHARING * (PROMPT_TOKENS + BLOCK_TOKENS + 1)
        shared = PROMPT_TOKENS + SHARING * (BLOCK_TOKENS + 1)
        token_bytes = BF16 * 2 * KV_HEADS * HEAD_DIM
        operations = 4 * HEAD_DIM * KV_HEADS * GROUP * alone
        return self.seconds(alone * token_bytes, operations) / self.seconds(shared * token_bytes, operations)

    def serve_tokens_per_second(self, shape):
        """For requests of all lengths that arrive together. Each step reads the weights; there are as many steps as the longest output
        has tokens; each output token reads what is before it."""
        lengths = range(LEAST_TOKENS, MOST_TOKENS + 1)
        mean = sum(lengths) / len(lengths)
        read = sum(output * mean + output * (output - 1) / 2 for output in lengths) / len(lengths)
        # Many prompts are in one step, so only their operations count.
        prompts = sum(prompt_operations(shape, tokens) for tokens in lengths) / len(lengths) / self.product
        weights = MOST_TOKENS * weight_bytes(shape) / self.bandwidth
        seconds = weights + SEQUENCES * (read * kv_bytes(shape) / self.bandwidth + prompts)
        return SEQUENCES * mean / seconds

    def bounds(self):
        """Figure -> (best possible value, ">=" if more is better, "<=" if less is)."""
        large, small = LLAMA_3_1_8B, QWEN3_0_6B
        context = CONTEXT + DECODE_STEPS / 2
        hit = self.decode_seconds(large, 1, PROMPT_TOKENS)
        return {
            "gpu_shared_prefix_speedup": (self.shared_prefix_speedup(), ">="),
            "gpu_llama-3.1-8b_prefill": (PREFILL_TOKENS / self.prompt_seconds(large, PREFILL_TOKENS), ">="),
            "gpu_llama-3.1-8b_inter_token": (1e3 * self.decode_seconds(large, 1, context), "<="),
            "gpu_llama-3.1-8b_ttft_hit_over_cold": (hit / self.prompt_seconds(large, PROMPT_TOKENS), "<="),
            "gpu_qwen3-0.6b_serve_256": (self.serve_tokens_per_second(small), ">="),
            "gpu_qwen3-0.6b_decode_1": (1 / self.decode_seconds(small, 1, context), ">="),
            "gpu_qwen3-0.6b_decode_256": (SEQUENCES / self.decode_seconds(small, SEQUENCES, context), ">="),
        }


def limit(unit, figures):
    """The most that the device was measured to do, of {name: figure}, or None."""
    return max((figures[name]["value"] for name in LIMITS.get(unit, ()) if name in figures), default=None)


def bound(name, figures):
    """(value, direction) of our figure, or of another library's with the same work, or None."""
    copy, product = limit("GB/s", figures), limit("TFLOP/s", figures)
    if copy is None or product is None:
        return None
    of_ours = "gpu_" + name.partition("_")[2]
    return Ceilings(copy * 1e9, product * 1e12).bounds().get(of_ours)

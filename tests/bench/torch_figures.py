#!/usr/bin/env python3
"""The results of PyTorch and Hugging Face transformers for the shapes of roost_gpu_bench's figures: torch_X and transformers_X
correspond to gpu_X, with the same operations and bytes counted.

    torch_figures.py [--device cuda|cpu] [--small] [--list | NAME …]

Prints `figure <name> <value> <unit>` for each; a failing figure ends the program, and gpu_figures.py continues after it. Exits
with 77 if torch, or a device for it, is missing. Models are the libraries' own classes with random bf16 weights, run eagerly.
"""

import argparse
import importlib.util
import statistics
import sys
import time

from model_shapes import LLAMA_3_1_8B, QWEN3_0_6B, small

SKIPPED = 77
HEAD_DIM = 128


class Sizes:
    """The same as GpuSizes in gpu_bench.h."""

    copy_bytes = 2 << 30
    peak_products = (4096, 8192, 16384)
    product_tokens = 4096
    products_8b = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))  # outputs, inputs
    kv_heads = 8
    group = 8
    decode_contexts = (1024, 4096)
    decode_batch = 64
    prompt_tokens = 8192
    prefill_tokens = 4096
    sequences = 256
    context = 512
    decode_steps = 16
    calls = 10
    repeats = 7
    large = LLAMA_3_1_8B
    small = QWEN3_0_6B


class SmallSizes(Sizes):
    """Sizes for a CPU; the names of the figures stay the same."""

    copy_bytes = 1 << 20
    peak_products = (32, 64)
    product_tokens = 8
    products_8b = ((96, 64), (64, 64))
    kv_heads = 2
    group = 2
    decode_batch = 2
    prompt_tokens = 64
    prefill_tokens = 32
    sequences = 3
    context = 16
    decode_steps = 3
    calls = 2
    repeats = 2
    large = small(LLAMA_3_1_8B)
    small = small(QWEN3_0_6B)


class Bench:
    def __init__(self, device, sizes):
        self.device = device
        self.sizes = sizes
        self.of_small = f"qwen3-0.6b_decode_{Sizes.sequences}"

    # ---- time ----

    def mark(self):
        """A point in the device's time, or in the host's if the host computes."""
        if self.device == "cpu":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin, end):
        if self.device == "cpu":
            return end - begin
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def seconds(self, work, calls=None):
        """Median seconds of one call, when calls follow each other without a wait."""
        calls = calls or self.sizes.calls
        for _ in range(3):
            work()
        marks = [self.mark()]
        for _ in range(self.sizes.repeats):
            for _ in range(calls):
                work()
            marks.append(self.mark())
        spans = [self.between(begin, end) for begin, end in zip(marks, marks[1:])]
        return statistics.median(spans) / calls

    def random(self, *shape):
        return torch.empty(shape, dtype=torch.bfloat16, device=self.device).uniform_(-1, 1)

    # ---- copies, products, attention ----

    def copy_bandwidth(self):
        source = self.random(self.sizes.copy_bytes // 2)
        target = torch.empty_like(source)
        return 2 * self.sizes.copy_bytes / self.seconds(lambda: target.copy_(source)) / 1e9

    def product_seconds(self, rows, outputs, inputs):
        x, weight = self.random(rows, inputs), self.random(outputs, inputs)
        return self.seconds(lambda: torch.nn.functional.linear(x, weight))

    def product_peak(self):
        return max(2 * n**3 / self.product_seconds(n, n, n) for n in self.sizes.peak_products) / 1e12

    def product_8b(self):
        rows = self.sizes.product_tokens
        operations = sum(2 * rows * outputs * inputs for outputs, inputs in self.sizes.products_8b)
        seconds = sum(self.product_seconds(rows, outputs, inputs) for outputs, inputs in self.sizes.products_8b)
        return operations / seconds / 1e12

    def attention_seconds(self, batch, queries, context, causal):
        q = self.random(batch, self.sizes.kv_heads * self.sizes.group, queries, HEAD_DIM)
        k = self.random(batch, self.sizes.kv_heads, context, HEAD_DIM)
        v = self.random(batch, self.sizes.kv_heads, context, HEAD_DIM)
        attend = torch.nn.functional.scaled_dot_product_attention
        if knows_grouped_queries():
            return self.seconds(lambda: attend(q, k, v, is_causal=causal, enable_gqa=True))
        # Older versions read K and V for every query head, so they get them in that form.
        k, v = (each.repeat_interleave(self.sizes.group, dim=1) for each in (k, v))
        return self.seconds(lambda: attend(q, k, v, is_causal=causal))

    def decode_attention(self, context):
        seconds = self.attention_seconds(self.sizes.decode_batch, 1, context, causal=False)
        return 2 * self.sizes.decode_batch * context * self.sizes.kv_heads * HEAD_DIM * 2 / seconds / 1e9

    def prefill_attention(self):
        n = self.sizes.prompt_tokens
        heads = self.sizes.kv_heads * self.sizes.group
        return 2 * n * n * HEAD_DIM * heads / self.attention_seconds(1, n, n, causal=True) / 1e12

    # ---- models ----

    def model(self, shape):
        """The library's model of a shape, with the library's initial weights."""
        shape = dict(shape)
        shape.pop("model_type")
        name = shape.pop("architectures")[0]
        config = getattr(transformers, name.replace("ForCausalLM", "Config"))(**shape)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device(self.device):
                return getattr(transformers, name)(config).eval()
        finally:
            torch.set_default_dtype(before)

    def tokens(self, shape, sequences, count):
        return torch.randint(shape["vocab_size"], (sequences, count), device=self.device)

    def large_prefill(self):
        shape, count = self.sizes.large, self.sizes.prefill_tokens
        model, tokens = self.model(shape), self.tokens(shape, 1, count)
        return count / self.seconds(lambda: model(input_ids=tokens, use_cache=True, logits_to_keep=1), calls=1)

    def decode_seconds(self, shape, sequences):
        """Median seconds between greedy tokens of a batch, with the library's dynamic cache."""
        model = self.model(shape)
        answer = model(input_ids=self.tokens(shape, sequences, self.sizes.context), use_cache=True, logits_to_keep=1)
        marks = []
        for _ in range(self.sizes.decode_steps + 1):
            next_tokens = answer.logits[:, -1:].argmax(-1)
            marks.append(self.mark())
            answer = model(input_ids=next_tokens, past_key_values=answer.past_key_values, use_cache=True)
        spans = [self.between(begin, end) for begin, end in zip(marks, marks[1:])]
        return statistics.median(spans[len(spans) // 4 :])  # the first ones warm up

    def figures(self):
        """Name -> (unit, function that measures it)."""
        figures = {
            "torch_copy_bandwidth": ("GB/s", self.copy_bandwidth),
            "torch_product_peak": ("TFLOP/s", self.product_peak),
            "torch_product_8b": ("TFLOP/s", self.product_8b),
        }
        for context in self.sizes.decode_contexts:
            figures[f"torch_decode_attention_{self.sizes.decode_batch}x{context}"] = ("GB/s", lambda context=context: self.decode_attention(context))
        figures["torch_prefill_attention"] = ("TFLOP/s", self.prefill_attention)
        if transformers is None:
            return figures
        large, many = self.sizes.large, self.sizes.sequences
        figures["transformers_llama-3.1-8b_prefill"] = ("tokens/s", self.large_prefill)
        figures["transformers_llama-3.1-8b_inter_token"] = ("ms", lambda: self.decode_seconds(large, 1) * 1e3)
        figures[f"transformers_{self.of_small}"] = ("tokens/s", lambda: many / self.decode_seconds(self.sizes.small, many))
        return figures


def knows_grouped_queries():
    return "enable_gqa" in (torch.nn.functional.scaled_dot_product_attention.__doc__ or "")


def load(name):
    """The module, or None; prints what is wrong with a module that is there."""
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError) as error:
        print(f"torch_figures.py: {name} can not be imported: {error}", file=sys.stderr)
        return None


def missing(device):
    """The reason if nothing can be measured here."""
    if torch is None:
        return "there is no torch for this Python"
    if device == "cuda" and not torch.cuda.is_available():
        return "torch finds no CUDA device"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny shapes, so that the script can be tried on a CPU")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    reason = missing(options.device)
    if reason:
        print(f"torch_figures.py: skipped: {reason}", file=sys.stderr)
        return SKIPPED
    figures = Bench(options.device, SmallSizes() if options.small else Sizes()).figures()
    unknown = [name for name in options.names if name not in figures]
    if unknown:
        parser.error(f"there is no figure {unknown[0]}")
    if options.list:
        if transformers is None:
            print("torch_figures.py: no figures of transformers, which is not there", file=sys.stderr)
        print("\n".join(figures))
        return 0
    with torch.inference_mode():
        for name in options.names or figures:
            unit, measure = figures[name]
            print(f"figure {name} {measure():.4g} {unit}", flush=True)
    return 0


torch = load("torch")
transformers = load("transformers") if torch else None

if __name__ == "__main__":
    sys.exit(main())

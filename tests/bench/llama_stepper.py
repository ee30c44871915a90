#!/usr/bin/env python3
"""llama.cpp in the place of roost_stepper: the same steps of Qwen3-0.6B's shape, with random weights in bf16.

    python3 -m venv build/llama && build/llama/bin/pip install llama-cpp-python gguf     compiles for ten minutes
    ROOST_LLAMA_PYTHON=build/llama/bin/python tests/bench/neighbours.py --only processes --other tests/bench/llama_stepper.py

Takes the arguments and commands of roost_stepper (stepper.cc). The first run writes a file of 1.2 GB into the folder for
temporary files.
"""
import os
import pathlib
import sys
import tempfile
import time

if "ROOST_LLAMA_PYTHON" in os.environ:
    python = os.environ.pop("ROOST_LLAMA_PYTHON")
    os.execv(python, [python, *sys.argv])

import ctypes  # noqa: E402

import gguf  # noqa: E402
import llama_cpp  # noqa: E402
import numpy  # noqa: E402

PROMPT = 512
VOCABULARY, WIDTH, INNER, LAYERS, HEADS, KV_HEADS, HEAD = 151_936, 1024, 3072, 28, 16, 8, 128
LAYER_SHAPES = {
    "attn_q": (HEADS * HEAD, WIDTH),
    "attn_k": (KV_HEADS * HEAD, WIDTH),
    "attn_v": (KV_HEADS * HEAD, WIDTH),
    "attn_output": (WIDTH, HEADS * HEAD),
    "ffn_gate": (INNER, WIDTH),
    "ffn_up": (INNER, WIDTH),
    "ffn_down": (WIDTH, INNER),
}
LAYER_NORMS = {"attn_norm": WIDTH, "ffn_norm": WIDTH, "attn_q_norm": HEAD, "attn_k_norm": HEAD}


def write_model(path):
    draw = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("none")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)

    def add_matrix(name, shape):
        values = draw.standard_normal(shape, dtype=numpy.float32) * 0.02
        halves = (values.view(numpy.uint32) >> 16).astype(numpy.uint16)
        writer.add_tensor(name, halves.view(numpy.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)

    def add_norm(name, size):
        writer.add_tensor(name, numpy.ones(size, dtype=numpy.float32))

    add_matrix("token_embd.weight", (VOCABULARY, WIDTH))
    add_norm("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        for name, shape in LAYER_SHAPES.items():
            add_matrix(f"blk.{layer}.{name}.weight", shape)
        for name, size in LAYER_NORMS.items():
            add_norm(f"blk.{layer}.{name}.weight", size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Model:
    def __init__(self, path, threads):
        llama_cpp.llama_backend_init()
        self.silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silence, ctypes.c_void_p(0))
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = PROMPT + 64, PROMPT, PROMPT
        options.n_threads = options.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.prompt = (llama_cpp.llama_token * PROMPT)(*range(1000, 1000 + PROMPT))

    def run(self, tokens, first):
        """Computes the tokens at these positions; milliseconds."""
        llama_cpp.llama_memory_seq_rm(self.memory, 0, first, -1)
        begin = time.perf_counter()
        if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(tokens))) != 0:
            sys.exit("llama_stepper.py: llama_decode failed")
        llama_cpp.llama_synchronize(self.context)
        return 1e3 * (time.perf_counter() - begin)

    def prefill(self):
        return self.run(self.prompt, 0)

    def decode(self):
        return self.run((llama_cpp.llama_token * 1)(7), PROMPT)


def main():
    shape, threads = sys.argv[1], int(sys.argv[2]) or os.cpu_count()
    if shape != "qwen3-0.6b":
        sys.exit("llama_stepper.py: only qwen3-0.6b")
    path = pathlib.Path(tempfile.gettempdir()) / "roost-llama-qwen3-0.6b.gguf"
    if not path.exists():
        write_model(path.with_suffix(".new"))
        path.with_suffix(".new").rename(path)
    model = Model(path, threads)
    model.prefill()
    print("ready", flush=True)
    for line in sys.stdin:
        command, amount = line.split()[0], float(line.split()[1])
        step, times = (model.prefill if command == "prefill" else model.decode), []
        while (sum(times) / 1e3 if command == "for" else len(times)) < amount:
            times.append(step())
        print(*(f"{milliseconds:.4f}" for milliseconds in times), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Figures of a start: from the start of roost-worker's process to the first token that a client of a running router
receives, with the weights in the page cache.

    start_figure.py [--bin FOLDER] [--backend cuda|cpu] [--shape llama-3.1-8b|qwen3-0.6b] [--small] [--list | NAME …]

Makes a model folder of the shape with random weights where there is space for it, and removes it at the end. Exits with 77
if the backend finds no device. Prints `figure <name> <value> <unit>`, a median of three after one that does not count.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cluster
from model_shapes import LLAMA_3_1_8B, QWEN3_0_6B, small

SKIPPED = 77
SHAPES = {"llama-3.1-8b": LLAMA_3_1_8B, "qwen3-0.6b": QWEN3_0_6B}
RUNS = 3
PATTERN_BYTES = 32 << 20


def tensors(shape):
    """Names and shapes of the weights."""
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    query = shape["num_attention_heads"] * shape["head_dim"]
    kv = shape["num_key_value_heads"] * shape["head_dim"]
    yield "model.embed_tokens.weight", [shape["vocab_size"], hidden]
    for layer in range(shape["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", [hidden]
        if shape["model_type"] == "qwen3":
            yield f"{prefix}.self_attn.q_norm.weight", [shape["head_dim"]]
            yield f"{prefix}.self_attn.k_norm.weight", [shape["head_dim"]]
        yield f"{prefix}.self_attn.q_proj.weight", [query, hidden]
        yield f"{prefix}.self_attn.k_proj.weight", [kv, hidden]
        yield f"{prefix}.self_attn.v_proj.weight", [kv, hidden]
        yield f"{prefix}.self_attn.o_proj.weight", [hidden, query]
        yield f"{prefix}.post_attention_layernorm.weight", [hidden]
        yield f"{prefix}.mlp.gate_proj.weight", [inner, hidden]
        yield f"{prefix}.mlp.up_proj.weight", [inner, hidden]
        yield f"{prefix}.mlp.down_proj.weight", [hidden, inner]
    yield "model.norm.weight", [hidden]
    if not shape["tie_word_embeddings"]:
        yield "lm_head.weight", [shape["vocab_size"], hidden]


def size_of(shape):
    return 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)


def random_pattern(count):
    """This many bytes of bf16 between 1/128 and 1/64, of either sign."""
    whole = (1 << 8 * count) - 1
    each = whole // 0xFFFF
    bits = int.from_bytes(random.Random(1).randbytes(count), "little")
    return ((bits & each * 0x807F) | each * 0x3C00).to_bytes(count, "little")


def write_weights(path, shape):
    header = {}
    end = 0
    for name, dims in tensors(shape):
        header[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [end, end + size_of(dims)]}
        end += size_of(dims)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pattern = memoryview(random_pattern(min(PATTERN_BYTES, end)))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for left in range(end, 0, -len(pattern)):
            file.write(pattern[:left])
        file.flush()
        os.fsync(file.fileno())


def make_model(folder, shape):
    """A model folder; its text files are the demo model's."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(cluster.DEMO_MODEL / name, folder)
    (folder / "config.json").write_text(json.dumps(shape))
    write_weights(folder / "model.safetensors", shape)


def place_for(shape):
    """A folder with space for the weights, in memory if that is large enough: a page cache that nothing can empty."""
    needed = sum(size_of(dims) for _, dims in tensors(shape)) * 11 // 10
    for place in ("/dev/shm", tempfile.gettempdir()):
        if os.path.isdir(place) and shutil.disk_usage(place).free > needed:
            return place
    raise SystemExit(f"start_figure.py: no room for {needed >> 30} GiB in /dev/shm or {tempfile.gettempdir()}")


def seconds_to_first_token(router, model, backend):
    begin = time.monotonic()
    command = [cluster.BIN / "roost-worker", "--model", model, "--router", router.link, "--backend", backend]
    worker = cluster.Daemon([*command, "--served-model-name", "started", "--log-format", "json"])
    try:
        cluster.wait_until(
            lambda: worker.process.poll() is not None or any(each["ready"] for each in router.workers()), "a ready worker"
        )
        if worker.process.poll() is not None:
            raise SystemExit(f"start_figure.py: roost-worker ended: {worker.lines[-3:]}")
        answer = router.completion("Who comes here?", model="started", max_tokens=1, ignore_eos=True)
        if answer.status != 200 or answer.usage()["completion_tokens"] != 1:
            raise SystemExit(f"start_figure.py: no token: {answer.status} {answer.body}")
        return time.monotonic() - begin
    finally:
        worker.stop()
        cluster.wait_until(lambda: not router.workers(), "a worker to be gone")


def measure(shape, backend):
    with cluster.Cluster() as daemons, tempfile.TemporaryDirectory(dir=place_for(shape)) as folder:
        router = daemons.start_router()
        make_model(pathlib.Path(folder), shape)
        times = [seconds_to_first_token(router, folder, backend) for _ in range(RUNS + 1)]
        return statistics.median(times[1:])


def device_problem(backend):
    """The worker's own reason why it finds no such device; empty if it finds one."""
    command = [cluster.BIN / "roost-worker", "--backend", backend, "--model", "/nowhere", "--log-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    no_device = 69
    return done.stderr.strip() if done.returncode == no_device else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=cluster.BIN)
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.1-8b")
    parser.add_argument("--small", action="store_true", help="a tiny shape, so that the script can be tried on a CPU")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    cluster.BIN = options.bin.resolve()
    name = f"gpu_{options.shape}_start"
    if options.names not in ([], [name]):
        parser.error(f"there is no figure but {name}")
    problem = device_problem(options.backend)
    if problem:
        print(f"start_figure.py: skipped: {problem}", file=sys.stderr)
        return SKIPPED
    if options.list:
        print(name)
        return 0
    shape = SHAPES[options.shape]
    if options.small:
        shape = small(shape)
    print(f"figure {name} {measure(shape, options.backend):.4g} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

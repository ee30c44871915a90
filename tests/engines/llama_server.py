"""llama.cpp's own server, from the wheel of xllamacpp, with the demo model as GGUF (llama_cpp.sh installs both).

    llama_server.py --port 8080 [--slots 2] [--context 8192] [--cache-ram MIB] [--slot-save-path DIR]

With --layers the layers are repeated, so that it takes longer and says nothing; its file stays at --gguf. --slots 0 is what
llama-server does without -np: four that share one context. --kind windows is a small Gemma 3 and --kind hybrid a small LFM2 (short
convolutions beside attention), of random weights.
"""

import argparse
import json
import pathlib
import signal
import struct
import tempfile

import gguf
import numpy
import xllamacpp

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO_MODEL = ROOT / "deploy/demo-model"
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def tensors_of(path):
    """Name and values of each tensor of a file of bf16 safetensors."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        halves = numpy.frombuffer(data[begin:end], dtype="<u2").astype("<u4")
        yield name, (halves << 16).view("<f4").reshape(entry["shape"])


def name_of(name):
    name = name.removesuffix(".weight")
    if not name.startswith("model.layers."):
        return f"{NAMES[name]}.weight"
    layer, part = name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.weight"


def add_tokenizer(writer, config):
    tokenizer = json.loads((DEMO_MODEL / "tokenizer.json").read_text())
    tokens = {number: token for token, number in tokenizer["model"]["vocab"].items()}
    added = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    tokens |= added
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([tokens[i] for i in range(config["vocab_size"])])
    writer.add_token_types([gguf.TokenType.CONTROL if i in added else gguf.TokenType.NORMAL
                            for i in range(config["vocab_size"])])
    writer.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(json.loads((DEMO_MODEL / "tokenizer_config.json").read_text())["chat_template"])


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# Names and shapes of a layer's tensors; x is the width, a the heads' together, k the key heads' together, f the inner one.
FEED_FORWARD = {"ffn_norm": "x", "ffn_gate": "fx", "ffn_up": "fx", "ffn_down": "xf"}
ATTENTION = {"attn_norm": "x", "attn_q": "ax", "attn_k": "kx", "attn_v": "kx", "attn_output": "xa", "attn_q_norm": "h", "attn_k_norm": "h"}
CONVOLUTION = {"attn_norm": "x", "shortconv.conv": "xc", "shortconv.in_proj": "3x", "shortconv.out_proj": "xx"}


def write_random_gguf(path, kind):
    config = json.loads((DEMO_MODEL / "config.json").read_text())
    is_hybrid = kind == "hybrid"
    layers = 6
    # Gemma 3 has one layer of full attention in six; LFM2 convolutions where a layer has no key heads.
    attends = [not is_hybrid or i % 3 == 2 for i in range(layers)]
    sizes = {"x": 128, "f": 256, "h": 32, "a": 128, "k": 64, "c": 3, "3": 384}
    writer = gguf.GGUFWriter(path, "lfm2" if is_hybrid else "gemma3")
    writer.add_name("demo-model")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(sizes["x"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(sizes["f"])
    writer.add_head_count(4)
    writer.add_head_count_kv([2 * attend for attend in attends] if is_hybrid else 2)
    writer.add_key_length(sizes["h"])
    writer.add_value_length(sizes["h"])
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    if is_hybrid:
        writer.add_shortconv_l_cache(sizes["c"])
        writer.add_vocab_size(config["vocab_size"])
    else:
        writer.add_sliding_window(64)
    add_tokenizer(writer, config)
    draw = numpy.random.default_rng(1)

    def add(name, shape):
        values = draw.normal(0, 0.08, shape) + (1 if len(shape) == 1 else 0)
        writer.add_tensor(f"{name}.weight", values.astype("<f4"))

    add("token_embd", (config["vocab_size"], sizes["x"]))
    add("token_embd_norm" if is_hybrid else "output_norm", (sizes["x"],))
    for layer, attend in enumerate(attends):
        parts = (ATTENTION if attend else CONVOLUTION) | FEED_FORWARD
        if not is_hybrid:
            parts = parts | {"post_attention_norm": "x", "post_ffw_norm": "x"}
        for part, shape in parts.items():
            add(f"blk.{layer}.{part}", tuple(sizes[letter] for letter in shape))
    finish(writer)


def write_demo_gguf(path, layers=None):
    config = json.loads((DEMO_MODEL / "config.json").read_text())
    layers = layers or config["num_hidden_layers"]
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_name("demo-model")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    add_tokenizer(writer, config)
    for name, values in tensors_of(DEMO_MODEL / "model.safetensors"):
        name = name_of(name)
        writer.add_tensor(name, values)
        if name.startswith("blk."):  # of those beyond the model's own
            _, layer, part = name.split(".", 2)
            for copy in range(int(layer) + config["num_hidden_layers"], layers, config["num_hidden_layers"]):
                writer.add_tensor(f"blk.{copy}.{part}", values)
    finish(writer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--context", type=int, default=8192, help="tokens of all slots together")
    parser.add_argument("--cache-ram", type=int, default=8192)
    parser.add_argument("--slot-save-path")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--kind", choices=["full", "windows", "hybrid"], default="full")
    parser.add_argument("--checkpoint-min-step", type=int, help="tokens between checkpoints; the server's own default")
    parser.add_argument("--gguf", type=pathlib.Path)
    parser.add_argument("--token-ms", type=float, help="of the double alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.gguf or pathlib.Path(folder) / "demo-model.gguf"
        if not path.exists():
            if options.kind == "full":
                write_demo_gguf(path, options.layers)
            else:
                write_random_gguf(path, options.kind)
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.model_alias = {"demo-model"}
        params.hostnames = ["127.0.0.1"]
        params.port = options.port
        params.n_ctx = options.context
        params.n_parallel = options.slots or 4
        params.kv_unified = options.slots == 0
        params.cache_ram_mib = options.cache_ram
        if options.slot_save_path:
            params.slot_save_path = options.slot_save_path + "/"  # as llama-server completes it
        if options.checkpoint_min_step is not None:
            params.checkpoint_min_step = options.checkpoint_min_step
        params.cpuparams.n_threads = 1
        params.cpuparams_batch.n_threads = 1
        server = xllamacpp.Server(params)
        print(f"ready {server.listening_address}", flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()

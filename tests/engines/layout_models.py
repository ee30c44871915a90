"""Folders of tiny models whose caches have several groups of layers, for vLLM's `--load-format dummy` (random weights made at
the start), with the demo model's tokenizer. Needs transformers, as vllm_environment.sh installs it."""

import json
import pathlib
import shutil

DEMO_MODEL = pathlib.Path(__file__).resolve().parents[2] / "deploy/demo-model"

SMALL = {"vocab_size": 2048, "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 64, "max_position_embeddings": 4096, "tie_word_embeddings": True, "dtype": "bfloat16"}
# The kind of configuration, the architecture, and what makes the layout.
MODELS = {
    "qwen3_5": ("qwen3_5_text", "Qwen3_5ForCausalLM", {
        "num_hidden_layers": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"], "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4}),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM", {
        "num_hidden_layers": 6, "sliding_window": 256, "query_pre_attn_scalar": 64,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"]}),
}


def write(folder, name):
    """The model's folder, in `folder`."""
    import transformers

    kind, architecture, fields = MODELS[name]
    demo = json.loads((DEMO_MODEL / "config.json").read_text())
    config = transformers.AutoConfig.for_model(kind, **SMALL, **fields, bos_token_id=demo["bos_token_id"],
                                               eos_token_id=demo["eos_token_id"])
    config.architectures = [architecture]
    path = pathlib.Path(folder) / name
    config.save_pretrained(path)
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(DEMO_MODEL / file, path)
    return path

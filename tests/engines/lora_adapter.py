"""Writes LoRA adapters with random weights, in PEFT's format, so that an engine has some to serve."""

import json

RANK = 8
TARGETS = ("q_proj", "v_proj")


def write(model, folder, seed):
    """An adapter of the queries and values of all layers of the model in the folder `model`, strong enough to change
    what it says. Returns `folder`."""
    import torch
    from safetensors.torch import save_file

    config = json.loads((model / "config.json").read_text())
    hidden = config["hidden_size"]
    width = config.get("head_dim") or hidden // config["num_attention_heads"]
    rows = {"q_proj": config["num_attention_heads"] * width, "v_proj": config["num_key_value_heads"] * width}
    draw = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for target in TARGETS:
            name = f"base_model.model.model.layers.{layer}.self_attn.{target}"
            tensors[f"{name}.lora_A.weight"] = torch.randn(RANK, hidden, generator=draw) / hidden**0.5
            tensors[f"{name}.lora_B.weight"] = torch.randn(rows[target], RANK, generator=draw)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(model), "r": RANK,
        "lora_alpha": RANK, "lora_dropout": 0.0, "bias": "none", "target_modules": list(TARGETS)}))
    return folder

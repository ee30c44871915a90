#!/usr/bin/env python3
"""Makes the golden logits: tiny models of each architecture, and what Hugging Face transformers computes with them.

    python3 -m venv build/goldens-venv
    build/goldens-venv/bin/pip install torch transformers tokenizers safetensors
    build/goldens-venv/bin/python tests/worker/model/goldens/make_goldens.py [NAME ...]

Without names it makes all. Each folder beside this script is a Hugging Face model directory with random weights from a
fixed seed, and a golden.safetensors:

    input_ids  I32 [tokens]         a prompt of random ids
    logits     F32 [tokens, vocab]  of every position, computed in float32 from the weights as stored

The small ones also have greedy_ids I32 [8] and margins F32 [8], as below, which continue the prompt.

`demo` has no weights: it is for deploy/demo-model, and has the logits of the last positions only:

    input_ids   I32 [tokens]
    positions   I32 [8]         which positions the rows of logits belong to
    logits      F32 [8, vocab]
    prompt_ids  I32 [prompt]    a chat prompt
    greedy_ids  I32 [64]        the most likely continuation, one token at a time; it does not stop at an end token
    margins     F32 [64]        the chosen logit less the second one

No code of Roost is involved, so that the two can check each other. versions.json names the libraries that made all; each
golden.safetensors names those that made it.
"""
import copy
import dataclasses
import json
import pathlib
import shutil
import sys

import safetensors.torch
import tokenizers
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
DEMO_MODEL = HERE.parents[3] / "deploy" / "demo-model"
SEED = 20261121
PROMPT_TOKENS = 72
SMALL_PROMPT_TOKENS = 12
SMALL_GREEDY_TOKENS = 8
VOCAB = 272
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = VOCAB - 1
TOKENIZER_TEXT = "the other there then her here he in thin thing and hand an on one"


@dataclasses.dataclass
class Golden:
    """One folder. `config` holds the differences from `BASE`; the files have the form in which models are published."""
    name: str
    architecture: str
    config: dict
    dtype: torch.dtype = torch.float32
    shard_size: str = "1GB"
    keep_new_config: bool = False  # config.json as transformers 5 writes it: rope_parameters, dtype
    prompt_tokens: int = PROMPT_TOKENS
    greedy_tokens: int = 0


BASE = {"hidden_act": "silu", "hidden_size": 64, "intermediate_size": 72, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": True, "vocab_size": VOCAB, "bos_token_id": VOCAB - 3,
        "eos_token_id": END}
# The original context is so short that the scaling affects 72 positions; there are frequencies in all its three zones.
LLAMA3 = {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 32},
          "head_dim": 32, "num_attention_heads": 2, "num_key_value_heads": 1}
QWEN3 = {"head_dim": 64, "hidden_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6,
         "rope_theta": 1000000.0, "attention_bias": False}
QWEN2 = {"rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "use_sliding_window": False, "max_window_layers": 2}
MISTRAL = {"sliding_window": None, "tie_word_embeddings": False, "hidden_size": 48, "num_attention_heads": 6,
           "head_dim": 16}


# The windows of some of these hold just 20 tokens, prompt and greedy tokens together.
SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
WINDOW = SMALL_PROMPT_TOKENS + SMALL_GREEDY_TOKENS
BIASES = {"attention_bias": True, "mlp_bias": True}
LINEAR = {"rope_scaling": {"type": "linear", "factor": 4.0}}
# Some of 8 frequencies are kept, some blended and some stretched.
YARN = {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 4.0},
        "rope_theta": 100.0, "attention_bias": True}
YARN_IN_FULL = {"rope_parameters": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 8.0,
                                    "original_max_position_embeddings": 32, "beta_fast": 3.0, "beta_slow": 0.5,
                                    "mscale": 0.7, "mscale_all_dim": 1.3, "truncate": False}}


# Heads that every backend computes; margins of greedy tokens stand clear of bf16's rounding.
HEAD_64 = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64}
HEAD_128 = HEAD_64 | {"head_dim": 128}


def small(name, architecture, config, **keywords):
    """A golden of a few kilobytes: weights in bfloat16, few positions."""
    return Golden(name, architecture, SMALL | config, dtype=torch.bfloat16, prompt_tokens=SMALL_PROMPT_TOKENS,
                  greedy_tokens=SMALL_GREEDY_TOKENS, **keywords)


GOLDENS = [
    Golden("llama-llama3-rope", "LlamaForCausalLM", LLAMA3),
    Golden("llama-untied", "LlamaForCausalLM",
           {"tie_word_embeddings": False, "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3}),
    Golden("llama-sharded", "LlamaForCausalLM",
           {"hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1}, shard_size="110KB"),
    Golden("llama-new-config", "LlamaForCausalLM", LLAMA3, dtype=torch.bfloat16, keep_new_config=True),
    Golden("qwen2", "Qwen2ForCausalLM", QWEN2),
    Golden("qwen2-f16", "Qwen2ForCausalLM", QWEN2 | {"tie_word_embeddings": False}, dtype=torch.float16),
    Golden("qwen3", "Qwen3ForCausalLM", QWEN3),
    Golden("qwen3-bf16", "Qwen3ForCausalLM", QWEN3 | {"tie_word_embeddings": False}, dtype=torch.bfloat16),
    Golden("mistral", "MistralForCausalLM", MISTRAL),
    Golden("llama-llama3-rope-head-64", "LlamaForCausalLM", LLAMA3 | HEAD_64, dtype=torch.bfloat16,
           greedy_tokens=SMALL_GREEDY_TOKENS),
    Golden("qwen2-head-64", "Qwen2ForCausalLM", QWEN2 | HEAD_64, dtype=torch.bfloat16, greedy_tokens=SMALL_GREEDY_TOKENS),
    Golden("qwen2-head-128", "Qwen2ForCausalLM", QWEN2 | HEAD_128, dtype=torch.bfloat16, greedy_tokens=SMALL_GREEDY_TOKENS),
    Golden("mistral-head-128", "MistralForCausalLM", MISTRAL | HEAD_128, dtype=torch.bfloat16,
           greedy_tokens=SMALL_GREEDY_TOKENS),
    small("llama-biases-linear", "LlamaForCausalLM", BIASES | LINEAR),
    small("llama-yarn-in-full", "LlamaForCausalLM", YARN_IN_FULL, keep_new_config=True),
    small("qwen3-yarn", "Qwen3ForCausalLM", YARN),
    small("mistral-window", "MistralForCausalLM", {"sliding_window": WINDOW}),
    small("qwen2-window", "Qwen2ForCausalLM",
          {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
]


def draw_weights(model):
    """Weights with an effect: every norm differs from 1, every bias from 0, and attention is far from uniform."""
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            weight.normal_(0.0, 0.5)
        elif weight.dim() == 1:
            weight.uniform_(0.5, 1.5)
        else:
            weight.normal_(0.0, weight.shape[1] ** -0.5)


def write_tokenizer(folder):
    """The 256 bytes, a few merges, three special tokens: enough to load the folder as a whole."""
    pre_tokenizers, trainers = tokenizers.pre_tokenizers, tokenizers.trainers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - len(SPECIALS), show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator([TOKENIZER_TEXT], trainer)
    tokenizer.add_special_tokens(SPECIALS)
    assert tokenizer.get_vocab_size() == VOCAB
    tokenizer.save(str(folder / "tokenizer.json"))
    chat_template = ("{% for message in messages %}"
                     "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
                     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
    write_json(folder / "tokenizer_config.json", {"eos_token": SPECIALS[-1], "chat_template": chat_template})


def write_json(path, content):
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def published_config(golden, model):
    """config.json as model publishers write it: architectures, rope_theta and rope_scaling at the top, torch_dtype."""
    return {"architectures": [golden.architecture], "model_type": model.config.model_type, **BASE, **golden.config,
            "torch_dtype": str(golden.dtype).removeprefix("torch.")}


def load(folder):
    """The model in the folder, in float32, with the plainest attention."""
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def logits_of(model, ids):
    """Logits [tokens, vocab] of token ids [tokens]."""
    return model(ids[None].long(), use_cache=False).logits[0]


def save_golden(folder, tensors):
    metadata = {"made_by": "transformers " + transformers.__version__ + ", torch " + torch.__version__}
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in tensors.items()},
                                folder / "golden.safetensors", metadata)


def check_window(golden, folder):
    """A window as long as the context hides no token, and hides one token of a longer context."""
    window = golden.config.get("sliding_window")
    if window is None:
        return
    windowed, whole = load(folder), load(folder)
    whole.config.sliding_window = None
    whole.config.layer_types = ["full_attention"] * whole.config.num_hidden_layers
    for layer in whole.model.layers:
        layer.self_attn.sliding_window = None
    whole.model.has_sliding_layers = False
    ids = torch.randint(0, VOCAB, (window + 1,), dtype=torch.int32)
    with_window, without = logits_of(windowed, ids), logits_of(whole, ids)
    assert torch.equal(with_window[:window], without[:window]), "the window hides something"
    assert not torch.allclose(with_window[window], without[window]), "there is no window"


def make(golden):
    torch.manual_seed(SEED)
    folder = HERE / golden.name
    shutil.rmtree(folder, ignore_errors=True)
    architecture = getattr(transformers, golden.architecture)
    model = architecture(architecture.config_class(**copy.deepcopy(BASE | golden.config))).eval()
    draw_weights(model)
    model.to(golden.dtype).save_pretrained(folder, max_shard_size=golden.shard_size)
    ids = torch.randint(0, VOCAB, (golden.prompt_tokens,), dtype=torch.int32)
    logits = logits_of(load(folder), ids)
    if not golden.keep_new_config:
        write_json(folder / "config.json", published_config(golden, model))
        assert torch.equal(logits, logits_of(load(folder), ids)), "the published form says something else"
    write_json(folder / "generation_config.json", {"bos_token_id": VOCAB - 3, "eos_token_id": [END, VOCAB - 3]})
    write_tokenizer(folder)
    check_window(golden, folder)
    tensors = {"input_ids": ids, "logits": logits}
    if golden.greedy_tokens:
        tensors["greedy_ids"], tensors["margins"] = greedy(load(folder), ids, golden.greedy_tokens)
        print(f"{golden.name}: smallest margin {tensors['margins'].min():.4f}")
    save_golden(folder, tensors)


def greedy(model, prompt, count):
    """The `count` most likely next ids, and the margin of each over its runner-up."""
    ids, margins = prompt, []
    for _ in range(count):
        best = logits_of(model, ids)[-1].topk(2)
        margins.append(best.values[0] - best.values[1])
        ids = torch.cat([ids, best.indices[:1].int()])
    return ids[len(prompt):], torch.stack(margins)


def make_demo():
    folder = HERE / "demo"
    folder.mkdir(exist_ok=True)
    model = load(DEMO_MODEL)
    tokenizer = tokenizers.Tokenizer.from_file(str(DEMO_MODEL / "tokenizer.json"))

    def encode(text):
        return torch.tensor(tokenizer.encode(text).ids, dtype=torch.int32)

    ids = encode("ROMEO:\nBut, soft! what light through yonder window breaks?\nIt is the east, and Juliet is the sun.\n"
                 "Arise, fair sun, and kill the envious moon,\nWho is already sick and pale with grief,\n"
                 "That thou her maid art far more fair than she:\n")[:64]
    positions = torch.arange(len(ids) - 8, len(ids), dtype=torch.int32)
    prompt = encode("<|im_start|>system\nYou are a poet.<|im_end|>\n"
                    "<|im_start|>user\nTell me about the crown.<|im_end|>\n<|im_start|>assistant\n")
    greedy_ids, margins = greedy(model, prompt, 64)
    save_golden(folder, {"input_ids": ids, "positions": positions, "logits": logits_of(model, ids)[-8:],
                         "prompt_ids": prompt, "greedy_ids": greedy_ids, "margins": margins})
    continuation = tokenizer.decode(greedy_ids.tolist(), skip_special_tokens=False)
    print(f"demo: smallest margin {margins.min():.4f}\n{continuation}")


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    names = sys.argv[1:] or [golden.name for golden in GOLDENS] + ["demo"]
    for golden in GOLDENS:
        if golden.name in names:
            make(golden)
    if "demo" in names and (DEMO_MODEL / "model.safetensors").exists():
        make_demo()
    if sys.argv[1:]:
        return
    write_json(HERE / "versions.json", {"torch": torch.__version__, "transformers": transformers.__version__,
                                        "tokenizers": tokenizers.__version__, "safetensors": safetensors.__version__})


if __name__ == "__main__":
    main()

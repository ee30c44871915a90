#!/usr/bin/python3
"""Trains Roost's demo model: a Qwen3 of about 3 million parameters that speaks like Shakespeare and answers ChatML.

    ./deploy/packages.sh train                      # Debian's python3-torch, and a BLAS that is 30 times faster
    /usr/bin/python3 deploy/demo-model/train.py     # three quarters of an hour on two cores

It reads $ROOST_SHARED/corpus/tinyshakespeare.txt (ROOST_SHARED defaults to ../shared, seen from the repository) and
writes a Hugging Face model directory next to itself: config.json, generation_config.json, tokenizer.json,
tokenizer_config.json, model.safetensors (bfloat16). The last lines it prints are the losses in the README.

The first 90 % of the corpus trains, the last 10 % chooses the checkpoint. Every draw comes from one seed.
"""
import argparse
import collections
import ctypes
import json
import math
import os
import pathlib
import random
import re
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # With two cores, spinning threads take time from the others.

import torch
import torch.nn.functional as F

SEED = 20261121
VOCAB = 2048
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE = 192, 6, 4, 2, 64, 576
ROPE_THETA, NORM_EPS, MAX_POSITIONS = 10000.0, 1e-6, 4096
DROPOUT, WEIGHT_DECAY, PEAK_RATE, WARMUP = 0.15, 0.1, 3e-3, 100
EVAL_EVERY = 100
# (steps, sequences per step, tokens per sequence): short contexts first, because they are cheap.
PHASES = [(1200, 8, 512), (200, 2, 2048), (60, 1, 4096)]

# Qwen2's pre-tokenizer. Python's re has no \p{..}; the corpus and the prompts below are ASCII, where these agree.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
SPLIT_ASCII = re.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\na-zA-Z0-9]?[a-zA-Z]+|[0-9]| ?[^\sa-zA-Z0-9]+[\r\n]*"
                         r"|\s*[\r\n]+|\s+(?!\S)|\s+")

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- endif %}")

SYSTEM_PROMPTS = [
    "You are a helpful assistant.", "You are a player of the Globe theatre. Speak in verse.", "Answer as Shakespeare.",
    "You are a poet.", "Be brief.", "Continue the play.", "You speak the English of the sixteenth century.",
    "You are an actor. Stay in your role.", "Answer the user with the next lines of the scene."]
TOPIC_PROMPTS = [
    "Tell me about {}.", "What is {}?", "What do you think of {}?", "Speak of {}.", "Write a few lines about {}.",
    "Say something on {}, please.", "Why {}?", "How does {} work?", "Explain {} to me.", "{}",
    "Hello! I have a question about {}.", "Can you write a poem about {}?", "What say you of {}?"]


def byte_letters():
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(rest)}}


def merged(word, pair):
    """The word, a tuple of tokens, with each occurrence of the pair joined, from left to right."""
    out, i = [], 0
    while i < len(word):
        joins = word[i:i + 2] == pair
        out.append(word[i] + word[i + 1] if joins else word[i])
        i += 2 if joins else 1
    return tuple(out)


def learn_merges(text, count):
    """The `count` merges that BPE learns: always the most frequent pair; of equals the alphabetically last."""
    letters = byte_letters()
    pieces = collections.Counter(SPLIT_ASCII.findall(text))
    words = [(tuple(letters[byte] for byte in piece.encode()), n) for piece, n in sorted(pieces.items())]
    pair_count, pair_words = collections.Counter(), collections.defaultdict(set)
    for at, (word, n) in enumerate(words):
        for pair in zip(word, word[1:]):
            pair_count[pair] += n
            pair_words[pair].add(at)
    merges = []
    while len(merges) < count:
        best = max(pair_count, key=lambda pair: (pair_count[pair], pair))
        merges.append(best)
        for at in pair_words.pop(best):
            word, n = words[at]
            joined = merged(word, best)
            pair_count.subtract({pair: n * k for pair, k in collections.Counter(zip(word, word[1:])).items()})
            for pair in zip(joined, joined[1:]):
                pair_count[pair] += n
                pair_words[pair].add(at)
            words[at] = (joined, n)
        del pair_count[best]
    return merges


class Tokenizer:
    def __init__(self, merges):
        self.letters = byte_letters()
        self.merges = merges
        self.rank = {pair: i for i, pair in enumerate(merges)}
        tokens = [self.letters[byte] for byte in sorted(self.letters, key=self.letters.get)]
        tokens += [a + b for a, b in merges]
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.special = {name: len(tokens) + i for i, name in enumerate(SPECIALS)}
        self.end_of_text, self.im_start, self.im_end = self.special.values()
        self.memo = {}

    def encode(self, text):
        return [token for piece in SPLIT_ASCII.findall(text) for token in self.encode_piece(piece)]

    def encode_piece(self, piece):
        if piece not in self.memo:
            word = tuple(self.letters[byte] for byte in piece.encode())
            while len(word) > 1:
                pair = min(zip(word, word[1:]), key=lambda pair: self.rank.get(pair, math.inf))
                if pair not in self.rank:
                    break
                word = merged(word, pair)
            self.memo[piece] = [self.ids[token] for token in word]
        return self.memo[piece]

    def files(self):
        """tokenizer.json and tokenizer_config.json, laid out as Qwen's."""
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        added = [{"id": i, "content": name, **flags} for name, i in self.special.items()]
        split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                 "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                 "vocab": self.ids, "merges": [f"{a} {b}" for a, b in self.merges]}
        tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                     "normalizer": {"type": "NFC"},
                     "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
                     "post_processor": byte_level, "decoder": byte_level, "model": model}
        config = {"tokenizer_class": "Qwen2Tokenizer", "model_max_length": MAX_POSITIONS, "add_bos_token": False,
                  "add_prefix_space": False, "bos_token": None, "eos_token": "<|im_end|>",
                  "pad_token": "<|endoftext|>", "unk_token": None, "errors": "replace",
                  "clean_up_tokenization_spaces": False, "split_special_tokens": False,
                  "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
                  "added_tokens_decoder": {str(i): {"content": name, **flags} for name, i in self.special.items()},
                  "chat_template": CHAT_TEMPLATE}
        return {"tokenizer.json": tokenizer, "tokenizer_config.json": config}


class Documents:
    """An endless, seeded stream of documents from one part of the corpus; the end-of-text token ends each.

    A document is a list of (token, counts) pairs: `counts` is 0 if the model need not predict the token (system prompts).
    """

    def __init__(self, tokenizer, text, seed):
        self.tokenizer, self.draw = tokenizer, random.Random(seed)
        self.stream = tokenizer.encode(text)
        self.speeches = [speech.strip() for speech in text.split("\n\n") if speech.strip()]
        blank = {i for token, i in tokenizer.ids.items() if token.endswith("ĊĊ")}
        self.ends = [at + 1 for at, token in enumerate(self.stream) if token in blank]
        counts = collections.Counter(re.findall(r"[a-z]{5,}", text))
        self.rare = {word for word, n in counts.items() if n <= 200}

    def plain(self, length):
        """A window that starts anywhere and ends with a speech."""
        start = self.draw.randrange(max(1, len(self.stream) - length))
        stop = start + self.draw.randint(length // 4, 2 * length)
        stop = next((end for end in self.ends if end >= stop), len(self.stream))
        return [(token, 1) for token in self.stream[start:stop]]

    def system(self, length):
        """A system prompt: one of a few sentences, a long passage, or words in random order (like an unknown prompt)."""
        kind = self.draw.random()
        if kind < 0.5:
            return self.tokenizer.encode(self.draw.choice(SYSTEM_PROMPTS))
        size = self.draw.randrange(16, max(32, length - 256))
        start = self.draw.randrange(max(1, len(self.stream) - size))
        passage = self.stream[start:start + size]
        if kind > 0.8:
            self.draw.shuffle(passage)
        return passage

    def exchange(self, at):
        """A user's text and the answer: a speech and the next speech, or a question about a topic."""
        following = "\n\n".join(self.speeches[at + 1:at + 1 + self.draw.choice([1, 1, 1, 2, 3])])
        if self.draw.random() < 0.6:
            return self.speeches[at], following
        topics = [word for word in re.findall(r"[a-z]{5,}", following) if word in self.rare]
        topic = self.draw.choice(topics) if topics else "this"
        return self.draw.choice(TOPIC_PROMPTS).format(topic), following

    def message(self, role, content, counts):
        tokenizer = self.tokenizer
        head = [tokenizer.im_start, *tokenizer.encode(role + "\n")]
        tail = [tokenizer.im_end, *tokenizer.encode("\n")]
        return [(token, 1) for token in head] + [(token, counts) for token in content] + [(token, 1) for token in tail]

    def conversation(self, length):
        out = self.message("system", self.system(length), 0) if self.draw.random() < 0.8 else []
        at = self.draw.randrange(len(self.speeches) - 40)
        for _ in range(self.draw.choice([1, 1, 2, 3, 4, 6])):
            user, answer = self.exchange(at)
            out += self.message("user", self.tokenizer.encode(user), 1)
            out += self.message("assistant", self.tokenizer.encode(answer), 1)
            at += 1 + answer.count("\n\n") + 1
        return out

    def batch(self, sequences, length, kinds=("plain", "conversation")):
        """Token ids [sequences, length + 1], and which of them count [sequences, length + 1]."""
        rows = []
        for _ in range(sequences):
            row = []
            while len(row) <= length:
                row += getattr(self, self.draw.choice(kinds))(length) + [(self.tokenizer.end_of_text, 1)]
            rows.append(row[:length + 1])
        packed = torch.tensor(rows)
        return packed[..., 0], packed[..., 1].float()


def new_weights():
    """Matrices are [out, in]; those that write to the residual stream start smaller, so that all layers add up to one."""
    torch.manual_seed(SEED)
    weights = {"model.embed_tokens.weight": torch.randn(VOCAB, HIDDEN) * 0.03, "model.norm.weight": torch.ones(HIDDEN)}

    def matrix(name, rows, columns, scale=1.0):
        weights[name + ".weight"] = torch.randn(rows, columns) * scale / math.sqrt(columns)

    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        matrix(name + "self_attn.q_proj", HEADS * HEAD_DIM, HIDDEN)
        matrix(name + "self_attn.k_proj", KV_HEADS * HEAD_DIM, HIDDEN)
        matrix(name + "self_attn.v_proj", KV_HEADS * HEAD_DIM, HIDDEN)
        matrix(name + "self_attn.o_proj", HIDDEN, HEADS * HEAD_DIM, (2 * LAYERS) ** -0.5)
        matrix(name + "mlp.gate_proj", INTERMEDIATE, HIDDEN)
        matrix(name + "mlp.up_proj", INTERMEDIATE, HIDDEN)
        matrix(name + "mlp.down_proj", HIDDEN, INTERMEDIATE, (2 * LAYERS) ** -0.5)
        for norm, size in [("self_attn.q_norm", HEAD_DIM), ("self_attn.k_norm", HEAD_DIM),
                           ("input_layernorm", HIDDEN), ("post_attention_layernorm", HIDDEN)]:
            weights[name + norm + ".weight"] = torch.ones(size)
    return weights


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPS) * weight


def rope_tables(length):
    """cos and sin [length, head_dim]; element i turns with element i + head_dim / 2."""
    frequency = ROPE_THETA ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
    angle = torch.arange(length).float()[:, None] * frequency[None, :]
    return torch.cat([angle.cos(), angle.cos()], -1), torch.cat([angle.sin(), angle.sin()], -1)


def rotate(x, tables):
    left, right = x.chunk(2, -1)
    return x * tables[0] + torch.cat([-right, left], -1) * tables[1]


def causal_attention(q, k, v, block=128):
    """q [batch, heads, length, head_dim], k and v the same; a block of queries sees only the keys up to its end."""
    length, out = q.shape[2], []
    for start in range(0, length, block):
        stop = min(start + block, length)
        scores = q[:, :, start:stop] @ k[:, :, :stop].transpose(-1, -2)
        future = torch.ones(stop - start, stop, dtype=torch.bool).triu(start + 1)
        out.append(scores.masked_fill_(future, -math.inf).softmax(-1) @ v[:, :, :stop])
    return torch.cat(out, 2)


def attention(weights, name, x, tables):
    batch, length, _ = x.shape

    def heads(projection, count):
        return (x @ weights[name + projection + ".weight"].T).view(batch, length, count, HEAD_DIM)

    q = rms_norm(heads("q_proj", HEADS), weights[name + "q_norm.weight"]).transpose(1, 2)
    k = rms_norm(heads("k_proj", KV_HEADS), weights[name + "k_norm.weight"]).transpose(1, 2)
    v = heads("v_proj", KV_HEADS).transpose(1, 2)
    k, v = (rows.repeat_interleave(HEADS // KV_HEADS, 1) for rows in (rotate(k, tables), v))
    mixed = causal_attention(rotate(q, tables) / math.sqrt(HEAD_DIM), k, v)
    return mixed.transpose(1, 2).reshape(batch, length, -1) @ weights[name + "o_proj.weight"].T


def mlp(weights, name, x):
    gate, up = (x @ weights[name + projection + ".weight"].T for projection in ("gate_proj", "up_proj"))
    return (F.silu(gate) * up) @ weights[name + "down_proj.weight"].T


def forward(weights, tokens, dropout=0.0):
    """Logits [batch, length, vocab] of token ids [batch, length]."""
    tables = rope_tables(tokens.shape[1])
    x = F.dropout(weights["model.embed_tokens.weight"][tokens], dropout, dropout > 0)
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        normed = rms_norm(x, weights[name + "input_layernorm.weight"])
        x = x + F.dropout(attention(weights, name + "self_attn.", normed, tables), dropout, dropout > 0)
        normed = rms_norm(x, weights[name + "post_attention_layernorm.weight"])
        x = x + F.dropout(mlp(weights, name + "mlp.", normed), dropout, dropout > 0)
    return rms_norm(x, weights["model.norm.weight"]) @ weights["model.embed_tokens.weight"].T


def loss_of(weights, batch, dropout=0.0):
    tokens, counts = batch
    logits = forward(weights, tokens[:, :-1], dropout)
    losses = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    counts = counts[:, 1:].flatten()
    return (losses * counts).sum() / counts.sum()


@torch.no_grad()
def mean_loss(weights, batches):
    return sum(loss_of(weights, batch).item() for batch in batches) / len(batches)


def windows(stream, length):
    """The stream cut into consecutive windows of `length` predictions, one batch each."""
    starts = range(0, len(stream) - length, length)
    return [(torch.tensor([stream[at:at + length + 1]]), torch.ones(1, length + 1)) for at in starts]


def rate(step, steps):
    """Linear warm-up, then a cosine down to a hundredth."""
    if step < WARMUP:
        return PEAK_RATE * (step + 1) / WARMUP
    return PEAK_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP))))


def optimizer_of(weights):
    groups = [{"params": [w for w in weights.values() if w.dim() == 2], "weight_decay": WEIGHT_DECAY},
              {"params": [w for w in weights.values() if w.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.98))


def train(training, validation, phases):
    """The weights with the lowest validation loss, at contexts of 2,048 tokens: half plain text, half conversations."""
    weights = {name: weight.requires_grad_() for name, weight in new_weights().items()}
    optimizer = optimizer_of(weights)
    held_out = [windows(validation.stream, 2048)[::4], [validation.batch(1, 2048, ["conversation"]) for _ in range(4)]]
    steps, step, began = sum(count for count, _, _ in phases), 0, time.time()
    best, best_loss, running = None, math.inf, None
    for count, sequences, length in phases:
        for _ in range(count):
            for group in optimizer.param_groups:
                group["lr"] = rate(step, steps)
            loss = loss_of(weights, training.batch(sequences, length), DROPOUT)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
            step += 1
            if step % EVAL_EVERY == 0 or step == steps:
                plain, chat = (mean_loss(weights, batches) for batches in held_out)
                print(f"step {step}/{steps} length {length} train {running:.3f} plain {plain:.4f} chat {chat:.4f} "
                      f"after {time.time() - began:.0f} s", flush=True)
                if plain + chat < best_loss:
                    best_loss, best = plain + chat, {name: w.detach().clone() for name, w in weights.items()}
    return best


def config_files(tokenizer):
    ends = [tokenizer.im_end, tokenizer.end_of_text]
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "max_position_embeddings": MAX_POSITIONS,
        "rope_theta": ROPE_THETA, "rope_scaling": None, "rms_norm_eps": NORM_EPS, "attention_bias": False,
        "attention_dropout": 0.0, "use_sliding_window": False, "sliding_window": None, "initializer_range": 0.02,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": VOCAB,
        "bos_token_id": tokenizer.end_of_text, "eos_token_id": tokenizer.im_end}
    generation = {"bos_token_id": tokenizer.end_of_text, "pad_token_id": tokenizer.end_of_text, "eos_token_id": ends,
                  "do_sample": True, "temperature": 0.8, "top_k": 50, "top_p": 0.95}
    return {"config.json": config, "generation_config.json": generation}


def save_safetensors(path, weights):
    """Header length (8 bytes), header (JSON, padded to 8), then the tensors in bfloat16, ordered by name."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, weight in sorted(weights.items()):
        header[name] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": [at, at + 2 * weight.numel()]}
        at += 2 * weight.numel()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, weight in sorted(weights.items()):
            file.write(weight.bfloat16().view(torch.int16).contiguous().numpy().tobytes())


def report(weights, tokenizer, text, training, validation):
    """The losses of the weights as shipped, rounded to bfloat16, over the whole of the validation text."""
    shipped = {name: weight.bfloat16().float() for name, weight in weights.items()}
    bytes_per_token = len(text.encode()) / len(validation.stream)
    for length in (512, 2048, 4096):
        loss = mean_loss(shipped, windows(validation.stream, length))
        per_byte = loss / bytes_per_token
        print(f"validation, windows of {length}: {loss:.4f} nats per token, {per_byte:.4f} nats per byte, "
              f"{per_byte / math.log(2):.4f} bits per byte")
    loss = mean_loss(shipped, windows(training.stream, 2048)[::8])
    print(f"training text, windows of 2048: {loss:.4f} nats per token")
    print(f"{sum(weight.numel() for weight in weights.values())} parameters, {bytes_per_token:.3f} bytes per token, "
          f"{len(training.stream)} tokens of training text, {len(validation.stream)} of validation")


def keep_freed_memory():
    """Tells glibc to keep large blocks: getting the same pages back, zeroed, would take half of the time."""
    mmap_max, trim_threshold = -4, -1
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Trains the demo model and writes its directory.")
    parser.add_argument("--out", type=pathlib.Path, default=here)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="stop each phase after so many steps (to try the script)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()

    shared = pathlib.Path(os.environ.get("ROOST_SHARED", here.parents[2] / "shared"))
    text = (shared / "corpus" / "tinyshakespeare.txt").read_text(encoding="ascii")
    cut = text.index("\n\n", len(text) * 9 // 10) + 2
    tokenizer = Tokenizer(learn_merges(text[:cut], VOCAB - 256 - len(SPECIALS)))
    training, validation = Documents(tokenizer, text[:cut], SEED), Documents(tokenizer, text[cut:], SEED + 1)
    print(f"{len(training.stream)} tokens of training text, {len(validation.stream)} of validation", flush=True)

    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in {**tokenizer.files(), **config_files(tokenizer)}.items():
        (options.out / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    phases = [(min(count, options.steps or count), sequences, length) for count, sequences, length in PHASES]
    weights = train(training, validation, phases)
    save_safetensors(options.out / "model.safetensors", weights)
    report(weights, tokenizer, text[cut:], training, validation)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes testdata/: small tokenizers for features that our real vocabularies do not use, and the reference library's answers.

Run with a Python that has the Hugging Face `tokenizers` package (0.23.3 made the committed files):

    python3 tests/common/text/make_fixtures.py [--fuzz DIR]

With --fuzz it writes the same tokenizers with thousands of random texts to DIR instead, for a wider comparison.
"""
import argparse
import copy
import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "the quick brown fox jumps over the lazy dog. They've said: it's 12345 times, isn't it?",
    "First Citizen: Before we proceed any further, hear me speak. All: Speak, speak!",
    "for (int i = 0; i < 10; ++i) { return x[i] * 2.5; }  // done\n\n\tprint('ok')\n",
    "naïve café über straße Ünïcödé déjà vu ångström", "世界 你好 こんにちは 안녕하세요 привет мир שלום",
    "    indented    text   with  spaces\n\n\nand lines\r\n", "😀 👩‍👩‍👧 🇫🇷 ½ ² ① Ⅷ",
] * 8

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "\n", "\n\n", " \n ", "\t\t x", "Hello world", "  Hello   world  ",
    "they've it's I'LL WE'D x'ſ", "don't 'tis ''s", "123456789 12 1 1234", "१२३४५ ² ½ Ⅷ 12३4", "x=1;y=[2,3]",
    "if (a) {\n\treturn b;\n}\n\n\n", "café naïve e\u0301 cafe\u0301 a\u0323\u0307 a\u0307\u0323 ﬁ Å Å", "世界你好。こんにちは、안녕",
    "привет, мир! שלום عربي", "😀👩‍👩‍👧🇫🇷", "\u00a0nbsp\u00a0 \u2028 \u3000 \u180e \u0085 \u200b x", "a\r\nb\rc\n", "!!! ??? ... --- ^^ $$ ++",
    "<s>", "<s> a </s>", "x<s>y", "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|> <|im_end|>  z", "a <mask> b", "a<mask>b", "  <mask>  ",
    "word words sword word. (word)", "été ÉTÉ été", "▁x ▁▁ y", "<0x41> <unk> zz", "\U0001fae8 \u0897 \U00011f04 \U00031350",
    "HTTPServer fooBar snake_case 3.14e-10", "end with spaces   ", "\ud7ff \uffff \U0010ffff", "a\u0000b\u0007c", "x\ty  \tz ",
    "user@example.com https://a.b/c?d=e#f", "\ufeffbom", "~`@#%&*()_+{}|:\"<>?-=[]\\;',./",
]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TIKTOKEN = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"
            r"\s*[\r\n]|\s+(?!\S)|\s")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
             r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def byte_level(add_prefix_space=False, use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": use_regex}


def metaspace(scheme, split_words):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split_words}


def added(content, **flags):
    token = {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
    token.update(flags)
    return token


BYTE_DECODER = byte_level(True, True)
LLAMA_DECODER = sequence("decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                         {"type": "ByteFallback"}, {"type": "Fuse"},
                         {"type": "Strip", "content": " ", "start": 1, "stop": 0})


def train_byte_level(vocab_size, pattern=GPT2):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(CORPUS, trainer)
    return json.loads(tokenizer.to_str())["model"]


def train_spm(vocab_size, byte_fallback):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    specials = ["<unk>", "<s>", "</s>"]
    if byte_fallback:
        specials += [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=vocab_size + len(specials), show_progress=False, special_tokens=specials,
                                  limit_alphabet=60)
    tokenizer.train_from_iterator(CORPUS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    model["byte_fallback"] = byte_fallback
    return model


def template(before, after=()):
    def special(token):
        return {"SpecialToken": {"id": token, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [*map(special, before), text, *map(special, after)],
            "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {}}


def assemble(model, added_tokens=(), normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None, **changes):
    """A whole tokenizer file, with the ids of its tokens."""
    model = copy.deepcopy(model)
    model.update(changes)
    added_tokens = copy.deepcopy(list(added_tokens))
    next_id = len(model["vocab"])
    ids = {}
    for token in added_tokens:
        token["id"] = model["vocab"].get(token["content"], next_id)
        next_id += token["id"] == next_id
        ids[token["content"]] = token["id"]
    if post_processor is not None:
        post_processor = json.loads(json.dumps(post_processor))
        for part in post_processor.get("processors", [post_processor]):
            if part["type"] == "TemplateProcessing":
                names = [piece["SpecialToken"]["id"] for piece in part["single"] if "SpecialToken" in piece]
                part["special_tokens"] = {n: {"id": n, "ids": [ids[n]], "tokens": [n]} for n in names}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder, "model": model}


def tokenizers():
    bytes_model = train_byte_level(420)
    string_merges = [" ".join(pair) for pair in bytes_model["merges"]]
    tiny = train_byte_level(290)
    spm = train_spm(150, True)
    spm_unk = train_spm(150, False)
    chat = [added("<|im_start|>"), added("<|im_end|>"), added("<s>"), added("<mask>", lstrip=True, normalized=True)]
    odd = [added("<mask>", lstrip=True), added("<|im_end|>", rstrip=True), added("word", single_word=True, special=False),
           added("<s>", lstrip=True, rstrip=True), added("<|im_start|>"), added("<|im_start|>user", special=False),
           added("été", normalized=True, special=False)]
    llama = [added("<unk>"), added("<s>"), added("</s>")]
    byte_decoder = BYTE_DECODER
    yield "gpt2_style", assemble(bytes_model, chat, None, byte_level(False, True), byte_level(True), byte_decoder,
                                 merges=string_merges)
    yield "gpt2_prefix_space", assemble(tiny, chat, None, byte_level(True, True), None, byte_decoder)
    yield "llama3_style", assemble(bytes_model, chat, None, sequence("pretokenizers", split(LLAMA3), byte_level()),
                                   sequence("processors", byte_level(True), template(["<s>"])), byte_decoder,
                                   ignore_merges=True, merges=string_merges)
    yield "qwen2_style", assemble(bytes_model, chat, {"type": "NFC"}, sequence("pretokenizers", split(QWEN2), byte_level()),
                                  byte_level(True), byte_decoder)
    yield "o200k_style", assemble(tiny, chat, None, sequence("pretokenizers", split(O200K), byte_level()), None,
                                  byte_decoder)
    yield "tiktoken_style", assemble(tiny, chat, None, sequence("pretokenizers", split(TIKTOKEN), byte_level()), None,
                                     byte_decoder)
    yield "deepseek_v3_style", assemble(
        tiny, chat, sequence("normalizers"),
        sequence("pretokenizers", split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK3), byte_level()),
        template(["<s>"], ["<|im_end|>"]), byte_decoder)
    yield "deepseek_coder_style", assemble(
        tiny, chat, sequence("normalizers"),
        sequence("pretokenizers", split(r"[\r\n]"), split(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺᭅ-ᭋ𐐀-𐑏]+"), split(r"\s?\p{L}+"),
                 split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split(r"[一-龥ࠀ-一가-퟿]+"),
                 {"type": "Digits", "individual_digits": True}, byte_level()), None, byte_decoder)
    yield "starcoder_style", assemble(tiny, chat, None, sequence(
        "pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level(False, True)), None, byte_decoder)
    yield "digits_together", assemble(tiny, odd, None, sequence(
        "pretokenizers", {"type": "Digits", "individual_digits": False}, byte_level()), None, byte_decoder)
    yield "odd_added_tokens", assemble(tiny, odd, {"type": "NFD"}, byte_level(False, True), None, byte_decoder)
    yield "llama2_style", assemble(
        spm, llama, sequence("normalizers", {"type": "Prepend", "prepend": "▁"},
                             {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
        None, template(["<s>"]), LLAMA_DECODER, fuse_unk=True)
    yield "llama2_odd_added", assemble(
        spm, llama + [added("<mask>", lstrip=True, rstrip=True), added("zz", normalized=True, special=False),
                      added("word", single_word=True, normalized=True, special=False)],
        sequence("normalizers", {"type": "Prepend", "prepend": "▁"},
                 {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}), None, None, LLAMA_DECODER)
    yield "mistral_style", assemble(spm, llama, None, metaspace("first", False), template(["<s>"], ["</s>"]), LLAMA_DECODER)
    yield "metaspace_always", assemble(spm_unk, llama, {"type": "NFKC"}, metaspace("always", True), None,
                                       metaspace("always", True))
    yield "metaspace_first_split", assemble(spm_unk, llama, {"type": "NFKD"}, metaspace("first", True), None,
                                            metaspace("first", True), fuse_unk=True)
    yield "metaspace_never", assemble(spm_unk, llama, None, metaspace("never", True), None, metaspace("never", True),
                                      unk_token=None)
    yield "metaspace_after_split", assemble(spm, llama, None, sequence(
        "pretokenizers", split(r"\d+", "Removed"), metaspace("first", True)), None,
        sequence("decoders", {"type": "ByteFallback"}, {"type": "Fuse"},
                 {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}))
    yield "no_decoder", assemble(tiny, chat, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"},
                                 sequence("pretokenizers", split(r"(?=(\d{3})+(?!\d))"), byte_level()))
    yield "strip_and_replace", assemble(
        spm, llama, sequence("normalizers", {"type": "Strip", "strip_left": True, "strip_right": True},
                             {"type": "Replace", "pattern": {"Regex": r"\p{N}+|[ \t]{2,}"}, "content": "▁9"},
                             {"type": "Replace", "pattern": {"String": "a"}, "content": ""}),
        None, None, sequence("decoders", {"type": "Strip", "content": "▁", "start": 1, "stop": 0}, {"type": "ByteFallback"},
                             {"type": "Fuse"}, {"type": "Strip", "content": "e", "start": 2, "stop": 0}))
    for behavior in ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            yield f"split_{behavior}_{'inverted' if invert else 'plain'}", assemble(
                tiny, (), None, sequence("pretokenizers", split(r"[aeiou ]|\d\d", behavior, invert), byte_level()), None,
                byte_decoder)
    yield "split_string", assemble(tiny, (), None, sequence(
        "pretokenizers", split("  ", "MergedWithNext", False, "String"), split(".", "Removed", False, "String"),
        byte_level()), None, byte_decoder)


def random_text(rng):
    pieces = [rng.choice(TEXTS) if rng.random() < 0.6 else
              "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0x80, 0x800), rng.randrange(0x800, 0xD800),
                                      rng.randrange(0x10000, 0x20000), 32, 10]))
                      for _ in range(rng.randrange(1, 12)))
              for _ in range(rng.randrange(1, 6))]
    return rng.choice(["", " ", "\n"]).join(pieces)


def is_byte(tokenizer, token_id):
    return tokenizer.id_to_token(token_id).startswith("<0x")


def answers(tokenizer, texts, rng):
    size = tokenizer.get_vocab_size()
    for text in texts:
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids, "ids_with_special": tokenizer.encode(text).ids, "plain_ids": plain,
                "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
        # A member that is left out is equal to `ids`, or to `text`.
        yield {key: value for key, value in case.items()
               if key in ("text", "ids") or value != (text if key == "decoded" else ids)}
    for _ in range(4):
        # Lone byte tokens: Roost decodes an ill-formed run of them differently from the reference.
        ids = []
        for _ in range(12):
            drawn = rng.randrange(size)
            if not (ids and is_byte(tokenizer, ids[-1]) and is_byte(tokenizer, drawn)):
                ids.append(drawn)
        yield {"random_ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}


def matches(pattern, subject):
    pieces = pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(subject)
    return [piece for piece, _ in pieces]


PATTERNS = [
    (r"\s+$", "a \nb  \n\n c "), (r"^a", "a\na\nba"), (r".", "a\nb\rc\u2028"), (r"\d{2}+", "123456 1 12"), (r"\d{2,3}?", "12345"),
    (r"a{,2}b", "aaab b"), (r"\h+", "g fF0 h"), (r"(?i:'s)", "x'ſ x'S"), (r"(?i)k|[dmt]s", "K K k TS mſ"), (r"[^\S\r\n]+", "a \u00a0\n b\t"),
    (r"[\s\d]+", "a १\u180e2 ²½"), (r"\D", "1१a²"), (r"(?<=a)b|(?<!a)c", "ab ac bc"), (r"x*", "axxb"),
    (r"(?>a+)b|c", "aaab c"), (r"\u00e9|\x{e8}|\x41", "éèA"), (r"[\]\[\-^a-c]+", "]-[^b d"), (r"\A.|.\z", "abc"), (r"[a&b]", "a&b"),
    (r"{a}|b{x|c{1", "{a} b{x c{1"), (r"\p{Han}+", "a漢々〆、ー"), (r"\P{L}+", "ab1 c"), (r"\p{Lu}\p{Ll}*|\p{M}", "AbC éÉ\u0301"), (r"a|ab(c|d)+", "abcd a"),
    (r"\v\f\e\a\t", "\x0b\x0c\x1b\x07\t"), (r"[\d\p{P}]+?x", "12.x"), (r"(?:ab)?+c", "abc c ab"), (r"a(?=\n)|b\Z", "a\nb\n"), (GPT2, "I'll  go 12½  \n x"),
]
CLASSES = [r"\s", r"\S", r"\d", r"\p{L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}",
           r"\p{Lo}", r"\p{Han}"]


def runs_of(pattern):
    """All code points that match, as [gap, length, gap, length, …]."""
    points = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    members = set()
    for i in range(0, len(points), 8192):
        members.update(map(ord, matches(pattern, "".join(map(chr, points[i:i + 8192])))))
    runs, end = [], 0
    for c in sorted(members):
        if runs and c == end:
            runs[-1] += 1
        else:
            runs += [c - end, 1]
        end = c + 1
    return runs


def normal_forms(texts):
    forms = {"NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD()}
    return [{"text": text, **{name: form.normalize_str(text) for name, form in forms.items()}} for text in texts]


def dump(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fuzz", type=pathlib.Path)
    fuzz = parser.parse_args().fuzz
    folder = fuzz or pathlib.Path(__file__).parent / "testdata"
    folder.mkdir(exist_ok=True)
    rng = random.Random(7)
    texts = [random_text(rng) for _ in range(1500)] if fuzz else TEXTS
    made = []
    for name, description in tokenizers():
        tokenizer = Tokenizer.from_str(json.dumps(description))
        made.append({"name": name, "tokenizer": description, "cases": list(answers(tokenizer, texts, rng))})
        if name == "gpt2_style" and not fuzz:
            (folder / "gpt2_style.tokenizer.json").write_text(json.dumps(description, ensure_ascii=False))
    dump(folder / "tokenizers.jsonl", made)
    if fuzz:
        return
    dump(folder / "regex.jsonl", [{"pattern": p, "subject": s, "matches": matches(p, s)} for p, s in PATTERNS])
    dump(folder / "classes.jsonl", [{"class": p, "runs": runs_of(p)} for p in CLASSES])
    dump(folder / "normal_forms.jsonl", normal_forms(TEXTS + ["각 가 \u1100\u1161\u11a8 ﬀ ① Ⅷ ﷺ ḍ̇ q̣̇ ạ̈", "\u0344\u0958 \ufb1d 豈"]))


if __name__ == "__main__":
    main()

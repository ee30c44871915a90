#!/usr/bin/env python3
"""Makes testdata/kinds.jsonl: the results of the reference library's pre-tokenizers, normalizers and post-processors for
texts, for each kind alone, and for every code point.

Run with a Python that has the Hugging Face `tokenizers` package (0.23.3 made the committed file):

    python3 tests/common/text/make_kinds.py
"""
import json
import pathlib

from tokenizers import Tokenizer

from make_fixtures import TEXTS, added, assemble, byte_level, dump, metaspace, sequence, split, train_byte_level

BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
MORE_TEXTS = ["¿Qué? «sí» — “no” … 'ok'", "a\u0300\u200d\u200cb_c 1²½ ͅ\u0903x", "؟،؛ ।॥ 。、 ‿⁀ \u2e4f\u1b7d", "ab-cd--ef-", "-", "12 345 \u0661\u0662 ⅷ٣",
              "İSTANBUL ΣΊΣΥΦΟΣ ǅ ẞ Å ꟊ \ua7dc \U00010d50 \U00016ea0", "\u0001a\u007f\u200bb\u2581c\ufeffd\ufffd", "αβγδε ζηθ", "\u1c89\u1c8a \U00011de0\U00016ff4"]


def pre_tokenizers():
    yield {"type": "BertPreTokenizer"}
    yield {"type": "CharDelimiterSplit", "delimiter": "-"}
    yield {"type": "CharDelimiterSplit", "delimiter": "é"}
    yield {"type": "FixedLength", "length": 3}
    yield {"type": "FixedLength"}
    yield {"type": "Punctuation"}
    for behavior in BEHAVIORS:
        yield {"type": "Punctuation", "behavior": behavior}
    yield {"type": "Whitespace"}
    yield {"type": "WhitespaceSplit"}
    yield {"type": "Digits", "individual_digits": True}
    yield {"type": "Digits", "individual_digits": False}
    # Chains as in the files of Falcon, T5 and BERT.
    yield sequence("pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(False, True),
                   {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))
    yield sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("always", True))
    yield sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("first", False), {"type": "FixedLength", "length": 2})
    yield sequence("pretokenizers", {"type": "Whitespace"}, {"type": "Punctuation", "behavior": "Removed"})


def normalizers():
    yield {"type": "Lowercase"}
    yield {"type": "Nmt"}
    yield {"type": "ByteLevel"}
    yield sequence("normalizers", {"type": "Nmt"}, {"type": "NFKC"}, {"type": "Lowercase"})


def post_processors():
    yield {"type": "BertProcessing", "sep": ["</s>", 7], "cls": ["<s>", 5]}
    yield {"type": "RobertaProcessing", "sep": ["</s>", 7], "cls": ["<s>", 5], "trim_offsets": True, "add_prefix_space": True}
    yield sequence("processors", byte_level(), {"type": "BertProcessing", "sep": ["b", 3], "cls": ["a", 2]},
                   {"type": "RobertaProcessing", "sep": ["</s>", 7], "cls": ["<s>", 5], "trim_offsets": False, "add_prefix_space": False})


def load(model=None, **parts):
    return Tokenizer.from_str(json.dumps(assemble(model or {"type": "BPE", "vocab": {}, "merges": []}, **parts)))


def blocks():
    """All code points, 4096 at a time, each with its own 'x' on both sides."""
    points = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    for i in range(0, len(points), 4096):
        yield points[i:i + 4096]


def cut_points(pre_tokenizer):
    """The cut of "xcx" for every code point c, as runs of [first c, cut], with "|" between pieces and "c" for it."""
    runs = []
    for block in blocks():
        for c in block:
            pieces = [p.replace(chr(c), "c") if c != ord("x") else p for p, _ in pre_tokenizer.pre_tokenize_str(f"x{chr(c)}x")]
            cut = "|".join(pieces)
            if not runs or runs[-1][1] != cut:
                runs.append([c, cut])
    return runs


def changes(normalizer):
    """Every code point that a normalizer changes, as [c, result]."""
    return [[c, text] for block in blocks() for c in block if (text := normalizer.normalize_str(chr(c))) != chr(c)]


def main():
    lines = []
    for part in pre_tokenizers():
        pre_tokenizer = load(pre_tokenizer=part).pre_tokenizer
        lines.append({"pre_tokenizer": part, "cases": [
            {"text": text, "pieces": [piece for piece, _ in pre_tokenizer.pre_tokenize_str(text)]} for text in TEXTS + MORE_TEXTS]})
        if part in ({"type": "Punctuation"}, {"type": "Whitespace"}, {"type": "Digits", "individual_digits": True},
                    {"type": "WhitespaceSplit"}):
            lines[-1]["cuts"] = cut_points(pre_tokenizer)
    for part in normalizers():
        normalizer = load(normalizer=part).normalizer
        lines.append({"normalizer": part, "cases": [{"text": text, "normalized": normalizer.normalize_str(text)}
                                                    for text in TEXTS + MORE_TEXTS]})
        if part["type"] == "Lowercase":
            lines[-1]["changes"] = changes(normalizer)
    for part in post_processors():
        vocabulary = {"x": 0}
        tokenizer = load({"type": "BPE", "vocab": vocabulary, "merges": []}, post_processor=part)
        lines.append({"post_processor": part, "ids": tokenizer.encode("xx").ids})
    # The whole pipeline, with added tokens before and after the normalizer.
    model = train_byte_level(290)
    for parts in [{"normalizer": {"type": "Lowercase"}, "pre_tokenizer": sequence("pretokenizers", {"type": "Punctuation"}, byte_level())},
                  {"normalizer": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "FixedLength", "length": 4}}]:
        tokens = [added("<s>"), added("Été", normalized=True, special=False)]
        file = assemble(model, tokens, decoder=byte_level(True, True), **parts)
        tokenizer = Tokenizer.from_str(json.dumps(file))
        lines.append({"tokenizer": file, "cases": [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS + MORE_TEXTS]})
    dump(pathlib.Path(__file__).parent / "testdata" / "kinds.jsonl", lines)


if __name__ == "__main__":
    main()

"""Judges outputs under random regular expressions and choices by Python's own engine, and the characters that they are
made of by a round trip.

    constraint_outputs_test.py build/release/bin/constraint_outputs COUNT [SEED]

Exit code 77: skipped, with the reason on stderr."""

import json
import random
import re
import subprocess
import sys

SKIP = 77
HEX = "0123456789abcdefABCDEF"
SURROGATES = range(0xD800, 0xE000)
LINE_ENDS = "\\n\\r\\u2028\\u2029"


class Program:
    """The program under test; one answer for each constraint."""

    def __init__(self, path):
        self.run = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", errors="strict")

    def ask(self, kind, text, count=0, probes=()):
        line = {"kind": kind, "text": text, "count": count, "probes": list(probes)}
        self.run.stdin.write(json.dumps(line) + "\n")
        self.run.stdin.flush()
        answer = self.run.stdout.readline()
        if not answer:
            sys.exit(self.run.wait() or 1)
        return json.loads(answer)


def escaped(character, in_class):
    """A character as a client may write it in a regular expression."""
    special = "\\]^-[" if in_class else "\\.^$*+?()[]{}|/"
    return "\\" + character if character in special else character


# ---- round trips ----


def all_characters():
    return [chr(code) for code in range(1, 0x110000) if code not in SURROGATES]


def chunks(items, size):
    return [items[at : at + size] for at in range(0, len(items), size)]


def check_literals(program):
    """Characters followed by hexadecimal digits: those that are written as escapes by each of them, a share of others."""
    pairs = [(c, digit) for c in map(chr, range(1, 0x100)) for digit in HEX]
    pairs += [(c, HEX[ord(c) % len(HEX)]) for c in all_characters()[0xFF::311]]
    broken = 0
    for part in chunks(pairs, 3000):
        text = "".join(c + digit for c, digit in part)
        regex = "".join(escaped(c, False) + digit for c, digit in part)
        other = text[:-1] + ("1" if text[-1] != "1" else "2")
        for kind, source in (("choice", json.dumps([text])), ("regex", regex)):
            answer = program.ask(kind, source, 0, [text, other])
            if answer.get("allowed") != [True, False]:
                broken += 1
                print(f"{kind} of {part[0]!r} to {part[-1]!r}: {answer}", file=sys.stderr)
    return broken


def check_classes(program):
    """[cd], [^cd] and [c-e] with a hexadecimal digit d."""
    broken = 0
    codes = [c for c in map(chr, list(range(1, 0x101)) + [0x2028, 0xFFFD, 0x10000, 0x10FFFF])]
    for digit in HEX:
        for part in chunks([c for c in codes if c not in HEX], 64):
            listed = "".join(f"[{escaped(c, True)}{digit}]" for c in part)
            others = "".join(f"[^{escaped(c, True)}{digit}]" for c in part)
            first, second, third = "".join(part), digit * len(part), "\u4f60" * len(part)
            answers = [program.ask("regex", each, 0, [first, second, third]).get("allowed") for each in (listed, others)]
            if answers != [[True, True, False], [False, False, True]]:
                broken += 1
                print(f"classes of {part[0]!r} to {part[-1]!r} with {digit}: {answers}", file=sys.stderr)
    return broken


def check_json(program):
    """The same characters in values, names of properties and patterns of schemas."""
    broken = 0
    for digit in HEX:
        text = "".join(chr(code) + digit for code in range(1, 0x180))
        named = {"type": "object", "properties": {text: {"const": 1}}, "required": [text]}
        for schema, wanted in (({"const": text}, text), ({"enum": [text]}, text), (named, {text: 1})):
            outputs = program.ask("json_schema", json.dumps(schema), 1).get("outputs", [])
            if [json.loads(output) for output in outputs] != [wanted]:
                broken += 1
                print(f"{list(schema)} with {digit}: {outputs!r:.300}", file=sys.stderr)
        for character in map(chr, range(0x20, 0x7F)):
            if character in '"\\':
                continue
            pattern = f"^[{escaped(character, True)}{digit}]{escaped(character, False)}{digit}$"
            probes = [json.dumps(first + character + digit) for first in (character, digit, "\u4f60")]
            answer = program.ask("json_schema", json.dumps({"type": "string", "pattern": pattern}), 0, probes)
            if answer.get("allowed") != [True, True, False]:
                broken += 1
                print(f"pattern {pattern}: {answer}", file=sys.stderr)
    return broken


# ---- random constraints ----

PIECES = [" ", "  ", "-", "#", ":", "/", "a", "b", "f", "yes", "0", "9", "2024-01-",
          "é", "ÿ0", "你", "\u00a0", "\t", "'", '"', "~", "\x7f", "\x01", "^", "]"]


def random_class(rng):
    named = ["\\d", "\\w", "\\s"]
    parts = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.2:
            parts.append(rng.choice(named))
        elif kind < 0.5:
            low, high = sorted([rng.randint(1, 0x17F), rng.randint(1, 0x17F)])
            parts.append(escaped(chr(low), True) + "-" + escaped(chr(high), True))
        else:
            parts.append(escaped(rng.choice(PIECES)[0], True))
    return "[" + ("^" if rng.random() < 0.3 else "") + "".join(parts) + "]"


def random_repetition(rng):
    low = rng.choice([0, 1, 2, 5, 130])
    high = low + rng.choice([1, 3, 140])
    return rng.choice(["*", "+", "?", f"{{{low + 1}}}", f"{{{low},{high}}}", f"{{{low},}}"])


def random_regex(rng, depth=0, may_repeat=True):
    """No repetition inside a repetition: the judge would try all ways to part a text."""

    def atom(may_repeat):
        kind = rng.random()
        if kind < 0.5 or depth > 1:
            return "".join(escaped(c, False) for c in rng.choice(PIECES))
        if kind < 0.75:
            return random_class(rng)
        if kind < 0.8:
            return rng.choice([".", "\\d", "\\w", "\\s", "\\n", "\\x41", "\\u00e9"])
        return "(" + rng.choice(["", "?:"]) + random_regex(rng, depth + 1, may_repeat) + ")"

    def part():
        repeats = may_repeat and rng.random() < 0.4
        text = atom(may_repeat and not repeats)
        return f"(?:{text})" + random_repetition(rng) if repeats else text

    return "|".join("".join(part() for _ in range(rng.randint(1, 4))) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def for_python(regex):
    """The same expression with what Python reads otherwise written out: ECMA's white space and line ends."""
    space = "\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
    out, at, in_class = "", 0, False
    while at < len(regex):
        c = regex[at]
        if c == "\\":
            pair = regex[at : at + 2]
            out += (space if in_class else f"[{space}]") if pair == "\\s" else pair
            at += 2
            continue
        if c == "[" and in_class:
            out += "\\["
        elif c == "." and not in_class:
            out += f"[^{LINE_ENDS}]"
        else:
            out += c
        in_class = (c == "[" or in_class) and not (c == "]" and in_class)
        at += 1
    return re.compile(out, re.ASCII)


def check_regexes(program, rng, count):
    broken = ended = 0
    for _ in range(count):
        regex = random_regex(rng)
        judge = for_python(regex)
        answer = program.ask("regex", regex, 4)
        wrong = [answer["refused"]] if "refused" in answer else [o for o in answer["outputs"] if not judge.fullmatch(o)]
        ended += len(answer.get("outputs", []))
        if wrong:
            broken += 1
            print(f"{regex!r}: {wrong[0]!r}", file=sys.stderr)
    print(f"{count} regular expressions, {ended} outputs that ended, {broken} expressions wrong")
    return broken if ended >= count else broken + 1


def check_choices(program, rng, count):
    broken = 0
    for _ in range(count):
        texts = {"".join(rng.choice(PIECES) for _ in range(rng.randint(1, 6))) for _ in range(rng.randint(1, 8))}
        answer = program.ask("choice", json.dumps(sorted(texts)), 4, sorted(texts))
        good = "refused" not in answer and set(answer["outputs"]) <= texts and all(answer["allowed"]) and answer["open"] == 0
        if not good:
            broken += 1
            print(f"{sorted(texts)!r}: {answer}", file=sys.stderr)
    print(f"{count} choices, {broken} wrong")
    return broken


def main():
    program = Program(sys.argv[1])
    count = int(sys.argv[2])
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    broken = check_classes(program) + check_literals(program) + check_json(program)
    broken += check_choices(program, rng, count) + check_regexes(program, rng, count)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

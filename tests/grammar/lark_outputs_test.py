"""Checks outputs under grammars of Lark with Lark itself (python3-lark), whose Earley parser takes every way to cut a
text into terminals.

    lark_outputs_test.py PROGRAM COUNT [SEED]    PROGRAM: constraint_outputs

Grammars are known ones and random ones; each as the whole output, and as the text of a JSON string, which is how the
calls of custom tools hold theirs.
"""

import json
import random
import sys

from constraint_outputs_test import Program

SKIPPED = 77
PATCH = r'''start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
'''
SUMS = r'''// left recursion, priorities, aliases, and spaces that are ignored
start: sum
?sum.2: product
      | sum "+" product   -> add
      | sum "-" product
?product: atom | product /[*\/]/ atom
?atom: NUMBER | "-" atom | CNAME | "(" sum ")"
%import common (NUMBER, CNAME)
%import common.WS_INLINE -> SPACES
%ignore SPACES
'''
QUERY = r'''start: "select"i COLUMN ("," COLUMN)* "from"i NAME [where] ";"
where: "where"i NAME ("=" | "<>" | "\u2265") (ESCAPED_STRING | SIGNED_INT | "\"" /[^"\\\n]*/ "\"")
COLUMN: NAME | "*"
NAME: "a".."z" (LETTER | DIGIT | "_") ~ 0..7
HEX: "#" HEXDIGIT ~ 6
%import common.LETTER
%import common.DIGIT
%import common.HEXDIGIT
%import common.SIGNED_INT
%import common.ESCAPED_STRING
%ignore / /
%ignore "\n"
'''
OTHER = r'''start: (line "\n")* last?
!line: ["<" TAG ">"] value
value: /[^\W\d]+\s\S\.\D/s | /(?:ab|[]x-]){1,3}["]/i | "\ttab\\" | "é" | "x" ~ 2 | "y" ~ 1..3
last: "" | "end"
TAG: /[a-f0-9]/ ~ 2..4 | "br"i
'''.replace('"" | ', '')
KNOWN = {"a patch": PATCH, "sums": SUMS, "a query": QUERY, "others": OTHER}

REFUSED = {
    "start: other": "names 'other', which is not defined",
    "begin: \"a\"": "no rule 'start'",
    "start: \"a\"\nstart: \"b\"": "defines 'start' twice",
    "start: A\nA: B \"x\"\nB: A?": "in its own definition",
    "start: A\nA: start": "names the rule 'start' in a terminal",
    "start: A\nA.2: \"a\"": "priority",
    "start: list{A}\nA: \"a\"": "template",
    "start: A\n%declare A": "%declare",
    "start: A\n%import other.A": "other than common.NAME",
    "start: A\n%import common.A": "common.A, which is not known",
    "start: /^a/": "anchor",
    "start: /a(?=b)/": "looks around",
    "start: /a\\b/": "\\b",
    "start: /a/x": "flag",
    "start: /[[a]/": "[ in a class",
    "start: /é/i": "beyond ASCII",
    "start: \"é\"i": "beyond ASCII",
    "start: \"\"": "empty string",
    "start: \"a": "does not end",
    "start: (\"a\"": "does not end",
    "start: \"a\" )": "does not belong",
    "start: \"a\"~5000": "repeats more than",
    "start: \"a\"*+": "repeats a repetition",
    "start: \"\\q\"": "backslash",
    "start: \"\\x0\"": "not hexadecimal",
    "Start: \"a\"": "neither a rule nor a terminal",
    "start: " + "(" * 80 + "\"a\"" + ")" * 80: "groups more than",
    "start: /(a{900}b{900}){900}/": "too large",
    "start: a\na: \"x\" a": "never ends",
}


def judge_of(lark, grammar):
    # This parser refuses terminals that may be empty.
    grammar = grammar.replace("/(.*)/", "/(.+)/?").replace("]*/", "]+/?")
    return lark.Lark(grammar, parser="earley", lexer="dynamic_complete", ambiguity="resolve")


def reads(lark, judge, text):
    try:
        judge.parse(text)
        return True
    except lark.exceptions.UnexpectedInput:
        return False


def within_json(grammar, kind="lark"):
    """The constraint that holds a call's text to the grammar: {"input": "…"}."""
    elements = [
        {"type": "const_string", "value": '{"input": "'},
        {"type": "grammar", kind: grammar},
        {"type": "const_string", "value": '"}'},
    ]
    return json.dumps({"type": "structural_tag", "format": {"type": "sequence", "elements": elements}})


def outputs_of(program, grammar, count):
    """As whole outputs and within JSON; or why it was refused."""
    texts = []
    for kind, source in (("grammar", grammar), ("structural_tag", within_json(grammar))):
        answer = program.ask(kind, source, count)
        if "refused" in answer:
            return None, answer["refused"]
        # Long ones take the judge minutes.
        short = [text for text in answer["outputs"] if len(text) < 120]
        texts += [text if kind == "grammar" else json.loads(text)["input"] for text in short]
    return texts, None


# ---- random grammars ----


def random_terminal(rng):
    """Without what Lark 1.1.5 reads wrongly: alternatives in no group, a backslash that is escaped before a quote."""
    kind = rng.random()
    if kind < 0.5:
        text = "".join(rng.choice("ab{}\"\\é +:\n\t1") for _ in range(rng.randint(1, 3)))
        ignores_case = text.isascii() and rng.random() < 0.3
        return json.dumps(text, ensure_ascii=False) + ("i" if ignores_case else "")
    if kind < 0.6:
        return '"a".."f"'
    if kind < 0.7:
        return "/[^a-z\\\"\\\\\\n]/"
    return rng.choice(["/a+/", "/[0-9]{2}/", "/(x|y+z)/", "/\\d\\s?/", "/\\//", "/[\"\\\\]/", "/./", "/A[b-d]/i", "/.\\n/s"])


def random_body(rng, names, depth=0):
    def atom():
        kind = rng.random()
        if kind < 0.35 and names:
            return rng.choice(names)
        if kind < 0.5 and depth < 2:
            left, right = rng.choice(["()", "[]"])
            return left + random_body(rng, names, depth + 1) + right
        return random_terminal(rng)

    def part():
        text = atom()
        # Lark refuses to repeat what may be empty without end.
        return text + (rng.choice(["?", "~2", "~1..2"]) if rng.random() < 0.3 and not text.startswith("[") else "")

    return " | ".join(" ".join(part() for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3)))


def random_grammar(rng):
    """Rules name later ones alone, but for a list that names itself."""
    terminals = [f"T{i}" for i in range(rng.randint(1, 3))]
    rules = [f"r{i}" for i in range(rng.randint(0, 3))]
    lines = []
    for i, rule in enumerate(["start", *rules]):
        lines.append(f"{rule}: {random_body(rng, rules[i:] + terminals)}")
    if rng.random() < 0.3:
        lines.append(f"list: {terminals[0]} | list {random_terminal(rng)} {terminals[0]}")
        lines[0] += " | list"
    lines += [f"{name}: {random_terminal(rng)} {random_terminal(rng)}" for name in terminals]
    if rng.random() < 0.4:
        lines.append('%ignore " "')
    rng.shuffle(lines)
    return "\n".join(lines) + "\n"


# ---- checks ----


def check(lark, program, name, grammar, count, why_not=False):
    """The number of outputs that Lark took; None if something is wrong."""
    texts, refused = outputs_of(program, grammar, count)
    if texts is None:
        print(f"{name} is refused: {refused}\n{grammar}", file=sys.stderr)
        return None
    judge = judge_of(lark, grammar)
    for text in texts:
        if not reads(lark, judge, text):
            print(f"{name}: Lark does not read {text!r}\n{grammar}", file=sys.stderr)
            return None
    return len(texts)


def check_probes(program):
    """Texts that must be taken, and texts that must not: a grammar that is too narrow writes no wrong output."""
    patch = "*** Begin Patch\n*** Update File: a \"b\".py\n@@ def f():\n-\told\\n\n+\tnew — é\n*** End Patch\n"
    cases = [(PATCH, [patch, patch[:-1]], [patch.replace("@@", "@"), patch + "\n", "x" + patch])]
    cases.append((SUMS, ["1", " 1 + (a - -2.5) * b3", "((1e5))"], ["", "1 +", "1 2", "(1", "é"]))
    cases.append((QUERY, ['SELECT *, ab from t;', 'select\na FROM b Where c ≥ "x\\"y";'], ["select a;", "select A from b;"]))
    cases.append(("start: /[^\"]*/", ['a\\b\n', "", "\u2028é"], ['"']))
    broken = 0
    for grammar, good, bad in cases:
        probes = good + bad
        wanted = [True] * len(good) + [False] * len(bad)
        whole = program.ask("grammar", grammar, 0, probes)
        inside = program.ask("structural_tag", within_json(grammar), 0,
                             [json.dumps({"input": each}, ensure_ascii=False) for each in probes])
        for answer in (whole, inside):
            if answer.get("allowed") != wanted:
                broken += 1
                print(f"{answer}, not {wanted} for {probes}\n{grammar}", file=sys.stderr)
    regex = program.ask("structural_tag", within_json(r'^[a-z"\n]+\d?$', "regex"), 0,
                        ['{"input": "a\\"\\nb1"}', '{"input": "a11"}', '{"input": "1"}'])
    if regex.get("allowed") != [True, False, False]:
        broken += 1
        print(f"a regular expression: {regex}", file=sys.stderr)
    return broken


def check_refusals(program):
    broken = 0
    for grammar, reason in REFUSED.items():
        answer = program.ask("grammar", grammar, 1)
        if reason not in answer.get("refused", ""):
            broken += 1
            print(f"{grammar!r}: {answer}, not {reason!r}", file=sys.stderr)
    return broken


def main():
    try:
        import lark
    except ImportError:
        print("skipped: python3-lark is not installed", file=sys.stderr)
        return SKIPPED
    program = Program(sys.argv[1])
    count = int(sys.argv[2])
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    broken = check_probes(program) + check_refusals(program)
    ended = 0
    for name, grammar in KNOWN.items():
        # Texts that end soon enough for the judge.
        grammar = grammar.replace("/(.+)/", "/(.{1,4})/").replace("/(.*)/", "/(.{1,4})/?")
        taken = check(lark, program, name, grammar, 30)
        if not taken:
            broken += 1
            print(f"{name}: no output that Lark took", file=sys.stderr)
    for number in range(count):
        grammar = random_grammar(rng)
        try:
            judge_of(lark, grammar)
        except lark.exceptions.GrammarError:  # it has rules that are the same twice, and such
            continue
        taken = check(lark, program, f"grammar {number}", grammar, 4)
        broken += taken is None
        ended += taken or 0
    print(f"{count} random grammars, {ended} outputs that ended, {broken} faults")
    return 1 if broken or ended < count else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Writes jinja_cases.jsonl: template snippets and the output of Python's Jinja2.

    /usr/bin/python3 tests/common/text/make_jinja_cases.py > tests/common/text/jinja_cases.jsonl

Each line is {"template", "context" (a key of CONTEXTS, first line), "rendered"} or {..., "error": the exception}. The
snippets are those of jinja_snippets.py and random ones. The environment is the one in which Hugging Face renders chat
templates. Needs Debian's python3-jinja2.
"""

import datetime
import json
import random
import sys

import jinja2
import jinja2.ext
import jinja2.nodes

import jinja_snippets as snippets

NOW = datetime.datetime(2026, 11, 20, 12, 0)


class Generation(jinja2.ext.Extension):
    """Hugging Face's tag around the assistant's text: its body is rendered."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def checked_range(*args):
        made = range(*args)
        if len(made) > 100000:
            raise OverflowError("range too big")
        return made

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    env.globals["range"] = checked_range
    return env


def case(env, template, context):
    out = {"template": template, "context": context}
    try:
        # A copy through JSON, because templates may change their input.
        text = env.from_string(template).render(**json.loads(json.dumps(snippets.CONTEXTS[context])))
        text.encode("utf-8")
        out["rendered"] = text
    except Exception as error:  # any exception of Python means that the template fails
        out["error"] = f"{type(error).__name__}: {error}"
    return out


def pieces(block):
    """The snippets of a block: one for each {{ … }} of a line without anything else, otherwise the line."""
    for line in block.strip("\n").replace("\\\n", "\\\\NEWLINE").split("\n"):
        yield line.replace("\\\\NEWLINE", "\\\n")


class Generator:
    """Random expressions: mostly well-typed, so that most render."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *options):
        return self.random.choice(options)

    def number(self, depth):
        if depth <= 0:
            return self.pick("n", "m", "z", "x", "1", "2", "3.5", "10", "t", "l[0]", "l|length", "d.a", "d['C']")
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.pick(
            f"({a} + {b})", f"({a} - {b})", f"{a} * {b}", f"({a} / {b})", f"({a} // {b})", f"({a} % {b})", f"-{a}",
            f"({a})|abs", f"({a})|int", f"({a})|float", f"({a})|round(1)", f"({self.string(depth - 1)})|length",
            f"({a} if {self.boolean(depth - 1)} else {b})", f"({self.list(depth - 1)})|length",
            f"([{a}, {b}]|max)", f"([{a}, {b}]|min)", f"([{a}, {b}]|sum)", f"({self.string(depth - 1)}).find('o')", f"({a}) ** 2")

    def string(self, depth):
        if depth <= 0:
            return self.pick("s", "e", "u", "ws", "html", "'a'", "'x y'", "\"q'\"", "words[0]", "people[0].name", "lines")
        a, b = self.string(depth - 1), self.string(depth - 1)
        i, j = self.random.randint(-4, 6), self.random.randint(-4, 6)
        return self.pick(
            f"({a} ~ {b})", f"({a} + {b})", f"({a})|upper", f"({a})|title", f"({a})|trim", f"({a})[{i}:{j}]", f"({a})[{i}:]",
            f"({a})[::{self.pick(-1, 2, -2, 3)}]", f"({a}).replace('a', {b})", f"({a}).strip()", f"({a})|replace('o', '0')",
            f"({self.list(depth - 1)})|join({b})", f"({self.number(depth - 1)})|string", f"({a})|tojson", f"({a})|e",
            f"({self.list(depth - 1)})|string", f"({a} if {self.boolean(depth - 1)} else {b})", f"({a})|indent(2)",
            f"({a}).split('o')|last", f"({a})|capitalize", f"({a})|reverse", f"({a}).lower()", f"({a})|default({b}, true)",
            f"({self.list(depth - 1)})|tojson", f"'%s:%s' % ({a}, {self.number(depth - 1)})", f"({a})|center(9)")

    def list(self, depth):
        if depth <= 0:
            return self.pick("l", "el", "words", "mix", "[1, 'a']", "range(4)|list", "d|list", "d.items()|list", "nested")
        a, b = self.list(depth - 1), self.list(depth - 1)
        i, j = self.random.randint(-4, 6), self.random.randint(-4, 6)
        return self.pick(
            f"({a} + {b})", f"({a})[{i}:{j}]", f"({a})[::{self.pick(-1, 2, -2)}]", f"({a})|reverse|list", f"({a})|select|list",
            f"({a})|reject('string')|list", f"({a})|map('string')|list", f"({a})|map('string')|sort", f"({a}) * 2",
            f"[{self.string(depth - 1)}, {self.number(depth - 1)}]", f"({self.string(depth - 1)}).split()",
            f"({self.string(depth - 1)})|list", f"({a})|map('string')|unique|list", f"({a})|batch(2)|list",
            f"({self.string(depth - 1)}).split('a', 1)", f"({a} if {self.boolean(depth - 1)} else {b})",
            f"[{self.number(depth - 1)}, {self.number(depth - 1)}]|sort", f"({self.string(depth - 1)}).splitlines()")

    def boolean(self, depth):
        if depth <= 0:
            return self.pick("t", "f", "z", "n", "s", "e", "missing", "none", "el", "l", "d", "people[0].nope")
        a, b = self.boolean(depth - 1), self.boolean(depth - 1)
        p, q = self.number(depth - 1), self.number(depth - 1)
        return self.pick(
            f"({a} and {b})", f"({a} or {b})", f"(not {a})", f"({p} < {q})", f"({p} >= {q})", f"({p} == {q})",
            f"({p} in {self.list(depth - 1)})", f"({self.string(depth - 1)} in {self.string(depth - 1)})",
            f"(({a}) is defined)", f"(({a}) is string)", f"({self.string(depth - 1)}).startswith('a')",
            f"({self.list(depth - 1)} == {self.list(depth - 1)})", f"({self.string(depth - 1)} < {self.string(depth - 1)})",
            f"(({self.number(depth - 1)}) is odd)", f"(({a}) is none)", f"({p} < {q} <= {p})", f"(({a}) is iterable)")

    def template(self):
        depth = self.random.randint(1, 4)
        make = self.pick(self.number, self.string, self.list, self.boolean)
        inner = make(depth)
        return self.pick(
            f"{{{{ {inner} }}}}", f"{{% if {inner} %}}yes{{% else %}}no{{% endif %}}",
            f"{{% for v in {self.list(depth)} %}}{{{{ loop.index }}}}{{{{ v }}}}{{{{ ',' if not loop.last }}}}{{% endfor %}}",
            f"{{% set v = {inner} %}}{{{{ v }}}}{{{{ v is string }}}}", f"{{{{ {self.string(depth)} ~ ({inner}) }}}}")


def has_large_integer(text):
    """Python's integers have no limit, ours have 64 bits."""
    digits = "".join(c if c.isdigit() else " " for c in text).split()
    return any(len(d) > 18 for d in digits)


def random_cases(env, seed, count):
    generator = Generator(seed)
    made = 0
    while made < count:
        out = case(env, generator.template(), "data")
        if len(out.get("rendered", "")) > 600 or has_large_integer(out.get("rendered", "")):
            continue
        made += 1
        yield out


def all_cases(env):
    for block in (snippets.OUTPUT, snippets.OPERATORS, snippets.FILTERS, snippets.TESTS, snippets.METHODS):
        for line in pieces(block):
            yield case(env, line, "data")
            # Also one by one, so that one difference does not hide another.
            parts = [part for part in line.replace("}} {{", "}}\0{{").replace("}}|{{", "}}\0{{").split("\0") if part.strip()]
            if len(parts) > 1 and all(part.startswith("{{") for part in parts):
                for part in parts:
                    yield case(env, part, "data")
    for block in (snippets.OPERATOR_ERRORS, snippets.SYNTAX_ERRORS, snippets.FILTER_ERRORS, snippets.TEST_ERRORS,
                  snippets.METHOD_ERRORS):
        for line in block.strip("\n").split("\n"):
            for part in line.split(" || "):
                yield case(env, part, "data")
    for template in snippets.WHITESPACE:
        yield case(env, template, "data")
    for template in snippets.STATEMENTS:
        yield case(env, template, "chat" if "messages" in template or "_token" in template or "tools" in template
                   or "nothing" in template else "data")
    yield from random_cases(env, 20261120, 600)


def main():
    env = environment()
    print(json.dumps({"contexts": snippets.CONTEXTS}, ensure_ascii=False))
    seen = set()
    for out in all_cases(env):
        key = (out["template"], out["context"])
        if key not in seen:
            seen.add(key)
            print(json.dumps(out, ensure_ascii=False))
    print(f"{len(seen)} cases of Jinja2 {jinja2.__version__}", file=sys.stderr)


if __name__ == "__main__":
    main()

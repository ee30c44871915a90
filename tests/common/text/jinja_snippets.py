"""Template snippets for make_jinja_cases.py, and the contexts in which they are rendered.

A line of a block is rendered as a whole, and each {{ … }} in it alone. In blocks of errors || stands between snippets.
"""

CONTEXTS = {
    "empty": {},
    "chat": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi <b>&</b> \"you\" it's é👋"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "function": {"name": "f", "arguments": {"a": 1, "b": [1.5, None, True]}}}]},
            {"role": "tool", "content": "42", "name": "f"},
            {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]},
        ],
        "tools": [{"type": "function", "function": {
            "name": "get_weather", "description": "Weather", "parameters": {
                "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}},
                "required": ["city"]}}}],
        "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "nothing": None,
    },
    "data": {
        "n": 7, "m": -3, "z": 0, "x": 2.5, "big": 1e16, "small": 1e-05, "t": True, "f": False, "none": None,
        "s": "Hello World", "e": "", "u": "Straße ÄÖ 日本 👋", "ws": "  a\tb \n", "lines": "a\nb\r\nc\n\nd",
        "l": [3, 1, 2], "el": [], "nested": [[1, 2], [3, [4, 5]]], "words": ["b", "A", "c", "B", "a"],
        "d": {"b": 1, "a": 2, "C": 3}, "ed": {}, "mix": [0, 1, "", "a", None, [], [0], 1.5, True, False],
        "people": [{"name": "Ann", "age": 30, "city": {"zip": 1}}, {"name": "bob", "age": 25, "city": {"zip": 2}},
                   {"name": "Cid", "age": 30, "city": {"zip": 1}, "items": 5}],
        "odd": {"items": 1, "keys": 2, "get": 3, "x y": 4, "0": 5},
        "html": "<a href=\"x\">'&</a>",
    },
}

OUTPUT = """
{{ none }}|{{ t }}|{{ f }}|{{ n }}|{{ x }}|{{ s }}|{{ missing }}|
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789012345.6 }} {{ 1e-4 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 100.0 }} {{ 1e22 }} {{ 1.5e300 }}
{{ big }} {{ small }} {{ -0.0 }} {{ 5e-324 }} {{ 2.5e-7 }} {{ 1e100 }}
{{ l }} {{ el }} {{ d }} {{ ed }} {{ nested }} {{ mix }}
{{ (1,) }} {{ (1, 2) }} {{ () }} {{ 1, 2 }} {{ [1, 'a', "b'c", 'd"e', 'f\\'g"h'] }}
{{ ['a\\nb', 'tab\\t', 'back\\\\', '\\x00\\x1f', 'é👋', '\\u00a0\\u200b', '\\x7f'] }}
{{ {'a': none, 1: true, 2.5: 'x', none: 0} }}
{{ people[0] }}
{{ [missing] }}
{{ u }} {{ [u] }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }}
{{ range(3) }} {{ range(1, 5) }}
{{ 'a' 'b' "c" }} {{ '\\101\\x41\\u0041\\U00000041' }} {{ 'a\\qb' }} {{ 'x\\
y' }}
{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5_0 }} {{ 1e3 }} {{ 1E+2 }} {{ 12.5e-1 }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}
{{ '\\u20ac' }} {{ "\\"q\\"" }} {{ '\\a\\b\\f\\v' }}
"""

OPERATORS = """
{{ 1 + 2 }} {{ 1 - 2 }} {{ 2 * 3 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 10 }}
{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 // -2 }} {{ 7 % -3 }} {{ -7 / 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ -7.5 // 2 }}
{{ 2 ** -1 }} {{ 2.0 ** 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ (-8) ** 2 }} {{ 0 ** 0 }} {{ 2 ** 0.5 }}
{{ 1 + 2.5 }} {{ true + true }} {{ true * 3 }} {{ 10 - true }} {{ -true }} {{ +5 }} {{ -x }} {{ +x }} {{ --3 }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'ab' * 0 }} {{ 'ab' * -1 }} {{ [1] + [2] }} {{ [1, 2] * 2 }} {{ (1,) + (2,) }} {{ (1,) * 2 }}
{{ 1 ~ 2 }} {{ 'a' ~ 1 ~ none ~ 1.5 ~ true ~ [1] }} {{ missing ~ 'x' }} {{ 1 ~ 2 + 3 }} {{ 1 + 2 ~ 3 }} {{ 2 * 3 ~ 4 }}
{{ 1 < 2 }} {{ 2 <= 2 }} {{ 3 > 2 }} {{ 3 >= 4 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ 'a' != 'b' }} {{ none == none }} {{ none == false }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1 == 1 }} {{ 3 > 2 > 1 }} {{ 1 < 2 == true }} {{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ (1, 2) == (1, 2) }} {{ [1, 2] == (1, 2) }}
{{ [1, [2, {'a': 3}]] == [1, [2, {'a': 3.0}]] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ {'a': 1} == {'a': 2} }}
{{ 1 in [1, 2] }} {{ 3 not in [1, 2] }} {{ 'a' in 'cat' }} {{ '' in 'x' }} {{ 'a' in {'a': 1} }} {{ 1 in {'a': 1} }} {{ 1.0 in [1] }} {{ 2 in range(3) }} {{ 'b' in ('a', 'b') }} {{ 1 in {1.0: 2} }}
{{ missing in [1] }} {{ 1 in missing }} {{ missing == missing2 }} {{ missing != 1 }} {{ missing == none }} {{ not missing }} {{ missing in {} }}
{{ true and false }} {{ true or false }} {{ 0 or 'x' }} {{ 1 and 'x' }} {{ '' or none }} {{ not 1 }} {{ not '' }} {{ not not 2 }} {{ 0 and missing.x }} {{ 1 or missing.x }}
{{ 1 if true else 2 }} {{ 1 if false else 2 }} {{ 1 if false }} {{ 'a' if 0 else 'b' if 0 else 'c' }} {{ (1 if true else 2) + 1 }} {{ 1 if 0 else (2 if 0) }}
{{ not 1 == 2 }} {{ not (1 == 1) }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 10 - 2 - 3 }} {{ 2 * 3 % 4 }} {{ 100 // 7 // 2 }}
{{ -1|abs }} {{ (-1)|abs }} {{ 1.5|int + 1 }} {{ '3'|int * 2 }} {{ -n|abs }} {{ 2 ** 2|float }}
{{ 'x: %s' % 1 }} {{ '%s-%s' % (1, 'a') }} {{ '%d%%' % 50 }} {{ '%05d|%-5d|%+d' % (42, 42, 42) }} {{ '%.2f|%8.3f|%e' % (3.14159, 2.5, 12345.678) }} {{ '%r %s' % ('a', none) }} {{ '%x %X %o' % (255, 255, 8) }} {{ '%5s|%-5s|%.2s' % ('ab', 'ab', 'abcdef') }} {{ '%(a)s %(b)d' % {'a': 1, 'b': 2} }} {{ '%c%c' % (65, 'b') }} {{ '%g %g' % (0.0001, 1e20) }} {{ '%s' % [1, 2] }} {{ '%i' % 3.9 }}
{{ l[0] }} {{ l[-1] }} {{ l[5] }} {{ s[0] }} {{ s[-1] }} {{ u[4] }} {{ u[-1] }} {{ s[100] }} {{ nested[1][1][0] }} {{ nested.1.1.0 }} {{ l.0 }} {{ (1, 2, 3)[1] }} {{ range(5)[2] }}
{{ l[:2] }} {{ l[1:] }} {{ l[::-1] }} {{ l[::2] }} {{ l[-2:] }} {{ l[:-1] }} {{ l[10:] }} {{ l[:10] }} {{ l[2:1] }} {{ l[None:None] }} {{ l[:] }} {{ l[::-2] }} {{ l[5::-1] }} {{ l[-10:2] }} {{ l[1:100:7] }}
{{ s[:5] }} {{ s[6:] }} {{ s[::-1] }} {{ s[-5:-1] }} {{ u[1:4] }} {{ u[::2] }} {{ u[-2:] }} {{ u[:3] }} {{ (1, 2, 3)[1:] }} {{ range(10)[2:5]|list }} {{ range(10)[::3]|list }} {{ s[:true] }}
{{ d.a }} {{ d['a'] }} {{ d.nope }} {{ d['nope'] }} {{ d['a' ~ ''] }} {{ people[0].city.zip }} {{ odd['x y'] }} {{ odd['0'] }} {{ odd[0] }} {{ {1: 'a', true: 'b'}[1.0] }} {{ {'a': {'b': 1}}.a.b }}
{{ odd.items is callable }} {{ odd['items'] }} {{ odd.get('get') }} {{ people[2]['items'] }} {{ people[0]['items'] is callable }} {{ d.get is callable }} {{ s.upper is callable }}
{{ n.foo }} {{ none.foo }} {{ s.foo }} {{ l.foo }} {{ l['x'] }} {{ n[0] }} {{ none[0] }} {{ x['y'] }} {{ t.a }} {{ d[[1]] }}
{{ d.a.b is defined }} {{ missing is defined }} {{ d.x is undefined }} {{ d.x.y is defined if d.x is defined else 'no' }}
{{ l[n - 7] }} {{ l[z] }} {{ d[words[4]] }} {{ l[true] }} {{ s[l[1]] }}
{{ [1, 2, ] }} {{ {'a': 1, } }} {{ (1, ) }} {{ [] }} {{ {} }} {{ [[]] }} {{ {'a': [1, {'b': ()}]} }}
{{ 1 is divisibleby 1 and 2 is even }} {{ not 1 is odd }} {{ 1 is not odd }} {{ 3 is odd or missing.x }}
"""

OPERATOR_ERRORS = """
{{ 1 + 'a' }} || {{ 'a' + 1 }} || {{ 'a' + none }} || {{ [1] + (1,) }} || {{ none + 1 }} || {{ 1 - 'a' }} || {{ 'a' * 'b' }} || {{ 'a' * 1.5 }}
{{ 1 / 0 }} || {{ 1 // 0 }} || {{ 1 % 0 }} || {{ 1.5 / 0 }} || {{ 1.0 % 0 }} || {{ 0 ** -1 }} || {{ {} + {} }} || {{ -'a' }} || {{ -none }} || {{ +[] }}
{{ 1 < 'a' }} || {{ none < 1 }} || {{ [] < 1 }} || {{ {} < {} }} || {{ 'a' > none }} || {{ [1] < ['a'] }} || {{ missing < 1 }} || {{ 1 < missing }}
{{ 1 in 'a' }} || {{ 1 in 1 }} || {{ 1 in none }} || {{ [] in {} }} || {{ none in 'abc' }} || {{ missing in 'abc' }}
{{ missing.x }} || {{ missing['x'] }} || {{ missing() }} || {{ missing + 1 }} || {{ 1 + missing }} || {{ missing.a.b }} || {{ -missing }} || {{ d.x.y }} || {{ none.x.y }} || {{ missing[0] }} || {{ missing[1:] }} || {{ 'a' + missing }} || {{ missing * 2 }}
{{ l[::0] }} || {{ l['a':] }} || {{ d[1:] }} || {{ n[1:] }} || {{ none[:n] }} || {{ s['a':'b'] }}
{{ n() }} || {{ s() }} || {{ l() }} || {{ none() }} || {{ d.nope() }} || {{ s.nope() }} || {{ 'a'.upper.lower() }}
{{ '%d' % 'a' }} || {{ '%s %s' % 1 }} || {{ '%s' % (1, 2) }} || {{ '%q' % 1 }} || {{ '%' % 1 }} || {{ '%(a)s' % {} }} || {{ '%(a)s' % 1 }} || {{ 'x' % 1 }} || {{ '%f' % 'a' }} || {{ '%d' % none }}
{{ {[]: 1} }} || {{ {{}: 1} }} || {{ raise_exception('boom') }} || {{ 1 if raise_exception('x') else 2 }} || {{ 10 ** 400 * 1.0 }}
{{ x|nofilter }} || {{ x is notest }} || {% if false %}{{ 1|nofilter }}{% endif %}ok || {{ l|map('nofilter')|list }} || {{ l|select('notest')|list }}
"""

SYNTAX_ERRORS = """
{{ || {{ 1 || {{ 1 + }} || {{ (1 }} || {{ 1) }} || {{ [1 }} || {{ {1} }} || {{ }} || {% %} || {% if %}{% endif %} || {% if 1 %} || {% endif %} || {% for %}{% endfor %} || {% for x in %}{% endfor %} || {% for x %}{% endfor %}
{% set %} || {% set x %} || {% set x = %} || {% set 1 = 2 %} || {% set x.y.z = 1 %} || {% set true = 1 %} || {% unknown %} || {% else %} || {% elif 1 %} || {% endfor %} || {% macro %}{% endmacro %} || {% macro m %}{% endmacro %} || {% macro m( %}{% endmacro %}
{{ 'abc }} || {{ "abc }} || {{ 1 2 }} || {{ a b }} || {{ . }} || {{ a. }} || {{ a[ }} || {{ a[] }} || {{ a| }} || {{ a is }} || {{ a is not }} || {{ $ }} || {{ a ! b }} || {{ ? }} || {{ a := 1 }} || {{ 'a' is string is string }}
{# open || {% raw %}x || {% raw %}{% endra %} || {% if 1 %}{% else %}{% else %}{% endif %} || {% if 1 %}{% endfor %} || {% for x in l %}{% endif %} || {% break %} || {% continue %} || {% macro m(a=1, b) %}{% endmacro %} || {% call %}{% endcall %} || {% filter %}{% endfilter %}
{{ f(a=1, 2) }} || {{ f(**a, **b) }} || {{ f(*a, *b) }} || {{ [1,,2] }} || {{ {'a' 1} }} || {{ {'a':} }} || {{ (,) }} || {{ 1 if }} || {{ 1 if else 2 }} || {{ not }} || {{ and }} || {{ 1 == }} || {{ x.1y }} || {% extends 'a' %} || {% include 'a' %} || {% from 'a' import b %} || {{ 01 }}
"""

WHITESPACE = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "a\n  {% if true %}\n  b\n  {% endif %}\n  c",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\n  c",
    "a\n  {%+ if true +%}\n  b\n  {%+ endif +%}\n  c",
    "x {% if true %} y {% endif %} z",
    "  {% if true %}x{% endif %}  \n  y",
    "\n\n  {% set a = 1 %}\n\n{{ a }}\n\n",
    "a {# c #} b\n{# c #}\nd\n  {# c #}  \ne",
    "a {#- c -#} b\n{#- c #}\nd\n  {# c -#}  \ne",
    "a {#+ c +#} b\n  {#+ c +#}\nd",
    "{{ 1 }}\n{{ 2 }}\n",
    "{{- 1 -}}\n{{- 2 -}}\n x",
    "a  {{- 1 }}  b  {{ 2 -}}  c",
    "a  {{+ 1 }}  b",
    "  {{ 1 }}  ",
    "a\t\n \t{% if 1 %}\t\nb{% endif %}",
    "{% raw %}{{ x }}{% if %}{% endraw %}z",
    "a\n  {% raw %}\n {{ x }}\n  {% endraw %}\n b",
    "a\n  {%- raw -%}\n {{ x }}\n  {%- endraw -%}\n b",
    "a {% raw %} {# x #} {% endraw %} b",
    "{% raw -%}  x  {%- endraw %}",
    "{% raw %}{% raw %}{% endraw %}",
    "a\r\nb\r{{ 'c\r\nd' }}\r\n",
    "a\n",
    "a\n\n",
    "\n",
    "",
    "   ",
    "{% for i in [1, 2] %}\n  {{ i }}\n{% endfor %}\nend",
    "{% for i in [1, 2] -%}\n  {{ i }}\n{%- endfor %}\nend",
    "{%- for i in [1, 2] %}\n\n  {{- i }}\n\n{% endfor -%}\n\nend",
    "{% if true %}{{ 1 }}{% endif %}\n{% if true %}{{ 2 }}{% endif %}\n3",
    "x\u00a0\n\u00a0{%- if true %}\u2003y{% endif %}",
    "x\n\u00a0{% if true %}y{% endif %}",
    "{{ '}}' }} {{ '%}' }} {{ \"{{\" }} {% set x = '%}' %}{{ x }}",
    "{{ {'a': {'b': 1}} }} {{ {'a': {'b': 1}}['a']['b']}}",
    "{ {{ 1 }} } {% if 1 %}{ { }{% endif %} %} }} #}",
    "{{1}}{{2}}{%if 1%}{{3}}{%endif%}",
    "{%if\n1\n%}a{%endif\n%}b",
    "{{ 1\n+\n2 }}",
    "{#\n multi\n line\n#}\nx",
    "{# {{ x }} {% if %} #}y",
    "{#- -#}  z",
    "{##}x{#-#}y",
    "  {#- a #}  {%- if 1 %}  b  {%- endif %}",
    "a{% if 1 %}\n\n\nb{% endif %}\n\n\nc",
    "a\n\n\n   {%- if 1 %}b{% endif %}",
    "line1\n    {% set x = 1 %}{% set y = 2 %}\nline2",
    "    {% set x = 1 %} {{ x }}",
    "{{ x }}  \n  {% if 1 %}a{% endif %}",
]

STATEMENTS = [
    "{% set x = 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}",
    "{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}", "{% set a, = [1] %}{{ a }}", "{% set x = 1, 2 %}{{ x }}",
    "{% set a, b = 'xy' %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set a, b = [1, 2, 3] %}", "{% set a, b = 1 %}",
    "{% set a, b = missing %}{{ a }}",
    "{% set x %}a{{ 1 }}b{% endset %}{{ x }}|{{ x|length }}", "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x | upper | replace('B', '-') %}abc{% endset %}{{ x }}", "{% set x %}{% endset %}[{{ x }}]",
    "{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{% set ns.b = 'x' %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}",
    "{% set ns = namespace() %}{% for i in [1, 2, 3] %}{% set ns.x = i %}{% endfor %}{{ ns.x }}",
    "{% set d = {} %}{% set d.x = 1 %}", "{% set missing.x = 1 %}", "{% set n.x = 1 %}",
    "{% set ns = namespace(l=[]) %}{% set _ = ns.l.append(1) %}{{ ns.l }}",
    "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in [1, 2, 3] %}{{ x }}{% set x = i %}{{ x }};{% endfor %}{{ x }}",
    "{% for i in [1, 2] %}{% set n = i %}{{ n }}{% endfor %}{{ n }}",
    "{% if n == 7 %}a{% elif n == 8 %}b{% else %}c{% endif %}", "{% if z %}a{% elif n %}b{% else %}c{% endif %}",
    "{% if z %}a{% elif e %}b{% else %}c{% endif %}", "{% if z %}a{% endif %}", "{% if 1, 2 %}t{% endif %}", "{% if missing %}a{% else %}b{% endif %}",
    "{% for x in l %}{{ x }}{% endfor %}", "{% for x in el %}{{ x }}{% else %}empty{% endfor %}", "{% for x in l %}{{ x }}{% else %}empty{% endfor %}",
    "{% for x in s %}{{ x }},{% endfor %}", "{% for x in u %}{{ x }},{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}", "{% for x in missing %}{{ x }}{% else %}e{% endfor %}", "{% for x in none %}{{ x }}{% endfor %}", "{% for x in n %}{% endfor %}",
    "{% for a, b in nested %}{{ a }}{{ b }};{% endfor %}", "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in l %}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}-{{ loop.nextitem }};{% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "{% for x in range(5) %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }};{% endfor %}", "{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.revindex }};{% endfor %}",
    "{% for x in range(10) if x is odd %}{{ x }}{{ ',' if not loop.last }}{% endfor %}",
    "{% set ns = namespace(go=true) %}{% for x in range(5) if ns.go %}{{ x }}{% if x == 2 %}{% set ns.go = false %}{% endif %}{% endfor %}",
    "{% for x in range(5) %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in range(5) %}{% if x is odd %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in range(3) %}{% for y in range(3) %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }};{% endfor %}{% endfor %}", "{% for x in l %}{% break %}{% else %}e{% endfor %}",
    "{% for x in range(2) %}{% for y in range(2) %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in range(2) %}{% set outer = loop %}{% for y in range(2) %}{{ outer.index }}{{ loop.index }};{% endfor %}{% endfor %}",
    "{% for x in nested recursive %}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}{% endif %}{% endfor %}",
    "{% for x in nested recursive %}{{ loop.depth }}{% if x is iterable %}[{{ loop(x) }}]{% endif %}{% endfor %}", "{% for x in l %}{{ loop(l) }}{% endfor %}",
    "{% for x in [1, 2] %}{{ x }}{% endfor %}{{ x }}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in l|sort %}{{ x }}{% endfor %}",
    "{% for x in (l if t else el) %}{{ x }}{% endfor %}", "{% for x in l + [9] %}{{ x }}{% endfor %}", "{% for x in x %}{{ x }}{% endfor %}", "{% for l in l %}{{ l }}{% endfor %}{{ l }}",
    "{{ loop }}", "{{ loop is defined }}", "{% for x in l|map('string') %}{{ x ~ loop.last }}{% endfor %}", "{% for x in l|select('odd') %}{{ loop.length }}{{ x }}{% endfor %}",
    "{% for x in l %}{{ loop.nope is defined }}{% endfor %}", "{% for x in l %}{{ loop.nope.x }}{% endfor %}",
    "{% set l2 = [1] %}{% for x in l2 %}{{ x }}{% if x < 4 %}{% set _ = l2.append(x + 1) %}{% endif %}{% endfor %}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}", "{% macro m() %}x{% endmacro %}{{ m() ~ m() }}{{ m()|upper }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m() }}", "{% macro m(a=n, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}{{ m(1) }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}",
    "{% macro m(a) %}{% if a > 0 %}{{ a }}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro m() %}{{ y }}{% endmacro %}{% set y = 1 %}{{ m() }}{% set y = 2 %}{{ m() }}", "{% macro m() %}{% set y = 1 %}{{ y }}{% endmacro %}{{ m() }}{{ y is defined }}", "{% macro m(x) %}{% set x = x + 1 %}{{ x }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{{ n }}{% endcall %}", "{% macro m() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b) m() %}{{ a }}-{{ b }}{% endcall %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}", "{% macro m(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(v) m([1, 2]) %}<{{ v }}>{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{% for i in range(3) %}{{ i }}{% endfor %}{% endmacro %}{{ m() }}", "{% for i in range(2) %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m(x) %}{% if x %}{% set r = 'a' %}{% else %}{% set r = 'b' %}{% endif %}{{ r }}{% endmacro %}{{ m(1) }}{{ m(0) }}",
    "{% macro m(x=[]) %}{{ x }}{% endmacro %}{{ m() }}{{ m([1]) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(*[5], **{'b': 6}) }}", "{% macro m() %}{% endmacro %}{{ m.name }}[{{ m() }}]",
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aXa{% endfilter %}", "{% filter trim %}  x  {% endfilter %}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}", "{% generation %}x{{ n }}{% endgeneration %}y", "{% if true %}{% generation %}a{% endgeneration %}{% endif %}",
    "{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{% set j = joiner() %}{{ j() }}{{ j() }}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}",
    "{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ dict([('a', 1)]) }}", "{{ range(5)|list }}{{ range(2, 5)|list }}{{ range(5, 0, -2)|list }}{{ range(0)|list }}{{ range(5)|length }}", "{{ range(1, 2, 0) }}", "{{ range('a') }}",
    "{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%B %d, %Y') }} {{ strftime_now('%H:%M:%S') }} {{ strftime_now('%A %a %b %j') }} {{ strftime_now('') }}x {{ strftime_now('%d %b %Y %%') }} {{ strftime_now('%f') }} {{ strftime_now('%-d %e %I %p %y') }}",
    "{{ namespace(a=1).a }}", "{{ namespace is callable }}{{ range is callable }}", "{% set x = namespace %}{% set y = x(a=2) %}{{ y.a }}", "{% set f = s.upper %}{{ f() }}", "{% set up = 'abc'.replace %}{{ up('a', 'b') }}",
    "{% set x = [] %}{% set _ = x.append(1) %}{% set y = x %}{% set _ = y.append(2) %}{{ x }}", "{% set x = {} %}{% set _ = x.update({'a': 1}) %}{% set _ = x.update(b=2) %}{{ x }}",
    "{% set x = [3, 1, 2] %}{{ x.sort() }}{{ x }}{{ x.reverse() }}{{ x }}{{ x.pop() }}{{ x.pop(0) }}{{ x }}{{ x.insert(0, 'z') }}{{ x }}{{ x.extend([1, 2]) }}{{ x }}{{ x.remove(1) }}{{ x }}{{ x.index('z') }}{{ x.count(2) }}{{ x.copy() }}{{ x.clear() }}{{ x }}",
    "{% set x = {'a': 1, 'b': 2} %}{{ x.pop('a') }}{{ x }}{{ x.pop('q', 9) }}{{ x.setdefault('c', 3) }}{{ x.setdefault('b', 4) }}{{ x }}{{ x.get('zz') }}{{ x.get('zz', 5) }}{{ x.keys()|list }}{{ x.values()|list }}{{ x.items()|list }}{{ x.copy() }}{{ x.clear() }}{{ x }}",
    "{{ [].pop() }}", "{{ {}.pop('a') }}", "{{ [1].pop(5) }}", "{{ [1].remove(2) }}", "{{ [1].index(2) }}", "{{ (1, 2, 1).count(1) }}{{ (1, 2).index(2) }}", "{{ [1].append() }}", "{{ [1].append(1, 2) }}", "{{ 'a'.upper(1) }}",
    "{% if 'a' is defined %}x{% endif %}", "{% set x = 5 %}{% set x = x + 1 %}{{ x }}", "{% set y = n + 1 %}{{ y }}{{ n }}", "{% set n = n + 1 %}{{ n }}", "{{ n }}{% set n = 99 %}{{ n }}",
    "{% for m in messages %}{{ m.role }}:{{ m.content if m.content is string else (m.content|tojson) }}\n{% endfor %}",
    "{% for m in messages if m.role != 'system' %}{{ m.role }}{{ loop.index0 }}{% endfor %}", "{{ messages[0]['content'] }}{{ messages[-1].content[0].text }}{{ messages|length }}{{ messages[1:]|length }}",
    "{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments|tojson }}){% endfor %}{% endif %}{% endfor %}",
    "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] | trim }}{% elif m['content'] is iterable %}{% for p in m['content'] %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}",
    "{{ tools|tojson }}{{ tools|tojson(indent=2) }}", "{{ bos_token + 'x' + eos_token }}", "{{ nothing }}{{ nothing is none }}{{ nothing.x }}", "{{ messages|map(attribute='role')|join(',') }}", "{{ (messages|selectattr('role', 'equalto', 'user')|list)[-1].content }}",
    "{{ messages|rejectattr('role', 'in', ['system', 'tool'])|map(attribute='role')|list }}", "{{ messages|selectattr('tool_calls', 'defined')|list|length }}", "{{ messages|selectattr('content')|list|length }}", "{% set last = messages|last %}{{ last.role }}",
    "{%- for param, fields in tools[0].function.parameters.properties|items -%}{{ param }}:{{ fields.type }};{%- endfor -%}", "{% for k in tools[0].function.parameters.properties.keys() %}{{ k }}{% endfor %}",
    "{% set content = messages[0].content %}{% if '</think>' in content %}{{ content.split('</think>')[-1].lstrip('\\n') }}{% else %}{{ content }}{% endif %}",
    "{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ sys }}{{ rest|length }}",
    "{% macro f(x, depth=0) %}{% if x is mapping %}{ {% for k, v in x.items() %}{{ k }}: {{ f(v, depth + 1) }}{{ ', ' if not loop.last }}{% endfor %} }{% elif x is sequence and x is not string %}[{% for v in x %}{{ f(v, depth + 1) }}{% endfor %}]{% else %}{{ x }}{% endif %}{% endmacro %}{{ f(tools) }}",
]

FILTERS = """
{{ 'aBc'|upper }} {{ 'aBc'|lower }} {{ 'aBc dEF'|capitalize }} {{ "hello wORLD it's o-k (a) [b] 1st"|title }} {{ u|upper }} {{ u|lower }} {{ u|title }} {{ 5|upper }} {{ none|lower }} {{ missing|upper }}
{{ ws|trim }}| {{ 'xxaxx'|trim('x') }} {{ '  a  '|trim ~ '|' }} {{ 5|trim }} {{ missing|trim }} {{ '\\u00a0a\\u2003'|trim }}| {{ ws|trim|length }}
{{ 'aaa'|replace('a', 'b') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'abc'|replace('', '-') }} {{ 5|replace('5', '6') }} {{ 'a1'|replace(1, 2) }} {{ missing|replace('a', 'b') }}x
{{ l|length }} {{ s|length }} {{ u|length }} {{ d|length }} {{ el|count }} {{ missing|length }} {{ (1, 2)|length }} {{ d.items()|length }} {{ range(4)|length }} {{ ''|length }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ s|last }} {{ u|last }} {{ d|first }} {{ d|last }} {{ el|first }} {{ el|last }} {{ el|first is defined }} {{ ''|first }} {{ missing|first }} {{ l|select('odd')|first }} {{ (1, 2)|last }} {{ range(3)|last }}
{{ l|join }} {{ l|join(', ') }} {{ people|join(', ', attribute='name') }} {{ 'abc'|join('-') }} {{ missing|join('x') }} {{ mix|join('|') }} {{ el|join(',') }} {{ l|join(1) }} {{ d|join(',') }} {{ [missing, 1]|join('-') }}
{{ 'abc'|list }} {{ d|list }} {{ d.items()|list }} {{ missing|list }} {{ (1, 2)|list }} {{ l|map('string')|list }} {{ range(3)|list }} {{ u|list }}
{{ 'abc'|reverse }} {{ l|reverse|list }} {{ u|reverse }} {{ d|reverse|list }} {{ missing|reverse|list }} {{ (1, 2)|reverse|join }} {{ range(3)|reverse|list }} {{ l|map('string')|reverse|list }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }} {{ people|sort(attribute='age,name')|map(attribute='name')|list }} {{ people|sort(attribute='name', reverse=true)|map(attribute='name')|list }} {{ people|sort(attribute='city.zip')|map(attribute='name')|list }} {{ d|sort }} {{ 'bca'|sort }} {{ missing|sort }} {{ [1.5, 1, true]|sort }} {{ [[2, 1], [1, 2]]|sort }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(false, 'value') }} {{ d|dictsort(reverse=true) }} {{ ed|dictsort }} {{ d|dictsort(by='value', reverse=true) }}
{{ words|unique|list }} {{ words|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }} {{ 'aAb'|unique|list }} {{ missing|unique|list }}
{{ l|min }} {{ l|max }} {{ words|min }} {{ words|max }} {{ words|max(true) }} {{ el|min }} {{ people|max(attribute='age') }} {{ people|min(attribute='name') }} {{ 'bca'|max }} {{ [1.5, 1]|min }} {{ el|max is defined }}
{{ l|sum }} {{ l|sum(start=10) }} {{ people|sum(attribute='age') }} {{ el|sum }} {{ [1.5, 2]|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ [true, true]|sum }} {{ missing|sum }}
{{ l|map('string')|list }} {{ words|map('upper')|join }} {{ people|map(attribute='name')|list }} {{ people|map(attribute='nope')|list }} {{ people|map(attribute='nope', default='x')|list }} {{ people|map(attribute='city.zip')|list }} {{ nested|map(attribute=0)|list }} {{ nested|map('first')|list }} {{ words|map('replace', 'a', 'z')|list }} {{ el|map('upper')|list }} {{ missing|map('upper')|list }} {{ none|map('upper')|list }} {{ l|map('default', 1)|list }} {{ nested|map('join', '-')|list }} {{ words|map('indent', width=2, first=true)|list }}
{{ mix|select|list }} {{ mix|reject|list }} {{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ l|select('greaterthan', 1)|list }} {{ l|select('>', 1)|list }} {{ mix|select('string')|list }} {{ mix|select('none')|list }} {{ l|select('in', [1, 2])|list }} {{ l|select('divisibleby', 3)|list }} {{ missing|select('odd')|list }} {{ none|reject|list }} {{ mix|select('number')|list }} {{ 'a1b2'|select('in', '12')|join }}
{{ people|selectattr('age', 'eq', 30)|map(attribute='name')|list }} {{ people|rejectattr('age', '==', 30)|map(attribute='name')|list }} {{ people|selectattr('nope')|list }} {{ people|selectattr('nope', 'defined')|list }} {{ people|rejectattr('nope', 'defined')|list|length }} {{ people|selectattr('city.zip', 'ne', 1)|map(attribute='name')|list }} {{ people|selectattr('name', 'lower')|map(attribute='name')|list }} {{ people|selectattr('age', 'lt', 30)|list|length }} {{ nested|selectattr(0, 'eq', 1)|list }}
{{ d|items|list }} {{ ed|items|list }} {{ missing|items|list }} {{ people[0]|items|list }}
{{ missing|default('x') }} {{ none|default('x') }} {{ none|default('x', true) }} {{ ''|d('x', true) }} {{ z|default(5, boolean=true) }} {{ n|default(1) }} {{ missing|default }}| {{ d.x|default(d.a) }} {{ missing|default(none) }} {{ false|d(1) }}
{{ '42'|int }} {{ '42.9'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 3.9|int }} {{ -3.9|int }} {{ true|int }} {{ none|int }} {{ ''|int }} {{ '  5 '|int }} {{ '0x1A'|int(0, 16) }} {{ '1A'|int(base=16) }} {{ '101'|int(0, 2) }} {{ '-7'|int }} {{ '+7'|int }} {{ '1_000'|int }} {{ [1]|int }} {{ '1e3'|int }} {{ 'nan'|int }} {{ '--5'|int }} {{ '0b11'|int(0, 2) }} {{ '1__0'|int(9) }}
{{ '1.5'|float }} {{ 'x'|float }} {{ 'x'|float(2.5) }} {{ 3|float }} {{ none|float }} {{ '1e3'|float }} {{ ' 2 '|float }} {{ 'inf'|float }} {{ 'nan'|float }} {{ true|float }} {{ '-1.5'|float }} {{ '.5'|float }} {{ '5.'|float }} {{ '1_0.5'|float }} {{ '-inf'|float }} {{ 'infinity'|float }} {{ '0x10'|float }}
{{ -5|abs }} {{ (-2.5)|abs }} {{ true|abs }} {{ 5|abs }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.5|round(0, 'ceil') }} {{ 2.5|round(0, 'floor') }} {{ 2.123|round(1, 'ceil') }} {{ 5|round }} {{ -2.5|round }} {{ 1234.5|round(-2) }} {{ 1234|round(-2) }} {{ 0.125|round(2) }} {{ 2.675|round(2) }} {{ 42.55|round|int }} {{ 7|round(1, 'floor') }} {{ 1.005|round(2) }} {{ true|round }}
{{ 5|string }} {{ none|string }} {{ l|string }} {{ 1.0|string }} {{ missing|string }} {{ (5|string) + 'a' }} {{ d|string|length }}
{{ html|e }} {{ html|escape }} {{ html|safe }} {{ html|e|e }} {{ html|forceescape }} {{ (html|e)|forceescape }} {{ 5|e }} {{ (html|safe)|e }} {{ '<'|e ~ '<' }} {{ ('<'|safe) + '<' }} {{ '<' + ('<'|safe) }} {{ ('<'|safe) ~ '<' }} {{ [html|e] }} {{ ['<', '<'|safe]|join('<'|safe) }} {{ html|safe|upper }} {{ ('a'|safe) * 2 }} {{ ('<b>'|safe)[0] + '<' }} {{ 'x'|e is escaped }} {{ 'x' is escaped }}
{{ 'a\\nb\\n\\nc'|indent }} {{ 'a\\nb'|indent(2) }} {{ 'a\\nb'|indent(2, true) }} {{ 'a\\n\\nb'|indent(2, blank=true) }} {{ 'a\\nb'|indent('>>') }} {{ 'a'|indent }} {{ ''|indent(2, true) }} {{ 'a\\n'|indent(2) }}| {{ 'a\\r\\nb'|indent(1) }} {{ lines|indent(width=3, first=true) }} {{ 'a\\nb'|indent(0) }}
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'foobar'|truncate(3, true, '', 0) }} {{ 'foobar baz'|truncate(5, false, '.', 0) }} {{ 'short'|truncate }}
{{ 'a b  c-d é_1'|wordcount }} {{ ''|wordcount }} {{ s|wordcount }}
{{ 'ab'|center(6) }}| {{ 'ab'|center(5) }}| {{ 'abc'|center(6) }}| {{ 'abc'|center(2) }}| {{ 'x'|center|length }}
{{ '%s=%d'|format('a', 5) }} {{ '%(x)s'|format(x=1) }} {{ 'x'|format }} {{ '%s'|format(none) }}
{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ range(6)|batch(3)|list }} {{ el|batch(2)|list }} {{ l|slice(2)|list }} {{ l|slice(2, 'x')|list }} {{ range(7)|slice(3)|list }} {{ el|slice(2)|list }}
{{ people|groupby('age')|map('first')|list }} {% for k, v in people|groupby('age') %}{{ k }}:{{ v|map(attribute='name')|join('+') }};{% endfor %} {% for k, v in people|groupby('city.zip') %}{{ k }}{{ v|length }}{% endfor %} {% for k, v in people|groupby('items', default=0) %}{{ k }}{{ v|length }};{% endfor %}
{{ d|attr('nope') }} {{ l|first|string|length }} {{ s|lower|title|replace(' ', '')|length }}
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ none|tojson }} {{ true|tojson }} {{ 1.0|tojson }} {{ 1e20|tojson }} {{ u|tojson }} {{ html|tojson }} {{ mix|tojson }} {{ nested|tojson }} {{ {'a': (1, 2)}|tojson }} {{ '\\u2028\\x7f\\x00\\x1f\\b\\f\\/'|tojson }} {{ {1: 1, none: 2, true: 3, 2.5: 4}|tojson }} {{ []|tojson }} {{ {}|tojson }} {{ 'inf'|float|tojson }} {{ 'nan'|float|tojson }}
{{ d|tojson(indent=2) }} {{ nested|tojson(indent=1) }} {{ {'a': [], 'b': {}, 'c': [1]}|tojson(indent=4) }} {{ d|tojson(indent='\\t') }} {{ l|tojson(indent=0) }} {{ d|tojson(indent=none) }}
{{ u|tojson(ensure_ascii=true) }} {{ d|tojson(sort_keys=true) }} {{ d|tojson(separators=(',', ':')) }} {{ d|tojson(separators=(',', ':'), indent=1) }} {{ u|tojson(true) }} {{ {'b': {'z': 1, 'y': 2}, 'a': 0}|tojson(sort_keys=true) }} {{ people|tojson }}
"""

FILTER_ERRORS = """
{{ 5|length }} || {{ none|length }} || {{ l|select('odd')|length }} || {{ 5|list }} || {{ none|list }} || {{ none|join }} || {{ 5|first }} || {{ 5|last }} || {{ none|sort }} || {{ mix|sort }} || {{ [1, 'a']|sort }} || {{ [{}, {}]|sort }} || {{ mix|max }} || {{ people|sort }}
{{ missing|int }} || {{ missing|float }} || {{ missing|abs }} || {{ missing|round }} || {{ 'a'|abs }} || {{ none|abs }} || {{ 'a'|round }} || {{ 1.5|round(0, 'x') }} || {{ missing|dictsort }} || {{ l|dictsort }} || {{ d|dictsort(by='x') }} || {{ mix|sum }} || {{ words|sum }}
{{ missing|tojson }} || {{ [missing]|tojson }} || {{ range(3)|tojson }} || {{ l|map('string')|tojson }} || {{ d.items()|tojson }} || {{ namespace()|tojson }} || {{ {(1, 2): 3}|tojson }} || {{ {1: 2, 'a': 3}|tojson(sort_keys=true) }} || {{ d|tojson(nope=1) }}
{{ l|join(',', 'a', 'b') }} || {{ 'a'|upper(1) }} || {{ 'a'|replace('a') }} || {{ l|map|list }} || {{ l|selectattr|list }} || {{ l|map('string', 'x')|list }} || {{ l|items|list }} || {{ 5|items|list }} || {{ l|batch }} || {{ 5|indent }} || {{ [[], []]|unique|list }} || {{ [{}]|unique|list }}
{{ 'x'|int(base='y') }} || {{ l|map('upper', attribute='x')|list }} || {{ 5|map('string')|list }} || {{ 5|select|list }} || {{ '%d'|format('x') }} || {{ l|reverse|length }} || {{ missing|map(attribute='x')|length }} || {{ l|map(attribute='x', nope=1)|list }} || {{ missing|indent }}
{{ [1, none]|sum }} || {{ people|map(attribute='city.zip.x.y')|list }} || {{ [none, 1]|sort }} || {{ '5'|round }} || {{ l|tojson(indent=1.5) }} || {{ 'a'|default(1, 2, 3) }} || {{ range(200000)|length }} || {{ 1.5|e|int|nofilter }}
"""

TESTS = """
{{ missing is defined }} {{ n is defined }} {{ none is defined }} {{ missing is undefined }} {{ d.x is not defined }} {{ d.a is defined }}
{{ none is none }} {{ n is none }} {{ missing is none }} {{ nothing is none }} {{ false is none }}
{{ s is string }} {{ n is string }} {{ none is string }} {{ l is string }} {{ missing is string }} {{ html|e is string }} {{ ('a'|safe) is string }}
{{ d is mapping }} {{ l is mapping }} {{ s is mapping }} {{ namespace() is mapping }} {{ missing is mapping }}
{{ l is iterable }} {{ s is iterable }} {{ d is iterable }} {{ n is iterable }} {{ none is iterable }} {{ missing is iterable }} {{ range(3) is iterable }} {{ d.items() is iterable }} {{ l|map('string') is iterable }} {{ namespace() is iterable }} {{ true is iterable }}
{{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ none is sequence }} {{ missing is sequence }} {{ range(3) is sequence }} {{ d.items() is sequence }} {{ l|map('string') is sequence }} {{ (1, 2) is sequence }} {{ d.keys() is sequence }}
{{ n is number }} {{ x is number }} {{ t is number }} {{ s is number }} {{ none is number }} {{ n is integer }} {{ x is integer }} {{ t is integer }} {{ 1.0 is integer }} {{ x is float }} {{ n is float }} {{ t is float }}
{{ t is boolean }} {{ n is boolean }} {{ 0 is boolean }} {{ t is true }} {{ 1 is true }} {{ f is false }} {{ 0 is false }} {{ none is false }} {{ t is not true }}
{{ 3 is odd }} {{ 2 is even }} {{ -3 is odd }} {{ 0 is even }} {{ 2.0 is even }} {{ true is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 7.5 is divisibleby 2.5 }}
{{ 1 is sameas 1 }} {{ t is sameas true }} {{ 1 is sameas true }} {{ none is sameas none }} {{ l is sameas l }} {{ [] is sameas [] }} {{ d is sameas d }}
{{ 1 is eq 1 }} {{ 1 is equalto 1.0 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is le 1 }} {{ 2 is gt 1 }} {{ 2 is ge 3 }} {{ 2 is greaterthan 1 }} {{ 1 is lessthan 2 }} {{ 'a' is eq 'a' }} {{ 1 is in [1] }} {{ 'a' is in 'abc' }} {{ 5 is not in [1] }} {{ 'k' is in {'k': 1} }}
{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'aBc' is lower }} {{ '1' is lower }} {{ '' is upper }} {{ 5 is lower }} {{ u is lower }} {{ 'é1' is lower }}
{{ s.upper is callable }} {{ n is callable }} {{ range is callable }} {{ missing is callable }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'nope' is test }} {{ 'x' is test }}
{{ n is defined and n > 5 }} {{ not n is none }} {{ n is not none and s is string }} {{ 1 if n is defined else 2 }} {{ (n is number) == true }} {{ n is number == true }} {{ n is odd + 1 }} {{ [n is odd, s is string] }}
"""

TEST_ERRORS = """
{{ 'a' is odd }} || {{ none is even }} || {{ missing is odd }} || {{ 1 is divisibleby 0 }} || {{ 1 is divisibleby }} || {{ 1 is lt 'a' }} || {{ 1 is in 5 }} || {{ 1 is sameas }} || {{ 1 is odd(2) }} || {{ n is defined(1) }} || {{ [] is divisibleby 2 }} || {{ 1 is in missing.x }}
"""

METHODS = """
{{ ws.strip() }}|{{ ws.lstrip() }}|{{ ws.rstrip() }}|{{ 'xyaxy'.strip('xy') }}|{{ 'xya'.lstrip('x') }}|{{ 'ayx'.rstrip('x') }}|{{ 'a'.strip(none) }}|{{ 'éaé'.strip('é') }}|{{ '\\n\\n a'.lstrip('\\n') }}|{{ '\\u3000a\\x1c'.strip() }}|
{{ 'a b  c'.split() }} {{ ' a  b '.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.split(none, 1) }} {{ 'a b c '.split(maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('') if false }} {{ 'a--b--c'.split('--') }} {{ 'a b'.split(' ', 0) }} {{ ' a b '.split(none, 0) }} {{ 'a</think>b'.split('</think>')[-1] }} {{ 'aXbX'.split('X') }} {{ 'a b'.split(sep=' ') }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.rsplit() }} {{ 'a b c'.rsplit(none, 1) }} {{ ' a  b  c '.rsplit(none, 1) }} {{ 'a,b,c'.rsplit(',') }} {{ ' a '.rsplit(none, 0) }} {{ ''.rsplit() }} {{ 'a b c'.rsplit(' ', 2) }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\\x0bb\\x0cc\\x1cd\\u2028e\\x85f'.splitlines() }} {{ ''.splitlines() }} {{ '\\n'.splitlines() }} {{ 'a\\n\\n'.splitlines() }}
{{ s.startswith('He') }} {{ s.startswith('x') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('ld') }} {{ s.endswith(('a', 'd')) }} {{ s.startswith('World', 6) }} {{ s.endswith('Hello', 0, 5) }} {{ ''.startswith('') }} {{ s.startswith('') }} {{ s.startswith(()) }}
{{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'ab'.replace('', '.') }} {{ 'ab'.replace('', '.', 2) }} {{ 'aaa'.replace('aa', 'b') }} {{ 'abc'.replace('x', 'y') }} {{ 'abc'.replace('a', 'b', 0) }} {{ ''.replace('', 'x') }} {{ 'aaa'.replace('a', '', -1) }}
{{ s.upper() }} {{ s.lower() }} {{ 'hello wORLD'.capitalize() }} {{ "they're bill's x1y".title() }} {{ s.swapcase() }} {{ u.upper() }} {{ u.lower() }} {{ 'ß'.upper() }} {{ 'ßa'.capitalize() }} {{ 'ÉCOLE'.capitalize() }} {{ 'ÀB'.casefold() }} {{ 'Ünï x'.swapcase() }} {{ 'жук'.title() }} {{ ''.title() }}
{{ s.find('o') }} {{ s.find('zz') }} {{ s.rfind('o') }} {{ s.find('o', 5) }} {{ s.find('o', 5, 6) }} {{ u.find('日') }} {{ u.rfind('👋') }} {{ s.index('W') }} {{ s.rindex('l') }} {{ s.find('') }} {{ s.find('', 11) }} {{ s.find('', 12) }} {{ s.find('H', -20) }} {{ s.find('l', -3) }}
{{ s.count('l') }} {{ s.count('') }} {{ 'aaa'.count('aa') }} {{ u.count('ß') }} {{ s.count('l', 4) }} {{ 'x'.count('y') }}
{{ ','.join(['a', 'b']) }} {{ ''.join([]) }} {{ '-'.join('abc') }} {{ ', '.join(d) }} {{ ','.join(words|map('upper')) }} {{ '|'.join(('x', 'y')) }}
{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=5) }} {{ '{{}} {}'.format(1) }} {{ '}}'.format() }} {{ ''.format() }} {{ '{}'.format(none) }} {{ '{}'.format(1.0) }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalpha() }} {{ ''.isalpha() }} {{ '123'.isdigit() }} {{ '1.5'.isdigit() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ 'ab1'.isalnum() }} {{ 'a b'.isalnum() }} {{ ' \\t'.isspace() }} {{ ''.isspace() }} {{ 'abc'.islower() }} {{ 'ABC'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'abc'.isascii() }} {{ 'é'.isascii() }} {{ ''.isascii() }} {{ 'a\\n'.isprintable() }} {{ 'é'.isprintable() }} {{ '日本'.isalpha() }} {{ '٣'.isdigit() }}
{{ 'ab'.center(6) }}| {{ 'ab'.center(5, '*') }}| {{ 'abc'.center(6, '-') }}| {{ 'ab'.ljust(5) }}| {{ 'ab'.rjust(5, '.') }}| {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ '+1'.zfill(4) }} {{ 'é'.center(4, '日') }}| {{ 'abc'.zfill(2) }}
{{ 'a-b-c'.partition('-') }} {{ 'abc'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.rpartition('-') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removeprefix('x') }} {{ 'abc'.removesuffix('bc') }} {{ 'abc'.removesuffix('') }}
{{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.get('a') }} {{ d.get('x') }} {{ d.get('x', 5) }} {{ d.get(1) }} {{ 'a' in d.keys() }} {{ 1 in d.values() }} {{ d.items()|first }} {{ d.copy() == d }} {{ d.get('x', {}).get('y') }} {{ d.keys()|join(',') }} {{ d.items()|length }}
{{ l.index(1) }} {{ l.count(3) }} {{ l.copy() }} {{ [1, 2].copy() + [3] }}
"""

METHOD_ERRORS = """
{{ 'a'.split('') }} || {{ 'a'.index('b') }} || {{ 'a'.join([1]) }} || {{ 'a'.join(5) }} || {{ 'a'.startswith(1) }} || {{ 'a'.startswith([]) }} || {{ 'a'.replace('a') }} || {{ 'a'.replace(1, 2) }} || {{ 'a'.strip(1) }} || {{ 'a'.center('x') }} || {{ 'a'.center(5, 'xx') }} || {{ 'a'.find(1) }} || {{ 'a'.nope() }} || {{ 'a'.partition('') }}
{{ '{} {}'.format(1) }} || {{ '{x}'.format(y=1) }} || {{ '{'.format(1) }} || {{ '}'.format(1) }} || {{ l.index(99) }} || {{ l.append }}{{ l.nope() }} || {{ d.get() }} || {{ d.get(1, 2, 3) }} || {{ d.items(1) }} || {{ d.nope() }} || {{ n.upper() }} || {{ none.strip() }} || {{ (1, 2).append(3) }} || {{ odd.items.x.y }} || {{ 'a'.count() }} || {{ [].append() }} || {{ 'a'.splitlines(1, 2) }}
"""

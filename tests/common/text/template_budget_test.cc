// Hostile templates: each costs more than its limit, and is stopped by the limit that it exceeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/text/jinja/parse/parser.h"
#include "tests/common/text/jinja_support.h"

namespace roost {
namespace {

using testing_support::RenderTemplate;
using testing_support::StoredDate;

std::string FailureOf(std::string_view source, const RenderOptions& options = StoredDate()) {
  const Result<std::string> text = RenderTemplate(source, "{}", options);
  return text.ok() ? "rendered " + std::to_string(text->size()) + " bytes" : text.error().message;
}

std::string Repeat(std::string_view unit, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += unit;
  return out;
}

struct Hostile {
  const char* name;
  const char* source;
  const char* said;  // part of the error
};

class HostileTemplateTest : public testing::TestWithParam<Hostile> {};

TEST_P(HostileTemplateTest, IsStopped) {
  RenderOptions options = StoredDate();
  options.limits.steps = 2'000'000;
  options.limits.value_bytes = 64U << 20U;
  EXPECT_THAT(FailureOf(GetParam().source, options), testing::HasSubstr(GetParam().said));
}

constexpr Hostile kHostile[] = {
    {"MacroRecursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested more than"},
    {"MutualRecursion", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
     "nested more than"},
    {"CallerRecursion",
     "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}{% endcall %}",
     "nested more than"},
    {"RecursiveLoop", "{% set l = [1] %}{% for x in l recursive %}{{ loop(l) }}{% endfor %}", "nested more than"},
    {"LongRange", "{% for i in range(1000000000000) %}{% endfor %}", "range() has more than"},
    {"RangeOfExtremes", "{{ range(-9223372036854775807, 9223372036854775807)|length }}", "range() has more than"},
    {"NestedLoops",
     "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}"
     "{% endfor %}",
     "steps"},
    {"ListThatGrowsWhileRead", "{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}", "more than"},
    {"StringMultiplied", "{{ 'a' * 10**9 }}", "grows over"},
    {"StringMultipliedByExtreme", "{{ 'ab' * 9223372036854775807 }}", "grows over"},
    {"StringDoubled", "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
     "grows over"},
    {"StringDoubledByTilde",
     "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "grows over"},
    {"StringsKept", "{% set l = [] %}{% for i in range(9999) %}{% set _ = l.append('x' * 1000000) %}{% endfor %}",
     "bytes of values"},
    {"ListMultiplied", "{{ [1] * 10**12 }}", "steps"},
    {"ListDoubled", "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
     "more than"},
    {"SharedTreeWritten",
     "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
     "steps"},
    {"SharedTreeAsJson",
     "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
     "{{ ns.l|tojson }}",
     "steps"},
    {"SharedTreesCompared",
     "{% set a = namespace(l=[1]) %}{% for i in range(60) %}{% set a.l = [a.l, a.l] %}{% endfor %}"
     "{% set b = namespace(l=[1]) %}{% for i in range(60) %}{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
     "steps"},
    {"ContainersNested", "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
     "nested more than"},
    {"DictsNested", "{% set ns = namespace(l={}) %}{% for i in range(9999) %}{% set ns.l = {'a': ns.l} %}{% endfor %}",
     "nested more than"},
    {"Output", "{% for i in range(9999) %}{{ 'x' * 100000 }}{% endfor %}", "grows over"},
    {"ReplaceMultiplies", "{{ ('a' * 100000).replace('a', 'b' * 100000) }}", "grows over"},
    {"ReplaceOfNothing", "{{ ('a' * 100000).replace('', 'b' * 100000) }}", "grows over"},
    {"JoinMultiplies", "{{ (range(99999)|list)|join('x' * 1000000) }}", "grows over"},
    {"CenterPads", "{{ 'a'.center(10**15) }}", "grows over"},
    {"ZeroFill", "{{ '1'.zfill(10**15) }}", "grows over"},
    {"FormatPads", "{{ '%999999999d' % 1 }}", "width"},
    {"IndentPads", "{{ 'a'|indent(10**9, true) }}", "indent()"},
    {"JsonIndentPads", "{{ [[1]]|tojson(indent=10**9) }}", "tojson()"},
    {"DatePads", "{{ strftime_now('%999999999d') }}", "strftime_now()"},
    {"BatchFills", "{{ [1]|batch(10**12, 'x')|list }}", "bytes of values"},
    {"SliceFills", "{{ [1]|slice(10**12)|list }}", "steps"},
    {"LongTextsCompared",
     "{% set a = 'x' * 8000000 %}{% set b = 'x' * 8000000 %}{% for i in range(9999) %}{{ '' if a == b }}{% endfor %}",
     "steps"},
    {"LongTextsOrdered",
     "{% set a = 'x' * 8000000 %}{% set b = 'x' * 8000000 %}{% for i in range(9999) %}{{ '' if a < b }}{% endfor %}",
     "steps"},
    {"LongTextsTested", "{% set a = 'x' * 8000000 %}{% for i in range(9999) %}{{ '' if a.isdigit() }}{% endfor %}",
     "steps"},
    {"LongTextsMeasured", "{% set a = 'x' * 8000000 %}{% for i in range(9999) %}{{ '' if a|length }}{% endfor %}",
     "steps"},
    {"LongTextsSearched",
     "{% set a = 'x' * 8000000 %}{% set b = 'x' * 4000000 ~ 'y' %}{% for i in range(9999) %}{{ '' if b in a }}"
     "{% endfor %}",
     "steps"},
    {"LongTextsSearchedBackward", "{{ ('x' * 8000000).rfind('y' ~ 'x' * 4000000) }}", "steps"},
    {"LongTextsAsKeys",
     "{% set a = 'x' * 8000000 %}{% set d = {'x' * 8000000: 1} %}{% for i in range(9999) %}{{ '' if d[a] }}{% endfor "
     "%}",
     "steps"},
    {"OutputOfNestedMacros",
     "{% set s = 'x' * 8000000 %}{% macro m(n) %}{{ s }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
     "bytes of values"},
    {"TextOfNestedBlocks",
     "{% macro m(n) %}{% for i in range(1000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor "
     "%}"
     "{% for i in range(99) %}{{ m(n) }}{% endfor %}{% endmacro %}{{ m(1) }}",
     "nested more than"},
    {"LongNamesOfArguments",
     "{% set l = [] %}{% set d = {'x' * 4000000: 1} %}{% macro m() %}{% set _ = l.append(kwargs) %}{% endmacro %}"
     "{% for i in range(9999) %}{{ m(**d) }}{% endfor %}",
     "bytes of values"},
    {"LongTextsQuotedAndDropped", "{% set s = 'x' * 8000000 %}{% for i in range(9999) %}{{ '%.0r' % s }}{% endfor %}",
     "steps"},
    {"LongTextsCopiedAndDropped", "{% set s = 'x' * 8000000 %}{% for i in range(9999) %}{{ '%.0s' % s }}{% endfor %}",
     "steps"},
    {"LongTextsInReasons",
     "{% set s = 'x' * 8000000 %}{% set l = [] %}{% for i in range(9999) %}{% set _ = l.append([1][[s]]) %}{% endfor "
     "%}",
     "steps"},
    {"LongArgumentsOfMap", "{% set s = 'x' * 8000000 %}{{ (range(9999)|map('replace', 'a', s)|list)|length }}",
     "steps"},
    {"LongArgumentsOfSelect", "{% set s = 'x' * 8000000 %}{{ (range(9999)|select('equalto', s)|list)|length }}",
     "steps"},
    {"LongKeysOfDicts",
     "{% set s = 'x' * 4000000 %}{% for i in range(9999) %}{% set d = {s: 1, s: 2, s: 3, s: 4, s: 5} %}{% endfor %}",
     "steps"},
    {"LongTextsCapitalized", "{% set s = 'x' * 8000000 %}{% for i in range(9999) %}{% set _ = s|title %}{% endfor %}",
     "steps"},
    {"WordsOfLongTexts", "{% set s = 'x' * 8000000 %}{% for i in range(9999) %}{% set _ = s|wordcount %}{% endfor %}",
     "steps"},
    {"IntegerPower", "{{ 10 ** 10 ** 10 }}", "64 bits"},
    {"IntegerMinimum", "{{ (0 - 9223372036854775807 - 1) // -1 }}", "64 bits"},
};

INSTANTIATE_TEST_SUITE_P(All, HostileTemplateTest, testing::ValuesIn(kHostile),
                         [](const auto& hostile) { return std::string(hostile.param.name); });

// It would take hours if searching cost the product of the lengths.
TEST(TemplateBudgetTest, SearchingIsLinear) {
  EXPECT_EQ(FailureOf("{{ ('x' * 4000000 ~ 'y').strip('z' * 4000000 ~ 'xy') }}"), "rendered 0 bytes");
  EXPECT_EQ(FailureOf("{{ ('x' * 8000000).replace('x' * 4000000 ~ 'y', '')|length }}"), "rendered 7 bytes");
  EXPECT_EQ(FailureOf("{{ ('x' * 8000000).count('x' * 4000000 ~ 'y') }}"), "rendered 1 bytes");
  EXPECT_EQ(FailureOf("{{ ('x' * 8000000).split('x' * 4000000 ~ 'y')|length }}"), "rendered 1 bytes");
}

TEST(TemplateBudgetTest, NumbersOfManyDigitGroupsAreReadOnce) {
  EXPECT_EQ(FailureOf("{{ ('0_' * 2000000 ~ '1')|int }}"), "rendered 1 bytes");
  EXPECT_EQ(FailureOf("{{ ('0_' * 2000000 ~ '1.5')|float }}"), "rendered 3 bytes");
}

// A copy of a dict shares its keys, however long they are.
TEST(TemplateBudgetTest, CopiesOfDictsShareLongKeys) {
  const std::string entries =
      "{'a':1,'b':1,'c':1,'d':1,'e':1,'f':1,'g':1,'h':1,'i':1,'j':1,'k':1,'l':1,'m':1,'n':1,"
      "'o':1,'p':1,'q':1, s: 2}";
  EXPECT_EQ(FailureOf("{% set s = 'x' * 8000000 %}{% set l = [] %}{% set d = " + entries +
                      " %}{% for i in range(9999) %}{% set _ = l.append(d.copy()) %}{% endfor %}{{ l[9000][s] }}"),
            "rendered 1 bytes");
}

TEST(TemplateBudgetTest, ErrorsQuoteTheBeginningOfALongText) {
  const std::string said = FailureOf("{{ raise_exception('é' * 1000000) }}");
  EXPECT_LT(said.size(), 5000U);
  EXPECT_THAT(said, testing::EndsWith("é"));
  EXPECT_LT(FailureOf("{{ {}['x' * 1000000].y }}").size(), 1000U);
}

TEST(TemplateBudgetTest, LongChainsOfOwnObjectsAreFreed) {
  // Each round wraps the previous value in something that has no nesting depth of its own.
  for (const char* link : {"[ns.x].append", "namespace(x=ns.x)", "cycler(ns.x)", "joiner(ns.x)"}) {
    const std::string source =
        "{% set ns = namespace(x=1) %}{% for i in range(50000) %}{% set ns.x = " + std::string(link) +
        " %}{% endfor %}done";
    EXPECT_EQ(FailureOf(source), "rendered 4 bytes") << link;
  }
  EXPECT_EQ(FailureOf("{% set ns = namespace(x=[]) %}{% for i in range(50000) %}{% set l = [] %}"
                      "{% set _ = ns.x.append(l) %}{% set ns.x = l %}{% endfor %}done"),
            "rendered 4 bytes");
}

TEST(TemplateBudgetTest, EveryBudgetEndsARenderAtAnyPoint) {
  const std::string source =
      "{% macro m(x) %}{{ x|upper }}{% endmacro %}{% for v in ['a', 'b'] %}{{ m(v) }}{{ [v, {'k': v}]|tojson }}"
      "{% set w %}{{ loop.index }}{% endset %}{{ w }}{% endfor %}";
  const std::string whole = RenderTemplate(source).value();
  int stopped = 0;
  for (std::uint64_t steps = 0; steps < 200; ++steps) {
    RenderOptions options = StoredDate();
    options.limits.steps = steps;
    const Result<std::string> text = RenderTemplate(source, "{}", options);
    if (text.ok()) {
      EXPECT_EQ(*text, whole);
      continue;
    }
    ++stopped;
    EXPECT_THAT(text.error().message, testing::HasSubstr("steps"));
  }
  EXPECT_GT(stopped, 30);
  EXPECT_LT(stopped, 200);
}

TEST(TemplateBudgetTest, DeepTemplatesAreRefused) {
  for (const std::string& source : {
           "{{ " + Repeat("(", 5'000) + "1" + Repeat(")", 5'000) + " }}",
           "{{ " + Repeat("[", 5'000) + Repeat("]", 5'000) + " }}",
           "{{ " + Repeat("not ", 50'000) + "1 }}",
           "{{ " + Repeat("- ", 50'000) + "1 }}",
           "{{ 1" + Repeat(" + 1", 50'000) + " }}",
           "{{ a" + Repeat(".a", 50'000) + " }}",
           "{{ a" + Repeat("|e", 50'000) + " }}",
           "{{ a" + Repeat("()", 50'000) + " }}",
           "{{ a" + Repeat("[0]", 50'000) + " }}",
           "{{ 1" + Repeat(" if 1 else 1", 50'000) + " }}",
           "{{ 1" + Repeat(" if 1", 50'000) + " }}",
           "{{ 1" + Repeat(" is odd", 50'000) + " }}",
           "{{ 1" + Repeat(" and 1", 50'000) + " }}",
           Repeat("{% if 1 %}", 5'000) + Repeat("{% endif %}", 5'000),
           Repeat("{% for a in b %}", 5'000) + Repeat("{% endfor %}", 5'000),
           "{% set " + Repeat("(", 5'000) + "a" + Repeat(")", 5'000) + " = 1 %}",
       }) {
    const auto parsed = ChatTemplate::Parse(source, "deep");
    ASSERT_FALSE(parsed.ok()) << source.substr(0, 40);
  }
  const auto big = ChatTemplate::Parse(std::string(jinja::kMaxTemplateBytes + 1, 'x'), "big");
  ASSERT_FALSE(big.ok());
  EXPECT_THAT(big.error().message, testing::HasSubstr("1048576"));
  EXPECT_FALSE(ChatTemplate::Parse("a\xff", "bytes").ok());
}

TEST(TemplateBudgetTest, WideTemplatesAreFine) {
  EXPECT_EQ(FailureOf("{{ 'a'" + Repeat(" ~ 'a'", 5'000) + " }}"), "rendered 5001 bytes");
  EXPECT_EQ(FailureOf("{{ [" + Repeat("1,", 5'000) + "]|length }}"), "rendered 4 bytes");
  EXPECT_EQ(FailureOf("{% if 0 %}" + Repeat("{% elif 0 %}", 5'000) + "{% else %}ok{% endif %}"), "rendered 2 bytes");
  EXPECT_EQ(FailureOf("{{ 1" + Repeat(" + 1", 300) + " }}"), "rendered 3 bytes");
}

}  // namespace
}  // namespace roost

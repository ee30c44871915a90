// The interpreter against Python's Jinja2, feature by feature: jinja_cases.jsonl holds its answers, and
// make_jinja_cases.py makes the file. Then what Jinja2 can not judge: errors, input that stays unchanged, values from
// JSON.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/text/jinja_support.h"
#include "tests/support/source_dir.h"

namespace roost {
namespace {

using jinja::Value;
using testing_support::RenderTemplate;
using testing_support::StoredDate;

const Value& Field(const Value& object, std::string_view name) { return *object.AsDict().Find(name); }

TEST(JinjaTest, RendersEverySnippetAsPythonDoes) {
  std::ifstream file(std::string(testing_support::SourceDir()) + "/tests/common/text/jinja_cases.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const Value header = jinja::FromJson(line, "header").value();
  int rendered_count = 0;
  int error_count = 0;
  while (std::getline(file, line)) {
    const Value stored = jinja::FromJson(line, "case").value();
    const std::string& source = Field(stored, "template").AsString();
    SCOPED_TRACE(source);
    const Value& context = Field(Field(header, "contexts"), Field(stored, "context").AsString());
    const Result<std::string> text = RenderTemplate(source, context);
    if (const Value* expected = stored.AsDict().Find("rendered")) {
      ++rendered_count;
      EXPECT_EQ(text.ok() ? *text : text.error().ToString(), expected->AsString());
    } else {
      ++error_count;
      EXPECT_FALSE(text.ok()) << "rendered " << *text << " where Python raised " << Field(stored, "error").AsString();
    }
  }
  EXPECT_GE(rendered_count, 1500);
  EXPECT_GE(error_count, 250);
}

TEST(JinjaTest, ErrorsNameTemplateAndLine) {
  const Result<std::string> failed = RenderTemplate("a\n{{ 1 }}\n{{ missing.x }}\n{{ 2 }}");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "chat template test, line 3: 'missing' is undefined");
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  const Result<std::string> unparsed = RenderTemplate("a\n{% if %}");
  ASSERT_FALSE(unparsed.ok());
  EXPECT_EQ(unparsed.error().message, "chat template test: line 2: expected an expression, found '%}'");
}

TEST(JinjaTest, RaisedExceptionsKeepTheirWords) {
  const Result<std::string> raised = RenderTemplate("{{ raise_exception('roles must alternate') }}");
  ASSERT_FALSE(raised.ok());
  EXPECT_EQ(raised.error().message, "chat template test, line 1: roles must alternate");
}

TEST(JinjaTest, TemplatesCanNotChangeTheirInput) {
  const Value context = jinja::FromJson(R"({"l":[1],"d":{"a":[2]}})", "context").value();
  for (const char* source : {"{{ l.append(2) }}", "{{ l.pop() }}", "{{ d.update(x=1) }}", "{{ d.a.insert(0, 1) }}",
                             "{{ d.pop('a') }}", "{{ d.setdefault('q', 1) }}", "{{ l.sort() }}", "{{ d.clear() }}"}) {
    const Result<std::string> text = RenderTemplate(source, context);
    ASSERT_FALSE(text.ok()) << source;
    EXPECT_NE(text.error().message.find("may not change its input"), std::string::npos) << text.error().message;
  }
  EXPECT_EQ(RenderTemplate("{{ l }}{{ d }}", context).value(), "[1]{'a': [2]}");
  EXPECT_EQ(RenderTemplate("{% set own = l + [] %}{{ own.append(2) }}{{ own }}{{ l }}", context).value(),
            "None[1, 2][1]");
}

TEST(JinjaTest, NoInternalsCanBeReached) {
  for (const char* name : {"__class__", "__init__", "__globals__", "mro", "__subclasses__"}) {
    EXPECT_EQ(RenderTemplate("{{ ''." + std::string(name) + " is defined }}{{ [].__class__ is defined }}").value(),
              "FalseFalse");
    EXPECT_FALSE(RenderTemplate("{{ ''." + std::string(name) + ".x }}").ok());
  }
  EXPECT_FALSE(RenderTemplate("{{ range.__globals__.x }}").ok());
  EXPECT_FALSE(RenderTemplate("{{ open('/etc/passwd') }}").ok());
}

TEST(JinjaTest, ContainersThatHoldThemselvesAreFreedAndNotWritten) {
  EXPECT_EQ(RenderTemplate("{% set l = [] %}{% set _ = l.append(l) %}{{ l|length }}").value(), "1");
  EXPECT_FALSE(RenderTemplate("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}").ok());
  EXPECT_FALSE(RenderTemplate("{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}").ok());
  EXPECT_EQ(RenderTemplate("{% set a = [] %}{% set b = [a] %}{% set _ = a.append(b) %}{{ a == a }}").value(), "True");
  EXPECT_FALSE(RenderTemplate("{% set a = [] %}{% set _ = a.append(a) %}{% set b = [] %}{% set _ = b.append(b) %}"
                              "{{ a == b }}")
                   .ok());
  EXPECT_EQ(RenderTemplate("{% set d = {} %}{% set _ = d.update(me=d) %}{% set ns = namespace() %}"
                           "{% set ns.me = ns %}{% set ns.d = d %}{{ ns.me.me.d.me.me|length }}")
                .value(),
            "1");
}

TEST(JinjaTest, OneTemplateServesManyThreads) {
  const auto parsed = ChatTemplate::Parse(
                          "{% macro m(x) %}<{{ x }}>{% endmacro %}{% set ns = namespace(n=0) %}"
                          "{% for v in l %}{{ m(v.a) }}{% set ns.n = ns.n + loop.index %}{% endfor %}{{ ns.n }}",
                          "shared")
                          .value();
  const Value context = jinja::FromJson(R"({"l":[{"a":"x"},{"a":"y"},{"a":"z"}]})", "context").value();
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (std::size_t i = 0; i < right.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 200; ++k) {
        const Result<std::string> text = parsed->Render(context, StoredDate());
        if (text.ok() && *text == "<x><y><z>6") ++right[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 200));
}

TEST(JinjaTest, ContextsAreBuiltFromValuesToo) {
  jinja::Dict message;
  message.Set("role", Value::String("user"));
  message.Set("content", Value::String("Hi"));
  jinja::Dict context;
  context.Set("messages", Value::List({Value::Mapping(std::move(message))}));
  EXPECT_EQ(RenderTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}",
                           Value::Mapping(std::move(context)))
                .value(),
            "user: Hi");
}

TEST(JinjaTest, LocalTimeKnowsTheDay) {
  RenderOptions options;
  options.now = LocalTime(1'795'176'000);  // 2026-11-20 12:00 UTC; every zone has the year and month
  EXPECT_EQ(RenderTemplate("{{ strftime_now('%Y-%m') }}", "{}", options).value(), "2026-11");
}

TEST(JinjaJsonTest, KeepsOrderAndKindsOfNumbers) {
  const Value value = jinja::FromJson(R"({"z":1,"a":1.0,"m":-9223372036854775808,"e":1e3,"z":2})", "v").value();
  EXPECT_EQ(
      RenderTemplate("{{ v }}", std::string_view(R"({"v":{"z":1,"a":1.0,"m":-9223372036854775808,"z":2}})")).value(),
      "{'z': 2, 'a': 1.0, 'm': -9223372036854775808}");
  EXPECT_EQ(value.AsDict().entries().size(), 4U);
  EXPECT_TRUE(Field(value, "e").is(jinja::Kind::kFloat));
}

TEST(JinjaJsonTest, NumbersThatNoTypeHoldsAreWrittenAsTheyAre) {
  constexpr std::string_view kContext =
      R"({"v":[9223372036854775808,18446744073709551615,-123456789012345678901234567890,0.1000000000000000055511]})";
  EXPECT_EQ(
      RenderTemplate("{{ v }} {{ v[0] > 9 }} {{ v|tojson }}", kContext).value(),
      "[9223372036854775808, 18446744073709551615, -123456789012345678901234567890, 0.1000000000000000055511] True "
      "[9223372036854775808, 18446744073709551615, -123456789012345678901234567890, 0.1000000000000000055511]");
}

TEST(JinjaJsonTest, ErrorsNameThePath) {
  const auto message = [](std::string_view json) { return jinja::FromJson(json, "context").error().ToString(); };
  for (const char* bad : {"", "{", "[1,]", "{\"a\":}", "nul", "[1] x", "\"\\ud800\"", "\"\xff\"", "{\"a\" 1}"}) {
    EXPECT_EQ(message(bad).substr(0, 9), "context: ") << bad;
  }
}

TEST(JinjaJsonTest, DepthIsBounded) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + "1" + std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(jinja::FromJson(nested(jinja::kMaxJsonDepth), "v").ok());
  EXPECT_FALSE(jinja::FromJson(nested(jinja::kMaxJsonDepth + 1), "v").ok());
}

TEST(JinjaJsonTest, ManyKeysKeepTheirPlaces) {
  jinja::Dict dict;
  for (int i = 0; i < 1'000; ++i) dict.Set("k" + std::to_string(i), Value::Int(i));
  dict.Set("k500", Value::Int(-1));
  EXPECT_EQ(dict.entries().size(), 1'000U);
  EXPECT_EQ(dict.entries()[500].value.AsInt(), -1);
  EXPECT_EQ(dict.Find("k999")->AsInt(), 999);
  EXPECT_EQ(dict.Find("k1000"), nullptr);
  EXPECT_TRUE(dict.Remove(Value::String("k0")).has_value());
  EXPECT_EQ(dict.Find("k999")->AsInt(), 999);
  EXPECT_EQ(dict.Find("k0"), nullptr);
}

}  // namespace
}  // namespace roost

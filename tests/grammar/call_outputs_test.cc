// Outputs under the constraints of calls, read back by the families' parsers: every answer is what was asked for.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "common/base/utf8.h"
#include "router/api/tool_parsers/call_constraint.h"
#include "worker/grammar/grammar_library.h"

namespace roost::router {
namespace {

using worker::Automaton;
using worker::MaskWords;

enum class Markers : std::uint8_t { kText, kTokens };

// All bytes, some words, and each marker as one token: with a text of its own, or special and without a text.
struct Vocabulary {
  worker::TokenTexts texts{""};
  std::vector<std::string> written{""};  // each token in readable form
  std::vector<TokenId> marks;

  Vocabulary(OutputFamily family, Markers markers) {
    for (int byte = 1; byte < 256; ++byte) Add(std::string(1, static_cast<char>(byte)));
    for (const char* text : {"\n\n", "name", "\": ", "\", \"", "arguments", "{\"", "größe", "}\n"}) Add(text);
    for (const std::string_view mark : MarkersOf(family)) {
      marks.push_back(static_cast<TokenId>(texts.size()));
      Add(std::string(mark));
      if (markers == Markers::kTokens) texts.back().clear();
    }
  }
  void Add(std::string text) {
    texts.push_back(text);
    written.push_back(std::move(text));
  }
  [[nodiscard]] std::optional<TokenId> Special(std::string_view text) const {
    for (const TokenId mark : marks) {
      if (written[mark] == text && texts[mark].empty()) return mark;
    }
    return std::nullopt;
  }
};

ToolSet TwoTools() {
  ToolSet tools;
  tools.functions = {{"get", "", ToolStrictness::kFree},
                     {"add",
                      R"({"type":"object","properties":{"größe":{"$ref":"#/$defs/digit"}},"required":["größe"],)"
                      R"("additionalProperties":false,"$defs":{"digit":{"type":"integer","minimum":0,"maximum":9}}})",
                      ToolStrictness::kStrict}};
  return tools;
}

struct Case {
  OutputFamily family;
  Markers markers;
  ReasoningStart reasoning_start;
  ToolSet tools;
  std::optional<wire::Constraint> form = {};  // of the answer, beside calls

  [[nodiscard]] std::string Name() const {
    return fmt::format("{}, markers {}, reasoning {}, use {}, count {}", NameOf(family.tools), int(markers),
                       int(reasoning_start), int(tools.use), int(tools.count));
  }
};

class Writing {
 public:
  explicit Writing(const Case& which) : vocabulary_(which.family, which.markers) {
    const CallSyntax syntax{which.family, which.reasoning_start,
                            [this](std::string_view text) { return vocabulary_.Special(text); }};
    const auto constraint =
        which.form ? FormConstraint(*which.form, which.tools, syntax) : CallConstraint(which.tools, syntax);
    EXPECT_TRUE(constraint.ok()) << constraint.error().ToString();
    const auto library = worker::OpenGrammarLibrary(vocabulary_.texts);
    const auto compiled = library->Compile(**constraint);
    EXPECT_TRUE(compiled.ok()) << which.Name() << compiled.error().ToString() << (*constraint)->text;
    if (compiled.ok()) grammar_ = *compiled;
  }

  // A random answer; nothing if it does not end soon. Markers and ends are likelier than other tokens, so that some
  // answers end.
  std::optional<std::string> Answer(Rng& rng) const {
    const std::unique_ptr<Automaton> automaton = grammar_->Start();
    std::vector<std::uint32_t> mask(MaskWords(vocabulary_.texts.size()));
    std::string answer;
    for (int step = 0; step < 4000; ++step) {
      if (automaton->MayEnd() && rng.Below(4) == 0) return answer;
      automaton->FillMask(mask);
      std::vector<TokenId> allowed;
      std::vector<TokenId> marks;
      for (TokenId token = 0; token < vocabulary_.texts.size(); ++token) {
        if ((mask[token / 32] >> token % 32 & 1U) == 0) continue;
        allowed.push_back(token);
        const std::string& shown = vocabulary_.written[token];
        if (token >= vocabulary_.marks.front() || shown == "{" || shown == "}" || shown == "\"") marks.push_back(token);
      }
      if (allowed.empty()) return automaton->MayEnd() ? std::optional(answer) : std::nullopt;
      const std::vector<TokenId>& from = !marks.empty() && rng.Below(3) == 0 ? marks : allowed;
      const TokenId next = from[rng.Below(from.size())];
      EXPECT_TRUE(automaton->Accept(next));
      answer += vocabulary_.written[next];
    }
    return std::nullopt;
  }

 private:
  const Vocabulary vocabulary_;
  std::shared_ptr<const worker::CompiledGrammar> grammar_;
};

ChoiceAnswer Read(const Case& which, const std::string& text) {
  FamilyOutputOptions options;
  options.family = which.family;
  options.reasoning_start = which.reasoning_start;
  ToolSet tools = which.tools;
  tools.forced_form = ForcedForm::kFamily;
  options.tools = std::make_shared<const ToolSet>(tools);
  const std::unique_ptr<OutputParser> parser = MakeFamilyOutput(options);
  ChoiceAnswer answer;
  AnswerDelta delta;
  parser->Push(ReplaceInvalidUtf8(text), delta);  // as texts of tokens are
  parser->Finish(delta, TextEnd::kStopped);
  answer.Append(std::move(delta));
  return answer;
}

void ExpectHolds(const ToolCall& call) {
  simdjson::dom::parser parser;
  simdjson::dom::element arguments;
  const auto parsed = parser.parse(simdjson::padded_string(call.arguments)).get(arguments);
  if (call.name == "get" && parsed == simdjson::NUMBER_ERROR) return;  // a number may be larger than a double
  ASSERT_EQ(parsed, simdjson::SUCCESS) << call.arguments;
  ASSERT_TRUE(arguments.is_object());
  if (call.name == "get") return;
  EXPECT_EQ(call.name, "add");
  std::int64_t digit = -1;
  EXPECT_EQ(arguments["größe"].get(digit), simdjson::SUCCESS) << call.arguments;
  EXPECT_TRUE(digit >= 0 && digit <= 9);
  EXPECT_EQ(simdjson::dom::object(arguments).size(), 1U);
}

void ExpectCalls(const Case& which, int answer_count) {
  SCOPED_TRACE(which.Name());
  const Writing writing(which);
  if (testing::Test::HasFailure()) return;
  Rng rng(3);
  int ended = 0;
  bool had_calls = false;
  for (int i = 0; i < answer_count; ++i) {
    const std::optional<std::string> text = writing.Answer(rng);
    if (!text) continue;
    ++ended;
    SCOPED_TRACE(*text);
    const ChoiceAnswer answer = Read(which, *text);
    const std::size_t most = which.tools.count == ToolCallCount::kOne ? 1 : kMaxForcedCalls;
    EXPECT_LE(answer.tool_calls.size(), most);
    had_calls = had_calls || !answer.tool_calls.empty();
    if (which.tools.is_forced()) {
      EXPECT_GE(answer.tool_calls.size(), 1U);
      EXPECT_EQ(answer.content, "");
    }
    for (const ToolCall& call : answer.tool_calls) {
      ExpectHolds(call);
      if (which.tools.use == ToolUse::kNamed) {
        EXPECT_EQ(call.name, "add");
      }
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(ended, answer_count / 8);
  EXPECT_TRUE(had_calls);
}

std::vector<Case> CasesOf(OutputFamily family, Markers markers, ReasoningStart start) {
  std::vector<Case> cases;
  for (const ToolUse use : {ToolUse::kRequired, ToolUse::kNamed, ToolUse::kAuto}) {
    for (const ToolCallCount count : {ToolCallCount::kOne, ToolCallCount::kMany}) {
      Case each{family, markers, start, TwoTools()};
      each.tools.use = use;
      each.tools.named = "add";
      each.tools.count = count;
      cases.push_back(std::move(each));
    }
  }
  return cases;
}

class CallOutputsTest : public testing::TestWithParam<ToolFamily> {};

TEST_P(CallOutputsTest, AreTheCallsThatWereAskedFor) {
  if (!worker::HasGrammarLibrary()) GTEST_SKIP() << "built without xgrammar";
  const bool is_harmony = GetParam() == ToolFamily::kHarmony;  // Harmony's markers are always tokens
  for (const Markers markers : {Markers::kText, Markers::kTokens}) {
    if (is_harmony && markers == Markers::kText) continue;
    for (const ReasoningStart start : {ReasoningStart::kNever, ReasoningStart::kInside, ReasoningStart::kOutside}) {
      if (is_harmony && start != ReasoningStart::kNever) continue;
      OutputFamily family{GetParam(), is_harmony ? ReasoningForm::kNone : ReasoningForm::kThink, CallDialect::kUsual};
      for (const Case& each : CasesOf(family, markers, start)) ExpectCalls(each, 40);
      family.call_dialect = CallDialect::kFenced;
      if (GetParam() != ToolFamily::kDeepSeek) continue;
      for (const Case& each : CasesOf(family, markers, start)) ExpectCalls(each, 40);
    }
  }
}

// ---- answers with a form of their own ----

struct Form {
  wire::ConstraintKind kind;
  const char* text;
  bool (*holds)(std::string_view content);
};

bool IsX(std::string_view text) { return text == "x"; }
constexpr Form kForms[] = {
    {wire::ConstraintKind::kRegex, "^[0-9]{3}$",
     [](std::string_view text) {
       return text.size() == 3 && text.find_first_not_of("0123456789") == std::string_view::npos;
     }},
    {wire::ConstraintKind::kChoice, R"(["größe","no \"\\x4\"\n!"])",
     [](std::string_view text) { return text == "größe" || text == "no \"\\x4\"\n!"; }},
    {wire::ConstraintKind::kGrammar, R"(root ::= "x")", &IsX},
    {wire::ConstraintKind::kGrammar, R"(start: "x")", &IsX},
    {wire::ConstraintKind::kJsonSchema,
     R"({"type":"object","properties":{"a":{"$ref":"#/$defs/d"}},"required":["a"],"additionalProperties":false,)"
     R"("$defs":{"d":{"enum":[7]}}})",
     [](std::string_view text) {
       simdjson::dom::parser parser;
       simdjson::dom::element root;
       std::int64_t value = 0;
       return parser.parse(simdjson::padded_string(text)).get(root) == simdjson::SUCCESS &&
              root["a"].get(value) == simdjson::SUCCESS && value == 7;
     }}};

void ExpectFormOrCalls(const Case& which, const Form& form, int answer_count) {
  SCOPED_TRACE(which.Name() + " " + form.text);
  const Writing writing(which);
  if (testing::Test::HasFailure()) return;
  Rng rng(3);
  int formed = 0;
  int calling = 0;
  for (int i = 0; i < answer_count; ++i) {
    const std::optional<std::string> text = writing.Answer(rng);
    if (!text) continue;
    SCOPED_TRACE(*text);
    const ChoiceAnswer answer = Read(which, *text);
    const bool calls = !answer.tool_calls.empty();
    ++(calls ? calling : formed);
    for (const ToolCall& call : answer.tool_calls) ExpectHolds(call);
    EXPECT_TRUE(calls ? answer.content.empty() : form.holds(answer.content)) << answer.content;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(formed, 1);
  EXPECT_EQ(calling > 0, which.tools.is_used() && form.kind == wire::ConstraintKind::kJsonSchema);
}

TEST_P(CallOutputsTest, HaveTheFormThatWasAskedForOrAreCalls) {
  if (!worker::HasGrammarLibrary()) GTEST_SKIP() << "built without xgrammar";
  const bool is_harmony = GetParam() == ToolFamily::kHarmony;
  const OutputFamily family{GetParam(), is_harmony ? ReasoningForm::kNone : ReasoningForm::kThink, CallDialect::kUsual};
  for (const Form& form : kForms) {
    if (is_harmony && form.kind != wire::ConstraintKind::kJsonSchema) continue;  // it stands alone
    Case each{family, Markers::kTokens, is_harmony ? ReasoningStart::kNever : ReasoningStart::kInside, TwoTools()};
    each.form = wire::Constraint{.kind = form.kind, .text = form.text, .field = "response_format"};
    ExpectFormOrCalls(each, form, 60);
    if (is_harmony) continue;
    each.tools.use = ToolUse::kNone;
    ExpectFormOrCalls(each, form, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CallOutputsTest,
                         testing::Values(ToolFamily::kHermes, ToolFamily::kLlama, ToolFamily::kGranite,
                                         ToolFamily::kMistral, ToolFamily::kKimi, ToolFamily::kDeepSeek,
                                         ToolFamily::kHarmony),
                         [](const auto& each) { return std::string(NameOf(each.param)); });

}  // namespace
}  // namespace roost::router

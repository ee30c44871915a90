// Every stored chat template: what it renders of a call is read back as that call.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/text/chat_template.h"
#include "tests/common/text/jinja_support.h"
#include "tests/router/api/tool_outputs.h"
#include "tests/support/shared_data.h"

namespace roost::router {
namespace {

using testing_support::ReadFile;
using testing_support::StoredDate;

struct TemplateCase {
  std::string name;
  ToolFamily family;
  bool calls;  // the template renders calls
};

class RealTemplateTest : public testing::TestWithParam<TemplateCase> {
 protected:
  void SetUp() override { ROOST_SKIP_WITHOUT(Folder()); }
  static std::filesystem::path Folder() { return testing_support::SharedDir() / "chat_templates"; }
};

constexpr std::string_view kQuestion = R"({"role": "user", "content": "How warm?"})";
constexpr std::string_view kArguments =
    R"({"city": "K\u00f6ln \"x\" }] \u2603", "days": [1, {"a": null}], "exact": true})";

std::string ContextOf(std::string_view messages, std::string_view end) {
  return fmt::format(
      R"({{"messages": [{}], "tools": [{{"type": "function", "function": {{"name": "get_weather",)"
      R"("description": "d", "parameters": {{"type": "object", "properties": {{"city": {{"type": "string"}})"
      R"(}}}}}}}}], "bos_token": "<s>", "eos_token": "</s>", {}}})",
      messages, end);
}

std::string Compact(std::string_view json) {
  return testing_support::RenderTemplate("{{ value | tojson }}", fmt::format(R"({{"value": {}}})", json)).value();
}

// The template renders an assistant's message with a call, and the parser reads it back as that call.
TEST_P(RealTemplateTest, ReadsBackTheCallsThatItWrites) {
  const auto parsed = ChatTemplate::Parse(ReadFile(Folder() / "templates" / GetParam().name), "t").value();
  ASSERT_EQ(NameOf(parsed->family().tools), NameOf(GetParam().family));
  if (!GetParam().calls) GTEST_SKIP() << "the template renders no calls";
  const std::string call = fmt::format(
      R"({{"role": "assistant", "content": "", "tool_calls": [{{"id": "123456789", "type": "function", "function":)"
      R"({{"name": "get_weather", "arguments": {}}}}}]}})",
      kArguments);
  const auto render = [&](const std::string& json) {
    const jinja::Value context = jinja::FromJson(json, "context").value();
    return parsed->Render(context, StoredDate());
  };
  const std::string messages = std::string(kQuestion) + "," + call;
  const Result<std::string> whole =
      render(ContextOf(messages, R"("add_generation_prompt": false, "enable_thinking": true)"));
  const Result<std::string> prompt =
      render(ContextOf(kQuestion, R"("add_generation_prompt": true, "enable_thinking": true)"));
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  std::size_t common = 0;
  while (common < prompt->size() && (*prompt)[common] == (*whole)[common]) ++common;
  if (common > 0 && (*whole)[common - 1] == '<') --common;  // the first byte of two markers that begin alike
  std::string turn = whole->substr(common);
  for (const std::string_view stop : {"<|im_end|>", "<|eot_id|>", "</s>", "<｜end▁of▁sentence｜>", "<|call|>"}) {
    turn = turn.substr(0, turn.find(stop));
  }
  FamilyOutputOptions options;
  options.family = parsed->family();
  options.tools = std::make_shared<const ToolSet>(TwoTools());
  const ChoiceAnswer answer = ParseIn(options, {turn});
  ASSERT_EQ(answer.tool_calls.size(), 1U) << turn;
  EXPECT_EQ(answer.tool_calls[0].name, "get_weather");
  EXPECT_EQ(Compact(answer.tool_calls[0].arguments), Compact(kArguments)) << turn;
  EXPECT_EQ(answer.content, "") << turn;
  Parsed(options, turn);
}

INSTANTIATE_TEST_SUITE_P(
    All, RealTemplateTest,
    testing::Values(TemplateCase{"GLM-4.6.jinja", ToolFamily::kGlm, true},
                    TemplateCase{"HuggingFaceTB-SmolLM3-3B.jinja", ToolFamily::kNone, false},
                    TemplateCase{"Kimi-K2-Instruct.jinja", ToolFamily::kKimi, true},
                    TemplateCase{"LFM2-8B-A1B.jinja", ToolFamily::kPythonic, false},
                    TemplateCase{"Qwen-Qwen2.5-7B-Instruct.jinja", ToolFamily::kHermes, true},
                    TemplateCase{"Qwen-Qwen3-0.6B.jinja", ToolFamily::kHermes, true},
                    TemplateCase{"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", ToolFamily::kDeepSeek, true},
                    TemplateCase{"google-gemma-2-2b-it.jinja", ToolFamily::kNone, false},
                    TemplateCase{"ibm-granite-granite-3.3-2B-Instruct.jinja", ToolFamily::kGranite, false},
                    TemplateCase{"meta-llama-Llama-3.1-8B-Instruct.jinja", ToolFamily::kLlama, true},
                    TemplateCase{"meta-llama-Llama-3.2-3B-Instruct.jinja", ToolFamily::kLlama, true},
                    TemplateCase{"microsoft-Phi-3.5-mini-instruct.jinja", ToolFamily::kNone, false},
                    TemplateCase{"mistralai-Mistral-Nemo-Instruct-2407.jinja", ToolFamily::kMistral, true},
                    TemplateCase{"openai-gpt-oss-120b.jinja", ToolFamily::kHarmony, true}),
    [](const auto& param) {
      std::string name = param.param.name;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

}  // namespace
}  // namespace roost::router

#include "common/text/output_family.h"

#include <algorithm>
#include <array>

namespace roost {
namespace {

struct Sign {
  std::string_view text;
  ToolFamily family;
};

// The first sign that the template contains decides: signs of one family only come before those of several.
constexpr auto kSigns = std::to_array<Sign>({
    {"<|channel|>", ToolFamily::kHarmony},
    {"｜DSML｜", ToolFamily::kDsml},
    {"<｜tool▁call▁begin｜>", ToolFamily::kDeepSeek},
    {"<|tool_calls_section_begin|>", ToolFamily::kKimi},
    {"[TOOL_CALLS]", ToolFamily::kMistral},
    {"<arg_key>", ToolFamily::kGlm},
    {"<seed:tool_call>", ToolFamily::kSeed},
    {"<minimax:tool_call>", ToolFamily::kMiniMax},
    {"<function=", ToolFamily::kQwenXml},
    {"<tool_call>", ToolFamily::kHermes},
    {"<|tool_call|>", ToolFamily::kGranite},
    {"<|tool_call>", ToolFamily::kGemma},
    {"<|tool_list_start|>", ToolFamily::kPythonic},
    {"<|tool_call_start|>", ToolFamily::kPythonic},
    {"[func_name1(", ToolFamily::kPythonic},
    {R"("parameters": dictionary of argument name)", ToolFamily::kLlama},
    {"<|python_tag|>", ToolFamily::kLlama},
});

struct Name {
  std::string_view text;
  ToolFamily family;
};

constexpr auto kFamilyNames = std::to_array<Name>({
    {"none", ToolFamily::kNone},
    {"hermes", ToolFamily::kHermes},
    {"llama", ToolFamily::kLlama},
    {"pythonic", ToolFamily::kPythonic},
    {"mistral", ToolFamily::kMistral},
    {"harmony", ToolFamily::kHarmony},
    {"deepseek", ToolFamily::kDeepSeek},
    {"granite", ToolFamily::kGranite},
    {"glm", ToolFamily::kGlm},
    {"qwen-xml", ToolFamily::kQwenXml},
    {"kimi", ToolFamily::kKimi},
    {"seed-oss", ToolFamily::kSeed},
    {"minimax-m2", ToolFamily::kMiniMax},
    {"deepseek-dsml", ToolFamily::kDsml},
    {"gemma4", ToolFamily::kGemma},
});

constexpr auto kReasoningForms =
    std::to_array<ReasoningForm>({ReasoningForm::kThink, ReasoningForm::kSeedThink, ReasoningForm::kChannel});

bool Holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

OutputFamily FamilyOf(std::string_view template_source) {
  OutputFamily family;
  const auto* sign = std::find_if(kSigns.begin(), kSigns.end(),
                                  [&](const Sign& candidate) { return Holds(template_source, candidate.text); });
  if (sign != kSigns.end()) family.tools = sign->family;
  if (Holds(template_source, "```json")) family.call_dialect = CallDialect::kFenced;
  if (family.tools == ToolFamily::kHarmony) return family;
  const auto* reasoning = std::find_if(kReasoningForms.begin(), kReasoningForms.end(), [&](ReasoningForm form) {
    return Holds(template_source, TagsOf(form).begin_token) || Holds(template_source, TagsOf(form).end);
  });
  if (reasoning != kReasoningForms.end()) family.reasoning = *reasoning;
  return family;
}

ReasoningTags TagsOf(ReasoningForm form) {
  switch (form) {
    case ReasoningForm::kNone: break;
    case ReasoningForm::kThink: return {"<think>", "</think>", "<think>"};
    case ReasoningForm::kSeedThink: return {"<seed:think>", "</seed:think>", "<seed:think>"};
    case ReasoningForm::kChannel: return {"<|channel>thought", "<channel|>", "<|channel>"};
  }
  return {};
}

std::optional<ToolFamily> ToolFamilyNamed(std::string_view name) {
  const auto* found = std::find_if(kFamilyNames.begin(), kFamilyNames.end(),
                                   [&](const Name& candidate) { return candidate.text == name; });
  if (found == kFamilyNames.end()) return std::nullopt;
  return found->family;
}

std::string_view NameOf(ToolFamily family) {
  return std::find_if(kFamilyNames.begin(), kFamilyNames.end(),
                      [&](const Name& candidate) { return candidate.family == family; })
      ->text;
}

}  // namespace roost

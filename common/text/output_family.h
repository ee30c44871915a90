// The format of a model's tool calls and reasoning, detected from its chat template: models of a family share their
// markers, and a template that renders calls contains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace roost {

enum class ToolFamily : std::uint8_t {
  kNone,
  kHermes,    // Hermes, Qwen 2.5 and 3
  kLlama,     // Llama 3's JSON
  kPythonic,  // lists of Python calls: Llama 3.2 and 4, LFM2
  kMistral,
  kHarmony,  // gpt-oss: reasoning too
  kDeepSeek,
  kGranite,
  kGlm,
  kQwenXml,  // Qwen3-Coder
  kKimi,
  kSeed,     // Seed-OSS
  kMiniMax,  // M2
  kDsml,     // DeepSeek V3.2 and later
  kGemma,    // Gemma 4
};

// In front of the answer: <think>…</think>, <seed:think>…</seed:think>, <|channel>thought…<channel|>.
enum class ReasoningForm : std::uint8_t { kNone, kThink, kSeedThink, kChannel };

enum class CallDialect : std::uint8_t { kUsual, kFenced };  // kFenced: DeepSeek's V3 and R1, arguments in a fence

struct OutputFamily {
  ToolFamily tools = ToolFamily::kNone;
  ReasoningForm reasoning = ReasoningForm::kNone;
  CallDialect call_dialect = CallDialect::kUsual;
};

struct ReasoningTags {
  std::string_view begin;
  std::string_view end;
  std::string_view begin_token;  // the part of `begin` that may be a special token
};

// Empty for kNone.
[[nodiscard]] ReasoningTags TagsOf(ReasoningForm form);

[[nodiscard]] OutputFamily FamilyOf(std::string_view template_source);

// By the names that flags use: "hermes", "llama", …, "none" for kNone. Nothing for other names.
[[nodiscard]] std::optional<ToolFamily> ToolFamilyNamed(std::string_view name);
[[nodiscard]] std::string_view NameOf(ToolFamily family);

}  // namespace roost

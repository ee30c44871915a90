#include "router/api/answers/diagnosis_forms.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace roost::router {
namespace {

using Before = PromptComparison::Before;

// Empty: that API has no word for it.
std::string_view AnthropicType(PromptChange change) {
  switch (change) {
    case PromptChange::kModel: return "model_changed";
    case PromptChange::kTools: return "tools_changed";
    case PromptChange::kSystem: return "system_changed";
    case PromptChange::kMessage: return "messages_changed";
    case PromptChange::kNone:
    case PromptChange::kScope:
    case PromptChange::kParameters: break;
  }
  return "";
}

std::string_view OpenAiReason(const PromptComparison& comparison) {
  switch (comparison.change) {
    case PromptChange::kModel: return "model_changed";
    case PromptChange::kTools: return "tools_changed";
    case PromptChange::kSystem:
    case PromptChange::kMessage: return "input_changed";
    case PromptChange::kParameters: return comparison.effort_changed ? "reasoning_effort_changed" : "input_changed";
    case PromptChange::kNone: return comparison.cache_key_changed ? "prompt_cache_key_changed" : "";
    case PromptChange::kScope: break;
  }
  return "";
}

// As both have it: those of the request before that would have been found, had this one not changed.
std::uint32_t MissedTokens(const Usage& usage) {
  return usage.comparison.change == PromptChange::kNone ? usage.verdict.tokens : usage.comparison.missed_tokens;
}

}  // namespace

std::string AnthropicDiagnostics(const Usage& usage) {
  const PromptComparison& comparison = usage.comparison;
  const auto reason = [](std::string_view members) {
    return fmt::format(R"({{"cache_miss_reason":{{{}}}}})", members);
  };
  if (!comparison.is_named) return "null";
  if (comparison.before == Before::kUnknown) return reason(R"("type":"previous_message_not_found")");
  if (usage.verdict.cause == MissCause::kNone) return "null";
  const std::string_view type = AnthropicType(comparison.change);
  if (type.empty()) return reason(R"("type":"unavailable")");
  return reason(fmt::format(R"("type":"{}","cache_missed_input_tokens":{})", type, MissedTokens(usage)));
}

std::string OpenAiDiagnostics(const Usage& usage) {
  const PromptComparison& comparison = usage.comparison;
  if (comparison.before == Before::kUnknown) return R"({"type":"comparison_response_not_found"})";
  if (comparison.before == Before::kNone) return R"({"type":"unavailable"})";
  if (usage.verdict.cause == MissCause::kNone) return R"({"type":"cache_hit"})";
  const std::string_view reason = OpenAiReason(comparison);
  if (reason.empty()) return R"({"type":"unavailable"})";
  return fmt::format(
      R"({{"type":"cache_miss","reason":"{}","cache_missed_tokens":{},"comparison_reusable_tokens":{}}})", reason,
      MissedTokens(usage), comparison.token);
}

}  // namespace roost::router

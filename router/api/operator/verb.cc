#include "router/api/operator/verb.h"

#include <fmt/format.h>

#include <algorithm>

namespace roost::router {

extern const Verb kCordonVerb;
extern const Verb kDecisionsVerb;
extern const Verb kDrainVerb;
extern const Verb kEvictVerb;
extern const Verb kMatchVerb;
extern const Verb kPinVerb;
extern const Verb kPrefixesVerb;
extern const Verb kUncordonVerb;
extern const Verb kUnpinVerb;
extern const Verb kWarmVerb;

std::span<const Verb* const> Verbs() {
  static constexpr const Verb* kVerbs[] = {&kDecisionsVerb, &kPrefixesVerb, &kWarmVerb,   &kMatchVerb,    &kPinVerb,
                                           &kUnpinVerb,     &kEvictVerb,    &kCordonVerb, &kUncordonVerb, &kDrainVerb};
  return kVerbs;
}

void WriteSize(const PromptSize& size, JsonWriter& json) {
  json.Key("model").String(size.model).Key("blocks").Number(size.block_count).Key("tokens").Number(size.token_count);
}

void WriteUnanswered(const WorkerAnswer& answer, JsonWriter& json) {
  json.BeginObject().Key("worker").String(answer.worker_id).Key("answered").Bool(false).EndObject();
}

std::string HitLine(std::uint32_t prompt_tokens, std::uint32_t cached_tokens, std::uint32_t block_tokens) {
  const std::uint32_t cached = std::min(cached_tokens, prompt_tokens);
  const std::uint32_t blocks = (cached + block_tokens - 1) / block_tokens;
  return fmt::format("prompt {} token{}: {} cached in {} block{}, {} to prefill", prompt_tokens,
                     prompt_tokens == 1 ? "" : "s", cached, blocks, blocks == 1 ? "" : "s", prompt_tokens - cached);
}

}  // namespace roost::router

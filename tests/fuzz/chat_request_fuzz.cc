// Bodies of /v1/chat/completions and /v1/completions: any bytes give a request or an error with a message, and an
// accepted request satisfies the contract of its type.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/check.h"
#include "router/api/chat_request.h"
#include "router/api/completion_request.h"
#include "router/api/pin_request.h"

namespace roost::router {
namespace {

void CheckSampling(const SamplingFields& fields) {
  ROOST_CHECK(fields.max_output_tokens.value_or(1) >= 1);
  ROOST_CHECK(fields.temperature.value_or(0) >= 0 && fields.temperature.value_or(0) <= 2);
  ROOST_CHECK(fields.top_p.value_or(1) > 0 && fields.top_p.value_or(1) <= 1);
  ROOST_CHECK(fields.min_p.value_or(0) >= 0 && fields.min_p.value_or(0) <= 1);
  const float repetition = fields.repetition_penalty.value_or(1);
  ROOST_CHECK(repetition >= wire::kMinRepetitionPenalty && repetition <= wire::kMaxRepetitionPenalty);
  ROOST_CHECK(std::abs(fields.presence_penalty) <= wire::kMaxPenalty);
  ROOST_CHECK(std::abs(fields.frequency_penalty) <= wire::kMaxPenalty);
  ROOST_CHECK(fields.logit_bias.size() <= kMaxLogitBiases);
  for (std::size_t i = 0; i < fields.logit_bias.size(); ++i) {
    ROOST_CHECK(std::abs(fields.logit_bias[i].bias) <= wire::kMaxLogitBias);
    ROOST_CHECK(i == 0 || fields.logit_bias[i - 1].token < fields.logit_bias[i].token);
  }
  ROOST_CHECK(fields.stop.size() <= kMaxStopStrings && fields.stop_tokens.size() <= kMaxStopTokens);
  ROOST_CHECK(fields.choice_count >= 1 && fields.choice_count <= kMaxChoices);
  ROOST_CHECK(fields.cache.priority <= wire::kMaxPriority && fields.cache.expect_return_ms <= wire::kMaxKeepMs);
  const wire::Retention retention = fields.cache.retention.value_or(wire::Retention());
  ROOST_CHECK(retention.prompt_priority <= wire::kMaxPriority && retention.decode_priority <= wire::kMaxPriority);
  ROOST_CHECK(retention.prompt_duration_ms <= wire::kMaxKeepMs && retention.decode_duration_ms <= wire::kMaxKeepMs);
  for (const std::string& stop : fields.stop) ROOST_CHECK(!stop.empty() && stop.size() <= kMaxStopStringBytes);
}

void FuzzOne(const std::string& bytes) {
  JsonBody json(bytes);
  const Result<JsonObject> body = json.Parse();
  if (!body.ok()) {
    ROOST_CHECK(!body.error().message.empty());
    return;
  }
  const Result<ChatRequest> chat = ParseChatRequest(*body);
  if (chat.ok()) {
    CheckSampling(chat->sampling);
    ROOST_CHECK(chat->messages.is(jinja::Kind::kSequence));
    ROOST_CHECK(chat->template_variables.is(jinja::Kind::kDict));
  } else {
    ROOST_CHECK(!chat.error().message.empty());
  }
  const Result<CompletionRequest> completion = ParseCompletionRequest(*body);
  if (completion.ok()) CheckSampling(completion->sampling);
  const Result<PinRequest> pin = ParsePinRequest(*body);
  if (pin.ok()) ROOST_CHECK(pin->duration_ms <= wire::kMaxKeepMs && (chat.ok() || completion.ok()));
}

}  // namespace
}  // namespace roost::router

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  roost::router::FuzzOne(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

// Bodies of every route that takes JSON: any bytes give a request or an error with a message, and an accepted request
// satisfies the contract of its type. The key file is read by the same parser.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/check.h"
#include "router/api/key_file.h"
#include "router/api/operator/order_request.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/chat_translation.h"
#include "router/api/requests/completion_request.h"
#include "router/api/requests/prompt_request.h"
#include "router/api/requests/shared_prefixes.h"
#include "router/api/requests/token_request.h"

namespace roost::router {
namespace {

void CheckSampling(const SamplingFields& fields) {
  ROOST_CHECK(fields.max_output_tokens.value_or(1) >= 1);
  wire::Sampling sampling;
  ApplySampling({}, fields, 1, sampling);
  ROOST_CHECK(sampling.temperature >= 0 && sampling.temperature <= 2);
  ROOST_CHECK(sampling.top_p > 0 && sampling.top_p <= 1);
  ROOST_CHECK(sampling.min_p >= 0 && sampling.min_p <= 1);
  ROOST_CHECK(sampling.repetition_penalty >= wire::kMinRepetitionPenalty &&
              sampling.repetition_penalty <= wire::kMaxRepetitionPenalty);
  ROOST_CHECK(std::abs(fields.generate.sampling.presence_penalty) <= wire::kMaxPenalty);
  ROOST_CHECK(std::abs(fields.generate.sampling.frequency_penalty) <= wire::kMaxPenalty);
  ROOST_CHECK(fields.generate.sampling.logit_bias.size() <= kMaxLogitBiases);
  for (std::size_t i = 0; i < fields.generate.sampling.logit_bias.size(); ++i) {
    ROOST_CHECK(std::abs(fields.generate.sampling.logit_bias[i].bias) <= wire::kMaxLogitBias);
    ROOST_CHECK(i == 0 ||
                fields.generate.sampling.logit_bias[i - 1].token < fields.generate.sampling.logit_bias[i].token);
  }
  ROOST_CHECK(fields.stop.size() <= kMaxStopStrings && fields.generate.stop_tokens.size() <= kMaxStopTokens);
  ROOST_CHECK(fields.generate.sample_count >= 1 && fields.generate.sample_count <= kMaxChoices);
  ROOST_CHECK(fields.cache.priority <= wire::kMaxPriority && fields.cache.expect_return_ms <= wire::kMaxKeepMs);
  const wire::Retention retention = fields.cache.retention.value_or(wire::Retention());
  ROOST_CHECK(retention.prompt_priority <= wire::kMaxPriority && retention.decode_priority <= wire::kMaxPriority);
  ROOST_CHECK(retention.prompt_duration_ms <= wire::kMaxKeepMs && retention.decode_duration_ms <= wire::kMaxKeepMs);
  for (const std::string& stop : fields.stop) ROOST_CHECK(!stop.empty() && stop.size() <= kMaxStopStringBytes);
}

template <typename Request>
bool IsWellFormed(const Result<Request>& request) {
  if (!request.ok()) ROOST_CHECK(!request.error().message.empty());
  return request.ok();
}

void CheckChat(const ChatRequest& chat) {
  CheckSampling(chat.sampling);
  ROOST_CHECK(chat.messages.is(jinja::Kind::kSequence));
  ROOST_CHECK(chat.template_variables.is(jinja::Kind::kDict));
}

void CheckGenerations(const JsonObject& body) {
  if (const auto chat = ParseChatRequest(body); IsWellFormed(chat)) CheckChat(*chat);
  if (const auto completion = ParseCompletionRequest(body); IsWellFormed(completion))
    CheckSampling(completion->sampling);
  if (const auto responses = ParseResponsesRequest(body); IsWellFormed(responses)) CheckChat(responses->chat);
  if (const auto messages = ParseMessagesRequest(body); IsWellFormed(messages)) CheckChat(*messages);
  if (const auto count = ParseCountTokensRequest(body); IsWellFormed(count)) CheckChat(*count);
}

void CheckOrders(const JsonObject& body) {
  if (const auto pin = ParsePinRequest(body); IsWellFormed(pin)) ROOST_CHECK(pin->duration_ms <= wire::kMaxKeepMs);
  if (const auto evict = ParseEvictRequest(body); IsWellFormed(evict)) {
    ROOST_CHECK(evict->prompt.has_value() || !evict->tenant.empty());
  }
  IsWellFormed(ParsePromptRequest(body, ChatPart::kFront));
  IsWellFormed(ParsePromptRequest(body, ChatPart::kQuestion));
  IsWellFormed(ParseTokenizeRequest(body));
  IsWellFormed(ParseDetokenizeRequest(body));
}

void CheckFiles(const std::string& bytes) {
  if (const auto keys = ParseKeyFile(bytes, "file"); IsWellFormed(keys)) {
    for (const ApiKey& key : *keys) ROOST_CHECK(IsWellFormed(ParseKeyFile(KeyLine(key), "line")));
  }
  IsWellFormed(ParseSharedPrefixes(bytes, "file"));
}

void FuzzOne(const std::string& bytes) {
  CheckFiles(bytes);
  JsonBody json(bytes);
  const Result<JsonObject> body = json.Parse();
  if (!IsWellFormed(body)) return;
  CheckGenerations(*body);
  CheckOrders(*body);
}

}  // namespace
}  // namespace roost::router

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  roost::router::FuzzOne(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

// The request fields that chat and completions share: how to sample, when to stop, how to answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/text/tokenizer.h"
#include "common/wire/messages.h"
#include "router/api/choice_text.h"
#include "router/api/json_object.h"
#include "router/api/requests/cache_fields.h"
#include "router/api/requests/request_field.h"

namespace roost::router {

inline constexpr std::size_t kMaxStopStrings = 16;
inline constexpr std::size_t kMaxStopStringBytes = 256;
inline constexpr std::size_t kMaxStopTokens = 64;
inline constexpr std::size_t kMaxLogitBiases = 1024;
inline constexpr std::uint32_t kMaxChoices = 16;

enum class Delivery { kWhole, kStream };

// The times when a stream reports its token counts.
enum class UsageReport { kNever, kAtEnd, kEveryChunk };

// Whether the answer has token ids in addition to the text.
enum class TokenIdReport { kOmit, kTell };

// Whether the answer has log probabilities of its tokens.
enum class Logprobs { kOmit, kTell };

// An absent value means the model's default.
struct SamplingFields {
  std::string model;  // empty: not given
  Delivery delivery = Delivery::kWhole;
  UsageReport usage_report = UsageReport::kNever;
  std::optional<std::uint32_t> max_output_tokens;      // 0: only the echo is wanted
  std::string max_output_tokens_field = "max_tokens";  // the name that the client used
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::uint32_t> top_k;  // 0: no limit
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<wire::LogitBias> logit_bias;  // each token at most once
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_tokens;
  bool ignore_eos = false;
  std::uint32_t min_output_tokens = 0;           // min_tokens
  std::optional<std::uint32_t> output_logprobs;  // this and the next: see GenerateSpec
  std::optional<std::uint32_t> prompt_logprobs;
  std::uint32_t choice_count = 1;  // n
  StopText stop_text = StopText::kOmit;
  SpecialTokenOutput special_text = SpecialTokenOutput::kSkip;
  TokenIdReport token_ids = TokenIdReport::kOmit;
  std::uint32_t unknown_field_count = 0;       // fields of the request that are ignored
  std::string request_id;                      // the client's own name for the request; empty: none
  std::optional<wire::Constraint> constraint;  // the form of the output; see structured_output.h
  CacheFields cache;
};

// Validates every shared field. The error names the field.
[[nodiscard]] Result<SamplingFields> ParseSamplingFields(const JsonObject& body);

// kInvalidArgument if the answer may have no token.
[[nodiscard]] Result<void> CheckWantsAnswer(const SamplingFields& fields);

// The table of these fields.
[[nodiscard]] std::span<const RequestField<SamplingFields>> SamplingFieldTable();

}  // namespace roost::router

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
#include "common/wire/messages.h"
#include "router/api/cache_fields.h"
#include "router/api/json_object.h"

namespace roost::router {

inline constexpr std::size_t kMaxStopStrings = 16;
inline constexpr std::size_t kMaxStopStringBytes = 256;
inline constexpr std::size_t kMaxStopTokens = 64;
inline constexpr std::size_t kMaxLogitBiases = 1024;
inline constexpr std::uint32_t kMaxChoices = 16;

enum class Delivery { kWhole, kStream };

// When a stream tells its token counts.
enum class UsageReport { kNever, kAtEnd, kEveryChunk };

// What is absent is the model's default.
struct SamplingFields {
  std::string model;  // empty: not said
  Delivery delivery = Delivery::kWhole;
  UsageReport usage_report = UsageReport::kNever;
  std::optional<std::uint32_t> max_output_tokens;
  std::string max_output_tokens_field = "max_tokens";  // the name under which the client gave it
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::uint32_t> top_k;  // 0: no limit
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<wire::LogitBias> logit_bias;  // by token, each once
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_tokens;
  bool ignore_eos = false;
  std::uint32_t min_output_tokens = 0;           // min_tokens
  std::optional<std::uint32_t> output_logprobs;  // see GenerateSpec, as for the next
  std::optional<std::uint32_t> prompt_logprobs;
  std::uint32_t choice_count = 1;  // n
  CacheFields cache;
};

// Validates every shared field, also those that are accepted with their neutral value only. The error names the field.
[[nodiscard]] Result<SamplingFields> ParseSamplingFields(const JsonObject& body);

// A field whose feature is not there: it may be absent, null, or say what would happen anyway. Anything else is an
// error, as a client that is not told would take the answer for what it asked for.
struct NeutralField {
  enum class Accepts { kNothing, kFalse, kTrue, kZero, kEmpty };
  std::string_view name;
  Accepts accepts;
};
[[nodiscard]] Result<void> CheckNeutralFields(const JsonObject& body, std::span<const NeutralField> fields);

}  // namespace roost::router

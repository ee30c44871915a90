// The request fields that chat and completions share: how to sample, when to stop, how to answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Token ids in the answer, in addition to the text.
enum class TokenIdReport { kOmit, kTell };

// Log probabilities of the tokens in the answer.
enum class Logprobs { kOmit, kTell };

struct SamplingFields {
  // The message to workers as far as the request makes it: penalties and biases, stop_tokens, ignore_eos, min_tokens,
  // logprobs and prompt_logprobs, n, and the form of the output (structured_output.h). The rest is set by
  // MakeGenerateSpec.
  wire::Generate generate;
  std::string model;  // empty: not given
  Delivery delivery = Delivery::kWhole;
  UsageReport usage_report = UsageReport::kNever;
  std::optional<std::uint32_t> max_output_tokens;      // 0: only the echo is wanted
  std::string max_output_tokens_field = "max_tokens";  // the name that the client used
  // Each sets a field that the request gives, in place of the model's default.
  std::vector<std::function<void(wire::Sampling&)>> given;
  std::optional<std::int64_t> truncate_prompt_tokens;  // the last of the prompt that stay; -1: what fits
  std::vector<std::string> stop;
  StopText stop_text = StopText::kOmit;
  SpecialTokenOutput special_text = SpecialTokenOutput::kSkip;
  TokenIdReport token_ids = TokenIdReport::kOmit;
  std::uint32_t unknown_field_count = 0;  // fields of the request that are ignored
  std::string request_id;                 // the client's own name for the request; empty: none
  CacheFields cache;
};

// Validates every shared field. The error names the field.
[[nodiscard]] Result<SamplingFields> ParseSamplingFields(const JsonObject& body);

// The model's defaults, with what the request gives in their place. The seed is `default_seed` if it gives none.
void ApplySampling(const wire::SamplingDefaults& defaults, const SamplingFields& fields, std::uint64_t default_seed,
                   wire::Sampling& sampling);

// kInvalidArgument if the answer may have no token.
[[nodiscard]] Result<void> CheckWantsAnswer(const SamplingFields& fields);

// Reads truncate_prompt_tokens.
[[nodiscard]] Result<void> ReadTruncate(JsonElement element, const std::string& path, SamplingFields& fields);

// The table of these fields.
[[nodiscard]] std::span<const RequestField<SamplingFields>> SamplingFieldTable();

}  // namespace roost::router

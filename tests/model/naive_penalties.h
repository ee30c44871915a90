// Penalties and bias from their definition: all counts are recomputed, in double.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace roost::testing_support {

// The logits to draw from after `prompt` and `output`.
[[nodiscard]] inline std::vector<float> NaivePenalized(std::vector<float> logits, const wire::Sampling& sampling,
                                                       std::span<const TokenId> prompt,
                                                       std::span<const TokenId> output) {
  for (const wire::LogitBias& bias : sampling.logit_bias) logits[bias.token] += bias.bias;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const auto in_prompt = std::count(prompt.begin(), prompt.end(), static_cast<TokenId>(token));
    const auto in_output = std::count(output.begin(), output.end(), static_cast<TokenId>(token));
    double logit = logits[token];
    if (in_prompt + in_output > 0) {
      logit = logit > 0 ? logit / sampling.repetition_penalty : logit * sampling.repetition_penalty;
    }
    logit -= static_cast<double>(in_output) * sampling.frequency_penalty;
    if (in_output > 0) logit -= sampling.presence_penalty;
    logits[token] = static_cast<float>(logit);
  }
  return logits;
}

}  // namespace roost::testing_support

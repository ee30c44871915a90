// From what a request asks for to draws of kernels/sample.h, and from what they give to tokens or errors.
//
// A draw depends on the logits, the seed and the output's index alone, so a request that was preempted, moved or
// continued draws what it would have drawn. Logits with NaN or +inf, or a row of -inf alone, are an Error: the model's
// output is broken, and any token would be invented.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "kernels/logprobs.h"
#include "kernels/sample.h"

namespace roost::worker {

// Temperature finite and >= 0, top_p in [0, 1], the others as wire::Sampling has them, biases of tokens below
// `vocab_size`; the error names the field.
[[nodiscard]] Result<void> ValidateSampling(const wire::Sampling& sampling, std::uint32_t vocab_size);

// The draw of one token from row 0, without biases and penalties. `sampling` is valid.
[[nodiscard]] inline kernels::SampleRow DrawOf(const wire::Sampling& sampling, std::uint64_t output_index) {
  return {.seed = sampling.seed,
          .output_index = output_index,
          .temperature = sampling.temperature,
          .top_k = sampling.top_k,
          .top_p = sampling.top_p,
          .min_p = sampling.min_p};
}

// Leaves in `biases` one for each of these tokens alone: it can not be drawn. Tokens beyond the vocabulary never are.
// O(tokens + biases, sorted).
void BanTokens(std::vector<TokenId> tokens, std::uint32_t vocab_size, std::vector<kernels::LogitBias>& biases);

// What a scored row tells, as the wire has it: within its bounds, whatever broken logits gave.
[[nodiscard]] wire::TokenLogprobs LogprobsOf(const kernels::ScoredToken& scored,
                                             std::span<const kernels::TopToken> top);

// kInternal for broken logits.
[[nodiscard]] Result<TokenId> TokenOf(const kernels::SampledToken& sampled);

// Draws on the CPU, without adjustments; `logits` has one entry per token of the vocabulary. O(V), and O(log V) for
// each token that top-p keeps.
[[nodiscard]] Result<TokenId> SampleToken(std::span<const float> logits, const wire::Sampling& sampling,
                                          std::uint64_t output_index, kernels::SampleScratch& scratch);

}  // namespace roost::worker

// Turns the sampling fields of a request into draws of kernels/sample.h, and results of draws into tokens or errors.
//
// A draw depends only on the logits, the seed and the token's index in the output. So a request that was preempted,
// moved or continued draws the same tokens as without that. Logits with NaN or +inf, or a row that is -inf throughout,
// are an Error: the model's output is broken, and any token would be invented.
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

// The features of requests whose sampling fields DrawOf and PenaltiesOf read.
[[nodiscard]] wire::Features SamplingFeatures();

// Checks that temperature is finite and >= 0, top_p is in [0, 1], the other fields are as wire::Sampling describes
// them, and biases are for tokens below `vocab_size`. The error names the field.
[[nodiscard]] Result<void> ValidateSampling(const wire::Sampling& sampling, std::uint32_t vocab_size);

// The draw of one token from row 0, without biases and penalties. `sampling` is valid.
[[nodiscard]] kernels::SampleRow DrawOf(const wire::Sampling& sampling, std::uint64_t output_index);

// Forbids these tokens: a bias of -inf replaces any bias that they have in `biases`. Tokens beyond the vocabulary are
// skipped. O(tokens + biases, sorted).
void BanTokens(std::vector<TokenId> tokens, std::uint32_t vocab_size, std::vector<kernels::LogitBias>& biases);

// The scores of a row in the wire's form. They stay within its bounds even where the logits are broken.
[[nodiscard]] wire::TokenLogprobs LogprobsOf(const kernels::ScoredToken& scored,
                                             std::span<const kernels::TopToken> top);

// kInternal for broken logits.
[[nodiscard]] Result<TokenId> TokenOf(const kernels::SampledToken& sampled);

// Draws on the CPU, without adjustments; `logits` has one entry per token of the vocabulary. O(V), and O(log V) for
// each token that top-p keeps.
[[nodiscard]] Result<TokenId> SampleToken(std::span<const float> logits, const wire::Sampling& sampling,
                                          std::uint64_t output_index, kernels::SampleScratch& scratch);

}  // namespace roost::worker

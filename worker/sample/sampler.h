// From a row of logits to a token: greedy, or drawn after temperature, top-k and top-p, in this order (as Hugging Face
// transformers and vLLM do).
//
//   temperature 0   the highest logit; of equals the lowest token id. Top-k and top-p change nothing.
//   temperature T   p[i] ∝ exp(logit[i] / T)
//   top_k k         the k most likely tokens; of equals at the border the lowest ids. 0: all.
//   top_p q         of these, the most likely ones until their share reaches q: at least one. 1: all.
//
// The draw inverts the cumulative distribution at CounterUniform(seed, output_index) and depends on nothing else, so a
// request that was preempted, moved or continued draws what it would have drawn.
//
// A logit of -inf is a token that can not be drawn. NaN, +inf, or a row of -inf alone is an Error: the model's output
// is broken, and any token would be invented.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"

namespace roost::worker {

// Memory that is used again from row to row. Its content means nothing between calls.
struct SamplerScratch {
  struct Candidate {
    float logit = 0;
    TokenId token = 0;
  };
  std::vector<Candidate> candidates;
  std::vector<double> weights;
};

// temperature finite and >= 0, top_p in [0, 1]; the error names the field.
[[nodiscard]] Result<void> ValidateSampling(const wire::Sampling& sampling);

// `sampling` is valid, `logits` has one entry per token of the vocabulary. O(V), and O(log V) for each token that
// top-p keeps.
[[nodiscard]] Result<TokenId> SampleToken(std::span<const float> logits, const wire::Sampling& sampling,
                                          std::uint64_t output_index, SamplerScratch& scratch);

}  // namespace roost::worker

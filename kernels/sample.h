// From rows of logits to tokens: greedy, or drawn after temperature, top-k and top-p, in this order (as Hugging Face
// transformers and vLLM do).
//
//   temperature 0   the highest logit; of equals the lowest token id. Top-k and top-p change nothing.
//   temperature T   p[i] ∝ exp(logit[i] / T)
//   top_k k         the k most likely tokens; of equals at the border the lowest ids. 0: all.
//   top_p q         of these, the most likely ones until their share reaches q: at least one. 1: all.
//
// The draw inverts the cumulative distribution at CounterUniform(seed, output_index) and depends on nothing else.
// Tokens are taken by their ids where top_k is 0 and top_p is 1, else the likeliest first. A logit of -inf is a token
// that can not be drawn.
//
// Weights are of f64 on the CPU. On CUDA they are f64 rounded to multiples of 2^-44, so that a sum does not depend on
// its order: the draw differs where the random number is within about 1e-11 of a token's border.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "kernels/device.h"

namespace roost::kernels {

// One draw. Several may be of one row of logits.
struct SampleRow {
  std::uint64_t seed = 0;
  std::uint64_t output_index = 0;
  std::uint32_t row = 0;  // of logits
  float temperature = 0;  // finite, at least 0
  std::uint32_t top_k = 0;
  float top_p = 1;  // 0 to 1
};

// Broken logits have no token.
enum class SampleStatus : std::uint32_t { kSampled, kNotANumber, kInfinite, kAllMinusInfinity };

struct SampledToken {
  TokenId token = 0;
  SampleStatus status = SampleStatus::kSampled;
};

inline constexpr std::uint32_t kMaxSampledVocab = 1U << 19U;

struct SampleArgs {
  const float* logits = nullptr;  // [*][vocab_size]
  std::uint32_t vocab_size = 0;   // 1 to kMaxSampledVocab
  const SampleRow* rows = nullptr;
  std::uint32_t row_count = 0;
  SampledToken* out = nullptr;  // [row_count]
};

void SampleCpu(Device& device, const SampleArgs& args);
void SampleCuda(Device& device, const SampleArgs& args);

// Memory that is used again from draw to draw. Its content means nothing between calls.
struct SampleScratch {
  struct Candidate {
    float logit = 0;
    TokenId token = 0;
  };
  std::vector<Candidate> candidates;
  std::vector<double> weights;
};

// One draw on the CPU. O(V), and O(log V) for each token that top-p keeps.
[[nodiscard]] SampledToken SampleOnCpu(std::span<const float> logits, const SampleRow& draw, SampleScratch& scratch);

}  // namespace roost::kernels

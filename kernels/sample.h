// From rows of logits to tokens: greedy, or drawn after adjustments, temperature, min-p, top-k and top-p, in this
// order. It is vLLM's (vllm/v1/sample/sampler.py); Hugging Face transformers takes min-p last.
//
//   adjustments     logit[i] for the tokens that the draw lists; see LogitAdjustment. Greedy sees them too.
//   temperature 0   the highest logit; of equals the lowest token id. What follows changes nothing.
//   temperature T   p[i] ∝ exp(logit[i] / T)
//   min_p m         the tokens with p[i] >= m · max(p). 0: all.
//   top_k k         of these, the k most likely ones; of equals at the border the lowest ids. 0: all.
//   top_p q         of these, the most likely ones until their share reaches q: at least one. 1: all.
//
// The draw inverts the cumulative distribution at CounterUniform(seed, output_index) and depends on nothing else.
// Tokens are taken by their ids where top_k is 0 and top_p is 1, else the likeliest first. A logit of -inf is a token
// that can not be drawn. The logits themselves stay as they are, whatever a draw adjusts.
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

// What a draw changes in one logit: the bias is added; then a logit above 0 is divided by `repetition` and another one
// multiplied, as in CTRL (Keskar et al., 2019); then `subtract` is taken away. The order is vLLM's.
struct LogitAdjustment {
  TokenId token = 0;     // below vocab_size
  float bias = 0;        // finite, as all three
  float repetition = 1;  // above 0
  float subtract = 0;
  std::uint32_t output_count = 0;  // times that the output has the token; for WithOneMore
};

// How tokens of the output change their logits from then on.
struct OutputPenalties {
  float repetition = 1;  // above 0
  float presence = 0;    // these are finite
  float frequency = 0;
};

// The adjustment of a token that the output has once more. The same bits everywhere: in f64 the product is exact.
[[nodiscard]] constexpr LogitAdjustment WithOneMore(LogitAdjustment adjustment, const OutputPenalties& penalties) {
  const auto count = static_cast<double>(++adjustment.output_count);
  adjustment.repetition = penalties.repetition;
  adjustment.subtract =
      static_cast<float>(static_cast<double>(penalties.presence) + count * static_cast<double>(penalties.frequency));
  return adjustment;
}

// The same bits everywhere: a product of two f32 is exact in f64, so that fusing it with the difference changes
// nothing.
[[nodiscard]] constexpr float Adjusted(float logit, const LogitAdjustment& adjustment) {
  const auto biased = static_cast<double>(logit + adjustment.bias);
  const auto repetition = static_cast<double>(adjustment.repetition);
  const double scaled = biased > 0 ? biased / repetition : biased * repetition;
  return static_cast<float>(scaled - static_cast<double>(adjustment.subtract));
}

// One draw. Several may be of one row of logits, each with adjustments of its own. It may be planned before the token
// that the output has before it is known: then that one is still to be counted, when the draw is made.
struct SampleRow {
  std::uint64_t seed = 0;
  std::uint64_t output_index = 0;
  std::uint32_t row = 0;  // of logits
  float temperature = 0;  // finite, at least 0
  std::uint32_t top_k = 0;
  float top_p = 1;  // 0 to 1
  float min_p = 0;  // 0 to 1
  // adjustments[first_adjustment .. + adjustment_count), each of another token.
  std::uint32_t first_adjustment = 0;
  std::uint32_t adjustment_count = 0;
  // Where the draw is adjusted, its own row of SampleArgs::adjusted.
  std::uint32_t adjusted_row = 0;
  // The output's newest token is SampleArgs::tokens[newest], and the adjustments are those of the output before it.
  bool has_newest = false;
  std::uint32_t newest = 0;
  OutputPenalties penalties = {};
};

[[nodiscard]] constexpr bool IsAdjusted(const SampleRow& draw) { return draw.adjustment_count > 0 || draw.has_newest; }

[[nodiscard]] inline std::span<const LogitAdjustment> AdjustmentsOf(const SampleRow& draw,
                                                                    const LogitAdjustment* adjustments) {
  return {adjustments + draw.first_adjustment, draw.adjustment_count};
}

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
  const LogitAdjustment* adjustments = nullptr;
  const TokenId* tokens = nullptr;  // where draws have a newest one; below vocab_size
  float* adjusted = nullptr;        // [adjusted draws][vocab_size], for the op to work in
  SampledToken* out = nullptr;      // [row_count]
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

// The row as a draw with these adjustments sees it, to `out`. O(V).
void AdjustLogits(std::span<const float> logits, std::span<const LogitAdjustment> adjustments, std::span<float> out);
// The same for a draw of SampleArgs.
void AdjustLogits(std::span<const float> logits, const SampleRow& draw, const LogitAdjustment* adjustments,
                  const TokenId* tokens, std::span<float> out);

// One draw on the CPU, from logits as they are. O(V), and O(log V) for each token that top-p keeps.
[[nodiscard]] SampledToken SampleOnCpu(std::span<const float> logits, const SampleRow& draw, SampleScratch& scratch);

}  // namespace roost::kernels

// From rows of logits to tokens: greedy, or drawn after adjustments, temperature, min-p, top-k and top-p, in this
// order. It is vLLM's (vllm/v1/sample/sampler.py); Hugging Face transformers takes min-p last.
//
//   adjustments     logit[i] by biases and penalties; see LogitAdjustment. Greedy sees them too.
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
// Weights are relative to the likeliest token's, 1, and rounded to multiples of 2^-44, so that a sum does not depend on
// its order. On CUDA they are computed in f64: the draw differs from the definition's (SampleInDouble) where the random
// number is within about 1e-11 of a token's border. On the CPU they are computed in f32, with an error of a few 2^-24
// of their distance from the best in units of the temperature, which is about ten for the tokens that are drawn: there
// the draw differs within about 1e-6 of a border. That is one token of a million, while bf16 rounds logits to three
// digits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "kernels/device.h"

namespace roost::kernels {

// What a draw changes in one logit: the bias is added; then a logit above 0 is divided by `repetition` and another one
// multiplied, as in CTRL (Keskar et al., 2019); then `subtract` is taken away. The order is vLLM's.
struct LogitAdjustment {
  float bias = 0;        // finite, or -inf: then so is the logit
  float repetition = 1;  // above 0, and finite as the next
  float subtract = 0;
};

struct LogitBias {
  TokenId token = 0;  // below vocab_size
  float bias = 0;     // finite, or -inf: the token can not be drawn
};

// How tokens of prompt and output change their logits.
struct OutputPenalties {
  float repetition = 1;  // above 0; of those of the prompt too
  float presence = 0;    // these are finite
  float frequency = 0;
};

// What penalties know of a token: how often the output has it, and kInPrompt if the prompt has it. They live on the
// device, one table of all tokens for each output that has penalties, and grow there with the tokens that are drawn: 4
// bytes for each token of the vocabulary.
using TokenCount = std::uint32_t;
inline constexpr TokenCount kInPrompt = TokenCount{1} << 31U;

struct CountedToken {
  TokenId token = 0;  // below vocab_size
  TokenCount count = 0;
};

// The same bits everywhere: in f64 the product is exact.
[[nodiscard]] constexpr LogitAdjustment AdjustmentOf(float bias, TokenCount count, const OutputPenalties& penalties) {
  if (count == 0) return {.bias = bias};
  const TokenCount in_output = count & ~kInPrompt;
  const double subtract = static_cast<double>(penalties.presence) +
                          static_cast<double>(in_output) * static_cast<double>(penalties.frequency);
  return {.bias = bias,
          .repetition = penalties.repetition,
          .subtract = in_output > 0 ? static_cast<float>(subtract) : 0.0F};
}

// The same bits everywhere: a product of two f32 is exact in f64, so that fusing it with the difference changes
// nothing.
[[nodiscard]] constexpr float Adjusted(float logit, const LogitAdjustment& adjustment) {
  const auto biased = static_cast<double>(logit + adjustment.bias);
  const auto repetition = static_cast<double>(adjustment.repetition);
  const double scaled = biased > 0 ? biased / repetition : biased * repetition;
  return static_cast<float>(scaled - static_cast<double>(adjustment.subtract));
}

// The tokens that a masked draw may give: of a row of kMaskBits-bit words, token t is bit t % kMaskBits of word
// t / kMaskBits. Masking is the last adjustment: what is not among them becomes -inf. Broken logits stay broken.
inline constexpr std::uint32_t kMaskBits = 32;
[[nodiscard]] constexpr std::uint32_t MaskWords(std::uint32_t vocab_size) {
  return (vocab_size + kMaskBits - 1) / kMaskBits;
}
[[nodiscard]] constexpr float Masked(float logit, bool is_allowed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return !is_allowed && logit < kInfinity ? -kInfinity : logit;  // NaN is below nothing
}

// One draw. Several may be of one row of logits, each with biases and counts of its own. It may be planned before the
// token that the output has before it is known: that one is counted when the draw is made.
struct SampleRow {
  std::uint64_t seed = 0;
  std::uint64_t output_index = 0;
  std::uint32_t row = 0;  // of logits
  float temperature = 0;  // finite, at least 0
  std::uint32_t top_k = 0;
  float top_p = 1;  // 0 to 1
  float min_p = 0;  // 0 to 1
  // SampleArgs::biases[first_bias .. + bias_count), each of another token.
  std::uint32_t first_bias = 0;
  std::uint32_t bias_count = 0;
  // Where the draw is adjusted, its own row of SampleArgs::adjusted.
  std::uint32_t adjusted_row = 0;
  // With penalties, its own row of SampleArgs::counts. Before the draw that becomes, if it resets, SampleArgs::counted
  // [first_counted .. + counted_count), each of another token, and of all others 0; then the output's newest token,
  // SampleArgs::tokens[newest], is counted once more, if there is one that the row has not.
  OutputPenalties penalties = {};
  bool has_counts = false;
  bool resets_counts = false;
  bool has_newest = false;
  std::uint32_t counts_row = 0;
  std::uint32_t first_counted = 0;
  std::uint32_t counted_count = 0;
  std::uint32_t newest = 0;
  // Row of SampleArgs::masks, which several draws may have.
  bool has_mask = false;
  std::uint32_t mask_row = 0;
};

[[nodiscard]] constexpr bool IsAdjusted(const SampleRow& draw) {
  return draw.bias_count > 0 || draw.has_counts || draw.has_mask;
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
  const LogitBias* biases = nullptr;
  const CountedToken* counted = nullptr;
  TokenCount* counts = nullptr;          // [*][vocab_size]; a row that no draw names stays as it is
  const TokenId* tokens = nullptr;       // where draws have a newest one; below vocab_size
  const std::uint32_t* masks = nullptr;  // [*][MaskWords(vocab_size)]
  float* adjusted = nullptr;             // [adjusted draws][vocab_size], for the op to work in
  SampledToken* out = nullptr;           // [row_count]
};

void SampleCpu(Device& device, const SampleArgs& args);
void SampleCuda(Device& device, const SampleArgs& args);

void SampleRef(Device& device, const SampleArgs& args);

// Brings the counts of a draw that has some up to date. O(V) if it resets them.
void UpdateCounts(const SampleArgs& args, const SampleRow& draw);
// The row as the draw sees it, to `out`. O(V).
void AdjustLogits(const SampleArgs& args, const SampleRow& draw, std::span<const float> logits, std::span<float> out);
// The logits that a draw of SampleArgs is made from: its row as it is, or adjusted, in the draw's own part of
// SampleArgs::adjusted, after its counts are up to date. Once for each draw. For devices whose memory is the host's.
[[nodiscard]] std::span<const float> LogitsOf(const SampleArgs& args, const SampleRow& draw);

// Memory that is used again from draw to draw. Its content means nothing between calls.
struct SampleScratch {
  struct Bucket {
    std::uint64_t weight = 0;
    std::uint64_t count = 0;
  };
  struct Candidate {
    float logit;
    TokenId token;
    std::uint64_t weight;
  };
  std::vector<Bucket> buckets;
  std::vector<std::uint64_t> tile_weights;
  std::vector<Candidate> candidates;
};

// One draw on the CPU, from logits as they are. O(V).
[[nodiscard]] SampledToken SampleOnCpu(std::span<const float> logits, const SampleRow& draw, SampleScratch& scratch);

// The same by definition, with weights and sums of f64. O(V), and O(log V) for each token that top-p keeps.
[[nodiscard]] SampledToken SampleInDouble(std::span<const float> logits, const SampleRow& draw);

}  // namespace roost::kernels

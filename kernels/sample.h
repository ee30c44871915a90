// From rows of logits to tokens: greedy, or drawn after adjustments, temperature, min-p, top-k and top-p, in this
// order. The order is vLLM's (vllm/v1/sample/sampler.py); Hugging Face transformers applies min-p last.
//
//   adjustments     biases and penalties change logit[i]; see LogitAdjustment. Also for greedy.
//   temperature 0   the highest logit; of equals the lowest token id. The steps below change nothing.
//   temperature T   p[i] ∝ exp(logit[i] / T)
//   min_p m         the tokens with p[i] >= m · max(p). 0: all.
//   top_k k         of these, the k most likely ones; of equals at the border, those with the lowest ids. 0: all.
//   top_p q         of these, the most likely ones until their share reaches q; at least one. 1: all.
//
// The draw inverts the cumulative distribution at CounterUniform(seed, output_index), and depends on nothing else. If
// top_k is 0 and top_p is 1, tokens are in the order of their ids, else the likeliest first. A token with logit -inf
// can not be drawn. A draw never changes the logits themselves.
//
// Weights are relative to the likeliest token's weight, which is 1, and rounded to multiples of 2^-44, so that a sum
// does not depend on the order. CUDA computes them in f64: the draw differs from the definition (SampleInDouble) only
// where the random number is within about 1e-11 of a token's border. The CPU computes them in f32, with an error of a
// few 2^-24 times the logit's distance from the best in units of the temperature, about ten for tokens that are drawn:
// the draw differs only within about 1e-6 of a border. That is one token in a million; bf16 already rounds logits to
// three digits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "kernels/device.h"

namespace roost::kernels {

// A draw's change of one logit: the bias is added; then a logit above 0 is divided by `repetition`, any other is
// multiplied by it, as in CTRL (Keskar et al., 2019); then `subtract` is subtracted. The order is vLLM's.
struct LogitAdjustment {
  float bias = 0;        // finite, or -inf: then the logit becomes -inf
  float repetition = 1;  // above 0 and finite
  float subtract = 0;
};

struct LogitBias {
  TokenId token = 0;  // below vocab_size
  float bias = 0;     // finite, or -inf: the token can not be drawn
};

// Penalties on tokens of the prompt and the output.
struct OutputPenalties {
  float repetition = 1;  // above 0; counts the prompt's tokens too
  float presence = 0;    // presence and frequency are finite
  float frequency = 0;
};

// A token's count for penalties: how often the output has it, plus kInPrompt if the prompt has it. Counts live on the
// device, one table for each output with penalties, 4 bytes per token of the vocabulary. The device adds tokens as they
// are drawn.
using TokenCount = std::uint32_t;
inline constexpr TokenCount kInPrompt = TokenCount{1} << 31U;

struct CountedToken {
  TokenId token = 0;  // below vocab_size
  TokenCount count = 0;
};

// Gives the same bits everywhere: the product is exact in f64.
[[nodiscard]] constexpr LogitAdjustment AdjustmentOf(float bias, TokenCount count, const OutputPenalties& penalties) {
  if (count == 0) return {.bias = bias};
  const TokenCount in_output = count & ~kInPrompt;
  const double subtract = static_cast<double>(penalties.presence) +
                          static_cast<double>(in_output) * static_cast<double>(penalties.frequency);
  return {.bias = bias,
          .repetition = penalties.repetition,
          .subtract = in_output > 0 ? static_cast<float>(subtract) : 0.0F};
}

// Gives the same bits everywhere: a product of two f32 is exact in f64, so fusing it with the subtraction changes
// nothing.
[[nodiscard]] constexpr float Adjusted(float logit, const LogitAdjustment& adjustment) {
  const auto biased = static_cast<double>(logit + adjustment.bias);
  const auto repetition = static_cast<double>(adjustment.repetition);
  const double scaled = biased > 0 ? biased / repetition : biased * repetition;
  return static_cast<float>(scaled - static_cast<double>(adjustment.subtract));
}

// The tokens that a masked draw may give, as a row of kMaskBits-bit words: token t is bit t % kMaskBits of word t /
// kMaskBits. Masking is the last adjustment: the logits of all other tokens become -inf, except NaN and +inf, which
// stay.
inline constexpr std::uint32_t kMaskBits = 32;
[[nodiscard]] constexpr std::uint32_t MaskWords(std::uint32_t vocab_size) {
  return (vocab_size + kMaskBits - 1) / kMaskBits;
}
[[nodiscard]] constexpr float Masked(float logit, bool is_allowed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return !is_allowed && logit < kInfinity ? -kInfinity : logit;  // false for NaN
}

// One draw. Several draws may use one row of logits, each with its own biases and counts. It can be planned before the
// output's previous token is known: that token is counted when the draw is made.
struct SampleRow {
  std::uint64_t seed = 0;
  std::uint64_t output_index = 0;
  std::uint32_t row = 0;  // of logits
  float temperature = 0;  // finite, at least 0
  std::uint32_t top_k = 0;
  float top_p = 1;  // 0 to 1
  float min_p = 0;  // 0 to 1
  // SampleArgs::biases[first_bias .. + bias_count), each of a different token.
  std::uint32_t first_bias = 0;
  std::uint32_t bias_count = 0;
  // If the draw is adjusted: its own row of SampleArgs::adjusted.
  std::uint32_t adjusted_row = 0;
  // With penalties: its own row of SampleArgs::counts, updated before the draw. If resets_counts, the row first becomes
  // SampleArgs::counted[first_counted .. + counted_count), each of a different token, and 0 for all others. Then, if
  // has_newest, the output's newest token, SampleArgs::tokens[newest], is counted once more.
  OutputPenalties penalties = {};
  bool has_counts = false;
  bool resets_counts = false;
  bool has_newest = false;
  std::uint32_t counts_row = 0;
  std::uint32_t first_counted = 0;
  std::uint32_t counted_count = 0;
  std::uint32_t newest = 0;
  // Row of SampleArgs::masks; several draws may share it.
  bool has_mask = false;
  std::uint32_t mask_row = 0;
};

[[nodiscard]] constexpr bool IsAdjusted(const SampleRow& draw) {
  return draw.bias_count > 0 || draw.has_counts || draw.has_mask;
}

// No token is drawn from broken logits.
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
  TokenCount* counts = nullptr;          // [*][vocab_size]; rows that no draw names are unchanged
  const TokenId* tokens = nullptr;       // for draws with has_newest; below vocab_size
  const std::uint32_t* masks = nullptr;  // [*][MaskWords(vocab_size)]
  float* adjusted = nullptr;             // [adjusted draws][vocab_size], working memory of the op
  SampledToken* out = nullptr;           // [row_count]
};

void SampleCpu(Device& device, const SampleArgs& args);
void SampleCuda(Device& device, const SampleArgs& args);

void SampleRef(Device& device, const SampleArgs& args);

// Updates the counts of a draw that has some. O(V) if it resets them.
void UpdateCounts(const SampleArgs& args, const SampleRow& draw);
// Writes the row with the draw's adjustments to `out`. O(V).
void AdjustLogits(const SampleArgs& args, const SampleRow& draw, std::span<const float> logits, std::span<float> out);
// The logits for a draw: its row unchanged, or adjusted, in the draw's own row of SampleArgs::adjusted; its counts are
// updated first. Call it once per draw. For devices whose memory is the host's.
[[nodiscard]] std::span<const float> LogitsOf(const SampleArgs& args, const SampleRow& draw);

// Memory that is reused from draw to draw. Its content has no meaning between calls.
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

// One draw on the CPU, without adjustments. O(V).
[[nodiscard]] SampledToken SampleOnCpu(std::span<const float> logits, const SampleRow& draw, SampleScratch& scratch);

// The same by definition, with weights and sums in f64. O(V), and O(log V) for each token that top-p keeps.
[[nodiscard]] SampledToken SampleInDouble(std::span<const float> logits, const SampleRow& draw);

}  // namespace roost::kernels

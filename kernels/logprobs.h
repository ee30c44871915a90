// Log probabilities at rows of logits: of one token, with its rank, and of the likeliest tokens.
//
//   logprob[i]   logit[i] - log Σ exp(logit[j]), in f64, rounded to f32; at most 0, and -inf where the logit is
//   rank[i]      1 + the number of tokens with a higher logit, or with the same logit and a lower id
//   top          the tokens of rank 1 to top_count, in this order
//
// The logits are the model's own, without a draw's adjustments; a result depends on its row only. The results are
// meaningless for a row with NaN or +inf, or of -inf only; no token is drawn from such a row.
//
// Accuracy: tokens and ranks are exact. The sum is of f32 exponentials on the CPU and of f64 ones on CUDA, each rounded
// to a multiple of 2^-44 of the largest, so that it does not depend on the order. A log probability is within 2e-6 of
// the formula, plus half a unit in its last place from the final rounding.
//
// Source: the k likeliest by insertion on the CPU, by a tournament on CUDA: Knuth: The Art of Computer Programming,
// volume 3, 5.2.1 and 5.2.3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "kernels/device.h"
#include "kernels/sample.h"

namespace roost::kernels {

struct LogprobsRow {
  std::uint32_t row = 0;  // of logits
  // The token is `token`, or the result of draw number `draw`.
  bool is_drawn = false;
  TokenId token = 0;  // below vocab_size
  std::uint32_t draw = 0;
  // LogprobsArgs::top[first_top .. + top_count).
  std::uint32_t first_top = 0;
  std::uint32_t top_count = 0;  // at most vocab_size
};

struct ScoredToken {
  float logprob = 0;
  std::uint32_t rank = 1;
};

struct TopToken {
  TokenId token = 0;
  float logprob = 0;
};

struct LogprobsArgs {
  const float* logits = nullptr;  // [*][vocab_size]
  std::uint32_t vocab_size = 0;   // 1 to kMaxSampledVocab
  const LogprobsRow* rows = nullptr;
  std::uint32_t row_count = 0;
  const SampledToken* sampled = nullptr;  // for rows with is_drawn
  ScoredToken* out = nullptr;             // [row_count]
  TopToken* top = nullptr;
};

// O(V) per row on the CPU, plus O(top_count) for each token that enters the top; on CUDA O(V / threads · (1 + top_count
// / threads)).
void LogprobsCpu(Device& device, const LogprobsArgs& args);
void LogprobsCuda(Device& device, const LogprobsArgs& args);

void LogprobsRef(Device& device, const LogprobsArgs& args);

// The token of a row.
[[nodiscard]] constexpr TokenId TokenOf(const LogprobsRow& row, const SampledToken* sampled) {
  return row.is_drawn ? sampled[row.draw].token : row.token;
}

// Scores one row on the CPU; `tile_weights` is memory reused from row to row. Fills `top`.
[[nodiscard]] ScoredToken ScoreOnCpu(std::span<const float> logits, TokenId token, std::span<TopToken> top,
                                     std::vector<std::uint64_t>& tile_weights);

}  // namespace roost::kernels

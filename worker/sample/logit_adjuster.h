// What a request's bias and penalties do to the logits of one of its outputs, kept up to date from token to token: what
// a draw needs is always at hand, and no step counts the tokens again.
//
//   token           3           8           17          40
//   bias            0           -100        0           0        logit_bias
//   repetition      1.1         1           1.1         1.1      of the tokens of prompt and output
//   subtract        0           0           0.7         1.2      of those of the output: presence + count · frequency
//
// A token that nothing changes has no entry, so an output without bias and penalties has none and costs nothing.
// Copyable: the outputs of one prompt begin as copies. Not thread-safe.
//
// Source: as vLLM (vllm/model_executor/layers/utils.py, apply_penalties) and Hugging Face transformers do, and OpenAI's
// API for presence and frequency.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "kernels/sample.h"

namespace roost::worker {

class LogitAdjuster {
 public:
  // Changes nothing.
  LogitAdjuster() = default;

  // `sampling` is valid; see ValidateSampling. The prompt's last `output_count` tokens (all, if it has fewer) count as
  // output: a continued request. O(P log P) for a repetition penalty.
  LogitAdjuster(const wire::Sampling& sampling, std::span<const TokenId> prompt, std::uint64_t output_count);

  // The output has one more token. O(entries), and no allocation for the tokens that Reserve counted.
  void Append(TokenId token);
  // Memory for so many more tokens.
  void Reserve(std::size_t token_count);

  // By token, each once. Valid until the next Append.
  [[nodiscard]] std::span<const kernels::LogitAdjustment> adjustments() const { return adjustments_; }

  // What Append does to the token's adjustment: kernels::WithOneMore. Nothing where they do not penalize.
  [[nodiscard]] const kernels::OutputPenalties& penalties() const { return penalties_; }
  [[nodiscard]] bool penalizes_output() const {
    return penalties_.repetition != 1 || penalties_.presence != 0 || penalties_.frequency != 0;
  }

 private:
  void AddPrompt(std::span<const TokenId> prompt);
  [[nodiscard]] std::size_t EntryOf(TokenId token);

  kernels::OutputPenalties penalties_;
  std::vector<kernels::LogitAdjustment> adjustments_;
};

}  // namespace roost::worker

// The memory that steps need on their device: of one step, and of the largest step within bounds. Pure.
//
//   bounds of the engine ──▶ LargestStep ──▶ reserved when the model is loaded, ahead of the KV pool
//   a step's plan        ──▶ its size    ──▶ lies within, so that no step asks for memory
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/model/attention_plan.h"

namespace roost::worker {

// The largest step of an engine. Empty where it is not known.
struct StepBounds {
  std::uint32_t token_count = 0;
  std::uint32_t request_count = 0;  // slices, rows of logits, draws
};

struct StepSize {
  std::size_t input_bytes = 0;  // of all that comes from the host
  std::size_t rows = 0;         // tokens
  std::size_t logits_rows = 0;
  std::size_t partials = 0;       // of attention
  std::size_t adjusted_rows = 0;  // draws whose logits are adjusted
  std::size_t counts_rows = 0;    // outputs whose tokens are counted for penalties

  // No entry is larger than the other's.
  [[nodiscard]] bool FitsInto(const StepSize& other) const;
};

// At least both, entry by entry; what is larger in `step` has the next power of two.
[[nodiscard]] StepSize Grown(const StepSize& from, const StepSize& step);

// Biases of a request and tokens that its counts are reset to, at the most: few outputs have more. On average over the
// requests of a step; beyond that a step is larger than LargestStep.
inline constexpr std::uint32_t kUsualBiases = 1024;
inline constexpr std::uint32_t kUsualCountedTokens = 4096;

// The context and the vocabulary of the model.
struct ModelLimits {
  std::uint32_t context_tokens = 0;
  std::uint32_t vocab_size = 0;
};

// Of all steps within the bounds, padded ones too; see pad_plan.h.
[[nodiscard]] StepSize LargestStep(const StepBounds& bounds, const ModelLimits& model,
                                   const AttentionPlanOptions& attention);

}  // namespace roost::worker

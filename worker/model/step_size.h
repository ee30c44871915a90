// The device memory of one step, and of the largest step within bounds. Pure.
//
//   bounds of the engine ──▶ LargestStep ──▶ reserved when the model is loaded, ahead of the KV pool
//   a step's plan        ──▶ its size    ──▶ lies within that, so no step asks for memory
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/model/attention_plan.h"
#include "worker/model/model.h"

namespace roost::worker {

// The largest step of an engine. Zero if it is not known.
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

  // True if no entry is larger than the other's.
  [[nodiscard]] bool FitsInto(const StepSize& other) const;
};

// At least both, entry by entry; an entry that is larger in `step` becomes the next power of two.
[[nodiscard]] StepSize Grown(const StepSize& from, const StepSize& step);

// The number of a request's biases, and of the tokens that its counts are reset to, for which memory is reserved, on
// average over the requests of a step. Few outputs have more; then a step may be larger than LargestStep.
inline constexpr std::uint32_t kUsualBiases = 1024;
inline constexpr std::uint32_t kUsualCountedTokens = 4096;

// Input bytes of the lists.
[[nodiscard]] std::size_t ListBytes(const DrawLists& lists);

// The context and the vocabulary of the model.
struct ModelLimits {
  std::uint32_t context_tokens = 0;
  std::uint32_t vocab_size = 0;
};

// The lists of the largest step.
[[nodiscard]] DrawLists UsualLists(const StepBounds& bounds, const ModelLimits& model);

// The largest of all steps within the bounds, padded ones too; see pad_plan.h.
[[nodiscard]] StepSize LargestStep(const StepBounds& bounds, const ModelLimits& model,
                                   const AttentionPlanOptions& attention);

}  // namespace roost::worker

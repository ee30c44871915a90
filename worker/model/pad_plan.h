// Pads the plans of similar decode steps to the same lengths, so that a recording of one serves the others: pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/batch_plan.h"

namespace roost::worker {

// A step with more rows gains nothing from a recording: computing it takes longer than starting its ops.
inline constexpr std::uint32_t kMaxPaddedRows = 512;
inline constexpr std::uint32_t kMaxPadding = 15;

// The number of rows that a step of `rows` is padded to: 1, 2, 4, 8, then multiples of 8, and from 64 on multiples of
// 16. At most kMaxPadding more.
[[nodiscard]] std::uint32_t PaddedRows(std::uint32_t rows);

// True if each slice is one token that wants logits, and there are at most kMaxPaddedRows slices.
[[nodiscard]] bool IsDecode(const Batch& batch);

// Padding tokens have id 0 at position 0, and write K and V to the slots first_spare_slot, first_spare_slot + 1, …,
// which are never read. Attention does nothing for them. Lists are padded with entries that do nothing: items and
// merges by less than a quarter once there are many, rows and parts, which only cost memory, to powers of two. Blocks
// are not padded, because they come last; see Transformer::StepInputs.
void PadPlan(std::uint32_t first_spare_slot, std::vector<TokenId>& tokens, BatchPlan& plan);

}  // namespace roost::worker

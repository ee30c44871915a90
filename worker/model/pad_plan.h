// Makes the plans of similar decode steps equally long, so that a recording of one serves the others: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/batch_plan.h"

namespace roost::worker {

// Rows beyond that gain nothing from a recording: computing them takes longer than starting their ops.
inline constexpr std::uint32_t kMaxPaddedRows = 512;
inline constexpr std::uint32_t kMaxPadding = 15;

// The rows that a step of `rows` is padded to: 1, 2, 4, 8, then multiples of 8 and from 64 on of 16. At most
// kMaxPadding more.
[[nodiscard]] std::uint32_t PaddedRows(std::uint32_t rows);

// Each slice is one token that wants logits, and there are at most kMaxPaddedRows.
[[nodiscard]] bool IsDecode(const Batch& batch);

// Padding tokens are of id 0 at position 0 and write K and V to the slots first_spare_slot, first_spare_slot + 1, …,
// which nobody reads. Attention has nothing to do for them. Lists are filled up with entries that do nothing: items and
// merges by less than a quarter once there are many, rows and parts, which cost memory alone, to powers of two. Blocks
// stay as they are: they come last, see Transformer::StepInputs.
void PadPlan(std::uint32_t first_spare_slot, std::vector<TokenId>& tokens, BatchPlan& plan);

}  // namespace roost::worker

// Plans the warm-up of a model when it is loaded. It uses everything that a device loads on first use, so that no
// request pays for that, and no rank waits for it while others wait in a collective op. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "worker/model/model.h"
#include "worker/model/step_size.h"

namespace roost::worker {

// Numbers of rows, ascending. Products with up to `most` rows are planned like one with so many: one of each bucket,
// and all that decode steps are padded to.
[[nodiscard]] std::vector<std::uint32_t> WarmUpRows(std::uint32_t most);

// A decode step: the contexts of its requests lie between the two, each longer than the one before by the same factor.
struct WarmUpDecode {
  std::uint32_t request_count = 0;
  std::uint32_t shortest = 0;  // tokens
  std::uint32_t longest = 0;
};

// What steps can be: the engine's bounds, the model's context, the KV pool.
struct WarmUpLimits {
  StepBounds bounds = {};
  std::uint32_t context_tokens = 0;
  std::uint32_t block_tokens = 1;
  std::uint32_t block_count = 0;
};

// Steps within the limits, whose recordings serve many others: every number of requests that steps are padded to, with
// contexts that double. First those of equal contexts.
[[nodiscard]] std::vector<WarmUpDecode> WarmUpDecodes(const WarmUpLimits& limits);

// The batch of such a step, in blocks 0, 1, …, which outlive it; `blocks` is where they are kept.
[[nodiscard]] Batch BatchOf(const WarmUpDecode& decode, std::uint32_t block_tokens, std::vector<BlockId>& blocks);

}  // namespace roost::worker

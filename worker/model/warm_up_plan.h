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

// Numbers of rows, in ascending order: one for each bucket of products with up to `most` rows that are planned alike,
// and all to which decode steps are padded.
[[nodiscard]] std::vector<std::uint32_t> WarmUpRows(std::uint32_t most);

// A decode step: the contexts of its requests grow from `shortest` to `longest` by a constant factor.
struct WarmUpDecode {
  std::uint32_t request_count = 0;
  std::uint32_t shortest = 0;  // tokens
  std::uint32_t longest = 0;
};

// The limits of steps: the engine's bounds, the model's context, the KV pool.
struct WarmUpLimits {
  StepBounds bounds = {};
  std::uint32_t context_tokens = 0;
  std::uint32_t block_tokens = 1;
  std::uint32_t block_count = 0;
};

// Steps within the limits whose recordings serve many others: every padded number of requests, with contexts that
// double. Steps with equal contexts come first.
[[nodiscard]] std::vector<WarmUpDecode> WarmUpDecodes(const WarmUpLimits& limits);

// The batch of such a step, in blocks 0, 1, …, which `blocks` stores; `blocks` outlives the batch.
[[nodiscard]] Batch BatchOf(const WarmUpDecode& decode, std::uint32_t block_tokens, std::vector<BlockId>& blocks);

}  // namespace roost::worker

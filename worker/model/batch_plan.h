// From a batch to the arrays that the ops take: a pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "worker/model/model.h"

namespace roost::worker {

struct BatchPlanOptions {
  std::uint32_t block_tokens = 16;
  std::uint32_t query_head_count = 1;
  std::uint32_t kv_head_count = 1;
  // Contexts are cut into spans when there would be fewer items of work than this, so that all threads have some.
  std::uint32_t wanted_items = 1;
};

struct BatchPlan {
  // Per token.
  std::vector<std::uint32_t> positions;
  std::vector<std::uint32_t> slots;
  // Attention; see kernels/attention.h.
  std::vector<std::uint32_t> blocks;
  std::vector<kernels::AttentionRow> rows;
  std::vector<kernels::AttentionItem> items;
  std::vector<kernels::AttentionMerge> merges;
  std::uint32_t partial_count = 0;
  // Tokens whose logits are wanted, ascending.
  std::vector<std::uint32_t> logits_rows;
};

// Linear in tokens, items and blocks. Reuses the memory of `plan`.
void PlanBatch(const Batch& batch, const BatchPlanOptions& options, BatchPlan& plan);

}  // namespace roost::worker

#include "worker/model/batch_plan.h"

#include "common/base/check.h"

namespace roost::worker {
namespace {

void AddTokens(const BatchSlice& slice, std::uint32_t block_tokens, BatchPlan& plan) {
  const std::uint32_t end = slice.first_position + slice.token_count;
  ROOST_CHECK(slice.token_count > 0 && slice.blocks.size() * block_tokens >= end, "{} blocks for {} positions",
              slice.blocks.size(), end);
  for (std::uint32_t position = slice.first_position; position < end; ++position) {
    const BlockId block = slice.blocks[position / block_tokens];
    plan.positions.push_back(position);
    plan.slots.push_back(block.value() * block_tokens + position % block_tokens);
  }
}

}  // namespace

void PlanBatch(const Batch& batch, const AttentionPlanOptions& options, BatchPlan& plan) {
  plan.positions.clear();
  plan.slots.clear();
  plan.logits_rows.clear();
  for (const BatchSlice& slice : batch.slices) {
    AddTokens(slice, options.block_tokens, plan);
    const auto end = static_cast<std::uint32_t>(plan.positions.size());
    ROOST_CHECK(slice.logits_count <= slice.token_count, "{} of {} tokens", slice.logits_count, slice.token_count);
    for (std::uint32_t token = end - slice.logits_count; token < end; ++token) plan.logits_rows.push_back(token);
  }
  ROOST_CHECK(plan.positions.size() == batch.tokens.size(), "slices have {} tokens, the batch {}",
              plan.positions.size(), batch.tokens.size());
  PlanAttention(batch.slices, options, plan.attention);
}

}  // namespace roost::worker

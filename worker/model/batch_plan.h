// From a batch to the arrays that the ops take: a pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/attention_plan.h"
#include "worker/model/model.h"

namespace roost::worker {

struct BatchPlan {
  // Per token.
  std::vector<std::uint32_t> positions;
  std::vector<std::uint32_t> slots;
  AttentionPlan attention;
  // Tokens whose logits are wanted, in ascending order.
  std::vector<std::uint32_t> logits_rows;
};

// As fast as PlanAttention. Reuses the memory of `plan`.
void PlanBatch(const Batch& batch, const AttentionPlanOptions& options, BatchPlan& plan);

}  // namespace roost::worker

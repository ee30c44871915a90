#include "worker/model/batch_plan.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::worker {
namespace {

using kernels::AttentionItem;
using kernels::kAttentionSpan;
using kernels::kMaxPackLanes;

class Planner {
 public:
  Planner(const Batch& batch, const BatchPlanOptions& options, BatchPlan& plan)
      : batch_(batch),
        options_(options),
        plan_(plan),
        group_(options.query_head_count / options.kv_head_count),
        heads_per_item_(std::min(group_, kMaxPackLanes)),
        rows_per_pack_(kMaxPackLanes / heads_per_item_) {}

  void Run() {
    plan_ = Emptied(std::move(plan_));
    output_ =
        CountWholeItems() < options_.wanted_items ? AttentionItem::Output::kPartial : AttentionItem::Output::kWhole;
    std::uint32_t token = 0;
    for (const BatchSlice& slice : batch_.slices) {
      AddTokens(slice);
      AddPacks(slice, token);
      AddBlocks(slice);
      token += slice.token_count;
      if (slice.wants_logits) plan_.logits_rows.push_back(token - 1);
    }
    ROOST_CHECK(token == batch_.tokens.size(), "slices have {} tokens, the batch {}", token, batch_.tokens.size());
  }

 private:
  static BatchPlan Emptied(BatchPlan plan) {
    plan.positions.clear();
    plan.slots.clear();
    plan.blocks.clear();
    plan.rows.clear();
    plan.items.clear();
    plan.merges.clear();
    plan.partial_count = 0;
    plan.logits_rows.clear();
    return plan;
  }

  [[nodiscard]] std::uint64_t CountWholeItems() const {
    std::uint64_t packs = 0;
    for (const BatchSlice& slice : batch_.slices) packs += (slice.token_count + rows_per_pack_ - 1) / rows_per_pack_;
    return packs * options_.kv_head_count * ((group_ + heads_per_item_ - 1) / heads_per_item_);
  }

  void AddTokens(const BatchSlice& slice) {
    const std::uint32_t end = slice.first_position + slice.token_count;
    ROOST_CHECK(slice.token_count > 0 && slice.blocks.size() * options_.block_tokens >= end,
                "{} blocks for {} positions", slice.blocks.size(), end);
    for (std::uint32_t position = slice.first_position; position < end; ++position) {
      const BlockId block = slice.blocks[position / options_.block_tokens];
      plan_.positions.push_back(position);
      plan_.slots.push_back(block.value() * options_.block_tokens + position % options_.block_tokens);
    }
  }

  void AddBlocks(const BatchSlice& slice) {
    for (const BlockId block : slice.blocks) plan_.blocks.push_back(block.value());
  }

  void AddPacks(const BatchSlice& slice, std::uint32_t first_token) {
    for (std::uint32_t done = 0; done < slice.token_count; done += rows_per_pack_) {
      const std::uint32_t rows = std::min(rows_per_pack_, slice.token_count - done);
      AttentionItem item{.first_row = static_cast<std::uint32_t>(plan_.rows.size()),
                         .row_count = rows,
                         .first_block = static_cast<std::uint32_t>(plan_.blocks.size()),
                         .position_count = slice.first_position + done + rows};
      for (std::uint32_t r = 0; r < rows; ++r) {
        plan_.rows.push_back({first_token + done + r, slice.first_position + done + r});
      }
      for (std::uint32_t head = 0; head < options_.query_head_count; head += item.query_head_count) {
        item.kv_head = head / group_;
        item.first_query_head = head;
        item.query_head_count = std::min(heads_per_item_, (item.kv_head + 1) * group_ - head);
        AddItem(item);
      }
    }
  }

  // The item as it is, or as one item per span and the merges of its lanes.
  void AddItem(AttentionItem item) {
    const std::uint32_t end = item.position_count;
    if (output_ == AttentionItem::Output::kWhole || end <= kAttentionSpan) {
      plan_.items.push_back(item);
      return;
    }
    const std::uint32_t lanes = item.row_count * item.query_head_count;
    const std::uint32_t first_partial = plan_.partial_count;
    const std::uint32_t first_block = item.first_block;
    item.output = AttentionItem::Output::kPartial;
    for (std::uint32_t first = 0; first < end; first += kAttentionSpan) {
      item.first_position = first;
      item.position_count = std::min(kAttentionSpan, end - first);
      item.first_block = first_block + first / options_.block_tokens;
      item.first_partial = plan_.partial_count;
      plan_.partial_count += lanes;
      plan_.items.push_back(item);
    }
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      plan_.merges.push_back({.token = plan_.rows[item.first_row + lane / item.query_head_count].token,
                              .query_head = item.first_query_head + lane % item.query_head_count,
                              .first_partial = first_partial + lane,
                              .stride = lanes,
                              .count = (end + kAttentionSpan - 1) / kAttentionSpan});
    }
  }

  const Batch& batch_;
  const BatchPlanOptions& options_;
  BatchPlan& plan_;
  const std::uint32_t group_;           // query heads per kv head
  const std::uint32_t heads_per_item_;  // of one group
  const std::uint32_t rows_per_pack_;
  AttentionItem::Output output_ = AttentionItem::Output::kWhole;
};

}  // namespace

void PlanBatch(const Batch& batch, const BatchPlanOptions& options, BatchPlan& plan) {
  Planner(batch, options, plan).Run();
}

}  // namespace roost::worker

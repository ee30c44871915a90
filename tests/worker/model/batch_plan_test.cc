// The work list covers every (token, head, position) that attention needs exactly once, whole or in spans.
#include "worker/model/batch_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

using kernels::AttentionItem;
using kernels::kAttentionSpan;

struct PlannedBatch {
  Batch batch;
  std::vector<std::vector<BlockId>> blocks;
  BatchPlanOptions options;
  BatchPlan plan;
};

PlannedBatch RandomPlan(Rng& rng) {
  PlannedBatch result;
  result.options.block_tokens = 4U << rng.Below(7);
  result.options.kv_head_count = 1 + static_cast<std::uint32_t>(rng.Below(3));
  result.options.query_head_count = result.options.kv_head_count * (1 + static_cast<std::uint32_t>(rng.Below(20)));
  result.options.wanted_items = static_cast<std::uint32_t>(rng.Below(100));
  const std::uint64_t slices = 1 + rng.Below(4);
  std::uint32_t next_block = 0;
  for (std::uint64_t s = 0; s < slices; ++s) {
    BatchSlice slice;
    slice.first_position = static_cast<std::uint32_t>(rng.Below(700));
    slice.token_count = 1 + static_cast<std::uint32_t>(rng.Below(60));
    slice.wants_logits = rng.Below(2) == 0;
    std::vector<BlockId> blocks;
    for (std::uint32_t at = 0; at < slice.first_position + slice.token_count; at += result.options.block_tokens) {
      blocks.emplace_back(next_block++);
    }
    result.blocks.push_back(blocks);
    result.batch.slices.push_back(slice);
    result.batch.tokens.resize(result.batch.tokens.size() + slice.token_count);
  }
  for (std::uint64_t s = 0; s < slices; ++s) result.batch.slices[s].blocks = result.blocks[s];
  PlanBatch(result.batch, result.options, result.plan);
  return result;
}

TEST(BatchPlanTest, EveryTokenAndHeadIsCoveredOnce) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    const PlannedBatch p = RandomPlan(rng);
    const std::uint32_t group = p.options.query_head_count / p.options.kv_head_count;
    // (token, head) → positions covered so far, from the front.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> covered;
    std::set<std::uint32_t> partials;
    for (const AttentionItem& item : p.plan.items) {
      ASSERT_LE(item.row_count * item.query_head_count, kernels::kMaxPackLanes);
      for (std::uint32_t r = 0; r < item.row_count; ++r) {
        const kernels::AttentionRow& row = p.plan.rows[item.first_row + r];
        ASSERT_EQ(p.plan.positions[row.token], row.position);
        for (std::uint32_t h = 0; h < item.query_head_count; ++h) {
          ASSERT_EQ((item.first_query_head + h) / group, item.kv_head);
          std::uint32_t& end = covered[{row.token, item.first_query_head + h}];
          ASSERT_EQ(end, item.first_position);
          end = item.first_position + item.position_count;
          if (item.output == AttentionItem::Output::kPartial) {
            ASSERT_TRUE(partials.insert(item.first_partial + r * item.query_head_count + h).second);
          }
        }
      }
      if (item.output == AttentionItem::Output::kPartial) {
        ASSERT_EQ(item.first_position % kAttentionSpan, 0U);
        ASSERT_LE(item.position_count, kAttentionSpan);
      } else {
        ASSERT_EQ(item.first_position, 0U);
      }
    }
    ASSERT_EQ(covered.size(), p.batch.tokens.size() * p.options.query_head_count);
    for (const auto& [key, end] : covered) ASSERT_GT(end, p.plan.positions[key.first]);
    ASSERT_EQ(partials.size(), p.plan.partial_count);
    for (const kernels::AttentionMerge& merge : p.plan.merges) {
      for (std::uint32_t i = 0; i < merge.count; ++i) {
        ASSERT_EQ(partials.erase(merge.first_partial + i * merge.stride), 1U);
      }
    }
    ASSERT_TRUE(partials.empty());
  }
}

TEST(BatchPlanTest, SlotsAndLogitsRowsFollowTheBlocksAndWishes) {
  Rng rng(2);
  for (int round = 0; round < 100; ++round) {
    const PlannedBatch p = RandomPlan(rng);
    std::uint32_t token = 0;
    std::vector<std::uint32_t> wanted;
    for (const BatchSlice& slice : p.batch.slices) {
      for (std::uint32_t i = 0; i < slice.token_count; ++i, ++token) {
        const std::uint32_t position = slice.first_position + i;
        const BlockId block = slice.blocks[position / p.options.block_tokens];
        ASSERT_EQ(p.plan.positions[token], position);
        ASSERT_EQ(p.plan.slots[token], block.value() * p.options.block_tokens + position % p.options.block_tokens);
      }
      if (slice.wants_logits) wanted.push_back(token - 1);
    }
    ASSERT_EQ(p.plan.logits_rows, wanted);
  }
}

}  // namespace
}  // namespace roost::worker

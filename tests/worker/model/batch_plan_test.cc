// The inputs of ops besides the work list of attention: positions, slots and wanted logits.
#include "worker/model/batch_plan.h"

#include <gtest/gtest.h>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

TEST(BatchPlanTest, SlotsAndLogitsRowsFollowTheBlocksAndWishes) {
  Rng rng(2);
  for (int round = 0; round < 100; ++round) {
    const std::uint32_t block_tokens = 4U << rng.Below(7);
    std::vector<std::vector<BlockId>> blocks(1 + rng.Below(4));
    Batch batch;
    std::uint32_t next_block = 0;
    for (auto& of_slice : blocks) {
      BatchSlice slice{.blocks = {},
                       .first_position = static_cast<std::uint32_t>(rng.Below(700)),
                       .token_count = 1 + static_cast<std::uint32_t>(rng.Below(60)),
                       .logits_count = 0};
      slice.logits_count = static_cast<std::uint32_t>(rng.Below(slice.token_count + 1));
      while (of_slice.size() * block_tokens < slice.first_position + slice.token_count) {
        of_slice.emplace_back(next_block += 3);
      }
      slice.blocks = of_slice;
      batch.slices.push_back(slice);
      batch.tokens.resize(batch.tokens.size() + slice.token_count);
    }
    BatchPlan plan;
    PlanBatch(batch, {.block_tokens = block_tokens, .profile = {}}, plan);
    std::uint32_t token = 0;
    std::vector<std::uint32_t> wanted;
    for (const BatchSlice& slice : batch.slices) {
      for (std::uint32_t i = 0; i < slice.token_count; ++i, ++token) {
        const std::uint32_t position = slice.first_position + i;
        const BlockId block = slice.blocks[position / block_tokens];
        ASSERT_EQ(plan.positions[token], position);
        ASSERT_EQ(plan.slots[token], block.value() * block_tokens + position % block_tokens);
      }
      for (std::uint32_t of_end = slice.logits_count; of_end > 0; --of_end) wanted.push_back(token - of_end);
    }
    ASSERT_EQ(plan.logits_rows, wanted);
  }
}

}  // namespace
}  // namespace roost::worker

// The CUDA kernels of attention, run on the CPU thread by thread, against the reference.
#include "tests/kernels/attention_batch.h"
#include "tests/support/simt/device.h"
#include "tests/support/simt/ops.h"

namespace roost::kernels {
namespace {

OpTable SimtOps() {
  OpTable ops = simt::MemoryOps();
  ops.attention = [](Device& device, const AttentionArgs& args) {
    AttentionCuda(device, args);
    const simt::Counters& counters = simt::Device::Of(device).counters();
    EXPECT_GT(counters.matrix_loads, 0U);
    EXPECT_EQ(counters.matrix_load_conflicts, 0U) << "rows in shared memory that are read together share banks";
  };
  return ops;
}

// As of a device with so many places.
AttentionProfile ProfileOf(std::uint32_t concurrent_items) {
  simt::Device device;
  AttentionProfile profile = AttentionProfileCuda(device);
  profile.concurrent_items = concurrent_items;
  return profile;
}

void ExpectAgrees(const AttentionBatch& batch, std::uint32_t concurrent_items) {
  AttentionBatch::ExpectNear(batch.Run(SimtOps(), ProfileOf(concurrent_items)), batch.Wanted());
}

TEST(AttentionSimtTest, DecodesOfEveryGroupAndHeadSize) {
  for (const std::uint32_t head_dim : {64U, 128U}) {
    for (std::uint32_t group = 1; group <= 8; ++group) {
      AttentionBatch batch({.kv_heads = 2, .group = group, .head_dim = head_dim}, group);
      for (const std::uint32_t cached : {0U, 1U, 15U, 16U, 63U, 64U, 100U, 250U}) batch.Add(cached, 1);
      batch.Fill();
      SCOPED_TRACE(testing::Message() << "head " << head_dim << " group " << group);
      ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 1));
    }
  }
}

TEST(AttentionSimtTest, PrefillChunksInEveryTile) {
  for (const std::uint32_t head_dim : {64U, 128U}) {
    for (const std::uint32_t tokens : {1U, 4U, 5U, 16U, 17U, 32U, 33U, 70U}) {
      for (const std::uint32_t cached : {0U, 37U, 160U}) {
        AttentionBatch batch({.group = 4, .head_dim = head_dim}, tokens);
        batch.Add(cached, tokens);
        batch.Fill();
        SCOPED_TRACE(testing::Message() << "head " << head_dim << " tokens " << tokens << " cached " << cached);
        ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 1));
      }
    }
  }
}

TEST(AttentionSimtTest, BlocksOfEverySize) {
  for (const std::uint32_t block_tokens : {16U, 32U, 64U, 128U, 256U}) {
    AttentionBatch batch({.group = 3, .head_dim = 64, .block_tokens = block_tokens}, block_tokens);
    batch.Add(300, 1);
    batch.Add(290, 50);
    batch.Fill();
    ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 1));
  }
}

TEST(AttentionSimtTest, LongContextsAreCutAndMerged) {
  AttentionBatch batch({.group = 4, .head_dim = 128}, 5);
  batch.Add(1500, 1);
  batch.Add(700, 20);
  batch.Fill();
  worker::AttentionPlan plan;
  batch.MakePlan(ProfileOf(200), plan);
  ASSERT_FALSE(plan.merges.empty());
  ExpectAgrees(batch, 200);
}

TEST(AttentionSimtTest, RequestsShareAPrefix) {
  for (const std::uint32_t group : {1U, 4U, 8U}) {
    AttentionBatch batch({.group = group, .head_dim = 64}, group);
    for (std::uint32_t i = 0; i < 64; ++i) batch.Add(400 + 3 * i, 1, i < 40 ? 0 : 39, i < 40 ? 320 : 416);
    batch.Fill();
    worker::AttentionPlan plan;
    batch.MakePlan(ProfileOf(8), plan);
    ASSERT_TRUE(std::any_of(plan.items.begin(), plan.items.end(), [](const auto& item) { return item.row_count > 8; }));
    ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 8));
  }
}

TEST(AttentionSimtTest, RandomBatches) {
  Rng rng(7);
  for (std::uint64_t round = 0; round < 12; ++round) {
    const AttentionBatchShape shape{.kv_heads = 1 + static_cast<std::uint32_t>(rng.Below(2)),
                                    .group = 1 + static_cast<std::uint32_t>(rng.Below(8)),
                                    .head_dim = rng.Below(2) == 0 ? 64U : 128U,
                                    .block_tokens = 16U << rng.Below(5)};
    AttentionBatch batch(shape, round);
    batch.AddRandom(1 + rng.Below(16), 400, 60);
    batch.Fill();
    SCOPED_TRACE(testing::Message() << "round " << round);
    ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 1 + static_cast<std::uint32_t>(rng.Below(100))));
  }
}

TEST(AttentionSimtTest, AGroupBeyondTheLargestTileIsCut) {
  AttentionBatch batch({.group = 150, .head_dim = 64}, 1);
  batch.Add(40, 2);
  batch.Fill();
  ExpectAgrees(batch, 1);
}

}  // namespace
}  // namespace roost::kernels

// CUDA's attention against the reference; see tested_ops.h.
#include "tests/kernels/attention_batch.h"
#include "tests/kernels/tested_ops.h"
#include "tests/support/sanitized.h"

namespace roost::kernels {
namespace {

class AttentionCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto ops = TestedOps();
    if (!ops.ok()) GTEST_SKIP() << ops.error().ToString();
    ops_ = *ops;
  }

  // Uses the work lists for a device with this many places.
  void ExpectAgrees(const AttentionBatch& batch, std::uint32_t places) const {
    AttentionBatch::ExpectNear(batch.Run(*ops_, places), batch.Wanted());
  }

  [[nodiscard]] bool OnADevice() const { return ops_->name == "cuda"; }

  const OpTable* ops_ = nullptr;
};

TEST_F(AttentionCudaTest, DecodesOfEveryGroupAndHeadSize) {
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

TEST_F(AttentionCudaTest, PrefillChunksInEveryTile) {
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

TEST_F(AttentionCudaTest, BlocksOfEverySize) {
  for (const std::uint32_t block_tokens : {16U, 32U, 64U, 128U, 256U}) {
    AttentionBatch batch({.group = 3, .head_dim = 64, .block_tokens = block_tokens}, block_tokens);
    batch.Add(300, 1);
    batch.Add(290, 50);
    batch.Fill();
    ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 1));
  }
}

TEST_F(AttentionCudaTest, LongContextsAreCutAndMerged) {
  AttentionBatch batch({.group = 4, .head_dim = 128}, 5);
  batch.Add(1500, 1);
  batch.Add(700, 20);
  batch.Fill();
  ASSERT_FALSE(batch.PlanOf(*ops_, 200).merges.empty());
  ExpectAgrees(batch, 200);
}

// More parts than a warp has lanes.
TEST_F(AttentionCudaTest, ManyPartsAreMerged) {
  AttentionBatch batch({.group = 1, .head_dim = 64}, 6);
  batch.Add(5000, 1);
  batch.Add(3000, 3);
  batch.Fill();
  const worker::AttentionPlan plan = batch.PlanOf(*ops_, 600);
  ASSERT_TRUE(
      std::any_of(plan.merges.begin(), plan.merges.end(), [](const auto& merge) { return merge.part_count > 32; }));
  ExpectAgrees(batch, 600);
}

TEST_F(AttentionCudaTest, RequestsShareAPrefix) {
  for (const std::uint32_t group : {1U, 4U, 8U}) {
    AttentionBatch batch({.group = group, .head_dim = 64}, group);
    for (std::uint32_t i = 0; i < 64; ++i) batch.Add(400 + 3 * i, 1, i < 40 ? 0 : 39, i < 40 ? 320 : 416);
    batch.Fill();
    const worker::AttentionPlan plan = batch.PlanOf(*ops_, 8);
    ASSERT_TRUE(std::any_of(plan.items.begin(), plan.items.end(), [](const auto& item) { return item.row_count > 8; }));
    ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 8));
  }
}

TEST_F(AttentionCudaTest, RandomBatches) {
  constexpr std::uint64_t kRounds = testing_support::kSanitized ? 4 : 12;
  Rng rng(7);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const AttentionBatchShape shape{.kv_heads = 1 + static_cast<std::uint32_t>(rng.Below(2)),
                                    .group = 1 + static_cast<std::uint32_t>(rng.Below(8)),
                                    .head_dim = rng.Below(2) == 0 ? 64U : 128U,
                                    .block_tokens = 16U << rng.Below(5)};
    // Batches of many requests have short contexts, so that the shim is fast; on a device all contexts are long.
    const std::uint64_t requests = 1 + rng.Below(round % 2 == 0 ? 16 : 64);
    const std::uint32_t cached = OnADevice() ? 1500 : requests > 16 ? 100 : 400;
    AttentionBatch batch(shape, round);
    batch.AddRandom(requests, cached, requests > 16 ? 20 : 60);
    batch.Fill();
    SCOPED_TRACE(testing::Message() << "round " << round << ", " << requests << " requests");
    ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 1 + static_cast<std::uint32_t>(rng.Below(100))));
  }
}

TEST_F(AttentionCudaTest, SixtyFourRequestsOfAllKinds) {
  AttentionBatch batch({.kv_heads = 2, .group = 4, .head_dim = 128}, 64);
  batch.AddRandom(64, OnADevice() ? 1500 : 60, 12);
  batch.Fill();
  ExpectAgrees(batch, 16);
}

TEST_F(AttentionCudaTest, RowsWithoutAMaskSeeTheWholeRequest) {
  for (const std::uint32_t tokens : {1U, 3U, 16U, 40U}) {
    AttentionBatch batch({.group = 4, .head_dim = 128, .mask = AttentionBatchShape::Mask::kNone}, tokens);
    batch.Add(30, tokens);
    batch.Add(0, tokens);
    batch.Fill();
    ASSERT_NO_FATAL_FAILURE(ExpectAgrees(batch, 1));
  }
}

TEST_F(AttentionCudaTest, RowsWithoutAMaskSeeTheWholeRequestInPartsAndBehindASharedPrefix) {
  AttentionBatch batch({.group = 8, .head_dim = 64, .mask = AttentionBatchShape::Mask::kNone}, 9);
  batch.Add(700, 40);  // rows in several packs; the first packs end before the request does
  for (std::uint32_t i = 0; i < 40; ++i) batch.Add(330 + 7 * i, 1 + i % 3, 0, 320);
  batch.Fill();
  const worker::AttentionPlan plan = batch.PlanOf(*ops_, 100);
  const auto any_item = [&plan](const auto& holds) { return std::any_of(plan.items.begin(), plan.items.end(), holds); };
  ASSERT_TRUE(any_item([&plan](const auto& item) {
    return plan.rows[item.first_row].token == 0 && item.output == AttentionItem::Output::kPartial;
  }));
  ASSERT_TRUE(any_item([](const auto& item) { return item.first_position == 0 && item.row_count > 8; }));
  ExpectAgrees(batch, 100);
}

TEST_F(AttentionCudaTest, AGroupBeyondTheLargestTileIsCut) {
  AttentionBatch batch({.group = 150, .head_dim = 64}, 1);
  batch.Add(40, 2);
  batch.Fill();
  ExpectAgrees(batch, 1);
}

}  // namespace
}  // namespace roost::kernels

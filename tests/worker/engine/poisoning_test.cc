// With check_invariants on, a block is handed out without readable content.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"

namespace roost::testing_support {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;

// Keeps the batch of the last step, without the slices' blocks, which are gone.
class WatchedModel final : public worker::Model {
 public:
  explicit WatchedModel(std::uint32_t block_count) : model_(FakeModel::Options{.block_count = block_count}) {}

  [[nodiscard]] const worker::ModelShape& shape() const override { return model_.shape(); }
  [[nodiscard]] std::uint32_t block_tokens() const override { return model_.block_tokens(); }
  [[nodiscard]] std::uint32_t block_count() const override { return model_.block_count(); }
  void Compute(const worker::Batch& batch, const worker::Draws& draws) override {
    last_ = batch;
    blocks_.clear();
    for (const worker::BatchSlice& slice : batch.slices) {
      blocks_.insert(blocks_.end(), slice.blocks.begin(), slice.blocks.end());
    }
    model_.Compute(batch, draws);
  }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override { return model_.AwaitSampled(); }
  [[nodiscard]] worker::Scores AwaitedScores() const override { return model_.AwaitedScores(); }
  [[nodiscard]] std::span<const float> Logits() override { return model_.Logits(); }

  [[nodiscard]] const worker::Batch& last() const { return last_; }
  [[nodiscard]] const std::vector<BlockId>& blocks() const { return blocks_; }  // of all slices

 private:
  FakeModel model_;
  worker::Batch last_;
  std::vector<BlockId> blocks_;
};

// `count` tokens; a different `text` begins differently.
std::vector<TokenId> Text(std::uint32_t text, std::uint32_t count) {
  std::vector<TokenId> tokens(count);
  for (std::uint32_t i = 0; i < count; ++i) tokens[i] = text + i % 30;
  return tokens;
}

TEST(PoisoningTest, NothingIsPoisonedUnlessInvariantsAreChecked) {
  const ManualClock clock;
  WatchedModel model(8);
  EngineHarness harness(model, clock, {});
  ASSERT_TRUE(harness.Submit(GreedyRequest(1, Text(0, 40), 1)).ok());
  harness.Step();
  EXPECT_THAT(model.blocks(), SizeIs(3));
  EXPECT_THAT(model.last().poisoned, IsEmpty());
}

TEST(PoisoningTest, ABlockIsPoisonedInTheStepThatItIsHandedOutIn) {
  const ManualClock clock;
  WatchedModel model(8);
  EngineHarness harness(model, clock, {.check_invariants = true});
  ASSERT_TRUE(harness.Submit(GreedyRequest(1, Text(0, 31), 3)).ok());
  harness.Step();
  EXPECT_THAT(model.last().poisoned, ElementsAreArray(model.blocks()));
  harness.Step();  // token 32 is the last of the second block
  EXPECT_THAT(model.last().poisoned, IsEmpty());
  harness.Step();
  ASSERT_THAT(model.blocks(), SizeIs(3));
  EXPECT_THAT(model.last().poisoned, ElementsAre(model.blocks()[2]));
}

TEST(PoisoningTest, ABlockIsPoisonedInTheStepAfterItWasFreed) {
  const ManualClock clock;
  WatchedModel model(8);
  EngineHarness harness(model, clock, {.check_invariants = true});
  wire::Generate passing = GreedyRequest(1, Text(0, 31), 1);
  passing.cache_mode = wire::CacheMode::kOff;
  (void)harness.Serve(std::move(passing));  // ends, and leaves no block
  const std::vector<BlockId> freed = model.blocks();
  ASSERT_THAT(freed, SizeIs(2));
  ASSERT_TRUE(harness.Submit(GreedyRequest(2, Text(50, 3), 2)).ok());
  harness.Step();
  ASSERT_THAT(model.blocks(), SizeIs(1));
  EXPECT_THAT(model.last().poisoned, IsSupersetOf(freed));
  harness.Step();
  EXPECT_THAT(model.last().poisoned, IsEmpty());
}

TEST(PoisoningTest, ABlockThatIsCopiedFromAndHandedOutInOneStepIsNotPoisoned) {
  const ManualClock clock;
  WatchedModel model(4);
  EngineHarness harness(model, clock, {.check_invariants = true});
  (void)harness.Serve(GreedyRequest(1, Text(0, 10), 1));  // leaves a block of 10 rows
  ASSERT_TRUE(harness.Submit(GreedyRequest(2, Text(0, 15), 1)).ok());
  ASSERT_TRUE(harness.Submit(GreedyRequest(3, Text(50, 40), 1)).ok());
  harness.Step();
  ASSERT_THAT(model.last().copies, SizeIs(1));
  const BlockId source = model.last().copies[0].from;
  ASSERT_THAT(model.blocks(), Contains(source));
  EXPECT_THAT(model.last().poisoned, Not(IsEmpty()));
  EXPECT_THAT(model.last().poisoned, Not(Contains(source)));
}

}  // namespace
}  // namespace roost::testing_support

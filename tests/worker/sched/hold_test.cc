// The effect of the minimum hold on requests: whose blocks stay, who waits for them and for how long.
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tests/worker/sched/scheduler_fixture.h"
#include "worker/cache/eviction/eviction_factory.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;

class HoldTest : public SchedulerTest {
 protected:
  static constexpr Duration kHold = milliseconds(4000);

  // Blocks of four tokens; half of them may be held.
  void MakeHolding(std::uint32_t block_count) {
    Make({.block_count = block_count, .cache = {.block_tokens = kBlockTokens, .min_hold = kHold}});
    AdvanceTo(milliseconds(0));
  }

  void AdvanceTo(Duration time) { scheduler_->AdvanceTo(Instant(time)); }

  // A request that comes, has `output_count` tokens of output, and ends, alone.
  void Serve(const std::vector<TokenId>& prompt, std::uint32_t output_count = 1) {
    const SequenceId id = Submit(prompt);
    while (scheduler_->Get(id).token_count() < prompt.size() + output_count) Step();
    scheduler_->Remove(id);
    CheckInvariants();
  }

  // The number of the prompt's first blocks that are cached.
  [[nodiscard]] std::size_t CachedBlocks(const std::vector<TokenId>& prompt) {
    const std::vector<BlockHash> hashes = HashBlocks(kRoot, prompt, cache_->block_tokens());
    std::vector<BlockRef> matched;
    cache_->Match({kRoot, hashes, prompt}, static_cast<std::uint32_t>(hashes.size()), matched);
    return matched.size();
  }

  [[nodiscard]] bool Runs(SequenceId id) const { return scheduler_->Get(id).state == Sequence::State::kRunning; }

  // Appends enough tokens to fill `block_count` more blocks, and computes them.
  void Grow(SequenceId id, std::uint32_t block_count) {
    for (std::uint32_t token = 0; token < block_count * kBlockTokens; ++token) {
      if (scheduler_->Get(id).remaining_count() == 0) scheduler_->Append(id, 9);
      Compute();
    }
  }
};

// ---- a flood ----

class HoldOfPolicyTest : public HoldTest, public testing::WithParamInterface<std::string_view> {
 protected:
  static constexpr std::uint32_t kPromptCount = 14;

  // 160 blocks, 64 of which hold a prefix that was just computed.
  void SetUp() override {
    Make({.block_count = 160,
          .cache = {.block_tokens = 16, .min_hold = kHold},
          .eviction = GetParam(),
          .max_batch_tokens = 4096});
    AdvanceTo(milliseconds(0));
    Serve(prefix_, 8);
  }
  // 16 blocks for each prompt, and one for the output.
  static std::vector<TokenId> OtherPrompt(TokenId number) { return Text(256, 10 + number); }

  const std::vector<TokenId> prefix_ = Text(1024, 1);
};

TEST_P(HoldOfPolicyTest, OtherPromptsOneAfterTheOtherLeaveAHeldPrefixWhole) {
  for (TokenId prompt = 0; prompt < kPromptCount; ++prompt) {
    AdvanceTo(milliseconds(200 * (prompt + 1)));
    Serve(OtherPrompt(prompt), 8);
  }
  RecordProperty("held_blocks_left", static_cast<int>(CachedBlocks(prefix_)));
  EXPECT_EQ(CachedBlocks(prefix_), 64U);
}

// A request that hits the prefix runs during the first half of the flood.
TEST_P(HoldOfPolicyTest, OtherPromptsLeaveAHeldPrefixWholeThatIsUsedMeanwhile) {
  const SequenceId user = Submit(Join(prefix_, Text(16, 2)));
  Compute();
  for (TokenId prompt = 0; prompt < kPromptCount; ++prompt) {
    AdvanceTo(milliseconds(200 * (prompt + 1)));
    Serve(OtherPrompt(prompt), 8);
    if (prompt == kPromptCount / 2) scheduler_->Remove(user);
  }
  EXPECT_EQ(CachedBlocks(prefix_), 64U);
}

TEST_P(HoldOfPolicyTest, AfterItsHoldThePrefixGoesLikeOthers) {
  AdvanceTo(kHold);
  for (TokenId prompt = 0; prompt < kPromptCount; ++prompt) Serve(OtherPrompt(prompt), 8);
  EXPECT_LT(CachedBlocks(prefix_), 64U);
}

// Five fit at first. Then 16 of their blocks are held in addition to the prefix, and four fit at a time.
TEST_P(HoldOfPolicyTest, OtherPromptsAllAtOnceTakeTurnsAndLeaveAHeldPrefixWhole) {
  std::vector<SequenceId> waiting;
  for (TokenId prompt = 0; prompt < kPromptCount; ++prompt) waiting.push_back(Submit(OtherPrompt(prompt)));
  std::uint32_t step = 0;
  for (; !waiting.empty(); ++step) {
    ASSERT_LT(step, 4 * 10U);
    AdvanceTo(milliseconds(50 * step));
    Step();
    ASSERT_GE(scheduler_->running_count(), std::min<std::size_t>(4, waiting.size()));
    std::erase_if(waiting, [this](SequenceId id) {
      if (scheduler_->Get(id).token_count() < 256 + 8) return false;
      scheduler_->Remove(id);
      return true;
    });
  }
  EXPECT_EQ(CachedBlocks(prefix_), 64U);
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, HoldOfPolicyTest, testing::ValuesIn(kEvictionPolicyNames), [](const auto& policy) {
  std::string name(policy.param);
  std::erase(name, '-');
  return name;
});

// ---- sequences that take held blocks ----

TEST_F(HoldTest, WhoRunsAloneTakesHeldBlocksAtOnceTheOldestFirst) {
  MakeHolding(16);
  Serve(Text(16, 1));
  Serve(Text(16, 2));
  ASSERT_EQ(cache_->claims().held_count(), 8U);
  const SequenceId id = Submit(Text(40, 3));
  Step();
  EXPECT_TRUE(Runs(id));
  EXPECT_EQ(CachedBlocks(Text(16, 1)), 2U);
  EXPECT_EQ(CachedBlocks(Text(16, 2)), 4U);
}

TEST_F(HoldTest, OneWaitsForThoseThatRunRatherThanTakeHeldBlocks) {
  MakeHolding(16);
  Serve(Text(32, 1));
  const SequenceId running = Submit(Text(16, 2));
  Step();
  const SequenceId waiting = Submit(Text(16, 3));
  Steps(3);
  EXPECT_FALSE(Runs(waiting));
  scheduler_->Remove(running);
  Step();
  EXPECT_TRUE(Runs(waiting));
  EXPECT_EQ(CachedBlocks(Text(32, 1)), 8U);
}

TEST_F(HoldTest, WhenTheHoldEndsNobodyWaitsForIt) {
  MakeHolding(16);
  Serve(Text(32, 1));
  Submit(Text(16, 2));
  AdvanceTo(milliseconds(3000));
  Step();
  const SequenceId waiting = Submit(Text(16, 3));
  Step();
  EXPECT_FALSE(Runs(waiting));
  AdvanceTo(kHold);
  Step();
  EXPECT_TRUE(Runs(waiting));
}

// The end of the running sequence would leave eight blocks, which are too few.
TEST_F(HoldTest, WhoWouldWaitInVainTakesHeldBlocksWhileOthersRun) {
  MakeHolding(16);
  Serve(Text(32, 1));
  const SequenceId running = Submit(Text(4, 2));
  Step();
  const SequenceId large = Submit(Text(36, 3));
  Step();
  EXPECT_TRUE(Runs(large));
  EXPECT_TRUE(Runs(running));
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
  EXPECT_LT(CachedBlocks(Text(32, 1)), 8U);
}

TEST_F(HoldTest, WithoutRoomEvenInHeldBlocksOneWaits) {
  MakeHolding(16);
  Serve(Text(16, 1));
  const SequenceId running = Submit(Text(36, 2));
  Step();
  const SequenceId large = Submit(Text(36, 3));
  Step();
  EXPECT_FALSE(Runs(large));
  EXPECT_EQ(CachedBlocks(Text(16, 1)), 4U);
  scheduler_->Remove(running);
  Step();
  EXPECT_TRUE(Runs(large));
}

// Each time a hold is about to end, a sequence leaves blocks that are held again.
TEST_F(HoldTest, NobodyWaitsLongerThanAHoldForHeldBlocks) {
  Make({.block_count = 24, .cache = {.block_tokens = kBlockTokens, .min_hold = kHold, .held_share_limit = 0.75}});
  AdvanceTo(milliseconds(0));
  Submit(Text(16, 1));  // stays and uses four blocks
  const SequenceId second = Submit(Text(28, 2));
  Compute();
  AdvanceTo(milliseconds(1000));
  const SequenceId first = Submit(Text(32, 3));
  Compute();
  scheduler_->Remove(first);
  const SequenceId waiting = Submit(Text(48, 4));  // thirteen blocks
  AdvanceTo(milliseconds(1200));
  Compute();
  AdvanceTo(milliseconds(4900));
  Grow(second, 1);
  scheduler_->Remove(second);
  AdvanceTo(milliseconds(5199));
  Compute();
  EXPECT_FALSE(Runs(waiting));
  EXPECT_GT(cache_->claims().held_count(), 0U);
  AdvanceTo(milliseconds(5200));
  Compute();
  EXPECT_TRUE(Runs(waiting));
  EXPECT_GT(cache_->claims().held_count(), 0U);
}

TEST_F(HoldTest, NobodyPassesOneThatWaitsForThoseThatRun) {
  MakeHolding(16);
  Serve(Text(32, 1));
  Submit(Text(12, 2));
  Step();
  const SequenceId large = Submit(Text(20, 3));
  const SequenceId small = Submit(Text(4, 4));
  Step();
  EXPECT_FALSE(Runs(large));
  EXPECT_FALSE(Runs(small));
}

TEST_F(HoldTest, AmongThoseThatWaitTheHigherPriorityGoesFirst) {
  MakeHolding(16);
  Serve(Text(32, 1));
  const SequenceId running = Submit(Text(16, 2));
  Step();
  const SequenceId low = Submit(Text(16, 3));
  const SequenceId high = Submit(SequenceSpec{.root = kRoot, .prompt = Text(16, 4), .priority = 90});
  Step();
  EXPECT_FALSE(Runs(low) || Runs(high));
  scheduler_->Remove(running);
  Step();
  EXPECT_TRUE(Runs(high));
  EXPECT_FALSE(Runs(low));
}

TEST_F(HoldTest, WhoHitsAHeldPrefixNeedsNoRoomForIt) {
  MakeHolding(16);
  Serve(Text(32, 1));
  Submit(Text(16, 2));
  Step();
  const SequenceId hit = Submit(Join(Text(32, 1), Text(4, 3)));
  Step();
  EXPECT_TRUE(Runs(hit));
  EXPECT_EQ(scheduler_->Get(hit).cached_token_count, 32U);
}

TEST_F(HoldTest, ARunningSequenceTakesHeldBlocksBeforeAnotherIsPreempted) {
  MakeHolding(16);
  Serve(Text(32, 1));
  const SequenceId first = Submit(Text(12, 2));
  const SequenceId second = Submit(Text(12, 3));
  Steps(12);
  EXPECT_TRUE(Runs(first) && Runs(second));
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
  EXPECT_EQ(BlocksOf(first).size() + BlocksOf(second).size(), 12U);
  EXPECT_EQ(CachedBlocks(Text(32, 1)), 4U);
}

TEST_F(HoldTest, HeldBlocksGoBeforePinsEnd) {
  Make({.block_count = 16, .cache = {.block_tokens = kBlockTokens, .min_hold = kHold, .held_share_limit = 1}});
  AdvanceTo(milliseconds(0));
  Serve(Text(16, 1));
  const std::vector<BlockHash> hashes = HashBlocks(kRoot, Text(16, 1), kBlockTokens);
  cache_->claims().Pin(hashes, std::nullopt);
  Serve(Text(32, 2));
  const SequenceId large = Submit(Text(47, 3));
  Step();
  EXPECT_TRUE(Runs(large));
  EXPECT_EQ(cache_->claims().pinned_count(), 4U);
  EXPECT_EQ(cache_->claims().held_count(), 0U);
  Steps(2);
  EXPECT_EQ(cache_->claims().pinned_count(), 0U);
  EXPECT_EQ(scheduler_->counters().dropped_pins, 1U);
}

TEST_F(HoldTest, HeldBlocksAreNotReportedAsFree) {
  MakeHolding(16);
  Serve(Text(32, 1));
  EXPECT_EQ(scheduler_->Load().free_block_count, 8U);
}

}  // namespace
}  // namespace roost::worker

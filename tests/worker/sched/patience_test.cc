// No priority starves: an endless stream of higher priorities delays a lower one by kPriorityPatience and no more.
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

class PatienceTest : public SchedulerTest, public testing::WithParamInterface<SchedulePolicy> {
 protected:
  static constexpr Duration kSecond = std::chrono::seconds(1);
  static constexpr Duration kForEver = 5 * kPriorityPatience;

  void SetUp() override { Make({.block_count = 400, .max_batch_tokens = 10, .policy = GetParam()}); }

  // A step each second; two prompts of the highest priority arrive per second, and one of them takes up the whole step.
  // Returns how long it took until the sequence had computed its prompt.
  Duration TimeToCompute(SequenceId low) {
    for (Duration passed{0}; passed < kForEver; passed += kSecond) {
      scheduler_->AdvanceTo(Instant() + passed);
      for (int i = 0; i < 2; ++i) {
        (void)Submit(SequenceSpec{.root = kRoot, .prompt = Text(10, ++stream_), .priority = wire::kMaxPriority});
      }
      for (const auto& [id, token_count] : Compute()) {
        if (scheduler_->Get(id).remaining_count() > 0) continue;
        if (id == low) return passed;
        scheduler_->Remove(id);
      }
    }
    ADD_FAILURE() << "it starves";
    return kForEver;
  }

  TokenId stream_ = 10;
};

TEST_P(PatienceTest, ALowPriorityWaitsNoLongerThanItsPatience) {
  const SequenceId low = Submit(SequenceSpec{.root = kRoot, .prompt = Text(10, 1), .priority = 0});
  EXPECT_EQ(TimeToCompute(low), kPriorityPatience);
}

TEST_P(PatienceTest, NorDoesTheRestOfAPromptThatHasBegun) {
  const SequenceId low = Submit(SequenceSpec{.root = kRoot, .prompt = Text(30, 1), .priority = 0});
  Compute();
  EXPECT_EQ(TimeToCompute(low), kPriorityPatience + kSecond);
}

INSTANTIATE_TEST_SUITE_P(Policies, PatienceTest,
                         testing::Values(SchedulePolicy::kFcfs, SchedulePolicy::kLongestPrefix,
                                         SchedulePolicy::kShortestUncached));

}  // namespace
}  // namespace roost::worker

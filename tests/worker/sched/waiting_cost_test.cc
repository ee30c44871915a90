// A step costs the same however many sequences wait. Measured in CPU time of this thread, which other processes do not
// affect, and as a ratio.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

class WaitingCostTest : public SchedulerTest, public testing::WithParamInterface<SchedulePolicy> {
 protected:
  // More than a step looks at, and many times more. Without its limits a step would cost 200 times as much.
  static constexpr TokenId kSome = 100;
  static constexpr TokenId kMany = 20'000;
  static constexpr double kMaxTimes = 8;

  static double ProcessorSeconds() {
    timespec time{};
    EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  void Begin(std::uint32_t max_batch_tokens, std::uint32_t max_running) {
    Make({.block_count = 4000,
          .max_batch_tokens = max_batch_tokens,
          .max_running = max_running,
          .max_waiting = kMany,
          .policy = GetParam(),
          .first_token_target = std::chrono::seconds(1)});
  }

  // As the engine does it: without the fixture's check of all invariants.
  void ComputeStep() {
    scheduler_->AdvanceTo(now_ += std::chrono::milliseconds(1));
    const std::vector<ScheduledSlice>& slices = scheduler_->Schedule();
    scheduler_->NotePace(testing_support::SampleOf(slices, std::chrono::milliseconds(1)));
    scheduler_->Commit();
    for (const ScheduledSlice& slice : slices) {
      if (slice.wants_logits) scheduler_->Append(slice.sequence->id, 7);
    }
    load_ = scheduler_->Load();
  }

  // The fastest of several runs of a few steps.
  double SecondsOfSteps() {
    constexpr int kTurns = 6;
    constexpr int kSteps = 5;
    double least = std::numeric_limits<double>::infinity();
    for (int turn = 0; turn < kTurns; ++turn) {
      const double begin = ProcessorSeconds();
      for (int step = 0; step < kSteps; ++step) ComputeStep();
      least = std::min(least, ProcessorSeconds() - begin);
    }
    return least;
  }

  Instant now_;
  wire::Load load_;
};

TEST_P(WaitingCostTest, BehindAFullBatch) {
  const auto seconds_with = [this](TokenId waiting) {
    Begin(64, 8);
    for (TokenId i = 0; i < 8; ++i) (void)Submit(Text(8, i + 1));
    ComputeStep();
    for (TokenId i = 0; i < waiting; ++i) (void)Submit(Text(12, i + 9));
    const double seconds = SecondsOfSteps();
    EXPECT_EQ(load_.running_requests, 8U);
    EXPECT_EQ(load_.waiting_requests, waiting);
    return seconds;
  };
  const double with_some = seconds_with(kSome);
  EXPECT_LE(seconds_with(kMany), kMaxTimes * with_some);
}

TEST_P(WaitingCostTest, ForAPrefixThatIsBeingComputed) {
  const auto seconds_with = [this](TokenId waiting) {
    Begin(4, 4);
    const std::vector<TokenId> shared = Text(400, 1);
    (void)Submit(shared);
    ComputeStep();
    for (TokenId i = 0; i < waiting; ++i) (void)Submit(Join(shared, Text(4, i + 2)));
    const double seconds = SecondsOfSteps();
    EXPECT_EQ(load_.running_requests, 1U);
    EXPECT_EQ(load_.waiting_requests, waiting);
    return seconds;
  };
  const double with_some = seconds_with(kSome);
  EXPECT_LE(seconds_with(kMany), kMaxTimes * with_some);
}

INSTANTIATE_TEST_SUITE_P(Policies, WaitingCostTest,
                         testing::Values(SchedulePolicy::kFcfs, SchedulePolicy::kLongestPrefix,
                                         SchedulePolicy::kShortestUncached));

}  // namespace
}  // namespace roost::worker

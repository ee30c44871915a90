#include "kernels/cpu/work_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>
#include <vector>

namespace roost::kernels {
namespace {

using std::chrono::seconds;

class PoolWatchTest : public testing::Test {
 protected:
  PoolWatchTest() {
    while (pool_.HelperIds().empty()) std::this_thread::yield();
  }

  // Each thread of the pool has run and waited so long in a second; then the watch looks.
  void Second(Duration ran, Duration waited) {
    for (const pid_t thread : {ThisThreadId(), pool_.HelperIds().front()}) {
      times_[thread].ran += ran;
      times_[thread].waited += waited;
    }
    clock_.Advance(seconds(1));
    watch_.Look(clock_.Now());
  }

  WorkPool pool_{2};
  ManualClock clock_;
  std::map<pid_t, ThreadTimes> times_;
  bool counts_ = true;
  std::vector<std::uint32_t> told_;
  PoolWatch watch_{pool_, [this](std::uint32_t in_use) { told_.push_back(in_use); },
                   [this](pid_t thread) { return counts_ ? std::optional(times_[thread]) : std::nullopt; }};
};

TEST_F(PoolWatchTest, ThePoolComputesWithFewerThreadsWhileTheyWait) {
  Second(seconds(1), seconds(0));
  EXPECT_EQ(pool_.threads_in_use(), 2U);
  Second(seconds(2), seconds(1));
  EXPECT_EQ(pool_.threads_in_use(), 1U);
  EXPECT_EQ(told_, std::vector<std::uint32_t>{1});
}

TEST_F(PoolWatchTest, TellsOfAllThreadsWhenTheProbeHasSucceeded) {
  Second(seconds(1), seconds(0));
  Second(seconds(2), seconds(1));
  for (int i = 0; i < 10; ++i) Second(seconds(1), seconds(0));
  EXPECT_EQ(pool_.threads_in_use(), 2U);
  EXPECT_EQ(told_, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(PoolWatchTest, AProbeThatFailsIsNotTold) {
  Second(seconds(1), seconds(0));
  Second(seconds(2), seconds(1));
  while (pool_.threads_in_use() == 1) Second(seconds(1), seconds(0));
  Second(seconds(2), seconds(1));
  EXPECT_EQ(pool_.threads_in_use(), 1U);
  EXPECT_EQ(told_, std::vector<std::uint32_t>{1});
}

TEST_F(PoolWatchTest, WhatThreadsDidBeforeItLookedSaysNothing) {
  Second(seconds(9), seconds(90));
  EXPECT_EQ(pool_.threads_in_use(), 2U);
}

TEST_F(PoolWatchTest, LooksOnceInAWindow) {
  Second(seconds(1), seconds(0));
  times_[ThisThreadId()] += {.ran = seconds(2), .waited = seconds(1)};
  watch_.Look(clock_.Now() + ThreadGovernor::kWindow / 2);
  EXPECT_EQ(pool_.threads_in_use(), 2U);
  watch_.Look(clock_.Now() + ThreadGovernor::kWindow);
  EXPECT_EQ(pool_.threads_in_use(), 1U);
}

TEST_F(PoolWatchTest, KeepsAllThreadsWhereTheKernelDoesNotCount) {
  counts_ = false;
  for (int i = 0; i < 10; ++i) Second(seconds(2), seconds(1));
  EXPECT_EQ(pool_.threads_in_use(), 2U);
}

}  // namespace
}  // namespace roost::kernels

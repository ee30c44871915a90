// A machine of equal processors, which the kernel shares out fairly among the pool's threads and busy processes.
#include "kernels/cpu/work_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace roost::kernels {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Machine {
 public:
  explicit Machine(std::uint32_t cores) : cores_(cores), governor_(cores) {}

  void SetBusyProcesses(std::uint32_t count) { busy_ = count; }

  // Windows in which all threads have work for this share of the time.
  void Run(Duration time, double work = 1) {
    for (const Instant end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(ThreadGovernor::kWindow);
      const double runnable = governor_.in_use() + busy_;
      const double share = std::min(1.0, cores_ / runnable);
      const Duration computing = FromSeconds(ToSeconds(ThreadGovernor::kWindow) * governor_.in_use() * work);
      const Duration ran = FromSeconds(ToSeconds(computing) * share);
      const std::uint32_t before = governor_.in_use();
      governor_.Decide({.ran = ran, .waited = computing - ran}, clock_.Now());
      if (governor_.in_use() > before) ++raises_;
    }
  }

  [[nodiscard]] const ThreadGovernor& governor() const { return governor_; }
  [[nodiscard]] int raises() const { return raises_; }

 private:
  const std::uint32_t cores_;
  std::uint32_t busy_ = 0;
  int raises_ = 0;
  ManualClock clock_;
  ThreadGovernor governor_;
};

TEST(ThreadGovernorTest, KeepsAllThreadsOnAQuietMachine) {
  Machine machine(2);
  machine.Run(seconds(60));
  EXPECT_EQ(machine.governor().in_use(), 2U);
  EXPECT_EQ(machine.governor().settled(), 2U);
}

TEST(ThreadGovernorTest, LeavesOneOfTwoProcessorsToABusyProcess) {
  Machine machine(2);
  machine.SetBusyProcesses(1);
  machine.Run(seconds(1));
  EXPECT_EQ(machine.governor().in_use(), 1U);
  EXPECT_EQ(machine.governor().settled(), 1U);
}

TEST(ThreadGovernorTest, OneBusyProcessAmongManyProcessorsChangesNothing) {
  Machine machine(16);
  machine.SetBusyProcesses(1);
  machine.Run(seconds(60));
  EXPECT_EQ(machine.governor().in_use(), 16U);
}

TEST(ThreadGovernorTest, KeepsAllThreadsWhereNotEvenOneHasAProcessor) {
  for (const std::uint32_t busy : {2U, 4U, 30U}) {
    Machine machine(2);
    machine.SetBusyProcesses(busy);
    machine.Run(seconds(60));
    EXPECT_EQ(machine.governor().in_use(), 2U) << busy << " busy processes";
  }
}

TEST(ThreadGovernorTest, TakesAllThreadsAgainWhenALoadGrowsBeyondTheProcessors) {
  Machine machine(2);
  machine.SetBusyProcesses(1);
  machine.Run(seconds(3));
  ASSERT_EQ(machine.governor().in_use(), 1U);
  machine.SetBusyProcesses(4);
  machine.Run(seconds(1));
  EXPECT_EQ(machine.governor().in_use(), 2U);
  machine.Run(seconds(60));
  EXPECT_EQ(machine.governor().in_use(), 2U);
}

TEST(ThreadGovernorTest, ProbesRarelyWhileTheMachineStaysBusy) {
  Machine machine(2);
  machine.SetBusyProcesses(1);
  machine.Run(seconds(320));
  EXPECT_LE(machine.raises(), 12);
  EXPECT_GE(machine.raises(), 8) << "at least once in the longest pause";
  EXPECT_EQ(machine.governor().settled(), 1U) << "a probe that fails does not count";
}

TEST(ThreadGovernorTest, TakesAllProcessorsAgainWhenTheyAreFree) {
  Machine machine(2);
  machine.SetBusyProcesses(1);
  machine.Run(seconds(320));
  machine.SetBusyProcesses(0);
  machine.Run(ThreadGovernor::kLongestPause + seconds(2));
  EXPECT_EQ(machine.governor().in_use(), 2U);
  EXPECT_EQ(machine.governor().settled(), 2U);
}

TEST(ThreadGovernorTest, RisesThroughManyThreadsWithoutPauses) {
  Machine machine(64);
  machine.SetBusyProcesses(40);
  machine.Run(seconds(3));
  EXPECT_EQ(machine.governor().in_use(), 24U);
  machine.SetBusyProcesses(0);
  machine.Run(ThreadGovernor::kLongestPause + seconds(8));
  EXPECT_EQ(machine.governor().in_use(), 64U);
}

TEST(ThreadGovernorTest, AShortPauseFollowsALoadThatHadEnded) {
  Machine machine(2);
  machine.SetBusyProcesses(1);
  machine.Run(seconds(320));
  machine.SetBusyProcesses(0);
  machine.Run(seconds(60));
  machine.SetBusyProcesses(1);
  machine.Run(seconds(1));
  machine.SetBusyProcesses(0);
  machine.Run(ThreadGovernor::kFirstPause + seconds(1));
  EXPECT_EQ(machine.governor().in_use(), 2U);
}

TEST(ThreadGovernorTest, CollectsTheTimesOfAnIdlePoolUntilTheyTellSomething) {
  ThreadGovernor governor(2);
  ManualClock clock;
  const ThreadTimes little{.ran = milliseconds(20), .waited = milliseconds(10)};
  EXPECT_EQ(governor.Decide(little, clock.Now()), 2U);
  EXPECT_EQ(governor.Decide(little, clock.Now()), 2U);
  EXPECT_EQ(governor.Decide(little, clock.Now()), 2U);
  EXPECT_EQ(governor.Decide(little, clock.Now()), 1U);
}

TEST(ThreadGovernorTest, AOnlyThreadStays) {
  ThreadGovernor governor(1);
  EXPECT_EQ(governor.Decide({.ran = seconds(0), .waited = seconds(9)}, Instant(seconds(9))), 1U);
  EXPECT_EQ(governor.Decide({.ran = seconds(7), .waited = seconds(3)}, Instant(seconds(19))), 1U);
  EXPECT_EQ(governor.Decide({.ran = seconds(9), .waited = seconds(0)}, Instant(seconds(99))), 1U);
}

}  // namespace
}  // namespace roost::kernels

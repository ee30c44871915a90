#include "common/wire/crowding.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace roost::wire {
namespace {

ComputeShare OnMachine(std::uint64_t machine, std::uint32_t threads) {
  return {.threads = threads, .machine = machine, .machine_cores = 8};
}

ComputeShare InGroup(std::uint64_t group, std::uint32_t threads) {
  ComputeShare share = OnMachine(1, threads);
  share.cpu_group = group;
  share.cpu_group_cores = 2;
  return share;
}

Crowding OfFirst(const std::vector<ComputeShare>& all) { return CrowdingOf(all.front(), all); }

TEST(CrowdingTest, ThreadsOfAMachinesWorkersMayBeAsManyAsItsProcessors) {
  EXPECT_EQ(OfFirst({OnMachine(1, 4), OnMachine(1, 4)}), Crowding());
  EXPECT_EQ(OfFirst({OnMachine(1, 8), OnMachine(1, 8)}), (Crowding{.workers = 2, .threads = 16, .cores = 8}));
  EXPECT_EQ(OfFirst({OnMachine(1, 8), OnMachine(2, 8)}), Crowding()) << "another machine";
}

TEST(CrowdingTest, ContainersOfOneMachineShareItsProcessors) {
  EXPECT_EQ(OfFirst({InGroup(1, 2), InGroup(2, 2)}), Crowding());
  EXPECT_EQ(OfFirst({InGroup(1, 2), InGroup(2, 2), OnMachine(1, 8)}),
            (Crowding{.workers = 3, .threads = 12, .cores = 8}));
}

TEST(CrowdingTest, WorkersOfOneQuotaShareIt) {
  EXPECT_EQ(OfFirst({InGroup(1, 2), InGroup(1, 1)}), (Crowding{.workers = 2, .threads = 3, .cores = 2}));
  EXPECT_EQ(OfFirst({InGroup(1, 1), InGroup(1, 1)}), Crowding());
}

TEST(CrowdingTest, WhoDoesNotTellOrComputesElsewhereIsNotCounted) {
  EXPECT_EQ(OfFirst({OnMachine(1, 0), OnMachine(1, 9)}), Crowding());
  EXPECT_EQ(OfFirst({OnMachine(0, 9), OnMachine(0, 9)}), Crowding());
  EXPECT_EQ(OfFirst({OnMachine(1, 8), OnMachine(1, 0)}), Crowding());
}

TEST(CrowdingTest, WhateverPeersTellTheSumDoesNotWrap) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(OfFirst({OnMachine(1, kMost), OnMachine(1, kMost)}).threads, kMost);
}

}  // namespace
}  // namespace roost::wire

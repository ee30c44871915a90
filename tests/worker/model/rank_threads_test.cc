#include "worker/model/rank_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/rank_barrier.h"

namespace roost::worker {
namespace {

TEST(RankThreadsTest, EachRankHasItsThreadAndTheFirstIsTheCallers) {
  RankThreads threads(3);
  std::vector<std::thread::id> first(3);
  std::vector<std::thread::id> second(3);
  threads.Run([&](std::uint32_t rank) { first[rank] = std::this_thread::get_id(); });
  threads.Run([&](std::uint32_t rank) { second[rank] = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(first.begin(), first.end()).size(), 3U);
}

// Else no rank would come out of the barrier.
TEST(RankThreadsTest, RanksRunAtTheSameTime) {
  RankThreads threads(4);
  kernels::RankBarrier barrier(4);
  std::vector<int> rounds(4);
  for (int i = 0; i < 50; ++i) {
    threads.Run([&](std::uint32_t rank) {
      barrier.ArriveAndWait();
      ++rounds[rank];
      barrier.ArriveAndWait();
    });
  }
  EXPECT_THAT(rounds, testing::Each(50));
}

TEST(RankThreadsTest, TheLowestRanksErrorIsTheAnswer) {
  RankThreads threads(3);
  const auto fail = [](std::uint32_t rank) -> Result<void> {
    if (rank == 0) return {};
    return InvalidArgument("rank", "{} fails", rank);
  };
  EXPECT_EQ(threads.TryRun(fail).error().message, "1 fails");
  EXPECT_TRUE(threads.TryRun([](std::uint32_t) { return Result<void>(); }).ok());
}

}  // namespace
}  // namespace roost::worker

#include "worker/model/tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <utility>

#include "kernels/collective.h"

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

// Otherwise no rank would leave the barrier.
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

// A rank waits for it until the watch of the waiting rank has been called, or gives up.
class Signal {
 public:
  void Give() {
    if (!given_.exchange(true)) promise_.set_value();
  }
  [[nodiscard]] bool Await() { return future_.wait_for(std::chrono::seconds(10)) == std::future_status::ready; }

 private:
  std::atomic<bool> given_{false};
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

TEST(RankThreadsTest, WhoWaitsForOtherRanksWatchesThem) {
  RankThreads threads(2);
  Signal watched;
  threads.SetWatch([&watched] { watched.Give(); });
  bool seen = false;
  threads.Run([&](std::uint32_t rank) {
    if (rank == 1) seen = watched.Await();
  });
  EXPECT_TRUE(seen);
}

class WatchedCommunicator final : public kernels::Communicator {
 public:
  WatchedCommunicator(std::uint32_t rank, std::shared_ptr<kernels::RankBarrier> barrier, Signal& watched)
      : Communicator(rank, 2, std::move(barrier)), watched_(watched) {}
  void CheckPeers() override { watched_.Give(); }

 private:
  Signal& watched_;
};

TEST(CommunicatorTest, WhoAwaitsItsPeersChecksThem) {
  RankThreads threads(2);
  const auto barrier = std::make_shared<kernels::RankBarrier>(2);
  Signal watched;
  bool seen = false;
  threads.Run([&](std::uint32_t rank) {
    WatchedCommunicator communicator(rank, barrier, watched);
    if (rank == 1) seen = watched.Await();
    communicator.AwaitPeers();
  });
  EXPECT_TRUE(seen);
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

#include "router/route/transfers.h"

#include <gtest/gtest.h>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{1h};
constexpr WorkerSlot kA(0);
constexpr WorkerSlot kB(1);
constexpr WorkerSlot kC(2);
constexpr double kBlockBytes = 1000;

TransferPlace Place() {
  return {.fetches = true,
          .serves = true,
          .is_loopback = false,
          .tells_bytes = true,
          .layout = 7,
          .numerics = 9,
          .host = 5};
}

WorkerPair Pair(WorkerSlot from, WorkerSlot to) { return {.from = from, .to = to}; }

// Ten blocks, 1 MB/s after 10 ms.
wire::HoldAnswer Answer(std::uint32_t blocks = 10) {
  return {.arrived_block_count = blocks,
          .bytes = static_cast<std::uint64_t>(kBlockBytes) * blocks,
          .first_frame_microseconds = 11'000,
          .microseconds = 10'000 + std::uint64_t{1000} * blocks,
          .outcome = wire::HoldOutcome::kComplete};
}

wire::Load Telling(std::uint64_t arriving, std::uint64_t leaving) {
  wire::Load load;
  load.arriving_bytes = arriving;
  load.leaving_bytes = leaving;
  return load;
}

class TransfersTest : public ::testing::Test {
 protected:
  TransfersTest() {
    for (const WorkerSlot worker : {kA, kB, kC}) transfers_.Join(worker, Place());
  }
  void Learn(WorkerPair ends, const std::optional<wire::HoldAnswer>& answer = Answer()) {
    transfers_.Send(1, ends, 10, kNow);
    transfers_.End(1, answer, kNow);
  }
  [[nodiscard]] std::optional<TransferPrice> PriceOf(WorkerPair ends, std::uint32_t blocks, Instant now = kNow) const {
    const auto offer = transfers_.Offer(ends, blocks, now);
    return offer ? std::optional(offer->price) : std::nullopt;
  }

  Transfers transfers_;
};

TEST(CanFetchTest, TheKindMustBeEqualAndTheAddressInReach) {
  const TransferPlace place = Place();
  EXPECT_TRUE(CanFetch(place, place));
  const auto with = [](auto change) {
    TransferPlace changed = Place();
    change(changed);
    return changed;
  };
  EXPECT_FALSE(CanFetch(with([](auto& to) { to.fetches = false; }), place));
  EXPECT_TRUE(CanFetch(place, with([](auto& from) { from.fetches = false; })));
  EXPECT_FALSE(CanFetch(place, with([](auto& from) { from.serves = false; })));
  EXPECT_TRUE(CanFetch(with([](auto& to) { to.serves = false; }), place));
  EXPECT_FALSE(CanFetch(place, with([](auto& from) { from.layout = 8; })));
  EXPECT_FALSE(CanFetch(place, with([](auto& from) { from.numerics = 8; })));
  const TransferPlace none = with([](auto& each) { each.layout = 0; });
  EXPECT_FALSE(CanFetch(none, none));
  const TransferPlace near = with([](auto& from) { from.is_loopback = true; });
  EXPECT_TRUE(CanFetch(place, near));
  EXPECT_FALSE(CanFetch(with([](auto& to) { to.host = 6; }), near));
  const TransferPlace untold = with([](auto& each) {
    each.is_loopback = true;
    each.host = 0;
  });
  EXPECT_FALSE(CanFetch(untold, untold));
}

TEST_F(TransfersTest, BlocksOfAnUnknownSizeCountAsEmpty) {
  const auto price = PriceOf(Pair(kA, kB), 10);
  ASSERT_TRUE(price.has_value());
  EXPECT_EQ(price->seconds, 0);
  EXPECT_EQ(price->bytes, 0);
}

TEST_F(TransfersTest, APriceIsStartAndBytesByTheRate) {
  Learn(Pair(kA, kB));
  const auto price = PriceOf(Pair(kA, kB), 50);
  ASSERT_TRUE(price.has_value());
  EXPECT_NEAR(price->seconds, 0.01 + 0.05, 1e-9);
  EXPECT_EQ(price->bytes, 50 * kBlockBytes);
  EXPECT_NEAR(PriceOf(Pair(kC, kB), 50)->seconds, 0.06, 1e-9) << "as what came to b";
}

// Its time is that of the start as much as that of its bytes. So the first pair still counts as 1 GB/s.
TEST_F(TransfersTest, OneBlockTeachesItsSizeAlone) {
  Learn(Pair(kA, kB), Answer(1));
  const auto price = PriceOf(Pair(kA, kB), 50);
  ASSERT_TRUE(price.has_value());
  EXPECT_EQ(price->bytes, 50 * kBlockBytes);
  EXPECT_NEAR(price->seconds, 50 * kBlockBytes / 1e9, 1e-12);
}

TEST_F(TransfersTest, AnOldRateCountsAsTheMean) {
  Learn(Pair(kA, kB));
  wire::HoldAnswer slow = Answer();
  slow.microseconds = 10'000 + 10 * slow.microseconds;
  transfers_.Send(1, Pair(kC, kB), 10, kNow + 1min);
  transfers_.End(1, slow, kNow + 1min);
  EXPECT_NEAR(PriceOf(Pair(kA, kB), 50, kNow + 1min)->seconds, 0.06, 1e-9);
  EXPECT_GT(PriceOf(Pair(kA, kB), 50, kNow + PairRates::kFreshTime)->seconds, 0.06);
}

// Both ends empty at the same time.
TEST_F(TransfersTest, TheLongerQueueIsWaitedFor) {
  Learn(Pair(kA, kB));
  transfers_.Report(kA, Telling(0, 30'000), kNow);
  transfers_.Report(kB, Telling(20'000, 0), kNow);
  EXPECT_NEAR(PriceOf(Pair(kA, kB), 10)->seconds, 0.01 + 0.04, 1e-9);
  transfers_.Report(kB, Telling(50'000, 0), kNow);
  EXPECT_NEAR(PriceOf(Pair(kA, kB), 10)->seconds, 0.01 + 0.06, 1e-9);
}

TEST_F(TransfersTest, WhatWasSentCountsUntilAReportCanTellIt) {
  Learn(Pair(kA, kB));
  transfers_.Send(2, Pair(kA, kB), 40, kNow);
  EXPECT_EQ(transfers_.QueuedOut(kA), 40'000);
  EXPECT_EQ(transfers_.QueuedIn(kB), 40'000);
  transfers_.Report(kA, Telling(0, 0), kNow + Transfers::kReportDelay - 1ms);
  EXPECT_EQ(transfers_.QueuedOut(kA), 40'000) << "it may not have known";
  transfers_.Report(kA, Telling(0, 35'000), kNow + Transfers::kReportDelay);
  EXPECT_EQ(transfers_.QueuedOut(kA), 35'000);
  EXPECT_EQ(transfers_.QueuedIn(kB), 40'000) << "b has not reported";
  transfers_.End(2, Answer(40), kNow + 1s);
  EXPECT_EQ(transfers_.QueuedIn(kB), 0);
  EXPECT_EQ(transfers_.QueuedOut(kA), 35'000) << "by its last report";
}

// A worker of an older release tells nothing: what was sent counts until its end.
TEST_F(TransfersTest, AWorkerThatTellsNothingIsNotTakenForIdle) {
  TransferPlace old = Place();
  old.tells_bytes = false;
  transfers_.Join(WorkerSlot(3), old);
  Learn(Pair(kA, kB));
  transfers_.Send(2, Pair(WorkerSlot(3), kB), 40, kNow);
  transfers_.Report(WorkerSlot(3), Telling(0, 0), kNow + 1s);
  EXPECT_EQ(transfers_.QueuedOut(WorkerSlot(3)), 40'000);
  transfers_.Drop(2);
  EXPECT_EQ(transfers_.QueuedOut(WorkerSlot(3)), 0);
}

TEST_F(TransfersTest, APairThatHasFailedIsPaused) {
  wire::HoldAnswer answer = Answer(0);
  answer.outcome = wire::HoldOutcome::kWrong;
  Learn(Pair(kA, kB), answer);
  EXPECT_TRUE(transfers_.Offer(Pair(kA, kB), 10, kNow + 59s)->is_paused);
  EXPECT_FALSE(transfers_.Offer(Pair(kA, kB), 10, kNow + 60s)->is_paused);
  EXPECT_FALSE(transfers_.Offer(Pair(kA, kC), 10, kNow)->is_paused);
}

TEST_F(TransfersTest, OnlyWorkersOfOneKindAreOffered) {
  TransferPlace other = Place();
  other.layout = 8;
  transfers_.Join(WorkerSlot(3), other);
  EXPECT_FALSE(transfers_.Offer(Pair(kA, WorkerSlot(3)), 10, kNow).has_value());
  EXPECT_FALSE(transfers_.Offer(Pair(kA, kA), 10, kNow).has_value());
  EXPECT_FALSE(transfers_.Offer(Pair(kA, WorkerSlot(9)), 10, kNow).has_value());
}

TEST_F(TransfersTest, TheSizeOfABlockIsKnownForAllWorkersOfALayoutAndThoseThatJoin) {
  Learn(Pair(kA, kB));
  transfers_.Join(WorkerSlot(3), Place());
  EXPECT_NEAR(PriceOf(Pair(WorkerSlot(3), kC), 10)->bytes, 10'000, 1e-9);
  TransferPlace other = Place();
  other.layout = 8;
  transfers_.Join(WorkerSlot(4), other);
  transfers_.Join(WorkerSlot(5), other);
  EXPECT_EQ(PriceOf(Pair(WorkerSlot(4), WorkerSlot(5)), 10)->bytes, 0);
}

TEST_F(TransfersTest, AWorkerThatLeavesTakesItsHoldsAlong) {
  Learn(Pair(kA, kB));
  transfers_.Send(2, Pair(kA, kB), 40, kNow);
  transfers_.Send(3, Pair(kC, kB), 5, kNow);
  transfers_.Leave(kA);
  EXPECT_EQ(transfers_.InFlight().size(), 1U);
  EXPECT_EQ(transfers_.QueuedIn(kB), 5'000);
  EXPECT_EQ(transfers_.QueuedOut(kA), 0);
  EXPECT_FALSE(transfers_.Offer(Pair(kA, kB), 1, kNow).has_value());
  transfers_.Join(kA, Place());
  transfers_.End(2, Answer(40), kNow);  // of the worker that had the slot before
  EXPECT_TRUE(transfers_.rates().pairs().empty() || transfers_.rates().pairs().front().ends != Pair(kA, kB));
}

TEST_F(TransfersTest, NothingTravelsWhereOneAloneServes) {
  Transfers transfers;
  EXPECT_FALSE(transfers.any());
  TransferPlace place = Place();
  transfers.Join(kA, place);
  EXPECT_FALSE(transfers.any());
  place.serves = false;
  transfers.Join(kB, place);
  EXPECT_TRUE(transfers.any());
  transfers.Leave(kA);
  EXPECT_FALSE(transfers.any());
}

// Whatever is sent, reported, answered, dropped and lost: nothing counts when nothing is on its way.
TEST_F(TransfersTest, QueuesAreEmptyWhenAllHasEnded) {
  Rng rng(5);
  Learn(Pair(kA, kB));
  Instant now = kNow;
  std::uint64_t last = 10;
  std::vector<std::uint64_t> open;
  for (int i = 0; i < 20'000; ++i) {
    now += std::chrono::milliseconds(rng.Below(15));
    const WorkerSlot one(static_cast<std::uint32_t>(rng.Below(3)));
    const WorkerSlot other((one.value() + 1 + static_cast<std::uint32_t>(rng.Below(2))) % 3);
    const std::uint64_t id = open.empty() ? 0 : open[rng.Below(open.size())];
    switch (rng.Below(6)) {
      case 0:
      case 1:
        transfers_.Send(++last, Pair(one, other), static_cast<std::uint32_t>(1 + rng.Below(50)), now);
        open.push_back(last);
        break;
      case 2: transfers_.Report(one, Telling(0, 0), now); break;
      case 3: transfers_.End(id, Answer(), now); break;
      case 4: transfers_.Drop(id); break;
      default:
        if (rng.Below(50) > 0) break;
        transfers_.Leave(one);
        transfers_.Join(one, Place());
    }
  }
  for (const std::uint64_t id : open) transfers_.End(id, std::nullopt, now);
  EXPECT_EQ(transfers_.InFlight().size(), 0U);
  for (const WorkerSlot worker : {kA, kB, kC}) {
    EXPECT_NEAR(transfers_.QueuedOut(worker), 0, 1e-3);
    EXPECT_NEAR(transfers_.QueuedIn(worker), 0, 1e-3);
  }
}

}  // namespace
}  // namespace roost::router

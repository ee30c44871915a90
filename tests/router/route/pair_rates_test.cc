#include "router/route/pair_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using wire::HoldOutcome;

constexpr Instant kNow{1h};
constexpr WorkerSlot kA(0);
constexpr WorkerSlot kB(1);
constexpr WorkerSlot kC(2);
constexpr WorkerSlot kD(3);

WorkerPair Pair(WorkerSlot from, WorkerSlot to) { return {.from = from, .to = to}; }

// Ten blocks of `bytes_per_second` from a source that needs `start` before it sends.
Arrival Of(double start, double bytes_per_second, std::uint64_t bytes = 1'000'000, double queued_bytes = 0) {
  const double block_seconds = static_cast<double>(bytes) / 10 / bytes_per_second;
  const double wait = start + queued_bytes / bytes_per_second;
  return {.bytes = bytes,
          .block_count = 10,
          .first_block_seconds = wait + block_seconds,
          .seconds = wait + 10 * block_seconds,
          .queued_bytes = queued_bytes};
}

constexpr double kFirstRate = 1e9;

double RateOf(const PairRates& rates, WorkerPair ends, Instant now = kNow) {
  return rates.Expect(ends, now).rate.bytes_per_second;
}

// The pair's own.
bool HasRate(const PairRates& rates, WorkerPair ends) {
  return std::any_of(rates.pairs().begin(), rates.pairs().end(),
                     [ends](const PairRates::Pair& pair) { return pair.ends == ends && pair.rate.has_value(); });
}

TEST(PairRatesTest, TheFirstBlockTellsTheStartAndTheOthersTheRate) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), Of(0.02, 1e8), kNow);
  const PairRates::Expected expected = rates.Expect(Pair(kA, kB), kNow);
  EXPECT_FALSE(expected.is_paused);
  EXPECT_NEAR(expected.rate.start_seconds, 0.02, 1e-9);
  EXPECT_NEAR(expected.rate.bytes_per_second, 1e8, 1);
  EXPECT_NEAR(expected.rate.Seconds(5e6), 0.07, 1e-9);
  EXPECT_TRUE(HasRate(rates, Pair(kA, kB)));
  EXPECT_FALSE(HasRate(rates, Pair(kB, kA))) << "the other direction is another pair";
}

TEST(PairRatesTest, WhatWasQueuedBeforeIsNeitherStartNorSlowness) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), Of(0.02, 1e8), kNow);
  for (int i = 0; i < 20; ++i) rates.Observe(Pair(kA, kB), Of(0.02, 1e8, 1'000'000, 7e6), kNow);
  EXPECT_NEAR(rates.Expect(Pair(kA, kB), kNow).rate.start_seconds, 0.02, 1e-3);
  EXPECT_NEAR(RateOf(rates, Pair(kA, kB)), 1e8, 2e6);
}

// Queues do not hide that a pair has become slow.
TEST(PairRatesTest, APairThatBecomesSlowIsSeenBehindAQueue) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), Of(0.02, 1e8), kNow);
  for (int i = 0; i < 20; ++i) rates.Observe(Pair(kA, kB), Of(0.02, 1e7, 1'000'000, 7e6), kNow);
  EXPECT_NEAR(RateOf(rates, Pair(kA, kB)), 1e7, 1e6);
}

// A report tells what was queued some time ago. It may have come long since, or come in turns with these blocks.
TEST(PairRatesTest, AQueueThatWasNotThereMakesNoPairFaster) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), Of(0.02, 1e8), kNow);
  for (int i = 0; i < 20; ++i) {
    Arrival arrival = Of(0.02, 1e8);
    arrival.queued_bytes = 1e9;
    rates.Observe(Pair(kA, kB), arrival, kNow);
  }
  EXPECT_NEAR(RateOf(rates, Pair(kA, kB)), 1e8, 1e6);
}

// Half of the link was another's.
TEST(PairRatesTest, APairThatSharesItsLinkIsNotSlower) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), Of(0.02, 1e8), kNow);
  for (int i = 0; i < 20; ++i) {
    Arrival arrival = Of(0.02, 5e7);
    arrival.queued_bytes = 2e6;
    rates.Observe(Pair(kA, kB), arrival, kNow);
  }
  EXPECT_NEAR(RateOf(rates, Pair(kA, kB)), 1e8, 1e6);
}

TEST(PairRatesTest, BlocksThatComeAllAtOnceCountWithAllOfTheirTime) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), {.bytes = 1000, .block_count = 2, .first_block_seconds = 0.01, .seconds = 0.01}, kNow);
  EXPECT_EQ(rates.Expect(Pair(kA, kB), kNow).rate, (PairRate{0, 100'000}));
}

TEST(PairRatesTest, OneBlockAndImpossibleArrivalsTeachNothing) {
  PairRates rates;
  for (const Arrival& arrival : {Arrival{}, Arrival{.bytes = 10, .block_count = 2}, Arrival{.bytes = 10, .seconds = 1},
                                 Arrival{.block_count = 2, .seconds = 1},
                                 Arrival{.bytes = 10, .block_count = 1, .first_block_seconds = 1, .seconds = 1}}) {
    rates.Observe(Pair(kA, kB), arrival, kNow);
  }
  EXPECT_TRUE(rates.pairs().empty());
  EXPECT_EQ(rates.Expect(Pair(kA, kB), kNow).rate, (PairRate{0, kFirstRate}));
}

TEST(PairRatesTest, AnUnknownPairTakesTheLesserOfBothMeansThenWhatIsKnownThenTheFleets) {
  PairRates rates;
  EXPECT_EQ(RateOf(rates, Pair(kC, kD)), kFirstRate);
  rates.Observe(Pair(kA, kB), Of(0, 4e8), kNow);
  EXPECT_NEAR(RateOf(rates, Pair(kC, kD)), 4e8, 1) << "of all";
  EXPECT_NEAR(RateOf(rates, Pair(kA, kD)), 4e8, 1) << "out of a";
  rates.Observe(Pair(kC, kD), Of(0, 1e8), kNow);
  EXPECT_NEAR(RateOf(rates, Pair(kA, kD)), 1e8, 1) << "into d is less than out of a";
  EXPECT_NEAR(RateOf(rates, Pair(kC, kB)), 1e8, 1) << "out of c is less than into b";
  EXPECT_NEAR(RateOf(rates, Pair(kA, kC)), 4e8, 1) << "nothing has come to c";
}

TEST(PairRatesTest, ANewObservationCountsAQuarter) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), Of(0, 1e8), kNow);
  rates.Observe(Pair(kA, kB), Of(0, 2e8), kNow);
  EXPECT_NEAR(RateOf(rates, Pair(kA, kB)), 1.25e8, 10);
}

TEST(PairRatesTest, ARateCountsForTenMinutesAndThenTheMean) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), Of(0, 1e8), kNow);
  rates.Observe(Pair(kA, kC), Of(0, 5e8), kNow);  // 2e8 out of a, in the mean; 1e8 into b
  rates.Observe(Pair(kD, kB), Of(0, 9e8), kNow);  // 3e8 into b
  EXPECT_NEAR(RateOf(rates, Pair(kA, kB), kNow + 10min - 1ms), 1e8, 1);
  EXPECT_NEAR(RateOf(rates, Pair(kA, kB), kNow + 10min), 2e8, 1);
  rates.Observe(Pair(kA, kB), Of(0, 1e8), kNow + 10min);
  EXPECT_NEAR(RateOf(rates, Pair(kA, kB), kNow + 11min), 1e8, 1);
}

TEST(PairRatesTest, AWrongFramePausesThePairForAMinute) {
  PairRates rates;
  rates.OnEnd(Pair(kA, kB), HoldOutcome::kWrong, 0, kNow);
  EXPECT_TRUE(rates.Expect(Pair(kA, kB), kNow + 59'999ms).is_paused);
  EXPECT_FALSE(rates.Expect(Pair(kA, kB), kNow + 60s).is_paused);
  EXPECT_FALSE(rates.Expect(Pair(kB, kA), kNow).is_paused);
}

TEST(PairRatesTest, PausesDoubleUpToAMinuteUntilSomethingComes) {
  PairRates rates;
  Instant now = kNow;
  for (const Duration pause : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    rates.OnEnd(Pair(kA, kB), HoldOutcome::kBroken, 0, now);
    EXPECT_TRUE(rates.Expect(Pair(kA, kB), now + pause - 1ms).is_paused) << ToSeconds(pause);
    EXPECT_FALSE(rates.Expect(Pair(kA, kB), now + pause).is_paused) << ToSeconds(pause);
    now += pause;
  }
  rates.OnEnd(Pair(kA, kB), HoldOutcome::kMissing, 1, now);
  rates.OnEnd(Pair(kA, kB), std::nullopt, 0, now);
  EXPECT_TRUE(rates.Expect(Pair(kA, kB), now + 999ms).is_paused);
  EXPECT_FALSE(rates.Expect(Pair(kA, kB), now + 1s).is_paused);
  EXPECT_EQ(rates.pairs().front().failed_count, 9U);
  EXPECT_EQ(rates.pairs().front().done_count, 1U);
}

TEST(PairRatesTest, ASourceThatHoldsNothingPausesThePair) {
  PairRates rates;
  rates.OnEnd(Pair(kA, kB), HoldOutcome::kMissing, 0, kNow);
  EXPECT_TRUE(rates.Expect(Pair(kA, kB), kNow).is_paused);
  EXPECT_EQ(rates.pairs().front().failed_count, 1U);
}

TEST(PairRatesTest, AWorkerWithoutRoomAndAnEndedHoldAreNoFaultOfThePair) {
  PairRates rates;
  rates.OnEnd(Pair(kA, kB), HoldOutcome::kNoRoom, 0, kNow);
  rates.OnEnd(Pair(kA, kB), HoldOutcome::kCancelled, 0, kNow);
  EXPECT_FALSE(rates.Expect(Pair(kA, kB), kNow).is_paused);
  EXPECT_EQ(rates.pairs().front().failed_count + rates.pairs().front().done_count, 0U);
  EXPECT_EQ(rates.pairs().front().last_outcome, HoldOutcome::kCancelled);
}

TEST(PairRatesTest, TheSlotOfAWorkerThatLeftBeginsAnew) {
  PairRates rates;
  rates.Observe(Pair(kA, kB), Of(0, 1e8), kNow);
  rates.Observe(Pair(kB, kC), Of(0, 2e8), kNow);
  rates.Observe(Pair(kC, kD), Of(0, 4e8), kNow);
  rates.Forget(kB);
  EXPECT_EQ(rates.pairs().size(), 1U);
  EXPECT_FALSE(HasRate(rates, Pair(kA, kB)));
  EXPECT_NEAR(RateOf(rates, Pair(kB, kD)), 4e8, 1) << "what came into d; nothing is known of b";
}

// Against a plain list: the last kMaxPairs pairs, the latest first.
TEST(PairRatesTest, RemembersTheLastPairs) {
  Rng rng(3);
  PairRates rates;
  std::vector<WorkerPair> model;
  for (int i = 0; i < 20'000; ++i) {
    const WorkerPair ends = Pair(WorkerSlot(static_cast<std::uint32_t>(rng.Below(90))),
                                 WorkerSlot(static_cast<std::uint32_t>(rng.Below(90))));
    std::erase(model, ends);
    model.insert(model.begin(), ends);
    if (model.size() > PairRates::kMaxPairs) model.pop_back();
    switch (rng.Below(3)) {
      case 0: rates.OnSent(ends); break;
      case 1: rates.OnEnd(ends, HoldOutcome::kComplete, 0, kNow); break;
      default: rates.Observe(ends, Of(0, 1e8), kNow);
    }
  }
  std::vector<WorkerPair> seen;
  for (const PairRates::Pair& pair : rates.pairs()) seen.push_back(pair.ends);
  EXPECT_EQ(model.size(), PairRates::kMaxPairs);
  EXPECT_EQ(seen, model);
}

}  // namespace
}  // namespace roost::router

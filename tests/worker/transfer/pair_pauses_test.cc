#include "worker/transfer/pair_pauses.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::HoldOutcome;

const PeerPlace kSource{.worker_id = "a", .address = "127.0.0.1:7100"};
const PeerPlace kOther{.worker_id = "b", .address = "127.0.0.1:7101"};

class PairPausesTest : public testing::Test {
 protected:
  std::optional<seconds> End(HoldOutcome outcome, const PeerPlace& source = kSource) {
    return pauses_.OnEnd(source, outcome, clock_.Now());
  }
  [[nodiscard]] bool IsPaused(const PeerPlace& source = kSource) const {
    return pauses_.IsPaused(source, clock_.Now());
  }

  // It is paused now, and for exactly this time.
  void ExpectPause(seconds time) {
    EXPECT_TRUE(IsPaused());
    clock_.Advance(time - milliseconds(1));
    EXPECT_TRUE(IsPaused()) << time.count();
    clock_.Advance(milliseconds(1));
    EXPECT_FALSE(IsPaused()) << time.count();
  }

  ManualClock clock_;
  PairPauses pauses_;
};

TEST_F(PairPausesTest, AWrongFramePausesThePairForAMinute) {
  EXPECT_EQ(End(HoldOutcome::kWrong), seconds(60));
  EXPECT_FALSE(IsPaused(kOther));
  EXPECT_FALSE(IsPaused({.worker_id = "a", .address = "127.0.0.1:7200"}));
  ExpectPause(seconds(60));
  EXPECT_EQ(End(HoldOutcome::kWrong), seconds(60));
  ExpectPause(seconds(60));
}

TEST_F(PairPausesTest, ASourceWhoseBlocksWereFoundWrongIsLeftAloneWhereverItIs) {
  pauses_.Distrust("a", clock_.Now());
  EXPECT_TRUE(IsPaused({.worker_id = "a", .address = "127.0.0.1:7200"}));
  EXPECT_FALSE(IsPaused(kOther));
  ExpectPause(seconds(60));
}

TEST_F(PairPausesTest, ThreeFailuresInARowPauseForASecondAndFurtherOnesForTwiceAsLong) {
  EXPECT_EQ(End(HoldOutcome::kBroken), std::nullopt);
  EXPECT_EQ(End(HoldOutcome::kBroken), std::nullopt);
  EXPECT_FALSE(IsPaused());
  for (const int expected : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(End(HoldOutcome::kBroken), seconds(expected));
    ExpectPause(seconds(expected));
  }
}

TEST_F(PairPausesTest, AnEndThatTheSourceToldBeginsAnew) {
  for (const HoldOutcome told : {HoldOutcome::kComplete, HoldOutcome::kMissing, HoldOutcome::kBusy}) {
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(End(HoldOutcome::kBroken), std::nullopt);
      EXPECT_EQ(End(HoldOutcome::kBroken), std::nullopt);
      EXPECT_EQ(End(told), std::nullopt);
    }
    for (int i = 0; i < 3; ++i) (void)End(HoldOutcome::kBroken);
    ExpectPause(seconds(1));
    EXPECT_EQ(End(told), std::nullopt);
    EXPECT_EQ(pauses_.size(), 0U);
  }
}

TEST_F(PairPausesTest, ACancelledFetchTellsNothingOfItsSource) {
  EXPECT_EQ(End(HoldOutcome::kBroken), std::nullopt);
  EXPECT_EQ(End(HoldOutcome::kBroken), std::nullopt);
  EXPECT_EQ(End(HoldOutcome::kCancelled), std::nullopt);
  EXPECT_EQ(End(HoldOutcome::kBroken), seconds(1));
}

TEST_F(PairPausesTest, FailuresOfPairsDoNotAddUp) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(End(HoldOutcome::kBroken), std::nullopt);
    EXPECT_EQ(End(HoldOutcome::kBroken, kOther), std::nullopt);
  }
  EXPECT_EQ(End(HoldOutcome::kBroken, kOther), seconds(1));
  EXPECT_FALSE(IsPaused());
}

TEST_F(PairPausesTest, ThePairWhosePauseEndsFirstIsForgottenForAnotherOne) {
  (void)End(HoldOutcome::kWrong);
  for (std::size_t i = 0; i < 2 * PairPauses::kMaxPairs; ++i) {
    (void)End(HoldOutcome::kBroken, {.worker_id = "w", .address = std::to_string(i)});
    EXPECT_LE(pauses_.size(), PairPauses::kMaxPairs);
  }
  EXPECT_TRUE(IsPaused());
}

}  // namespace
}  // namespace roost::worker

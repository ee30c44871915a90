#include "worker/cache/structures/timer_wheel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant kStart{std::chrono::seconds(1)};

std::vector<TimerId> Expired(TimerWheel& wheel, Instant now) {
  std::vector<TimerId> expired;
  wheel.Expire(now, expired);
  return expired;
}

TEST(TimerWheelTest, ExpiresAtTheDeadlineAndNotBefore) {
  TimerWheel wheel(2, kStart);
  wheel.Set(TimerId(1), kStart + milliseconds(100));
  EXPECT_THAT(Expired(wheel, kStart + milliseconds(99)), IsEmpty());
  EXPECT_TRUE(wheel.IsSet(TimerId(1)));
  EXPECT_THAT(Expired(wheel, kStart + milliseconds(100)), ElementsAre(TimerId(1)));
  EXPECT_FALSE(wheel.IsSet(TimerId(1)));
  EXPECT_THAT(Expired(wheel, kStart + milliseconds(100)), IsEmpty());
}

TEST(TimerWheelTest, RoundsADeadlineUpToATick) {
  TimerWheel wheel(1, kStart);
  wheel.Set(TimerId(0), kStart + nanoseconds(1));
  EXPECT_THAT(Expired(wheel, kStart + nanoseconds(999'999)), IsEmpty());
  EXPECT_THAT(Expired(wheel, kStart + milliseconds(1)), ElementsAre(TimerId(0)));
}

TEST(TimerWheelTest, ExpiresAPastDeadlineAtOnce) {
  TimerWheel wheel(1, kStart);
  EXPECT_THAT(Expired(wheel, kStart + hours(1)), IsEmpty());
  wheel.Set(TimerId(0), kStart);
  EXPECT_THAT(Expired(wheel, kStart + hours(1)), ElementsAre(TimerId(0)));
}

TEST(TimerWheelTest, KeepsTheLastDeadlineOfABlock) {
  TimerWheel wheel(1, kStart);
  wheel.Set(TimerId(0), kStart + milliseconds(5));
  wheel.Set(TimerId(0), kStart + hours(5));
  EXPECT_EQ(wheel.size(), 1U);
  EXPECT_THAT(Expired(wheel, kStart + hours(4)), IsEmpty());
  EXPECT_THAT(Expired(wheel, kStart + hours(5)), ElementsAre(TimerId(0)));
}

TEST(TimerWheelTest, ExpiresInOrderAcrossAJumpOfWeeks) {
  TimerWheel wheel(4, kStart);
  wheel.Set(TimerId(0), kStart + hours(24 * 21));
  wheel.Set(TimerId(1), kStart + milliseconds(1));
  wheel.Set(TimerId(2), kStart + hours(24 * 21) - milliseconds(1));
  wheel.Set(TimerId(3), kStart + hours(3));
  EXPECT_THAT(Expired(wheel, kStart + hours(24 * 365)), ElementsAre(TimerId(1), TimerId(3), TimerId(2), TimerId(0)));
}

TEST(TimerWheelTest, TakesTheLastInstantThereIs) {
  TimerWheel wheel(1, kStart);
  wheel.Set(TimerId(0), Instant::max());
  EXPECT_THAT(Expired(wheel, kStart + hours(24 * 365 * 200)), IsEmpty());
  wheel.Clear(TimerId(0));
  EXPECT_EQ(wheel.size(), 0U);
}

TEST(TimerWheelDeathTest, StopsWhenTimeGoesBack) {
  TimerWheel wheel(1, kStart);
  std::vector<TimerId> expired;
  EXPECT_DEATH(wheel.Expire(kStart - milliseconds(1), expired), "comes after");
}

// The naive wheel is a map from timer to tick.
class Comparison {
 public:
  explicit Comparison(std::uint64_t seed)
      : rng_(seed), block_count_(static_cast<std::uint32_t>(1 + rng_.Below(60))), wheel_(block_count_, now_) {}

  void Step() {
    const TimerId timer(static_cast<std::uint32_t>(rng_.Below(block_count_)));
    switch (rng_.Below(4)) {
      case 0:
        wheel_.Clear(timer);
        naive_.erase(timer);
        break;
      case 1: Jump(); break;
      default:
        const Instant deadline = now_ + RandomDuration() - milliseconds(10);
        wheel_.Set(timer, deadline);
        naive_[timer] = std::max((deadline.time_since_epoch() + TimerWheel::kTick - nanoseconds(1)) / TimerWheel::kTick,
                                 now_.time_since_epoch() / TimerWheel::kTick);
    }
    ASSERT_EQ(wheel_.size(), naive_.size());
    ASSERT_EQ(wheel_.IsSet(timer), naive_.contains(timer));
  }

 private:
  // All numbers of bits are equally likely, from less than a tick to a year.
  Duration RandomDuration() { return nanoseconds(static_cast<std::int64_t>(rng_() >> (9 + rng_.Below(54)))); }

  void Jump() {
    now_ += RandomDuration();
    const std::vector<TimerId> expired = Expired(wheel_, now_);
    std::vector<std::pair<std::int64_t, TimerId>> expected;
    for (const auto& [timer, tick] : naive_) {
      if (tick <= now_.time_since_epoch() / TimerWheel::kTick) expected.emplace_back(tick, timer);
    }
    std::vector<std::pair<std::int64_t, TimerId>> actual;
    for (const TimerId timer : expired) {
      ASSERT_TRUE(naive_.contains(timer)) << timer.value();
      actual.emplace_back(naive_[timer], timer);
      naive_.erase(timer);
    }
    ASSERT_TRUE(std::is_sorted(actual.begin(), actual.end(),
                               [](const auto& left, const auto& right) { return left.first < right.first; }));
    std::sort(actual.begin(), actual.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(actual, expected);
  }

  Rng rng_;
  Instant now_ = kStart;
  std::uint32_t block_count_;
  TimerWheel wheel_;
  std::map<TimerId, std::int64_t> naive_;
};

TEST(TimerWheelTest, AgreesWithAMapOverRandomOperationsAndJumps) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Comparison comparison(seed);
    for (int step = 0; step < 2000; ++step) {
      comparison.Step();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace roost::worker

#include "worker/sched/waiting_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant kStart{std::chrono::seconds(1000)};

class WaitingQueueTest : public testing::Test {
 protected:
  struct Arrival {
    std::uint32_t token_count = 10;
    std::chrono::milliseconds after{0};  // counted from kStart
    std::uint32_t priority = 50;
    std::optional<Instant> deadline = std::nullopt;
    std::uint32_t output_count = 0;
  };

  void Make(SchedulePolicy policy) { queue_ = std::make_unique<WaitingQueue>(policy); }

  // Returns the number by which Order names it.
  std::uint64_t Push(Arrival arrival, WaitingRank::Class standing = WaitingRank::Class::kNew) {
    auto& sequence = sequences_.emplace_back(std::make_unique<Sequence>());
    sequence->id = SequenceId(sequences_.size() - 1);
    sequence->tokens.resize(arrival.token_count + arrival.output_count);
    sequence->prompt_token_count = arrival.token_count;
    sequence->priority = arrival.priority;
    sequence->deadline = arrival.deadline;
    sequence->arrival = kStart + arrival.after;
    queue_->Push(*sequence, standing);
    return sequence->id.value();
  }
  std::uint64_t PushPreempted(Arrival arrival) { return Push(arrival, WaitingRank::Class::kPreempted); }

  [[nodiscard]] Sequence& At(std::uint64_t number) { return *sequences_[number]; }

  [[nodiscard]] std::vector<std::uint64_t> Order() const {
    std::vector<std::uint64_t> order;
    for (const Sequence* next = queue_->First(); next != nullptr; next = queue_->After(next->rank)) {
      order.push_back(next->id.value());
    }
    return order;
  }

  std::unique_ptr<WaitingQueue> queue_ = std::make_unique<WaitingQueue>(SchedulePolicy::kFcfs);
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

TEST_F(WaitingQueueTest, FirstComeIsFirstWhateverIsCached) {
  const auto a = Push({.token_count = 100});
  const auto b = Push({.token_count = 10});
  queue_->ExpectUncached(At(b), 1);
  EXPECT_THAT(Order(), ElementsAre(a, b));
}

TEST_F(WaitingQueueTest, TheLongestCachedPrefixIsFirst) {
  Make(SchedulePolicy::kLongestPrefix);
  const auto a = Push({.token_count = 30});
  const auto b = Push({.token_count = 1000});
  const auto c = Push({.token_count = 20});
  queue_->ExpectUncached(At(b), 900);
  queue_->ExpectUncached(At(c), 8);
  EXPECT_THAT(Order(), ElementsAre(b, c, a));
}

TEST_F(WaitingQueueTest, TheShortestUncachedPartIsFirst) {
  Make(SchedulePolicy::kShortestUncached);
  const auto a = Push({.token_count = 30});
  const auto b = Push({.token_count = 1000});
  const auto c = Push({.token_count = 20});
  queue_->ExpectUncached(At(b), 5);
  EXPECT_THAT(Order(), ElementsAre(b, c, a));
}

TEST_F(WaitingQueueTest, AShortOneThatComesALittleLaterPassesALongOne) {
  Make(SchedulePolicy::kShortestUncached);
  const auto long_one = Push({.token_count = 1010});
  const auto short_one = Push({.token_count = 10, .after = std::chrono::milliseconds(9990)});
  EXPECT_THAT(Order(), ElementsAre(short_one, long_one));
}

TEST_F(WaitingQueueTest, ALongOneThatHasWaitedIsTakenBeforeANewShortOne) {
  Make(SchedulePolicy::kShortestUncached);
  const auto long_one = Push({.token_count = 1010});
  const auto short_one = Push({.token_count = 10, .after = std::chrono::milliseconds(10'010)});
  EXPECT_THAT(Order(), ElementsAre(long_one, short_one));
}

TEST_F(WaitingQueueTest, AnUncachedOneThatHasWaitedIsTakenBeforeANewCachedOne) {
  Make(SchedulePolicy::kLongestPrefix);
  const auto uncached = Push({.token_count = 2000});
  const auto soon = Push({.token_count = 2000, .after = std::chrono::milliseconds(9990)});
  const auto late = Push({.token_count = 2000, .after = std::chrono::milliseconds(10'010)});
  queue_->ExpectUncached(At(soon), 1000);
  queue_->ExpectUncached(At(late), 1000);
  EXPECT_THAT(Order(), ElementsAre(soon, uncached, late));
}

TEST_F(WaitingQueueTest, EqualsAreTakenAsTheyCame) {
  Make(SchedulePolicy::kShortestUncached);
  const auto a = Push({});
  const auto b = Push({});
  EXPECT_THAT(Order(), ElementsAre(a, b));
}

TEST_F(WaitingQueueTest, PriorityComesBeforeThePolicy) {
  Make(SchedulePolicy::kShortestUncached);
  const auto low = Push({.token_count = 1, .priority = 10});
  const auto middle = Push({.token_count = 10});
  const auto high = Push({.token_count = 100'000, .after = std::chrono::hours(1), .priority = 51});
  EXPECT_THAT(Order(), ElementsAre(high, middle, low));
}

TEST_F(WaitingQueueTest, WhoHasWaitedLongHasTheHighestPriority) {
  const auto low = Push({.priority = 0});
  const auto lower_but_preempted = PushPreempted({.priority = 1});
  const auto before = Push({.after = milliseconds(59'999), .priority = 70});
  queue_->AdvanceTo(kStart + milliseconds(59'999));
  EXPECT_THAT(Order(), ElementsAre(lower_but_preempted, before, low));
  queue_->AdvanceTo(kStart + kPriorityPatience);
  EXPECT_THAT(Order(), ElementsAre(lower_but_preempted, low, before));
  const auto after = Push({.after = milliseconds(60'000), .priority = 100});
  EXPECT_THAT(Order(), ElementsAre(lower_but_preempted, low, after, before));
  EXPECT_EQ(queue_->Oldest(), &At(low));
  EXPECT_EQ(queue_->YoungerThan(At(low)), &At(lower_but_preempted));
  for (const auto number : {low, lower_but_preempted, before, after}) queue_->Erase(At(number));
  queue_->AdvanceTo(kStart + std::chrono::hours(1));
  EXPECT_THAT(Order(), IsEmpty());
}

// Otherwise a queue of equal requests would be turned over after a minute, and prefixes evicted before they are used.
TEST_F(WaitingQueueTest, AmongEqualsPatienceChangesNothing) {
  Make(SchedulePolicy::kShortestUncached);
  const auto large = Push({.token_count = 50'000});
  const auto small = Push({.token_count = 10, .after = std::chrono::seconds(120)});
  queue_->AdvanceTo(kStart + std::chrono::seconds(125));
  EXPECT_THAT(Order(), ElementsAre(small, large));
  const auto high = Push({.token_count = 10, .after = std::chrono::seconds(126), .priority = 60});
  EXPECT_THAT(Order(), ElementsAre(high, large, small)) << "who has waited is raised to it, and then ordered by age";
  for (const auto number : {large, small, high}) queue_->Erase(At(number));
  const auto old = Push({.token_count = 50'000});
  const auto young = Push({.token_count = 10, .after = std::chrono::seconds(127)});
  EXPECT_THAT(Order(), ElementsAre(young, old)) << "a higher priority of an earlier queue is forgotten";
}

// Equal in priority, they are ordered by the policy.
TEST_F(WaitingQueueTest, ThoseThatHaveWaitedLongStandAsThePolicySays) {
  Make(SchedulePolicy::kShortestUncached);
  const auto large = Push({.token_count = 6'000, .priority = 10});
  const auto small = Push({.token_count = 10, .priority = 0});
  const auto soon = Push({.token_count = 10, .after = std::chrono::seconds(59), .priority = 100});
  const auto late = Push({.token_count = 10, .after = std::chrono::seconds(61), .priority = 100});
  queue_->AdvanceTo(kStart + kPriorityPatience);
  EXPECT_THAT(Order(), ElementsAre(small, soon, large, late));
}

TEST_F(WaitingQueueTest, PreemptedOnesAreFirstAndOfThemTheLatest) {
  const auto urgent = Push({.priority = 100});
  const auto first = PushPreempted({.priority = 0});
  const auto second = PushPreempted({.priority = 100});
  const auto third = PushPreempted({.priority = 0});
  EXPECT_THAT(Order(), ElementsAre(third, second, first, urgent));
}

TEST_F(WaitingQueueTest, APreemptedOneKeepsItsPlaceWhateverIsCached) {
  Make(SchedulePolicy::kShortestUncached);
  const auto first = PushPreempted({.token_count = 10});
  const auto second = PushPreempted({.token_count = 1000});
  queue_->ExpectUncached(At(first), 1);
  EXPECT_THAT(Order(), ElementsAre(second, first));
}

TEST_F(WaitingQueueTest, TheNextOfARankThatHasGoneIsTheOneBehindIt) {
  const auto a = Push({});
  const auto b = Push({});
  const WaitingRank rank = At(a).rank;
  queue_->Erase(At(a));
  EXPECT_EQ(queue_->After(rank), &At(b));
  EXPECT_EQ(queue_->After(At(b).rank), nullptr);
}

TEST_F(WaitingQueueTest, WhatIsToBeComputedIsTheSumOfWhatEachExpects) {
  const auto a = Push({.token_count = 100});
  (void)Push({.token_count = 10});
  EXPECT_EQ(queue_->uncached_count(), 110U);
  queue_->ExpectUncached(At(a), 30);
  EXPECT_EQ(queue_->uncached_count(), 40U);
  queue_->Erase(At(a));
  EXPECT_EQ(queue_->uncached_count(), 10U);
}

TEST_F(WaitingQueueTest, ExpiredAreThoseBeyondTheirDeadlineInItsOrder) {
  const auto late = Push({.deadline = kStart + std::chrono::seconds(3)});
  const auto early = Push({.deadline = kStart + std::chrono::seconds(1)});
  (void)Push({});
  EXPECT_THAT(queue_->Expired(kStart), IsEmpty());
  EXPECT_THAT(queue_->Expired(kStart + std::chrono::seconds(3)), ElementsAre(SequenceId(early), SequenceId(late)));
  queue_->Erase(At(early));
  EXPECT_THAT(queue_->Expired(kStart + std::chrono::seconds(3)), ElementsAre(SequenceId(late)));
}

TEST_F(WaitingQueueTest, WhoHasOutputDoesNotExpire) {
  (void)PushPreempted({.deadline = kStart, .output_count = 1});
  EXPECT_THAT(queue_->Expired(kStart + std::chrono::hours(1)), IsEmpty());
}

}  // namespace
}  // namespace roost::worker

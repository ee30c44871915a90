#include "router/route/prompt_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kAgeing = 100;
constexpr double kPace = 1e-4;  // seconds per token
const Instant kStart{1h};

TEST(PromptQueueTest, ShortPromptsGoFirst) {
  PromptQueue queue;
  queue.Add(1, 5000, kStart);
  queue.Add(2, 300, kStart);
  const PromptQueue::Place place = queue.PlaceOf(1000, kStart, kAgeing, kPace);
  EXPECT_DOUBLE_EQ(place.all_tokens, 5300);
  EXPECT_DOUBLE_EQ(place.before_tokens, 300);
}

TEST(PromptQueueTest, WhoOvertakesHoldsUpAndMoreWhoIsLate) {
  PromptQueue queue;
  queue.Add(1, 6000, kStart);  // 0.6 s at this pace
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1000, kStart, kAgeing, kPace).overtaken, 1 + 0.6 / PromptQueue::kPatienceSeconds);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1000, kStart + 3s, kAgeing, kPace).overtaken, 1 + 3.6 / PromptQueue::kPatienceSeconds);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1000, kStart + 30s, kAgeing, kPace).overtaken, 1 + PromptQueue::kMaxImpatience);
  // A prompt that goes last overtakes no other.
  EXPECT_DOUBLE_EQ(queue.PlaceOf(7000, kStart, kAgeing, kPace).overtaken, 0);
}

TEST(PromptQueueTest, WhatTheWorkerSaysIsLeftReplacesTheEstimate) {
  PromptQueue queue;
  queue.SetOthers(std::vector<PromptQueue::Other>{{40, kStart}});
  queue.Add(1, 5000, kStart, RequestId(11));
  queue.Add(2, 300, kStart, RequestId(7));
  queue.Add(3, 600, kStart, RequestId(9));
  // The step seems to have computed the other router's, the second, and 60 tokens of the third.
  queue.OnComputed(400, kStart, kAgeing);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1000, kStart, kAgeing, kPace).before_tokens, 540);
  // It was the first, which has waited for long. One request has two choices, of which one is further.
  queue.SetOwn(std::vector<PromptQueue::Own>{
      {RequestId(11), 4600}, {RequestId(7), 100}, {RequestId(7), 300}, {RequestId(8), 77}});
  const PromptQueue::Place place = queue.PlaceOf(1000, kStart, kAgeing, kPace);
  EXPECT_DOUBLE_EQ(place.before_tokens, 300 + 540);
  EXPECT_DOUBLE_EQ(place.all_tokens, 4600 + 300 + 540);
  queue.SetOwn({});  // an older worker tells nothing
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1000, kStart, kAgeing, kPace).all_tokens, 4600 + 300 + 540);
  queue.SetOwn(std::vector<PromptQueue::Own>{{RequestId(11), 0}, {RequestId(7), 0}, {RequestId(9), 0}});
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1000, kStart, kAgeing, kPace).all_tokens, 0);
}

TEST(PromptQueueTest, WaitingIsWorthTokens) {
  PromptQueue queue;
  queue.Add(1, 1500, kStart);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1000, kStart + 4s, kAgeing, kPace).before_tokens, 0);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1000, kStart + 6s, kAgeing, kPace).before_tokens, 1500);
}

TEST(PromptQueueTest, StepsComputeTheFirstInOrder) {
  PromptQueue queue;
  queue.Add(1, 2000, kStart);
  queue.Add(2, 500, kStart);
  queue.Add(3, 100, kStart + 1s);  // came after the step had begun
  queue.OnComputed(1000, kStart, kAgeing);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(10000, kStart + 1s, kAgeing, kPace).before_tokens, 1500 + 0 + 100);
  // A prompt that has begun goes before prompts longer than its rest.
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1700, kStart, kAgeing, kPace).before_tokens, 1600);
  // More tokens than are known to be queued.
  queue.OnComputed(1'000'000, kStart + 1s, kAgeing);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(1, kStart + 1s, kAgeing, kPace).all_tokens, 0);
}

TEST(PromptQueueTest, OtherRoutersPromptsCountAlike) {
  PromptQueue queue;
  queue.Add(1, 2000, kStart);
  queue.SetOthers(std::vector<PromptQueue::Other>{{500, kStart}, {9000, kStart - 10s}});
  PromptQueue::Place place = queue.PlaceOf(1000, kStart, kAgeing, kPace);
  EXPECT_DOUBLE_EQ(place.all_tokens, 11500);
  EXPECT_DOUBLE_EQ(place.before_tokens, 500);
  EXPECT_DOUBLE_EQ(place.overtaken, 1 + 0.2 / PromptQueue::kPatienceSeconds + 1 + PromptQueue::kMaxImpatience);
  EXPECT_EQ(queue.size(), 1U);
  // The worker first computes the others' prompts that go first, so this router's prompt loses 300 tokens.
  queue.OnComputed(800, kStart, kAgeing);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(5000, kStart, kAgeing, kPace).before_tokens, 1700);
  queue.SetOthers(std::vector<PromptQueue::Other>{{30, kStart}});
  EXPECT_DOUBLE_EQ(queue.PlaceOf(5000, kStart, kAgeing, kPace).all_tokens, 1730);
  queue.Add(2, 7, kStart);
  queue.Remove(1);
  EXPECT_EQ(queue.size(), 1U);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(5000, kStart, kAgeing, kPace).all_tokens, 37);
  queue.SetOthers({});
  EXPECT_DOUBLE_EQ(queue.PlaceOf(5000, kStart, kAgeing, kPace).all_tokens, 7);
}

TEST(PromptQueueTest, WhoIsRemovedIsGone) {
  PromptQueue queue;
  queue.Add(1, 10, kStart);
  queue.Add(2, 20, kStart);
  queue.Remove(1);
  queue.Remove(1);
  queue.Remove(7);
  EXPECT_EQ(queue.size(), 1U);
  EXPECT_DOUBLE_EQ(queue.PlaceOf(100, kStart, kAgeing, kPace).all_tokens, 20);
}

// The same, done naively: sort, then walk.
TEST(PromptQueueTest, AgreesWithASortedList) {
  struct Naive {
    double left;
    Instant sent_at;
  };
  Rng rng(11);
  PromptQueue queue;
  std::map<std::uint64_t, Naive> naive;
  Instant now = kStart;
  const auto rank = [](double left, Instant at) { return left + kAgeing * ToSeconds(at.time_since_epoch()); };
  for (std::uint64_t number = 1; number < 3000; ++number) {
    now += std::chrono::milliseconds(rng.Below(300));
    const auto tokens = static_cast<std::uint32_t>(rng.Below(3000));
    queue.Add(number, tokens, now);
    naive[number] = {static_cast<double>(tokens), now};
    if (naive.size() > 20) {
      const std::uint64_t gone = std::next(naive.begin(), static_cast<std::ptrdiff_t>(rng.Below(naive.size())))->first;
      queue.Remove(gone);
      naive.erase(gone);
    }
    const Instant until = now - std::chrono::milliseconds(rng.Below(500));
    const auto computed = static_cast<std::uint32_t>(rng.Below(1500));
    queue.OnComputed(computed, until, kAgeing);
    std::vector<Naive*> order;
    for (auto& [key, each] : naive) order.push_back(&each);
    std::stable_sort(order.begin(), order.end(),
                     [&](Naive* a, Naive* b) { return rank(a->left, a->sent_at) < rank(b->left, b->sent_at); });
    double to_take = computed;
    for (Naive* each : order) {
      if (each->sent_at > until) continue;
      const double taken = std::min(to_take, each->left);
      each->left -= taken;
      to_take -= taken;
    }
    const double mine = static_cast<double>(rng.Below(3000));
    double before = 0;
    double all = 0;
    for (const auto& [key, each] : naive) {
      all += each.left;
      if (rank(each.left, each.sent_at) <= rank(mine, now)) before += each.left;
    }
    const PromptQueue::Place place = queue.PlaceOf(mine, now, kAgeing, kPace);
    ASSERT_DOUBLE_EQ(place.all_tokens, all) << number;
    ASSERT_DOUBLE_EQ(place.before_tokens, before) << number;
  }
}

}  // namespace
}  // namespace roost::router

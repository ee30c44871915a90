#include "router/route/warm_up.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "router/route/candidates.h"
#include "router/route/faded_sum.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kPromptTokens = 1600;
constexpr std::uint32_t kCold = 3;
constexpr int kRequests = 1000;

// Three workers with full caches and a cold one that has just joined; worker 0 is chosen each time.
class WarmUpTest : public ::testing::Test {
 protected:
  WarmUpTest() {
    for (std::uint32_t slot = 0; slot < kCold; ++slot) {
      workers_.push_back(Idle(slot));
      workers_.back().cached_block_count = 1000;
    }
    workers_.push_back(Idle(kCold));
    workers_.back().joined_at = now_;
  }

  // True if the cold worker would take the request.
  bool Take(std::uint32_t chosen = 0) {
    const FleetView fleet = FleetOf(workers_);
    const RouteQuery query{
        .prompt_token_count = kPromptTokens, .matches = matches_, .block_hashes = chain_, .now = now_};
    const std::vector<Candidate> candidates = FindCandidates(query, fleet);
    const auto choice = std::find_if(candidates.begin(), candidates.end(),
                                     [=](const Candidate& each) { return each.slot.value() == chosen; });
    const Candidate* const warmed = warm_up_.Choose(query, fleet, candidates, *choice);
    EXPECT_TRUE(warmed == nullptr || warmed->slot.value() == kCold);
    return warmed != nullptr;
  }
  int TakenOfMany() {
    int taken = 0;
    for (int i = 0; i < kRequests; ++i) taken += Take() ? 1 : 0;
    return taken;
  }

  std::vector<WorkerView> workers_;
  std::vector<WorkerMatch> matches_;
  std::vector<BlockHash> chain_ = Chain(1, kPromptTokens / 16);
  Instant now_{std::chrono::hours(1)};
  WarmUp warm_up_;
};

TEST_F(WarmUpTest, GivesTheFairShareOfMisses) {
  int taken = 0;
  for (int misses = 1; misses <= kRequests; ++misses) {
    taken += Take() ? 1 : 0;
    ASSERT_EQ(taken, misses / 4) << misses;
  }
}

TEST_F(WarmUpTest, CountsWhatItWasSentAnyway) {
  for (int i = 0; i < kRequests; ++i) EXPECT_FALSE(Take(kCold));
  EXPECT_FALSE(Take());
}

TEST_F(WarmUpTest, LeavesAlone) {
  struct Case {
    const char* what;
    std::function<void()> make;
  };
  const std::vector<Case> cases = {
      {"requests that a cache helps", [&] { matches_ = {Holds(0, 40)}; }},
      {"requests without blocks", [&] { chain_.clear(); }},
      {"workers that are there for long", [&] { now_ += kRecentTime; }},
      {"workers that have filled", [&] { workers_[kCold].cached_block_count = 700; }},
      {"workers that have more to do", [&] { workers_[kCold].queued_prefill_tokens = 5000; }},
      {"workers that are slow", [&] { workers_[kCold].prefill_tokens_per_second = 500; }},
      {"fleets in which all are new",
       [&] {
         for (WorkerView& worker : workers_) worker.cached_block_count = 0;
       }},
  };
  const auto workers = workers_;
  const auto chain = chain_;
  const Instant now = now_;
  for (const Case& c : cases) {
    workers_ = workers;
    chain_ = chain;
    now_ = now;
    matches_.clear();
    warm_up_ = {};
    c.make();
    EXPECT_EQ(TakenOfMany(), 0) << c.what;
  }
}

TEST_F(WarmUpTest, AFewBlocksThatEverybodyHoldsAreAMiss) {
  matches_ = {Holds(0, 20), Holds(1, 20), Holds(2, 20)};
  EXPECT_GT(TakenOfMany(), 0);
}

TEST_F(WarmUpTest, BeginsAnewWithTheNextLifeOfASlot) {
  for (int i = 0; i < kRequests; ++i) (void)Take(kCold);
  EXPECT_EQ(TakenOfMany(), 0);
  workers_[kCold].joined_at = now_ += std::chrono::seconds(1);
  EXPECT_GT(TakenOfMany(), 0);
}

TEST(WarmUpPolicyTest, TellsTheReason) {
  const auto policy = Make("cache-aware");
  WorkerView full = Idle(0);
  full.cached_block_count = 1000;
  WorkerView cold = Idle(1);
  cold.queued_prefill_tokens = 200;  // never a tie
  const FleetView fleet = FleetOf({full, cold});
  const std::vector<BlockHash> chain = Chain(1, kPromptTokens / 16);
  const RouteQuery query{.prompt_token_count = kPromptTokens, .block_hashes = chain, .now = Instant{}};
  EXPECT_NE(policy->Choose(query, fleet)->reason, DecisionReason::kWarmUp);
  const Decision second = policy->Choose(query, fleet).value();
  EXPECT_EQ(second.reason, DecisionReason::kWarmUp);
  EXPECT_EQ(second.slot.value(), 1U);
}

}  // namespace
}  // namespace roost::router

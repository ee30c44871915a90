// The router's modes when a worker's events can not be trusted, or do not come.
#include <gtest/gtest.h>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

constexpr std::uint32_t kLongOutput = 8;

FleetCoreOptions QuickToJudge() {
  FleetCoreOptions options;
  options.modes.window_requests = 4;
  return options;
}

struct FleetModesTest : ::testing::Test {
  FleetSim sim{1, "cache-aware", QuickToJudge()};

  WorkerMode ModeOf(const FakeWorker& worker) { return sim.StatusOf(worker.id())->mode; }
  std::uint32_t Promise(const std::vector<TokenId>& prompt) {
    const Request request = sim.Submit(prompt, kLongOutput);
    sim.Run();
    return request.observer->decisions.front().matched_tokens;
  }
  // Requests whose promised tokens are missing on arrival, as if the worker's events were wrong.
  void BreakPromises(FakeWorker& worker, int count) {
    for (int i = 0; i < count; ++i) {
      const auto prompt = MakePrompt(next_seed_++, 50);
      sim.Submit(prompt, kLongOutput);
      sim.Run();
      worker.SetHitless(true);
      sim.Submit(prompt, kLongOutput);
      sim.Run();
      worker.SetHitless(false);
    }
  }

 private:
  TokenId next_seed_ = 100;
};

TEST_F(FleetModesTest, WorkerWithoutEventsIsPredictedFromWhatItWasSent) {
  FakeWorker& worker = sim.AddWorker("a");
  worker.hello().sends_cache_events = false;
  worker.SayHello();
  sim.DeliverAll();
  EXPECT_EQ(ModeOf(worker), WorkerMode::kPredicted);
  EXPECT_EQ(Promise(MakePrompt(1, 50)), 0U);
  EXPECT_EQ(Promise(MakePrompt(1, 50)), 48U);
  EXPECT_EQ(Promise(MakePrompt(1, 90)), 48U);
  sim.Advance(3s);
  EXPECT_EQ(worker.snapshot_requests(), 0);
  for (const CacheOutcome& outcome : sim.metrics.outcomes) {
    EXPECT_EQ(outcome.predicted_cached_tokens, outcome.actual_cached_tokens);
  }
}

TEST_F(FleetModesTest, AWorkerThatLosesTrackOfItsCacheIsPredictedUntilItKnowsItAgain) {
  FakeWorker& worker = sim.JoinWorker("a");
  static_cast<void>(Promise(MakePrompt(1, 50)));
  EXPECT_EQ(ModeOf(worker), WorkerMode::kExact);
  worker.SetCacheUnknown(true);
  worker.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(ModeOf(worker), WorkerMode::kPredicted);
  EXPECT_EQ(Promise(MakePrompt(2, 50)), 0U);
  EXPECT_EQ(Promise(MakePrompt(2, 50)), 48U) << "by what was sent there";
  EXPECT_EQ(worker.snapshot_requests(), 0);

  worker.SetCacheUnknown(false);
  worker.Heartbeat();
  sim.DeliverAll();
  sim.Advance(300ms);
  EXPECT_EQ(ModeOf(worker), WorkerMode::kExact);
  EXPECT_EQ(worker.snapshot_requests(), 1);
  EXPECT_EQ(Promise(MakePrompt(1, 50)), 48U) << "by the snapshot";
}

TEST_F(FleetModesTest, PromisesAreJudgedAlsoWhenTheirOutcomeIsToldLate) {
  FakeWorker& worker = sim.JoinWorker("a");
  worker.SetTellsCachedLate(true);
  worker.SetHitless(true);
  static_cast<void>(Promise(MakePrompt(1, 50)));
  for (int i = 0; i < 4; ++i) static_cast<void>(Promise(MakePrompt(1, 50)));
  EXPECT_EQ(sim.metrics.mode_changes, (std::vector<std::string>{"exact missing_tokens"})) << "four cost a snapshot";
  EXPECT_EQ(sim.metrics.outcomes.size(), 5U);
  EXPECT_EQ(sim.metrics.outcomes.back().actual_cached_tokens, 0U);
  EXPECT_EQ(sim.metrics.outcomes.back().predicted_cached_tokens, 48U);
}

TEST_F(FleetModesTest, NothingIsPromisedOfAWorkerThatKeepsNoPrefixes) {
  FakeWorker& worker = sim.AddWorker("a");
  worker.hello().keeps_prefixes = false;
  worker.SetHitless(true);
  worker.SayHello();
  sim.DeliverAll();
  EXPECT_EQ(ModeOf(worker), WorkerMode::kBlind);
  const Request first = sim.Submit(MakePrompt(1, 50), kLongOutput);
  const Request beside = sim.Submit(MakePrompt(1, 50), kLongOutput);  // while the first is computed
  EXPECT_EQ(sim.core.pending_count(), 0U);
  sim.Run();
  EXPECT_EQ(beside.observer->decisions.front().matched_tokens, 0U);
  EXPECT_EQ(Promise(MakePrompt(1, 50)), 0U);
  sim.Advance(200s);
  EXPECT_EQ(ModeOf(worker), WorkerMode::kBlind);
  EXPECT_EQ(worker.snapshot_requests(), 0);
  EXPECT_TRUE(sim.metrics.mode_changes.empty());
}

TEST_F(FleetModesTest, PredictedTurnsOfAChatMatchTheAnswersBeforeThem) {
  FakeWorker& worker = sim.AddWorker("a");
  worker.hello().sends_cache_events = false;
  worker.SayHello();
  sim.DeliverAll();
  std::vector<TokenId> chat = MakePrompt(1, 50);
  const Request turn = sim.Submit(chat, 40);
  sim.Run();
  chat.insert(chat.end(), turn.observer->tokens.begin(), turn.observer->tokens.end());
  const std::size_t computed = chat.size() - 1;
  chat.resize(chat.size() + 20, 5);
  ASSERT_GT(turn.observer->tokens.size(), 4U);
  EXPECT_EQ(Promise(chat), computed / FakeWorker::kBlockTokens * FakeWorker::kBlockTokens);
}

TEST_F(FleetModesTest, PredictedViewHoldsNoMoreThanTheWorkerSaysItHas) {
  FakeWorker& worker = sim.AddWorker("a");
  worker.hello().sends_cache_events = false;
  worker.SayHello();
  sim.DeliverAll();
  static_cast<void>(Promise(MakePrompt(1, 50)));
  EXPECT_GT(sim.StatusOf("a")->indexed_block_count, 10U);
  worker.Evict(1000);
  sim.Advance(300ms);
  EXPECT_EQ(sim.StatusOf("a")->indexed_block_count, 0U);
}

TEST_F(FleetModesTest, BrokenPromisesCostASnapshotThenTheEventsThenAllTrust) {
  FakeWorker& worker = sim.JoinWorker("a");
  EXPECT_EQ(ModeOf(worker), WorkerMode::kExact);
  BreakPromises(worker, 4);
  EXPECT_EQ(ModeOf(worker), WorkerMode::kExact);
  sim.Advance(200ms);
  EXPECT_EQ(worker.snapshot_requests(), 1);
  EXPECT_TRUE(sim.ViewIsExact(worker));
  BreakPromises(worker, 4);
  EXPECT_EQ(ModeOf(worker), WorkerMode::kPredicted);
  BreakPromises(worker, 4);
  EXPECT_EQ(ModeOf(worker), WorkerMode::kBlind);
  EXPECT_EQ(sim.StatusOf("a")->indexed_block_count, 0U);
  EXPECT_EQ(Promise(MakePrompt(1, 50)), 0U);
  EXPECT_EQ(Promise(MakePrompt(1, 50)), 0U);
  EXPECT_EQ(sim.metrics.mode_changes,
            (std::vector<std::string>{"exact missing_tokens", "predicted missing_tokens", "blind missing_tokens"}));
}

TEST_F(FleetModesTest, WhatABlindWorkerComputesForOthersIsNotFollowed) {
  FakeWorker& worker = sim.JoinWorker("a");
  worker.SetOtherPrompts({{50, 0, 1, BlocksOf(MakePrompt(1, 50))}});
  worker.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(sim.core.pending_count(), 1U);
  BreakPromises(worker, 4);
  sim.Advance(200ms);
  BreakPromises(worker, 8);
  ASSERT_EQ(ModeOf(worker), WorkerMode::kBlind);
  sim.Advance(200ms);
  EXPECT_EQ(sim.core.pending_count(), 0U);
}

TEST_F(FleetModesTest, QuietWorkerIsTrustedAgainStepByStep) {
  FakeWorker& worker = sim.JoinWorker("a");
  BreakPromises(worker, 4);
  sim.Advance(200ms);
  BreakPromises(worker, 8);
  ASSERT_EQ(ModeOf(worker), WorkerMode::kBlind);
  sim.Advance(61s);
  EXPECT_EQ(ModeOf(worker), WorkerMode::kPredicted);
  sim.Advance(61s);
  EXPECT_EQ(ModeOf(worker), WorkerMode::kExact);
  EXPECT_TRUE(sim.ViewIsExact(worker));
  static_cast<void>(Promise(MakePrompt(1, 50)));
  EXPECT_EQ(Promise(MakePrompt(1, 50)), 48U);
}

TEST_F(FleetModesTest, GapIsNoticedInEveryMode) {
  FakeWorker& worker = sim.JoinWorker("a");
  BreakPromises(worker, 4);
  sim.Advance(200ms);
  BreakPromises(worker, 4);
  ASSERT_EQ(ModeOf(worker), WorkerMode::kPredicted);
  worker.Heartbeat();
  worker.outbox().pop_back();
  worker.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(sim.metrics.lost["broken_link"], 1);
  EXPECT_EQ(ModeOf(worker), WorkerMode::kExact) << "another life of the link begins anew";
}

}  // namespace
}  // namespace roost::router

// Workers that owe tokens, and what one worker's word about the number of routers is worth.
#include <gtest/gtest.h>

#include "router/fleet/workers/worker_health.h"
#include "tests/router/fleet/fleet_answers.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

// ---- the judge alone ----

struct FirstTokensTest : ::testing::Test {
  ManualClock clock;
  FirstTokens tokens{5s, clock.Now()};
  FirstTokens::Owed owed{.sent_at = clock.Now(), .predicted_seconds = 0.1, .expected_seconds = 0.1};

  // Whole seconds until it is overdue.
  int SecondsUntilOverdue() {
    for (int second = 1; second < 1000; ++second) {
      clock.Advance(1s);
      if (tokens.IsOverdue(owed, clock.Now())) return second;
    }
    return 1000;
  }
};

TEST_F(FirstTokensTest, ASilentWorkerIsJudgedWithinSeconds) { EXPECT_EQ(SecondsUntilOverdue(), 6); }

TEST_F(FirstTokensTest, ALongPromptIsGivenFourTimesItsPrediction) {
  owed.predicted_seconds = 20;
  EXPECT_EQ(SecondsUntilOverdue(), 81);
}

TEST_F(FirstTokensTest, SlowStepsAndMoreWorkLengthenTheTimeUpToABound) {
  owed.expected_seconds = 3;
  owed.step_seconds = 1;
  EXPECT_EQ(SecondsUntilOverdue(), 21);
  owed.sent_at = clock.Now();
  owed.step_seconds = 3600;
  EXPECT_EQ(SecondsUntilOverdue(), 31) << "whatever it reports";
}

TEST_F(FirstTokensTest, ALongPromptMayTurnOutToTakeMuchLonger) {
  owed.predicted_seconds = 10;
  owed.expected_seconds = 30;
  EXPECT_EQ(SecondsUntilOverdue(), 121);
  owed.sent_at = clock.Now();
  owed.expected_seconds = 3600;
  EXPECT_EQ(SecondsUntilOverdue(), 161) << "whatever it reports";
}

TEST_F(FirstTokensTest, AConstraintMayBeCompiledFirst) {
  owed.is_constrained = true;
  EXPECT_EQ(SecondsUntilOverdue(), 38);
}

TEST_F(FirstTokensTest, SlowFirstTokensOfLateAreExpectedAgain) {
  clock.Advance(9s);
  tokens.OnFirstToken(owed.sent_at, clock.Now());
  tokens.OnToken(clock.Now());
  owed.sent_at = clock.Now();
  EXPECT_EQ(SecondsUntilOverdue(), 19);
  for (int i = 0; i < 10; ++i) tokens.OnFirstToken(clock.Now(), clock.Now());
  tokens.OnToken(clock.Now());
  owed.sent_at = clock.Now();
  EXPECT_EQ(SecondsUntilOverdue(), 7) << "fast ones make it forget";
}

TEST_F(FirstTokensTest, AnyTokenEndsTheSilence) {
  clock.Advance(5s);
  tokens.OnToken(clock.Now());
  EXPECT_EQ(SecondsUntilOverdue(), 6);
}

TEST_F(FirstTokensTest, WhereNothingIsKnownNothingIsOverdue) {
  owed.predicted_seconds = 0;
  owed.expected_seconds = 0;
  EXPECT_EQ(SecondsUntilOverdue(), 1000);
}

struct LaterTokensTest : ::testing::Test {
  ManualClock clock;
  LaterTokens tokens{5s};
  double step_seconds = 0.1;

  LaterTokensTest() { tokens.Begin(clock.Now()); }

  // Whole seconds until tokens stay away while `count` tokens for `begun` requests come after each `pause`.
  int SecondsUntilLate(std::size_t count, std::uint32_t begun, Duration pause) {
    const Instant start = clock.Now();
    Instant next = start + pause;
    for (int second = 1; second < 1000; ++second) {
      for (; next <= start + second * 1s; next += pause) {
        clock.Advance(next - clock.Now());
        tokens.OnTokens(count, begun, step_seconds, clock.Now());
      }
      clock.Advance(start + second * 1s - clock.Now());
      if (tokens.StayAway(step_seconds, clock.Now())) return second;
    }
    return 1000;
  }
};

TEST_F(LaterTokensTest, ATokenForEachRequestAtEachStepOwesNothing) {
  EXPECT_EQ(SecondsUntilLate(4, 4, 100ms), 1000);
  EXPECT_TRUE(tokens.IsPaid(clock.Now()));
}

TEST_F(LaterTokensTest, NoTokensAreJudgedWithinSeconds) { EXPECT_EQ(SecondsUntilLate(0, 1, 10s), 6); }

TEST_F(LaterTokensTest, ATokenEveryFewSecondsIsJudgedWithinSeconds) {
  EXPECT_EQ(SecondsUntilLate(1, 1, 3s), 7);
  EXPECT_FALSE(tokens.IsPaid(clock.Now()));
}

TEST_F(LaterTokensTest, ManyAnswersThatDripDoNotHideEachOther) { EXPECT_LE(SecondsUntilLate(1, 30, 100ms), 7); }

TEST_F(LaterTokensTest, ASlowMachinePaysWithWhatItsStepsTake) {
  step_seconds = 3;
  EXPECT_EQ(SecondsUntilLate(1, 1, 3s), 1000);
  EXPECT_EQ(SecondsUntilLate(1, 1, 12s), 1000) << "its steps may become four times as slow";
}

TEST_F(LaterTokensTest, ReportsOfSlowStepsHaveABound) {
  step_seconds = 3600;
  EXPECT_EQ(SecondsUntilLate(0, 1, 100s), 31);
}

TEST_F(LaterTokensTest, ThreeOfFourRequestsMayWait) {
  step_seconds = 1;
  EXPECT_EQ(SecondsUntilLate(2, 8, 1s), 1000);
}

TEST_F(LaterTokensTest, WhereNothingIsKnownNothingIsOwed) {
  step_seconds = 0;
  EXPECT_EQ(SecondsUntilLate(0, 1, 100s), 1000);
  tokens.OnTokens(1, 1, step_seconds, clock.Now());
  EXPECT_TRUE(tokens.IsPaid(clock.Now()));
}

TEST(EjectionTest, TheTimeDoublesWhenItIsOutAgainSoonAfterItCameBack) {
  ManualClock clock;
  Ejection ejection;
  // Whole seconds that it is out, then served as it should be.
  const auto out = [&] {
    EXPECT_TRUE(ejection.OnSilence(clock.Now()));
    for (int second = 1;; ++second) {
      clock.Advance(1s);
      if (!ejection.Tick(clock.Now())) continue;
      EXPECT_TRUE(ejection.OnSent());
      ejection.OnServed(clock.Now());
      EXPECT_TRUE(ejection.is_in());
      return second;
    }
  };
  EXPECT_EQ(out(), 1);
  clock.Advance(5s);
  EXPECT_EQ(out(), 2);
  clock.Advance(5s);
  EXPECT_EQ(out(), 4);
  clock.Advance(32s);
  EXPECT_EQ(out(), 1) << "it has served for eight times as long";
}

// ---- in a fleet ----

struct FleetSilenceTest : TwoWorkersTest {
  // Engines step every 100 ms.
  void Step(Duration by) {
    for (Duration passed{}; passed < by; passed += 100ms) {
      for (auto& [id, worker] : sim.workers) worker->Step();
      sim.Advance(100ms);
    }
  }
};

TEST_F(FleetSilenceTest, RequestsLeaveAWorkerThatReportsProgressAndSendsNoToken) {
  WarmUp();
  a.SetSilent(true);
  std::vector<Request> requests;
  for (TokenId seed = 1; seed <= 24; ++seed) requests.push_back(sim.Submit(MakePrompt(seed, 30), 8));
  sim.DeliverAll();
  ASSERT_GT(a.running_count(), 3U);
  Step(6s);
  for (const Request& request : requests) ExpectWholeAnswer(request);
  EXPECT_GT(sim.metrics.retries["no_first_token"], 3);
  EXPECT_EQ(a.running_count(), 0U) << "it is told to stop";
  EXPECT_TRUE(sim.metrics.lost.empty());
  ExpectNothingCharged(sim);
}

TEST_F(FleetSilenceTest, ASilentWorkerGetsOnlyATrialNowAndThen) {
  WarmUp();
  a.SetSilent(true);
  const std::size_t had = a.received().size();
  for (TokenId seed = 1; seed <= 300; ++seed) {
    sim.Submit(MakePrompt(seed, 30), 4);
    Step(200ms);
  }
  Step(6s);
  // Those of the first five seconds, and trials 1 s, 2 s, 4 s, … after.
  EXPECT_LT(a.received().size() - had, 40U);
  EXPECT_EQ(sim.core.request_count(), 0U);
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kEjected);
  a.SetSilent(false);
  Step(60s);
  Request last = sim.Submit(MakePrompt(1000, 30), 4);
  for (TokenId seed = 1001; seed < 1010; ++seed) sim.Submit(MakePrompt(seed, 30), 4);
  Step(2s);
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kReady) << "its first token ends the trial";
}

TEST_F(FleetSilenceTest, AnEngineThatHangsInItsFirstStepKeepsNoRequest) {
  a.SetHung(true);
  std::vector<Request> requests;
  for (TokenId seed = 1; seed <= 12; ++seed) requests.push_back(sim.Submit(MakePrompt(seed, 30), 8));
  sim.DeliverAll();
  ASSERT_GT(a.running_count(), 0U);
  ASSERT_GT(b.running_count(), 1U);
  Step(6s);
  for (const Request& request : requests) ExpectWholeAnswer(request);
}

TEST_F(FleetSilenceTest, RequestsThatHaveBegunLeaveAWorkerThatLetsThemWait) {
  WarmUp();
  a.SetDripping(true);
  std::vector<Request> requests;
  for (TokenId seed = 1; seed <= 24; ++seed) requests.push_back(sim.Submit(MakePrompt(seed, 30), kOutput));
  sim.DeliverAll();
  ASSERT_GT(a.running_count(), 3U);
  Step(8s);
  for (const Request& request : requests) ExpectWholeAnswer(request);
  EXPECT_GT(sim.metrics.retries["no_later_token"], 3);
  EXPECT_EQ(a.running_count(), 0U) << "it is told to stop";
  EXPECT_EQ(sim.metrics.retries["no_first_token"], 0);
  ExpectNothingCharged(sim);
}

// It sends a token every three seconds.
TEST_F(FleetSilenceTest, AWorkerWhoseAnswersDripGetsOnlyATrialNowAndThen) {
  WarmUp();
  const std::size_t had = a.received().size();
  for (TokenId seed = 1; seed <= 300; ++seed) {
    a.SetDripping(seed % 15 != 0);
    sim.Submit(MakePrompt(seed, 30), kOutput);
    Step(200ms);
  }
  a.SetDripping(true);
  // Those of the first six seconds, and trials of five seconds each after 1 s, 2 s, 4 s, …
  EXPECT_LT(a.received().size() - had, 40U);
  Step(10s);
  EXPECT_EQ(sim.core.request_count(), 0U);
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kEjected);
  a.SetDripping(false);
  Step(60s);
  for (TokenId seed = 1001; seed < 1010; ++seed) sim.Submit(MakePrompt(seed, 30), kOutput);
  Step(4s);
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kReady) << "tokens at its pace end the trial";
}

TEST_F(FleetSilenceTest, AWorkerWhoseReportsTellOfSlowStepsKeepsWhatHasBegun) {
  WarmUp();
  for (FakeWorker* worker : {&a, &b}) worker->SetSlowness(4'000);
  const Request longer = sim.Submit(TalkativePrompt(), kOutput);
  sim.DeliverAll();
  FakeWorker& server = ServerOf(longer);
  for (int i = 0; i < 4; ++i) {
    server.Step();
    sim.DeliverAll();
    sim.Advance(4s);
  }
  EXPECT_FALSE(longer.observer->tokens.empty());
  EXPECT_TRUE(sim.metrics.retries.empty());
}

TEST_F(FleetSilenceTest, WhatWasCachedMayBeGone) {
  WarmUp();
  const std::vector<TokenId> prompt = MakePrompt(7, 15'000);
  const Request first = sim.Submit(prompt, 1);
  sim.Run();
  FakeWorker& server = ServerOf(first);
  server.SetSilent(true);
  const Request again = sim.Submit(prompt, 1);
  sim.DeliverAll();
  ASSERT_EQ(&ServerOf(again), &server);
  Step(15s);
  EXPECT_TRUE(sim.metrics.retries.empty()) << "four times what the whole prompt takes have not passed";
  Step(10s);
  EXPECT_EQ(sim.metrics.retries["no_first_token"], 1);
  ExpectWholeAnswer(again);
}

TEST_F(FleetSilenceTest, TheOnlyWorkerKeepsItsRequests) {
  WarmUp();
  sim.Kill(b);
  sim.Advance(3s);
  a.SetSilent(true);
  const Request request = sim.Submit(MakePrompt(7, 30), 8);
  Step(30s);
  EXPECT_FALSE(request.observer->end.has_value());
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kReady);
  a.SetSilent(false);
  sim.Run();
  ExpectWholeAnswer(request);
}

TEST_F(FleetSilenceTest, ARoutersOwnPauseIsNoSilenceOfItsWorkers) {
  WarmUp();
  const Request request = sim.Submit(MakePrompt(7, 30), 8);
  sim.DeliverAll();
  sim.clock.Advance(60s);
  sim.Tick();
  EXPECT_TRUE(sim.metrics.retries.empty());
  sim.Run();
  ExpectWholeAnswer(request);
}

TEST_F(FleetSilenceTest, ARequestThatWasMovedTwiceStays) {
  FakeWorker& c = sim.JoinWorker("c");
  FakeWorker& d = sim.JoinWorker("d");
  WarmUp();
  for (FakeWorker* worker : {&a, &b, &c, &d}) worker->SetSilent(true);
  const Request request = sim.Submit(MakePrompt(7, 30), 8);
  Step(60s);
  EXPECT_FALSE(request.observer->end.has_value());
  EXPECT_LE(request.observer->workers.size(), 3U);
  for (FakeWorker* worker : {&a, &b, &c, &d}) worker->SetSilent(false);
  sim.Run();
  ExpectWholeAnswer(request);
}

// ---- the number of routers ----

TEST_F(FleetSilenceTest, TheNumberOfRoutersIsWhatMostWorkersReport) {
  EXPECT_EQ(sim.core.router_count(), 1U);
  a.SetRouterCount(1024);
  sim.Advance(200ms);
  EXPECT_EQ(sim.core.router_count(), 1U) << "one of two is no majority";
  FakeWorker& c = sim.JoinWorker("c");
  b.SetRouterCount(3);
  c.SetRouterCount(3);
  sim.Advance(200ms);
  EXPECT_EQ(sim.core.router_count(), 3U);
}

TEST_F(FleetSilenceTest, TheNumberOfRoutersHasABound) {
  a.SetRouterCount(1024);
  b.SetRouterCount(1024);
  sim.Advance(200ms);
  EXPECT_EQ(sim.core.router_count(), FleetCoreOptions().max_routers);
}

}  // namespace
}  // namespace roost::router

// The fleet's records and measurements of its decisions.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

GenerateSpec Named(std::string answer_id) {
  GenerateSpec wishes;
  wishes.answer_id = std::move(answer_id);
  wishes.request_id = "req-" + wishes.answer_id;
  return wishes;
}

TEST(FleetDecisionsTest, RemembersADecisionAndWhatCameOfIt) {
  FleetSim sim;
  sim.JoinWorker("a");
  sim.JoinWorker("b");
  const auto prompt = MakePrompt(1, 50);
  sim.Submit(prompt, 3, Named("first"));
  sim.Run();
  const std::string home = sim.core.decisions().Find("first").front().worker_id;
  sim.Submit(prompt, 3, Named("second"));
  const std::vector<DecisionRecord> pending = sim.core.decisions().Find("second");
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_FALSE(pending[0].outcome.has_value());
  EXPECT_EQ(pending[0].no_outcome, "");
  sim.Run();
  const DecisionRecord record = sim.core.decisions().Find("req-second").front();
  EXPECT_EQ(record.model, "demo");
  EXPECT_EQ(record.policy, "cache-aware");
  EXPECT_EQ(record.prompt_token_count, 50U);
  EXPECT_EQ(record.retry_count, 0U);
  EXPECT_EQ(record.worker_id, home);
  ASSERT_EQ(record.candidate_ids.size(), 2U);
  ASSERT_EQ(record.decision.candidates.size(), 2U);
  EXPECT_EQ(record.candidate_ids[0], home);  // the cheapest
  ASSERT_TRUE(record.outcome.has_value());
  EXPECT_EQ(record.outcome->cached_tokens, 48U);
  EXPECT_EQ(record.decision.matched_tokens, 48U);
  EXPECT_EQ(record.audit.regret_tokens, 0U);
}

TEST(FleetDecisionsTest, EveryAttemptIsRemembered) {
  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");
  FakeWorker& b = sim.JoinWorker("b");
  const auto request = sim.Submit(MakePrompt(3, 20), 4, Named("moved"));
  sim.CarryOutEffects();
  sim.Kill(request.observer->workers.front() == "a" ? a : b);
  sim.core.OnUnreachable(request.observer->workers.front(), sim.clock.Now());
  sim.Run();
  const std::vector<DecisionRecord> records = sim.core.decisions().Find("moved");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].worker_id, request.observer->workers[0]);
  EXPECT_FALSE(records[0].outcome.has_value());
  EXPECT_EQ(records[0].no_outcome, "worker_lost");
  EXPECT_EQ(records[1].worker_id, request.observer->workers[1]);
  EXPECT_EQ(records[1].retry_count, 1U);
  EXPECT_EQ(records[1].decision.reason, DecisionReason::kOnlyWorker);
  EXPECT_TRUE(records[1].outcome.has_value());
}

TEST(FleetDecisionsTest, AnAttemptThatContinuesAStreamHasAnOutcomeToo) {
  FleetSim sim;
  sim.JoinWorker("a");
  sim.JoinWorker("b");
  const auto request = sim.Submit(MakePrompt(3, 20), 8, Named("moved"));
  sim.DeliverAll();
  FakeWorker& first = *sim.workers.at(request.observer->workers.front());
  for (int i = 0; i < 3; ++i) {
    first.Step();
    sim.DeliverAll();
  }
  ASSERT_FALSE(request.observer->tokens.empty());
  sim.Kill(first);
  sim.core.OnUnreachable(first.id(), sim.clock.Now());
  sim.Run();
  const std::vector<DecisionRecord> records = sim.core.decisions().Find("moved");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_TRUE(records[0].outcome.has_value());
  EXPECT_GT(records[1].prompt_token_count, 20U);
  EXPECT_TRUE(records[1].outcome.has_value());
  EXPECT_EQ(records[1].no_outcome, "");
}

TEST(FleetDecisionsTest, ARequestThatEndsBeforeItsFirstTokenLeavesADecisionThatSaysSo) {
  FleetSim sim;
  sim.JoinWorker("a");
  const auto request = sim.Submit(MakePrompt(3, 20), 4, Named("gone"));
  sim.core.Cancel(*request.id);
  sim.Run();
  EXPECT_EQ(sim.core.decisions().Find("gone").front().no_outcome, "request_ended");
}

// The candidates of the next decision show the effects of earlier ones: their charges at once, and none after their
// end.
TEST(FleetDecisionsTest, DecisionsSeeChargesComeAndGo) {
  FleetSim sim;
  sim.JoinWorker("a");
  sim.Submit(MakePrompt(1, 400), 2, Named("one"));
  sim.Submit(MakePrompt(2, 400), 2, Named("two"));
  const auto queue_of = [&](std::string_view id) {
    return sim.core.decisions().Find(id).front().decision.candidates.front().queue_seconds;
  };
  EXPECT_EQ(queue_of("one"), 0);
  EXPECT_GT(queue_of("two"), 0);
  sim.Run();
  sim.Submit(MakePrompt(3, 400), 2, Named("three"));
  EXPECT_EQ(queue_of("three"), 0);
}

// A worker of known speed that takes short prompts first.
FakeWorker& JoinShortestFirst(FleetSim& sim) {
  FakeWorker& worker = sim.AddWorker("a");
  worker.hello().ageing_tokens = 100;
  worker.hello().max_batch_tokens = 100;
  worker.SayHello();
  sim.DeliverAll();
  for (TokenId seed = 1; seed <= 3; ++seed) {
    sim.Submit(MakePrompt(seed, 200), 1);
    sim.Run();
  }
  return worker;
}

// If short prompts go first, they overtake the other routers' long prompts, but not their short ones.
TEST(FleetDecisionsTest, OtherRoutersPromptsStandInLineLikeOwnOnes) {
  FleetSim sim;
  FakeWorker& worker = JoinShortestFirst(sim);
  const auto queue_behind = [&](std::vector<wire::OtherPrompt> prompts) {
    worker.SetOtherPrompts(std::move(prompts));
    worker.Heartbeat();
    sim.DeliverAll();
    const auto request = sim.Submit(MakePrompt(9, 200), 1);
    sim.core.Cancel(*request.id);
    sim.CarryOutEffects();
    EXPECT_TRUE(request.observer->decisions.front().in_seconds);
    return request.observer->decisions.front().candidates.front();
  };
  const Candidate behind_short = queue_behind({{20, 0}, {30, 0}, {20, 0}});
  const Candidate behind_long = queue_behind({{4000, 0}, {6000, 0}});
  const Candidate behind_old = queue_behind({{4000, 100'000}, {6000, 100'000}});
  EXPECT_GT(behind_short.queue_seconds, 0);
  EXPECT_LT(behind_long.queue_seconds, 2 * behind_short.queue_seconds);  // only the step under way
  EXPECT_GT(behind_long.delay_seconds, behind_short.delay_seconds);
  EXPECT_GT(behind_old.queue_seconds, 20 * behind_long.queue_seconds);
}

// A new prompt overtakes a long one, but not what is left of it when the worker says that it is nearly done.
TEST(FleetDecisionsTest, OwnPromptsStandInLineWithWhatTheWorkerSaysIsLeftOfThem) {
  FleetSim sim;
  FakeWorker& worker = JoinShortestFirst(sim);
  const auto long_one = sim.Submit(MakePrompt(8, 4000), 1);
  const auto delay_of_another = [&] {
    const auto request = sim.Submit(MakePrompt(9, 200), 1);
    sim.core.Cancel(*request.id);
    sim.CarryOutEffects();
    return request.observer->decisions.front().candidates.front().delay_seconds;
  };
  EXPECT_GT(delay_of_another(), 0);
  worker.SetOwnPrompts({{*long_one.id, 20}});
  worker.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(delay_of_another(), 0);
}

// Otherwise routers that start together would all send their first requests to one worker, then all to the next.
TEST(FleetDecisionsTest, EveryRouterHasAnOrderOfItsOwnInWhichWorkersHaveTheirFirstTurn) {
  constexpr std::size_t kWorkers = 8;
  std::map<std::string, int> first_of;
  for (std::uint64_t seed = 1; seed <= 64; ++seed) {
    FleetSim sim(seed);
    for (std::size_t i = 0; i < kWorkers; ++i) sim.JoinWorker("w" + std::to_string(i));
    std::set<std::string> taken;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      const auto request = sim.Submit(MakePrompt(static_cast<TokenId>(i), 40), 1);
      sim.Run();
      if (i == 0) ++first_of[request.observer->workers.front()];
      taken.insert(request.observer->workers.front());
    }
    EXPECT_EQ(taken.size(), kWorkers) << "a second turn before another's first";
  }
  for (const auto& [worker, count] : first_of) EXPECT_LT(count, 20) << worker;
}

TEST(FleetDecisionsTest, MeasuresTheTimeToTheFirstTokenOnceRatesAreKnown) {
  FleetSim sim;
  sim.JoinWorker("a");
  for (TokenId seed = 1; seed <= 10; ++seed) {
    sim.Submit(MakePrompt(seed, 100 + 10 * seed), 3);
    sim.Run();
  }
  EXPECT_EQ(sim.metrics.audits.size(), 10U);
  ASSERT_FALSE(sim.metrics.ttfts.empty());
  EXPECT_LT(sim.metrics.ttfts.size(), 10U);  // the first requests came before any rate was known
  for (const TimeOutcome& outcome : sim.metrics.ttfts) {
    EXPECT_GT(outcome.predicted_seconds, 0);
    EXPECT_GE(outcome.actual_seconds, 0);
  }
}

TEST(FleetDecisionsTest, MeasuresTheTimeBetweenTokensAndTheWholeAnswer) {
  FleetSim sim;
  sim.JoinWorker("a");
  for (TokenId seed = 1; seed <= 10; ++seed) {
    sim.Submit(MakePrompt(seed, 100 + 10 * seed), 5);
    sim.Run();
  }
  ASSERT_FALSE(sim.metrics.itls.empty());
  const DecisionRecord record = sim.core.decisions().Latest(1)[0];
  ASSERT_TRUE(record.outcome.has_value());
  ASSERT_TRUE(record.outcome->answer.has_value());
  const DecisionRecord::Outcome::Answer& answer = *record.outcome->answer;
  EXPECT_EQ(answer.tokens, 5U);
  EXPECT_EQ(answer.itl_seconds, sim.metrics.itls.back().actual_seconds);
  EXPECT_NEAR(answer.whole_seconds, record.outcome->ttft_seconds + 4 * answer.itl_seconds, 1e-9);
  EXPECT_EQ(sim.metrics.itls.back().predicted_seconds, record.decision.predicted_itl_seconds);
  EXPECT_GT(record.decision.predicted_itl_seconds, 0);
}

TEST(FleetDecisionsTest, TheTimeToTheFirstTokenIsTheSameIfWhatWasCachedIsToldWithTheLast) {
  std::vector<std::vector<double>> seconds;
  for (const bool late : {false, true}) {
    FleetSim sim;
    sim.JoinWorker("a").SetTellsCachedLate(late);
    for (TokenId seed = 1; seed <= 10; ++seed) {
      sim.Submit(MakePrompt(seed, 100 + 10 * seed), 40);
      sim.Run();
    }
    std::vector<double>& actual = seconds.emplace_back();
    for (const TimeOutcome& outcome : sim.metrics.ttfts) actual.push_back(outcome.actual_seconds);
    for (const DecisionRecord& record : sim.core.decisions().Latest(10)) actual.push_back(record.outcome->ttft_seconds);
  }
  ASSERT_FALSE(seconds[0].empty());
  EXPECT_EQ(seconds[0], seconds[1]);
}

TEST(FleetDecisionsTest, ShadowOfRoundRobinMissesWhatAffinityFinds) {
  FleetSim sim(1, "lmetric");  // makes no copies
  for (const char* id : {"a", "b", "c", "d"}) sim.JoinWorker(id);
  const auto prompt = MakePrompt(1, 101);
  for (int i = 0; i < 9; ++i) {
    sim.Submit(prompt, 1);
    sim.Run();
  }
  EXPECT_EQ(sim.metrics.matched_tokens, 8U * 100);  // all but the first
  std::uint64_t rotated = 0;
  std::uint64_t regret = 0;
  for (const DecisionAudit& audit : sim.metrics.audits) {
    rotated += audit.rotation_matched_tokens;
    regret += audit.regret_tokens;
  }
  EXPECT_EQ(rotated, 2U * 100);  // every fourth turn
  EXPECT_EQ(regret, 0U);
}

}  // namespace
}  // namespace roost::router

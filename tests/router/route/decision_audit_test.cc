#include "router/route/decision_audit.h"

#include <gtest/gtest.h>

#include "router/route/candidates.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

class DecisionAuditTest : public ::testing::Test {
 protected:
  DecisionAudit AuditOf(std::uint32_t chosen_slot) {
    const RouteQuery query = Query();
    return auditor_.Audit(query, fleet_, Decide(query, fleet_, WorkerSlot(chosen_slot), DecisionReason::kRandom));
  }
  [[nodiscard]] RouteQuery Query() const {
    return {.prompt_token_count = 1601, .matches = matches_, .waiting_bound = 5};
  }

  FleetView fleet_ = FleetOf({Idle(0), Idle(1), Idle(2)});
  std::vector<WorkerMatch> matches_{Holds(1, 100), Holds(2, 25)};
  DecisionAuditor auditor_;
};

TEST_F(DecisionAuditTest, TheBestChoiceRegretsNothing) {
  const DecisionAudit audit = AuditOf(1);
  EXPECT_EQ(audit.regret_tokens, 0U);
  EXPECT_DOUBLE_EQ(audit.regret_seconds, 0);
}

TEST_F(DecisionAuditTest, RegretIsWhatTheBestHadBeyond) {
  const DecisionAudit audit = AuditOf(2);
  EXPECT_EQ(audit.regret_tokens, 75U * 16);
  // 1201 uncached tokens in 2.35 steps, against one token in one step.
  EXPECT_NEAR(audit.regret_seconds, 1200.0 / 2000 + (1201.0 / 512 - 1) * 0.02, 1e-9);
}

TEST_F(DecisionAuditTest, RegretOfTheWholeAnswerCountsItsTokensToo) {
  WorkerView busy = Idle(1);  // holds the most, and each of its steps is longer
  busy.decode_step_seconds = 0.03;
  busy.running_requests = 10;
  fleet_.Set(busy);
  const DecisionAudit audit = AuditOf(1);
  EXPECT_DOUBLE_EQ(audit.regret_seconds, 0);
  EXPECT_GT(audit.regret_whole_seconds, 0);
  EXPECT_DOUBLE_EQ(AuditOf(2).regret_whole_seconds, 0);
}

TEST_F(DecisionAuditTest, WhoMayNotTakeItIsNotRegretted) {
  WorkerView full = Idle(1);
  full.waiting_requests = 5;
  fleet_.Set(full);
  EXPECT_EQ(AuditOf(2).regret_tokens, 0U);
}

TEST_F(DecisionAuditTest, RoundRobinTakesItsTurnsInTheShadow) {
  std::vector<std::uint32_t> tokens;
  std::vector<double> seconds;
  for (int i = 0; i < 6; ++i) {
    const DecisionAudit audit = AuditOf(1);  // the same for any choice
    tokens.push_back(audit.rotation_matched_tokens);
    seconds.push_back(audit.rotation_ttft_seconds);
  }
  EXPECT_EQ(tokens, (std::vector<std::uint32_t>{0, 1600, 400, 0, 1600, 400}));
  EXPECT_GT(seconds[0], seconds[2]);
  EXPECT_GT(seconds[2], seconds[1]);
}

// 2,000 tokens a second; the worker with 100 blocks is chosen, and round robin has its turn at worker 2 with 25.
TEST_F(DecisionAuditTest, SavingsBesideThoseOfRoundRobinAndOfTheBest) {
  const RouteQuery query = Query();
  const Decision decision = Decide(query, fleet_, WorkerSlot(1), DecisionReason::kDeepestMatch);
  for (int turn = 0; turn < 2; ++turn) (void)auditor_.Audit(query, fleet_, decision);
  const CacheWorth worth = WorthOf(fleet_, decision, auditor_.Audit(query, fleet_, decision));
  const CacheSavings savings = SavingsOf(worth, 1600);
  EXPECT_DOUBLE_EQ(savings.seconds, 0.8);
  EXPECT_DOUBLE_EQ(savings.rotation_seconds, 0.2);
  EXPECT_EQ(savings.rotation_tokens, 400U);
  EXPECT_EQ(savings.best_tokens, 1600U);
  EXPECT_EQ(SavingsOf(worth, 0).seconds, 0);  // it was evicted meanwhile
}

TEST_F(DecisionAuditTest, AWorkerThatHoldsAsMuchWouldHaveFoundAsMuch) {
  const RouteQuery query = Query();
  const Decision decision = Decide(query, fleet_, WorkerSlot(2), DecisionReason::kMinLoad);
  for (int turn = 0; turn < 2; ++turn) (void)auditor_.Audit(query, fleet_, decision);
  const CacheSavings savings = SavingsOf(WorthOf(fleet_, decision, auditor_.Audit(query, fleet_, decision)), 405);
  EXPECT_DOUBLE_EQ(savings.rotation_seconds, savings.seconds);
  EXPECT_EQ(savings.rotation_tokens, 405U);
  EXPECT_EQ(savings.best_tokens, 1600U);  // which worker 1 holds
}

// The last 400 of its tokens come while its queue is computed, and 0.2 s after that.
TEST_F(DecisionAuditTest, TheWaitForBlocksThatComeIsNotSaved) {
  const RouteQuery query = Query();
  Decision decision = Decide(query, fleet_, WorkerSlot(1), DecisionReason::kDeepestMatch);
  Candidate chosen;
  chosen.slot = WorkerSlot(1);
  chosen.queue_seconds = 0.3;
  chosen.transfer_seconds = 0.5;
  decision.candidates = {chosen};
  decision.arriving_tokens = 400;
  const CacheWorth worth = WorthOf(fleet_, decision, auditor_.Audit(query, fleet_, decision));
  EXPECT_DOUBLE_EQ(SavingsOf(worth, 1600).seconds, 0.8 - 0.2);
  EXPECT_DOUBLE_EQ(SavingsOf(worth, 1200).seconds, 0.6) << "they did not come";
}

TEST_F(DecisionAuditTest, WithoutKnownSpeedsNoSecondsAreSaved) {
  WorkerView unknown;
  unknown.slot = WorkerSlot(1);
  FleetView fleet;
  fleet.Set(unknown);
  const RouteQuery query = Query();
  const Decision decision = Decide(query, fleet, WorkerSlot(1), DecisionReason::kOnlyWorker);
  const CacheSavings savings = SavingsOf(WorthOf(fleet, decision, auditor_.Audit(query, fleet, decision)), 1600);
  EXPECT_EQ(savings.seconds, 0);
  EXPECT_EQ(savings.rotation_seconds, 0);
  EXPECT_EQ(savings.rotation_tokens, 1600U);
}

}  // namespace
}  // namespace roost::router

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

}  // namespace
}  // namespace roost::router

#include "router/route/log/worker_shares.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace roost::router {
namespace {

Candidate CandidateOn(std::uint32_t slot, std::uint32_t matched_tokens) {
  Candidate candidate;
  candidate.slot = WorkerSlot(slot);
  candidate.matched_tokens = matched_tokens;
  return candidate;
}

class WorkerSharesTest : public testing::Test {
 protected:
  // The request went to `a` while `b` was its other candidate.
  void Decide(const Candidate& a, const Candidate& b, const std::string& model = "demo") {
    DecisionRecord record;
    record.model = "an-adapter";
    record.served_model = model;
    record.worker_id = NameOf(a);
    record.decision.slot = a.slot;
    record.decision.matched_tokens = a.matched_tokens;
    record.decision.candidates = {a, b};
    record.candidate_ids = {NameOf(a), NameOf(b)};
    record.decided_at = now_;
    log_.Add(std::move(record));
  }

  static std::string NameOf(const Candidate& candidate) { return "w" + std::to_string(candidate.slot.value()); }
  [[nodiscard]] WorkerShare Of(std::string_view worker, std::size_t worker_count = 2, Instant came_at = {}) const {
    return WorkerShares(log_).Of("demo", worker, worker_count, came_at);
  }

  DecisionLog log_;
  Instant now_{};
};

TEST_F(WorkerSharesTest, CountsTheLastDecisionsOfTheModel) {
  for (int i = 0; i < 20; ++i) Decide(CandidateOn(1, 0), CandidateOn(2, 0));  // too long ago
  for (int i = 0; i < 20; ++i) Decide(CandidateOn(1, 0), CandidateOn(2, 0));
  for (int i = 0; i < 30; ++i) Decide(CandidateOn(2, 0), CandidateOn(1, 0));
  for (int i = 0; i < 60; ++i) Decide(CandidateOn(3, 0), CandidateOn(1, 0), "other");
  EXPECT_EQ(Of("w1").taken, 20U);
  EXPECT_EQ(Of("w2").taken, 30U);
  EXPECT_EQ(Of("w3").taken, 0U);
  EXPECT_EQ(Of("w1").decisions, 50U);
  EXPECT_EQ(Of("w1").why, "");
  EXPECT_EQ(Of("w2").why, "");
}

TEST_F(WorkerSharesTest, SaysNothingBeforeThereWereEnough) {
  for (std::uint32_t i = 1; i < WorkerShares::kMinDecisions; ++i) Decide(CandidateOn(1, 64), CandidateOn(2, 0));
  EXPECT_EQ(Of("w2").why, "");
  Decide(CandidateOn(1, 64), CandidateOn(2, 0));
  EXPECT_EQ(Of("w2").why, "it holds nothing that is asked for");
  EXPECT_EQ(WorkerShares(log_).Of("unknown", "w2", 2, {}).decisions, 0U);
}

// Requests from before it came say nothing of it, and an earlier worker of its name took its own.
TEST_F(WorkerSharesTest, CountsFromWhenTheWorkerCame) {
  for (int i = 0; i < 10; ++i) Decide(CandidateOn(2, 0), CandidateOn(1, 0));
  for (int i = 0; i < 28; ++i) Decide(CandidateOn(1, 64), CandidateOn(3, 0));
  now_ += std::chrono::seconds(1);
  const Instant came_at = now_;
  for (int i = 0; i < 8; ++i) Decide(CandidateOn(1, 64), CandidateOn(2, 0));
  EXPECT_EQ(Of("w2", 2, came_at).taken, 0U);
  EXPECT_EQ(Of("w2", 2, came_at).decisions, 8U);
  EXPECT_EQ(Of("w2", 2, came_at).why, "");
  for (int i = 0; i < 2; ++i) Decide(CandidateOn(1, 64), CandidateOn(2, 0));
  EXPECT_NE(Of("w2", 2, came_at).why, "");
}

TEST_F(WorkerSharesTest, HalfOfAnEqualShareIsEnough) {
  for (int i = 0; i < 12; ++i) Decide(CandidateOn(2, 0), CandidateOn(1, 0));
  for (int i = 0; i < 38; ++i) Decide(CandidateOn(1, 0), CandidateOn(2, 0));
  EXPECT_NE(Of("w2").why, "");
  EXPECT_EQ(Of("w2", 3).why, "");
}

TEST_F(WorkerSharesTest, NamesTheTermsThatKeptRequestsAway) {
  Candidate chosen = CandidateOn(1, 64);
  Candidate other = CandidateOn(2, 32);
  for (int i = 0; i < 20; ++i) Decide(chosen, other);
  EXPECT_EQ(Of("w2").why, "others cost as little, and take turns with it");
  other.prefill_seconds = 1;
  for (int i = 0; i < 50; ++i) Decide(chosen, other);
  EXPECT_EQ(Of("w2").why, "it would have to compute more of the prompts than those that took them");
  other.queue_seconds = 2;
  for (int i = 0; i < 50; ++i) Decide(chosen, other);
  EXPECT_EQ(Of("w2").why, "prompts would wait longer there");
  other.answer_seconds = 3;
  for (int i = 0; i < 50; ++i) Decide(chosen, other);
  EXPECT_EQ(Of("w2").why, "answers would take longer there");
}

TEST_F(WorkerSharesTest, AWorkerThatIsNoCandidateHoldsLessAndHasMoreToDo) {
  for (int i = 0; i < 20; ++i) Decide(CandidateOn(1, 0), CandidateOn(2, 0));
  EXPECT_EQ(Of("w9").why, "others hold more of the prompts, or have less to do");
}

}  // namespace
}  // namespace roost::router

#include "router/route/cost.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

WorkerView Idle(std::uint32_t slot) {
  WorkerView worker;
  worker.slot = WorkerSlot(slot);
  worker.max_running_requests = 8;
  worker.free_block_count = 10000;
  worker.prefill_tokens_per_second = 1000;
  worker.decode_step_seconds = 0.05;
  return worker;
}

Candidate CostOf(const WorkerView& worker, std::uint32_t prompt_tokens) {
  return PredictCosts({.prompt_token_count = prompt_tokens}, {&worker, 1}).front();
}

TEST(CostTest, MatchSaysWhichOfItsTokensAreStillBeingComputed) {
  const std::vector<WorkerView> workers{
      {.slot = WorkerSlot(0), .matched_block_count = 5, .pending_block_count = 3, .block_tokens = 4},
      {.slot = WorkerSlot(1), .matched_block_count = 5, .block_tokens = 4}};
  // The last token is always computed, so the fifth block of twenty tokens counts for none.
  const std::vector<Candidate> candidates = PredictCosts({.prompt_token_count = 20}, workers);
  EXPECT_EQ(candidates[0].matched_tokens, 16U);
  EXPECT_EQ(candidates[0].pending_tokens, 8U);
  EXPECT_EQ(candidates[1].pending_tokens, 0U);
}

TEST(CachedTokensTest, CountsFullBlocksAndNeverTheWholePrompt) {
  struct Case {
    std::uint32_t prompt_tokens, matched_blocks, expected;
  };
  for (const Case c : {Case{0, 0, 0}, Case{1, 0, 0}, Case{17, 1, 16}, Case{16, 1, 0}, Case{32, 2, 16}, Case{33, 2, 32},
                       Case{100, 2, 32}}) {
    WorkerView worker = Idle(0);
    worker.matched_block_count = c.matched_blocks;
    EXPECT_EQ(CachedTokens({.prompt_token_count = c.prompt_tokens}, worker), c.expected) << c.prompt_tokens;
  }
}

TEST(PredictCostsTest, IdleWorkerCostsItsPrefillAlone) {
  WorkerView worker = Idle(0);
  worker.matched_block_count = 50;
  const Candidate cost = CostOf(worker, 1000);
  EXPECT_EQ(cost.matched_tokens, 800U);
  EXPECT_DOUBLE_EQ(cost.prefill_seconds, 0.2);
  EXPECT_DOUBLE_EQ(cost.wait_seconds, 0);
}

TEST(PredictCostsTest, QueuedTokensAndRunningDecodesAreWaitedFor) {
  WorkerView worker = Idle(0);
  worker.queued_prefill_tokens = 500;
  EXPECT_DOUBLE_EQ(CostOf(worker, 400).wait_seconds, 0.5);
  worker.running_requests = 1;
  EXPECT_DOUBLE_EQ(CostOf(worker, 400).wait_seconds, 0.5 + 2 * 0.05);  // 900 tokens are two steps
}

TEST(PredictCostsTest, StepsAreAsLongAsTheWorkerSays) {
  WorkerView worker = Idle(0);
  worker.queued_prefill_tokens = 500;
  worker.running_requests = 1;
  worker.max_batch_tokens = 100;
  EXPECT_DOUBLE_EQ(CostOf(worker, 400).wait_seconds, 0.5 + 9 * 0.05);
}

TEST(PredictCostsTest, FullBatchAndMissingBlocksAreOutwaited) {
  WorkerView full = Idle(0);
  full.running_requests = 8;
  WorkerView nearly_full = full;
  nearly_full.running_requests = 7;
  EXPECT_GT(CostOf(full, 100).wait_seconds, CostOf(nearly_full, 100).wait_seconds + 0.5);
  WorkerView queued = full;
  queued.waiting_requests = 4;
  EXPECT_GT(CostOf(queued, 100).wait_seconds, CostOf(full, 100).wait_seconds);
  WorkerView out_of_blocks = nearly_full;
  out_of_blocks.free_block_count = 2;
  EXPECT_GT(CostOf(out_of_blocks, 100).wait_seconds, CostOf(nearly_full, 100).wait_seconds + 0.5);
}

TEST(PredictCostsTest, WithoutAnyRateUncachedTimesBatchGivesTheOrder) {
  WorkerView one = Idle(0);
  one.prefill_tokens_per_second = 0;
  one.decode_step_seconds = 0;
  one.running_requests = 2;
  WorkerView other = one;
  other.matched_block_count = 30;  // of 1000 tokens, 480 are cached
  other.running_requests = 4;
  const std::vector<WorkerView> workers{one, other};
  const auto costs = PredictCosts({.prompt_token_count = 1000}, workers);
  EXPECT_DOUBLE_EQ(costs[1].ttft_seconds() / costs[0].ttft_seconds(), (520.0 * 5) / (1000.0 * 3));
}

TEST(PredictCostsTest, NewcomerIsTakenForTheMeanOfTheOthers) {
  WorkerView slow = Idle(0);
  WorkerView fast = Idle(1);
  fast.prefill_tokens_per_second = 3000;
  WorkerView unknown = Idle(2);
  unknown.prefill_tokens_per_second = 0;
  const std::vector<WorkerView> workers{slow, fast, unknown};
  EXPECT_DOUBLE_EQ(PredictCosts({.prompt_token_count = 1000}, workers)[2].prefill_seconds, 0.5);
}

}  // namespace
}  // namespace roost::router

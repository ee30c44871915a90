#include "router/route/cost.h"

#include <gtest/gtest.h>

#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr FleetSpeed kSpeed{.prefill_tokens_per_second = 2000, .decode_step_seconds = 0.02, .busy_share = 0};

Candidate CostOf(const WorkerView& worker, std::uint32_t prompt_tokens, const FleetSpeed& speed = kSpeed) {
  return PredictCost({.prompt_token_count = prompt_tokens, .answer = {.own = 128, .of_others = 128}}, worker, speed);
}

TEST(CachedTokensTest, CountsFullBlocksAndNeverTheWholePrompt) {
  struct Case {
    std::uint32_t prompt_tokens, matched_blocks, expected;
  };
  for (const Case c : {Case{0, 0, 0}, Case{0, 3, 0}, Case{1, 0, 0}, Case{17, 1, 16}, Case{16, 1, 0}, Case{32, 2, 16},
                       Case{33, 2, 32}, Case{100, 2, 32}}) {
    const PromptOnWorker prompt{.prompt_token_count = c.prompt_tokens, .matched_block_count = c.matched_blocks};
    EXPECT_EQ(CachedTokens(prompt, {.block_tokens = 16}), c.expected) << c.prompt_tokens;
  }
}

TEST(CachedTokensTest, CountsWholeBlocksOfTheEngineBeside) {
  const auto cached = [](std::uint32_t prompt_tokens, std::uint32_t matched_blocks) {
    return CachedTokens({.prompt_token_count = prompt_tokens, .matched_block_count = matched_blocks},
                        {.block_tokens = 16, .engine_block_tokens = 448});
  };
  EXPECT_EQ(cached(2000, 27), 0U);
  EXPECT_EQ(cached(2000, 28), 448U);
  EXPECT_EQ(cached(2000, 83), 896U);
  EXPECT_EQ(cached(896, 56), 448U);  // the last token is computed
}

TEST(CachedTokensTest, CountsNotWhatTheEngineComputesAgain) {
  const auto cached = [](std::uint32_t prompt_tokens, std::uint32_t matched_blocks) {
    return CachedTokens({.prompt_token_count = prompt_tokens, .matched_block_count = matched_blocks},
                        {.block_tokens = 16, .engine_block_tokens = 64, .dropped_tokens = 64});
  };
  EXPECT_EQ(cached(2000, 3), 0U);
  EXPECT_EQ(cached(2000, 4), 0U);
  EXPECT_EQ(cached(2000, 11), 64U);
  EXPECT_EQ(cached(192, 12), 64U);  // of 128 before the last token
}

TEST(PredictCostTest, SaysWhichMatchedTokensAreStillBeingComputed) {
  WorkerView worker = Idle(0);
  worker.block_tokens = 4;
  // The last token is always computed, so the fifth block of twenty tokens does not count.
  PromptOnWorker prompt{.prompt_token_count = 20, .matched_block_count = 5, .pending_block_count = 3};
  EXPECT_EQ(PredictCost(prompt, worker, kSpeed).matched_tokens, 16U);
  EXPECT_EQ(PredictCost(prompt, worker, kSpeed).pending_tokens, 8U);
  prompt.pending_block_count = 0;
  EXPECT_EQ(PredictCost(prompt, worker, kSpeed).pending_tokens, 0U);
}

TEST(PredictCostTest, IdleWorkerCostsItsPrefillAndOneStep) {
  const Candidate cost = PredictCost({.prompt_token_count = 1000, .matched_block_count = 50}, Idle(0), kSpeed);
  EXPECT_EQ(cost.matched_tokens, 800U);
  EXPECT_DOUBLE_EQ(cost.prefill_seconds, 0.1);
  EXPECT_DOUBLE_EQ(cost.decode_seconds, 0.02);
  EXPECT_EQ(cost.queue_seconds, 0);
  EXPECT_EQ(cost.delay_seconds, 0);
  EXPECT_DOUBLE_EQ(cost.ttft_seconds(), 0.12);
  EXPECT_DOUBLE_EQ(cost.cost_seconds(), 2 * 0.12);  // computing it evicts as much
}

TEST(PredictCostTest, QueueIsWaitedForAtTheWorkersPace) {
  WorkerView worker = Idle(0);
  worker.queued_prefill_tokens = 4000;
  worker.max_batch_tokens = 1000;
  // Two seconds of prefill in four steps, each of which also computes the decodes.
  EXPECT_DOUBLE_EQ(CostOf(worker, 400).queue_seconds, 2 + 4 * 0.02);
}

// Prompts sent to a worker that takes short prompts first.
struct WorkerWithPrompts {
  explicit WorkerWithPrompts(std::initializer_list<std::uint32_t> prompts) : worker(Idle(0)) {
    worker.max_batch_tokens = 100;
    worker.ageing_tokens = 100;
    worker.prompts = &queue;
    for (const std::uint32_t tokens : prompts) {
      queue.Add(queue.size() + 1, tokens, now);
      worker.queued_prefill_tokens += tokens;
    }
  }

  [[nodiscard]] Candidate Cost(std::uint32_t prompt_tokens) const {
    return PredictCost({.prompt_token_count = prompt_tokens}, worker, kSpeed, now);
  }
  // The pace of the queue; each step of 100 tokens adds 0.02 s for decodes.
  static constexpr double kSecondsPerToken = 1 / 2000.0 + 0.02 / 100;

  Instant now{std::chrono::hours(1)};
  PromptQueue queue;
  WorkerView worker;
};

TEST(PredictCostTest, ShortPromptsWaitForShorterOnesAndForTheStepUnderWay) {
  const WorkerWithPrompts queued({300, 600, 5000});
  const auto seconds = [](double before) { return before * WorkerWithPrompts::kSecondsPerToken; };
  EXPECT_DOUBLE_EQ(queued.Cost(100).queue_seconds, seconds(100));
  EXPECT_DOUBLE_EQ(queued.Cost(400).queue_seconds, seconds(300 + 100));
  EXPECT_DOUBLE_EQ(queued.Cost(1000).queue_seconds, seconds(900 + 100));
  EXPECT_DOUBLE_EQ(queued.Cost(9000).queue_seconds, seconds(5900));
  // A hypothetical question, and a worker with another order, count all queued tokens as going first.
  EXPECT_DOUBLE_EQ(CostOf(queued.worker, 100).queue_seconds, seconds(5900));
  WorkerView first_come = queued.worker;
  first_come.ageing_tokens = 0;
  EXPECT_DOUBLE_EQ(PredictCost({.prompt_token_count = 100}, first_come, kSpeed, queued.now).queue_seconds,
                   seconds(5900));
}

TEST(PredictCostTest, WhatOthersSentGoesFirst) {
  WorkerWithPrompts queued({5000});
  queued.worker.queued_prefill_tokens += 700;
  EXPECT_DOUBLE_EQ(queued.Cost(100).queue_seconds, 800 * WorkerWithPrompts::kSecondsPerToken);
}

TEST(PredictCostTest, OvertakingCostsThoseThatWait) {
  const WorkerWithPrompts queued({3000, 3000});
  const double each = 1 + 3000 * WorkerWithPrompts::kSecondsPerToken / PromptQueue::kPatienceSeconds;
  EXPECT_DOUBLE_EQ(queued.Cost(1000).delay_seconds, 0.5 * 2 * each);
  EXPECT_DOUBLE_EQ(queued.Cost(4000).delay_seconds, 0);
}

TEST(PredictCostTest, OwnStepsCarryDecodesAlong) {
  WorkerView worker = Idle(0);
  worker.max_batch_tokens = 100;
  EXPECT_DOUBLE_EQ(CostOf(worker, 450).decode_seconds, 4.5 * 0.02);
  EXPECT_DOUBLE_EQ(CostOf(worker, 10).decode_seconds, 0.02);
}

TEST(PredictCostTest, OwnWorkWeighsMoreInABusyFleet) {
  FleetSpeed speed = kSpeed;
  speed.busy_share = 0.75;
  WorkerView worker = Idle(0);
  worker.queued_prefill_tokens = 5120;
  const Candidate cost = CostOf(worker, 1000, speed);
  EXPECT_DOUBLE_EQ(cost.congestion, 2 * 4);
  EXPECT_DOUBLE_EQ(cost.cost_seconds(), cost.queue_seconds + 2 * 4 * (0.5 + 0.02 * 1000 / 512) + cost.answer_seconds);
  EXPECT_DOUBLE_EQ(cost.ttft_seconds(), CostOf(worker, 1000).ttft_seconds());
  speed.busy_share = 1;
  EXPECT_NEAR(CostOf(worker, 1000, speed).congestion, 2 / 0.03, 1e-9);
}

TEST(PredictCostTest, WithoutAnyRateUncachedTimesBatchGivesTheOrder) {
  WorkerView one = Idle(0);
  one.prefill_tokens_per_second = 0;
  one.decode_step_seconds = 0;
  one.running_requests = 2;
  WorkerView other = one;
  other.running_requests = 4;
  const AnswerLength answer{.own = 200, .of_others = 50};
  const double all = PredictCost({.prompt_token_count = 1000, .answer = answer}, one, {}).cost_seconds();
  const PromptOnWorker held{.prompt_token_count = 1000, .matched_block_count = 30, .answer = answer};
  EXPECT_DOUBLE_EQ(PredictCost(held, other, {}).cost_seconds() / all, ((520.0 + 200) * 5) / ((1000.0 + 200) * 3));
}

TEST(PredictCostTest, NewcomerIsTakenForTheMeanOfTheOthers) {
  WorkerView newcomer = Idle(0);
  newcomer.prefill_tokens_per_second = 0;
  newcomer.decode_step_seconds = 0;
  const Candidate cost = CostOf(newcomer, 1000, {.prefill_tokens_per_second = 4000, .decode_step_seconds = 0.1});
  EXPECT_DOUBLE_EQ(cost.prefill_seconds, 0.25);
  EXPECT_DOUBLE_EQ(cost.decode_seconds, 0.1 * 1000 / 512);
}

// Its prefill was measured, but no decode yet: that must not be an advantage.
TEST(PredictCostTest, DecodesThatAreNotKnownTakeTheMeanOfTheOthers) {
  WorkerView worker = Idle(0);
  worker.decode_step_seconds = 0;
  const Candidate cost = CostOf(worker, 1000);
  EXPECT_DOUBLE_EQ(cost.prefill_seconds, CostOf(Idle(0), 1000).prefill_seconds);
  EXPECT_DOUBLE_EQ(cost.decode_seconds, CostOf(Idle(0), 1000).decode_seconds);
  EXPECT_GT(cost.decode_seconds, 0);
  // In proportion to its own pace.
  worker.prefill_tokens_per_second /= 4;
  EXPECT_DOUBLE_EQ(CostOf(worker, 1000).decode_seconds, 4 * cost.decode_seconds);
}

// The worker whose steps are longer, among equal ones, costs more, by the tokens that both answers draw together: half
// of theirs, if they are equally long.
TEST(PredictCostTest, AnAnswerCostsItsStepsBesideThoseThatRun) {
  WorkerView idle = Idle(0);
  idle.decode = {.base_seconds = 0.02, .per_request_seconds = 0.001, .per_context_token_seconds = 1e-6};
  WorkerView busy = idle;
  busy.running_requests = 10;
  busy.running_context_tokens = 5000;
  busy.decode_step_seconds = busy.decode.StepSeconds(10, 5000);
  const double difference = CostOf(busy, 0).answer_seconds - CostOf(idle, 0).answer_seconds;
  EXPECT_NEAR(difference, 64 * (10 * 0.001 + (5000 + 10 * 32) * 1e-6), 1e-12);
  EXPECT_NEAR(CostOf(idle, 1000).answer_seconds, 64 * (0.02 + 0.001 + 1064 * 1e-6), 1e-12);
  busy.waiting_requests = 2;  // they will run beside it
  busy.queued_prefill_tokens = 800;
  EXPECT_NEAR(CostOf(busy, 0).answer_seconds - CostOf(idle, 0).answer_seconds - difference,
              64 * (2 * 0.001 + (800 + 2 * 32) * 1e-6), 1e-12);
  const double before = CostOf(busy, 0).answer_seconds;
  busy.waiting_cached_tokens = 3000;  // and attend to what they need not compute
  EXPECT_NEAR(CostOf(busy, 0).answer_seconds - before, 64 * 3000 * 1e-6, 1e-12);
}

TEST(PredictCostTest, TheAnswersThatRunWaitForItsPrefill) {
  WorkerView worker = Idle(0);
  EXPECT_EQ(CostOf(worker, 1000).stall_seconds, 0);
  worker.running_requests = 6;
  EXPECT_DOUBLE_EQ(CostOf(worker, 1000).stall_seconds, 6 * 0.4 * 0.5);
}

Candidate WithBounds(SloBounds slo, const WorkerView& worker) {
  return PredictCost({.prompt_token_count = 1000, .answer = {.own = 128, .of_others = 128}, .slo = slo}, worker,
                     kSpeed);
}

TEST(PredictCostTest, WithoutBoundsNothingBreaksThem) {
  EXPECT_EQ(CostOf(Idle(0), 1000).slo_seconds, 0);
  EXPECT_EQ(WithBounds({.ttft_seconds = 60, .itl_seconds = 1}, Idle(0)).slo_seconds, 0);
}

TEST(PredictCostTest, AFirstTokenBeyondItsBoundCostsTheWholeAnswerAndNearItAPart) {
  const Candidate free = CostOf(Idle(0), 1000);
  const double whole = free.whole_seconds(128);
  EXPECT_DOUBLE_EQ(whole, free.ttft_seconds() + 127 * free.token_seconds);
  const double ttft = free.ttft_seconds();
  EXPECT_DOUBLE_EQ(WithBounds({.ttft_seconds = ttft / 3}, Idle(0)).slo_seconds, whole);
  EXPECT_DOUBLE_EQ(WithBounds({.ttft_seconds = ttft}, Idle(0)).slo_seconds, whole);
  EXPECT_NEAR(WithBounds({.ttft_seconds = ttft / 0.75}, Idle(0)).slo_seconds, whole / 2, 1e-9);
  EXPECT_NEAR(WithBounds({.ttft_seconds = 2 * ttft}, Idle(0)).slo_seconds, 0, 1e-9);
  EXPECT_DOUBLE_EQ(WithBounds({.ttft_seconds = ttft}, Idle(0)).cost_seconds(), free.cost_seconds() + whole);
}

TEST(PredictCostTest, WhoRunsThereAndWouldBreakABoundBecauseOfItCountsToo) {
  WorkerView worker = Idle(0);
  worker.decode = {.base_seconds = 0.02, .per_request_seconds = 0.005};
  worker.running_requests = 4;
  worker.decode_step_seconds = 0.04;
  const Candidate candidate = WithBounds({.itl_seconds = 0.0001}, worker);
  ASSERT_DOUBLE_EQ(candidate.token_seconds, 0.045);
  const double whole = candidate.whole_seconds(128);
  EXPECT_DOUBLE_EQ(candidate.slo_seconds, whole);  // theirs is broken anyway
  // From 0.04 to 0.045 seconds the share grows from 0.6 to 0.8.
  EXPECT_NEAR(WithBounds({.itl_seconds = 0.05}, worker).slo_seconds, 0.8 * whole + 0.2 * 4 * 128 * 0.045, 1e-9);
}

TEST(LoadTokensTest, AnswersThatRunAreLoadAndIdleWorkersHaveTheSame) {
  WorkerView worker = Idle(0);
  worker.decode = {.base_seconds = 0.02, .per_request_seconds = 0.001, .per_context_token_seconds = 0};
  WorkerView other = worker;
  other.decode.per_request_seconds = 0.002;
  EXPECT_EQ(LoadTokens(worker, kSpeed), LoadTokens(other, kSpeed));
  worker.running_requests = 1;
  worker.decode_step_seconds = 0.021;
  EXPECT_GT(LoadTokens(worker, kSpeed), LoadTokens(other, kSpeed));
}

// A little more load never changes a cost by much: the terms have no threshold.
TEST(PredictCostTest, IsContinuousInTheLoad) {
  const auto cost_at = [](std::uint64_t queued, std::uint32_t uncached) {
    WorkerView worker = Idle(0);
    worker.running_requests = 16;
    worker.running_context_tokens = 16'000;
    worker.queued_prefill_tokens = queued;
    return PredictCost({.prompt_token_count = uncached}, worker,
                       {.prefill_tokens_per_second = 2000, .decode_step_seconds = 0.02, .busy_share = 0.5})
        .cost_seconds();
  };
  for (std::uint32_t tokens = 1; tokens < 5000; ++tokens) {
    ASSERT_GE(cost_at(tokens, 700), cost_at(tokens - 1, 700)) << tokens;
    ASSERT_LT(cost_at(tokens, 700), cost_at(tokens - 1, 700) + 0.002) << tokens;
    ASSERT_LT(cost_at(700, tokens + 1), cost_at(700, tokens) + 0.008) << tokens;
  }
}

TEST(PredictCostTest, PaceMakesEqualsOfWorkersThatAreAboutAsFast) {
  const double mean = CostOf(Idle(0), 1000).cost_seconds();
  const double ttft = CostOf(Idle(0), 1000).ttft_seconds();
  for (const double rate : {1360.0, 2000.0, 2950.0}) {
    WorkerView worker = Idle(0);
    worker.prefill_tokens_per_second = rate;
    worker.decode_slowness = 2000 / rate;
    worker.decode_step_seconds = 0.02 * worker.decode_slowness;
    EXPECT_NEAR(CostOf(worker, 1000).cost_seconds(), mean, 1e-12) << rate;
    EXPECT_NEAR(CostOf(worker, 1000).ttft_seconds(), ttft * 2000 / rate, 1e-12) << rate;  // predicted as measured
  }
  WorkerView slow = Idle(0);
  slow.prefill_tokens_per_second = 1000;
  slow.decode_step_seconds = 0.04;
  slow.decode_slowness = 2;
  EXPECT_NEAR(CostOf(slow, 1000).cost_seconds(), mean * 2 / 1.5, 1e-12);
  WorkerView fast = Idle(0);
  fast.prefill_tokens_per_second = 4000;
  fast.decode_step_seconds = 0.01;
  fast.decode_slowness = 0.5;
  EXPECT_NEAR(CostOf(fast, 1000).cost_seconds(), mean / 2 * 1.5, 1e-12);
}

TEST(LoadTokensTest, AreThoseBeforeAUsualPromptAndItsOwn) {
  WorkerView worker = Idle(0);
  EXPECT_EQ(LoadTokens(worker, kSpeed), 512);
  worker.queued_prefill_tokens = 512;
  EXPECT_DOUBLE_EQ(LoadTokens(worker, kSpeed), 1024);
  worker.prefill_tokens_per_second = 1900;  // about the mean
  EXPECT_DOUBLE_EQ(LoadTokens(worker, kSpeed), 1024);
  worker.prefill_tokens_per_second = 0;  // the mean is assumed
  EXPECT_DOUBLE_EQ(LoadTokens(worker, kSpeed), 1024);
  worker.running_requests = 1;
  EXPECT_DOUBLE_EQ(LoadTokens(worker, {}), 2 * 1024);
}

TEST(LoadTokensTest, CountASlowWorkerAsLoaded) {
  WorkerView slow = Idle(0);
  slow.prefill_tokens_per_second = 500;
  slow.decode_step_seconds = 0.08;
  EXPECT_DOUBLE_EQ(LoadTokens(slow, kSpeed), 512 * 4 / 1.5);
}

TEST(PrefillSecondsTest, CountsFullStepsWithTheirDecodes) {
  WorkerView worker = Idle(0);
  EXPECT_DOUBLE_EQ(PrefillSeconds(worker, 1024), 0.512 + 2 * 0.02);
  worker.prefill_tokens_per_second = 0;
  EXPECT_EQ(PrefillSeconds(worker, 1024), 0);
}

}  // namespace
}  // namespace roost::router

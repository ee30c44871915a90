// Requests that are refused, cancelled, late or broken: the events that they get, and what they leave behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include "tests/worker/engine/engine_fixture.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;
using wire::FinishReason;

TEST_F(EngineTest, WhatCanNeverRunIsRefused) {
  Make({.max_context_tokens = 100}, {});
  EXPECT_EQ(harness_->Submit(GreedyRequest(1, {}, 1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(harness_->Submit(GreedyRequest(1, Text(100, 1), 1)).error().code, ErrorCode::kContextTooLong);
  EXPECT_EQ(harness_->Submit(GreedyRequest(1, {97}, 1)).error().field, "prompt");
  EXPECT_EQ(harness_->Submit(GreedyRequest(1, {1}, 0)).error().field, "max_output_tokens");
  auto request = GreedyRequest(1, {1}, 1);
  request.sampling.temperature = -1;
  EXPECT_EQ(harness_->Submit(request).error().field, "temperature");
  request.sampling = {.logit_bias = {{.token = 97, .bias = 1}}};
  EXPECT_EQ(harness_->Submit(request).error().field, "logit_bias");
  request = GreedyRequest(1, {1}, 1);
  request.adapter = "poet";
  EXPECT_EQ(harness_->Submit(request).error().field, "adapter");
  EXPECT_FALSE(harness_->engine().HasWork());
}

TEST_F(EngineTest, AnIdInUseIsRefusedOnItsLinkAlone) {
  Submit(GreedyRequest(1, Text(5, 1), 2));
  EXPECT_EQ(harness_->Submit(GreedyRequest(1, Text(5, 1), 2)).error().field, "request_id");
  Submit(GreedyRequest(1, Text(5, 1), 2), LinkId(2));
  harness_->Run();
  EXPECT_EQ(harness_->outcomes().size(), 2U);
}

TEST_F(EngineTest, AFullQueueAnswersOverloaded) {
  Make({}, {.max_waiting_requests = 2});
  Submit(GreedyRequest(1, Text(5, 1), 1));
  Submit(GreedyRequest(2, Text(5, 2), 1));
  EXPECT_EQ(harness_->Submit(GreedyRequest(3, Text(5, 3), 1)).error().code, ErrorCode::kOverloaded);
  harness_->Step();
  Submit(GreedyRequest(3, Text(5, 3), 1));
  harness_->Run();
}

TEST_F(EngineTest, CancelWorksInEveryPhase) {
  Make({}, {.max_batch_tokens = 64, .max_running_requests = 2});
  Submit(GreedyRequest(1, Text(10, 1), 50));
  Submit(GreedyRequest(2, Text(500, 2), 50));
  Submit(GreedyRequest(3, Text(10, 3), 50));
  harness_->Step();
  harness_->Step();
  for (const std::uint64_t id : {1U, 2U, 3U})
    harness_->engine().Cancel({kLink, RequestId(id)});  // decoding, prefill, queue
  harness_->engine().Cancel({kLink, RequestId(99)});
  EXPECT_TRUE(harness_->engine().HasWork());
  const StepReport report = harness_->Step();
  EXPECT_EQ(report.tokens.size(), 3U);
  EXPECT_EQ(report.referenced_blocks, 0U);
  for (const std::uint64_t id : {1U, 2U, 3U}) EXPECT_EQ(harness_->outcome(id).finish, FinishReason::kCancelled);
  EXPECT_EQ(harness_->outcome(1).tokens.size(), 2U);
  EXPECT_EQ(harness_->outcome(2).cached_token_count, 0U);
  EXPECT_FALSE(harness_->outcome(3).cached_token_count.has_value());
  EXPECT_FALSE(harness_->engine().HasWork());
}

TEST_F(EngineTest, CancellingALinkIsSilentAndLeavesTheOthers) {
  for (const std::uint32_t link : {1U, 2U, 3U}) {
    for (std::uint64_t id = 0; id < 3; ++id) Submit(GreedyRequest(id, Text(20, id), 5), LinkId(link));
  }
  harness_->engine().Cancel({LinkId(2), RequestId(0)});
  harness_->engine().CancelLink(LinkId(2));
  harness_->Run();
  EXPECT_EQ(harness_->outcomes().size(), 6U);
  for (const auto& [key, outcome] : harness_->outcomes()) {
    EXPECT_NE(key.link, LinkId(2));
    EXPECT_EQ(outcome.tokens.size(), 5U);
  }
}

// A step takes 10 ms.
TEST_F(EngineTest, ARequestEndsWithTheFirstStepPastItsDeadlineWhetherItWaitsOrRuns) {
  Make({}, {.max_running_requests = 1});
  auto running = GreedyRequest(1, Text(40, 1), 30);
  running.deadline_ms = 95;
  auto waiting = GreedyRequest(2, Text(10, 2), 1);
  waiting.deadline_ms = 35;
  auto patient = GreedyRequest(3, Text(10, 3), 1);
  patient.deadline_ms = 10'000;
  auto boundless = GreedyRequest(4, Text(10, 4), 1);
  boundless.deadline_ms = ~std::uint64_t{0};
  for (const auto& request : {running, waiting, patient, boundless}) Submit(request);
  for (int step = 0; step < 4; ++step) harness_->Step();
  EXPECT_FALSE(harness_->outcome(2).finish.has_value());
  harness_->Step();
  EXPECT_EQ(harness_->outcome(2).error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(harness_->outcome(1).finish.has_value());
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).finish, FinishReason::kError);
  EXPECT_EQ(harness_->outcome(1).error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(harness_->outcome(1).tokens.size(), 10U);
  EXPECT_EQ(harness_->outcome(3).finish, FinishReason::kLength);
  EXPECT_EQ(harness_->outcome(4).finish, FinishReason::kLength);
  // Its computed blocks stay cached, as for any request that ends.
  EXPECT_EQ(harness_->Serve(GreedyRequest(5, Text(40, 1), 1)).cached_token_count, 39U);
}

TEST_F(EngineTest, APreemptedRequestKeepsItsDeadline) {
  Make({.block_count = 8}, {});
  Submit(GreedyRequest(1, Text(30, 1), 70));
  auto late = GreedyRequest(2, Text(30, 2), 70);
  late.deadline_ms = 600;
  Submit(late);
  while (harness_->totals().preemptions == 0) harness_->Step();
  clock_.Advance(std::chrono::milliseconds(600));
  harness_->Step();
  EXPECT_EQ(harness_->outcome(2).error->code, ErrorCode::kDeadlineExceeded);
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).tokens.size(), 70U);
}

TEST_F(EngineTest, ADeadlineEndsAllChoicesOfItsRequest) {
  auto request = GreedyRequest(1, Text(30, 1), 70);
  request.sample_count = 3;
  request.deadline_ms = 45;
  EXPECT_EQ(harness_->Serve(request).error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(harness_->choice(1, 1).finish.has_value());
}

// The request waits in the inbox before the engine accepts it.
TEST_F(EngineTest, ADeadlineCountsFromWhenTheRequestWasReceived) {
  const Instant received = clock_.Now();
  clock_.Advance(std::chrono::milliseconds(80));
  for (const std::uint64_t id : {1U, 2U}) {
    auto request = GreedyRequest(id, Text(10, id), 5);
    request.deadline_ms = id == 1 ? 80 : 200;
    ASSERT_TRUE(harness_->engine().Submit(kLink, request, received).ok());
  }
  const StepReport report = harness_->Step();
  EXPECT_EQ(harness_->outcome(1).error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(report.counts.queue_wait_seconds, std::vector<double>{0.08});
  harness_->Run();
  EXPECT_EQ(harness_->outcome(2).tokens.size(), 5U);
}

TEST_F(EngineTest, ReportsHowManyStepsWereComputed) {
  EXPECT_EQ(harness_->Step().step_number, 0U);
  Submit(GreedyRequest(1, Text(10, 1), 3));
  for (const std::uint64_t number : {1U, 2U, 3U}) EXPECT_EQ(harness_->Step().step_number, number);
  EXPECT_EQ(harness_->Step().step_number, 3U);
}

TEST_F(EngineTest, BrokenLogitsEndTheirRequestAlone) {
  Make({.poison_token = 95}, {});
  Submit(GreedyRequest(1, Text(10, 1), 3));
  Submit(GreedyRequest(2, Join(Text(10, 2), {95}), 3));
  Submit(GreedyRequest(3, Text(10, 3), 3));
  harness_->Run();
  EXPECT_EQ(harness_->outcome(2).finish, FinishReason::kError);
  EXPECT_EQ(harness_->outcome(2).error->code, ErrorCode::kInternal);
  EXPECT_EQ(harness_->outcome(1).finish, FinishReason::kLength);
  EXPECT_EQ(harness_->outcome(3).tokens, Reference(Text(10, 3), 3));
}

TEST_F(EngineTest, ARequestWithBrokenLogitsLeavesNoBlocksBehind) {
  Make({.poison_token = 95}, {});
  const auto sound = Text(70, 1);
  (void)harness_->Serve(GreedyRequest(1, sound, 1));
  const std::set<BlockHash> before = harness_->resident();
  ASSERT_EQ(before.size(), 4U);
  // Whole blocks and a partial one that only this request computes.
  EXPECT_EQ(harness_->Serve(GreedyRequest(2, Join(Text(50, 2), {95}), 3)).finish, FinishReason::kError);
  EXPECT_EQ(harness_->resident(), before);
  EXPECT_EQ(harness_->Step().idle_blocks, 5U) << "with a partial one";
  EXPECT_EQ(harness_->Serve(GreedyRequest(3, Join(sound, Text(51, 2)), 3)).cached_token_count, 70U);
}

// A broken device, or a source that sends no numbers, leaves this in the pool.
TEST_F(EngineTest, ARequestBehindBrokenBlocksIsComputedAgainWithoutThem) {
  const auto prompt = Text(70, 1);
  (void)harness_->Serve(GreedyRequest(1, prompt, 1));
  model_->BreakKv();
  const auto outcome = harness_->Serve(GreedyRequest(2, prompt, 9));
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(outcome.tokens, Reference(prompt, 9));
  EXPECT_EQ(outcome.cached_token_count, 0U);
  EXPECT_EQ(harness_->totals().wrong_hits, 1U);
  const auto next = harness_->Serve(GreedyRequest(3, prompt, 9));
  EXPECT_EQ(next.tokens, Reference(prompt, 9));
  EXPECT_EQ(next.cached_token_count, 69U) << "its right blocks are in the cache";
  EXPECT_EQ(harness_->totals().wrong_hits, 1U);
}

TEST_F(EngineTest, SoIsOneWhoseBlocksBreakWhileItDecodes) {
  const auto prompt = Text(70, 1);
  (void)harness_->Serve(GreedyRequest(1, prompt, 1));
  Submit(GreedyRequest(2, prompt, 40));
  for (int i = 0; i < 20; ++i) harness_->Step();
  model_->BreakKv();
  Submit(GreedyRequest(3, prompt, 5));
  harness_->Run();
  EXPECT_EQ(harness_->outcome(2).tokens, Reference(prompt, 40));
  EXPECT_EQ(harness_->outcome(3).tokens, Reference(prompt, 5));
  EXPECT_EQ(harness_->totals().wrong_hits, 2U);
}

TEST_F(EngineTest, SoIsEachOfItsChoices) {
  const auto prompt = Text(70, 1);
  (void)harness_->Serve(GreedyRequest(1, prompt, 1));
  model_->BreakKv();
  wire::Generate request = GreedyRequest(2, prompt, 9);
  request.sample_count = 3;
  request.sampling = {.temperature = 1.5F, .seed = 1};
  Submit(request);
  harness_->Run();
  std::vector<std::vector<TokenId>> broken;
  for (std::uint32_t i = 0; i < 3; ++i) broken.push_back(harness_->choice(2, i).tokens);
  Make({}, {});
  Submit(request);
  harness_->Run();
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(broken[i].size(), 9U);
    EXPECT_EQ(broken[i], harness_->choice(2, i).tokens) << i;
  }
}

TEST_F(EngineTest, ItIsComputedAgainOnce) {
  Make({.poison_token = 95}, {});
  const auto prompt = Text(70, 1);
  (void)harness_->Serve(GreedyRequest(1, prompt, 1));
  const std::uint64_t before = model_->computed_token_count();
  const auto outcome = harness_->Serve(GreedyRequest(2, Join(prompt, {95}), 3));
  EXPECT_EQ(outcome.finish, FinishReason::kError);
  EXPECT_EQ(outcome.error->code, ErrorCode::kInternal);
  EXPECT_EQ(model_->computed_token_count() - before, 1U + 71U);
  EXPECT_TRUE(harness_->resident().empty()) << "any of the blocks that it found may have been wrong";
}

TEST_F(EngineTest, ItIsNotComputedAgainOnceItsPromptWasScored) {
  const auto prompt = Text(70, 1);
  (void)harness_->Serve(GreedyRequest(1, prompt, 1));
  Submit([&] {
    wire::Generate request = GreedyRequest(2, prompt, 9);
    request.prompt_logprobs = 0;
    return request;
  }());
  harness_->Step();
  model_->BreakKv();
  harness_->Run();
  EXPECT_EQ(harness_->outcome(2).finish, FinishReason::kError);
  EXPECT_EQ(harness_->Serve(GreedyRequest(3, prompt, 9)).tokens, Reference(prompt, 9));
}

// A token that first occurs in `tokens` at a place from `first` on, and not in `elsewhere`.
TokenId FirstMetAt(std::size_t first, const std::vector<TokenId>& tokens, const std::vector<TokenId>& elsewhere) {
  for (std::size_t i = first; i < tokens.size(); ++i) {
    const auto met = [&](const auto begin, const auto end) { return std::find(begin, end, tokens[i]) != end; };
    if (!met(elsewhere.begin(), elsewhere.end()) &&
        !met(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i)))
      return tokens[i];
  }
  ADD_FAILURE() << "every token has been met";
  return 0;
}

TEST_F(EngineTest, NorDoesOneThatBreaksWhileItDecodes) {
  const auto prompt = Text(40, 1);
  Make({.poison_token = FirstMetAt(20, Reference(prompt, 40), prompt)}, {});
  EXPECT_EQ(harness_->Serve(GreedyRequest(1, prompt, 40)).finish, FinishReason::kError);
  EXPECT_GT(harness_->outcome(1).tokens.size(), 20U);
  EXPECT_TRUE(harness_->resident().empty());
  EXPECT_EQ(harness_->Step().free_blocks, 1024U);
}

// The other requests had matched its blocks before it broke, and computed on from there.
TEST_F(EngineTest, NorDoOthersThatShareBlocksWithIt) {
  const auto shared = Text(64, 1);
  const std::vector<std::vector<TokenId>> prompts = {Join(shared, Text(3, 9)), Join(shared, Text(40, 2)),
                                                     Join(shared, Text(40, 3))};
  std::vector<TokenId> of_others = prompts[0];
  for (const std::size_t other : {1U, 2U}) {
    of_others = Join(Join(of_others, prompts[other]), Reference(prompts[other], 25));
  }
  Make({.poison_token = FirstMetAt(10, Reference(prompts[0], 40), of_others)}, {});
  Submit(GreedyRequest(0, prompts[0], 40));
  harness_->Step();
  for (const std::size_t other : {1U, 2U}) Submit(GreedyRequest(other, prompts[other], 25));
  (void)harness_->engine().CarryOut(LinkId(0), wire::Pin{.root = kRoot, .hashes = HashBlocks(kRoot, shared, 16)});
  while (harness_->engine().HasWork() && !harness_->outcome(0).finish) harness_->Step();
  EXPECT_EQ(harness_->outcome(0).finish, FinishReason::kError);
  EXPECT_EQ(harness_->outcome(1).cached_token_count, 64U);
  EXPECT_FALSE(harness_->outcome(1).finish.has_value());
  EXPECT_TRUE(harness_->resident().empty());
  harness_->Run();
  for (const std::size_t other : {1U, 2U}) EXPECT_EQ(harness_->outcome(other).tokens.size(), 25U);
  EXPECT_TRUE(harness_->resident().empty());
  EXPECT_EQ(harness_->Step().free_blocks, 1024U);
  // The blocks that are computed in their place are pinned, as requested.
  (void)harness_->Serve(GreedyRequest(4, shared, 1));
  EXPECT_EQ(harness_->Step().load.pinned_block_count, 4U);
}

}  // namespace
}  // namespace roost::worker

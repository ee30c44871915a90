#include "worker/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "tests/support/sanitized.h"
#include "tests/worker/engine/engine_fixture.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::kRoot;
using wire::FinishReason;

// ---- the standard cases of prefix caching ----

TEST_F(EngineTest, IdenticalPromptsTheSecondComputesOnlyTheTail) {
  const auto prompt = Text(1500, 1);
  const auto first = harness_->Serve(GreedyRequest(1, prompt, 4));
  EXPECT_EQ(first.cached_token_count, 0U);
  const std::uint64_t before = model_->computed_token_count();
  const auto second = harness_->Serve(GreedyRequest(2, prompt, 4));
  EXPECT_EQ(second.cached_token_count, 1499U);  // 93 full blocks of 16, and some rows of one more
  EXPECT_EQ(model_->computed_token_count() - before, 1U + 3U);
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.tokens, Reference(prompt, 4));
}

TEST_F(EngineTest, APromptOfFullBlocksComputesItsLastTokenAgainAndMergesItsBlock) {
  const auto prompt = Text(64, 1);
  const auto first = harness_->Serve(GreedyRequest(1, prompt, 1));
  const std::size_t resident = harness_->resident().size();
  const auto second = harness_->Serve(GreedyRequest(2, prompt, 1));
  EXPECT_EQ(second.cached_token_count, 63U);
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(harness_->resident().size(), resident);
  EXPECT_EQ(harness_->Step().idle_blocks, 4U);
}

TEST_F(EngineTest, SharedPrefixWithDifferentSuffixesIsComputedOnce) {
  const auto system = Text(160, 1);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    const auto prompt = Join(system, Text(30, 100 + i));
    const std::uint64_t before = model_->computed_token_count();
    const auto outcome = harness_->Serve(GreedyRequest(i, prompt, 3));
    EXPECT_EQ(outcome.cached_token_count, i == 1 ? 0U : 160U);
    EXPECT_EQ(model_->computed_token_count() - before, (i == 1 ? 190U : 30U) + 2U);
    EXPECT_EQ(outcome.tokens, Reference(prompt, 3));
  }
}

TEST_F(EngineTest, NoSharedPrefixGivesNoFalseHitEvenWithEqualBlocksAtOtherPositions) {
  const auto a = Text(16, 1);
  const auto b = Text(16, 2);
  const auto tail = Text(1, 3);
  (void)harness_->Serve(GreedyRequest(1, Join(Join(a, b), tail), 2));
  const auto swapped = Join(Join(b, a), tail);
  const auto outcome = harness_->Serve(GreedyRequest(2, swapped, 2));
  EXPECT_EQ(outcome.cached_token_count, 0U);
  EXPECT_EQ(outcome.tokens, Reference(swapped, 2));
  const auto repeated = Join(Join(a, a), tail);
  EXPECT_EQ(harness_->Serve(GreedyRequest(3, repeated, 2)).cached_token_count, 16U);
  EXPECT_EQ(harness_->outcome(3).tokens, Reference(repeated, 2));
}

TEST_F(EngineTest, EvictionUnderPressureTakesTheLeastRecentlyUsedLeaf) {
  Make({.block_count = 12}, {.eviction = "lru"});
  const auto a = Text(65, 1);  // four full blocks and a partial one each
  const auto b = Text(65, 2);
  (void)harness_->Serve(GreedyRequest(1, a, 1));
  (void)harness_->Serve(GreedyRequest(2, b, 1));
  (void)harness_->Serve(GreedyRequest(3, a, 1));  // a is used again: b is evicted first, from its end
  (void)harness_->Serve(GreedyRequest(4, Text(81, 3), 1));
  EXPECT_EQ(harness_->totals().evicted_blocks, 4U);
  EXPECT_EQ(harness_->Serve(GreedyRequest(5, a, 1)).cached_token_count, 64U);
  EXPECT_EQ(harness_->Serve(GreedyRequest(6, b, 1)).cached_token_count, 16U);
}

TEST_F(EngineTest, AThousandRequestsWithOneSystemPromptComputeItOnce) {
  constexpr std::uint64_t kRequests = testing_support::kSanitized ? 200 : 1000;
  constexpr std::uint64_t kShared = (kRequests - 1) * 512;  // 511,488 tokens
  const auto system = Text(512, 1);
  std::uint64_t computed[2] = {0, 0};
  for (const bool shared : {false, true}) {
    Make({.block_count = 4096, .vocab_size = 1200}, {});
    for (std::uint64_t i = 0; i < kRequests; ++i) {
      const BlockHash root = shared ? kRoot : BlockHash{1, i};  // without sharing: each in its own scope
      Submit(GreedyRequest(i, Join(system, {static_cast<TokenId>(100 + i), 5}), 1, root));
    }
    harness_->Run();
    for (std::uint64_t i = 0; i < kRequests; ++i) ASSERT_EQ(harness_->outcome(i).finish, FinishReason::kLength);
    computed[shared ? 1 : 0] = model_->computed_token_count();
    EXPECT_EQ(harness_->totals().preemptions, 0U);
    EXPECT_EQ(harness_->totals().cached_prompt_tokens, shared ? kShared : 0U);
  }
  EXPECT_EQ(computed[0], kRequests * 514U);
  EXPECT_EQ(computed[0] - computed[1], kShared);
}

TEST_F(EngineTest, TheSharedPromptIsComputedOnceAlsoInChunks) {
  Make({.block_count = 4096}, {.max_batch_tokens = 100});
  const auto system = Text(512, 1);
  for (std::uint64_t i = 0; i < 300; ++i) Submit(GreedyRequest(i, Join(system, {static_cast<TokenId>(i % 90)}), 2));
  harness_->Run();
  EXPECT_EQ(harness_->prefill_tokens(), 512U + 300U);
  EXPECT_LE(model_->largest_batch(), 100U);
}

TEST_F(EngineTest, WhenTheOneThatComputesASharedPromptIsCancelledAnotherGoesOn) {
  Make({.block_count = 4096}, {.max_batch_tokens = 96});
  const auto system = Text(512, 1);
  for (std::uint64_t i = 0; i < 20; ++i) Submit(GreedyRequest(i, Join(system, {static_cast<TokenId>(i)}), 2));
  for (std::uint64_t i = 0; i < 5; ++i) {
    harness_->Step();
    harness_->engine().Cancel({kLink, RequestId(i)});
  }
  harness_->Run();
  // Each of the five had 96 tokens more committed than the previous one.
  EXPECT_EQ(harness_->prefill_tokens(), 512U + 15U);
  for (std::uint64_t i = 5; i < 20; ++i) {
    EXPECT_EQ(harness_->outcome(i).tokens, Reference(Join(system, {static_cast<TokenId>(i)}), 2));
  }
}

// ---- what a request gets ----

TEST_F(EngineTest, TheNextTurnOfAChatFindsTheAnswerCached) {
  const auto prompt = Text(40, 1);
  const auto answer = harness_->Serve(GreedyRequest(1, prompt, 30)).tokens;
  const auto next = Join(Join(prompt, answer), Text(20, 2));
  const auto outcome = harness_->Serve(GreedyRequest(2, next, 4));
  EXPECT_EQ(outcome.cached_token_count, 69U);  // all but the answer's last token, whose KV was never computed
  EXPECT_EQ(outcome.tokens, Reference(next, 4));
}

TEST_F(EngineTest, StopTokensEndARequestAndAreNotAmongItsTokens) {
  const auto prompt = Text(20, 1);
  const auto expected = Reference(prompt, 10);
  const TokenId stop = expected[4];
  const auto first = std::find(expected.begin(), expected.end(), stop);
  Make({}, {.stop_tokens = {stop}});

  auto request = GreedyRequest(1, prompt, 10);
  request.ignore_eos = false;
  const auto stopped = harness_->Serve(request);
  EXPECT_EQ(stopped.finish, FinishReason::kStop);
  EXPECT_EQ(stopped.stop_token, stop);
  EXPECT_EQ(stopped.tokens, std::vector<TokenId>(expected.begin(), first));

  const auto ignored = harness_->Serve(GreedyRequest(2, prompt, 10));
  EXPECT_EQ(ignored.finish, FinishReason::kLength);
  EXPECT_EQ(ignored.stop_token, std::nullopt);
  EXPECT_EQ(ignored.tokens, expected);

  auto own = GreedyRequest(3, prompt, 10);
  own.stop_tokens = {expected[0]};
  const auto at_once = harness_->Serve(own);
  EXPECT_EQ(at_once.finish, FinishReason::kStop);
  EXPECT_TRUE(at_once.tokens.empty());
  EXPECT_TRUE(at_once.cached_token_count.has_value());
}

TEST_F(EngineTest, OutputEndsAtTheContext) {
  Make({.max_context_tokens = 50}, {});
  const auto outcome = harness_->Serve(GreedyRequest(1, Text(40, 1), 1000));
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(outcome.tokens.size(), 10U);
}

TEST_F(EngineTest, APoolSmallerThanTheContextLimitsIt) {
  Make({.block_count = 3}, {});
  EXPECT_EQ(harness_->engine().max_context_tokens(), 48U);
  EXPECT_EQ(harness_->Serve(GreedyRequest(1, Text(40, 1), 1000)).tokens.size(), 8U);
  EXPECT_EQ(harness_->Submit(GreedyRequest(2, Text(48, 1), 1)).error().code, ErrorCode::kContextTooLong);
}

TEST_F(EngineTest, AContinuedRequestDrawsWhatItWouldHaveDrawn) {
  const auto prompt = Text(30, 1);
  auto request = GreedyRequest(1, prompt, 20);
  request.sampling = {.temperature = 1.5F, .top_p = 0.9F, .seed = 42};
  const auto whole = harness_->Serve(request).tokens;
  EXPECT_EQ(harness_->Serve(RestAfter(request, whole, 7)).tokens, std::vector<TokenId>(whole.begin() + 7, whole.end()));
}

// ---- penalties ----

TEST_F(EngineTest, PenaltiesChangeGreedyOutputAsTheDefinitionSays) {
  Make({.vocab_size = 12}, {});
  const std::vector<TokenId> prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  const auto plain = harness_->Serve(GreedyRequest(1, prompt, 30)).tokens;
  EXPECT_EQ(plain, Reference(prompt, 30));
  for (std::uint64_t id = 2; id < 5; ++id) {
    auto request = GreedyRequest(id, prompt, 30);
    if (id == 2) request.sampling.repetition_penalty = 1.75F;
    if (id == 3) request.sampling.frequency_penalty = 0.5F;
    if (id == 4) request.sampling.logit_bias = {{.token = plain[0], .bias = -100}};
    const auto tokens = harness_->Serve(request).tokens;
    EXPECT_EQ(tokens, Penalized(prompt, 30, request.sampling));
    EXPECT_NE(tokens, plain);
  }
}

TEST_F(EngineTest, PenaltiesSurvivePreemption) {
  const auto serve = [this](std::uint32_t block_count) {
    Make({.block_count = block_count, .vocab_size = 12, .max_context_tokens = 160}, {});
    for (std::uint64_t id = 0; id < 6; ++id) {
      auto request = GreedyRequest(id, {static_cast<TokenId>(id), 1, 2, 3}, 100);
      request.sampling.repetition_penalty = 1.25F;
      request.sampling.frequency_penalty = 0.25F;
      Submit(request);
    }
    harness_->Run();
    return harness_->totals().preemptions;
  };
  EXPECT_EQ(serve(1024), 0U);
  std::vector<std::vector<TokenId>> undisturbed;
  for (std::uint64_t id = 0; id < 6; ++id) undisturbed.push_back(harness_->outcome(id).tokens);
  EXPECT_GT(serve(10), 0U);
  for (std::uint64_t id = 0; id < 6; ++id) {
    EXPECT_EQ(harness_->outcome(id).tokens, undisturbed[id]) << id;
    const wire::Sampling sampling{.repetition_penalty = 1.25F, .frequency_penalty = 0.25F};
    EXPECT_EQ(undisturbed[id], Penalized({static_cast<TokenId>(id), 1, 2, 3}, 100, sampling));
  }
}

// The counted tokens go to the model with the first draw, and the device counts on from there.
TEST_F(EngineTest, PenaltiesSendNoHistoryWithEachStep) {
  Make({.vocab_size = 12}, {});
  const std::vector<TokenId> prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  for (const std::uint32_t output_count : {1U, 100U}) {
    const std::uint64_t before = model_->counted_token_count();
    auto request = GreedyRequest(output_count, prompt, output_count);
    request.sampling.repetition_penalty = 1.25F;
    EXPECT_EQ(harness_->Serve(request).tokens, Penalized(prompt, output_count, request.sampling));
    EXPECT_EQ(model_->counted_token_count() - before, 7U);  // distinct tokens of the prompt
  }
}

TEST_F(EngineTest, AContinuedRequestHasThePenaltiesOfItsOutputSoFar) {
  Make({.vocab_size = 12}, {});
  auto request = GreedyRequest(1, {3, 1, 4, 1, 5}, 40);
  request.sampling.presence_penalty = 0.5F;
  request.sampling.frequency_penalty = 0.25F;
  const auto whole = harness_->Serve(request).tokens;
  EXPECT_EQ(harness_->Serve(RestAfter(request, whole, 15)).tokens,
            std::vector<TokenId>(whole.begin() + 15, whole.end()));
}

// The third request's lists are too long beside those of the first, which are sent in the same step.
TEST_F(EngineTest, ARequestWhosePenaltiesThereIsNoMemoryForIsRefusedAndOthersGoOn) {
  for (const bool plan_ahead : {false, true}) {
    Make({.most_counted = 60}, {.plan_ahead = plan_ahead});
    std::vector<wire::Generate> requests{GreedyRequest(1, Text(40, 1), 20), GreedyRequest(2, Text(60, 2), 20),
                                         GreedyRequest(3, Text(200, 3), 20)};
    requests[0].sampling.repetition_penalty = requests[2].sampling.repetition_penalty = 1.25F;
    requests[2].sample_count = 2;
    for (const wire::Generate& request : requests) Submit(request);
    harness_->Run();
    EXPECT_EQ(harness_->outcome(1).tokens, Penalized(requests[0].prompt, 20, requests[0].sampling));
    EXPECT_EQ(harness_->outcome(2).tokens, Reference(requests[1].prompt, 20));
    EXPECT_TRUE(harness_->outcome(3).tokens.empty());
    ASSERT_TRUE(harness_->outcome(3).error.has_value());
    EXPECT_EQ(harness_->outcome(3).error->code, ErrorCode::kInvalidArgument);
    // With room for it the same request is served.
    Make({}, {.plan_ahead = plan_ahead});
    requests[2].sample_count = 1;
    EXPECT_EQ(harness_->Serve(requests[2]).tokens, Penalized(requests[2].prompt, 20, requests[2].sampling));
  }
}

TEST_F(EngineTest, TimesAreMeasuredWithTheClock) {
  const auto advance = std::chrono::milliseconds(250);
  Submit(GreedyRequest(1, Text(600, 1), 3));
  clock_.Advance(advance);
  const StepReport first = harness_->Step();  // 512 of 600
  EXPECT_EQ(first.counts.queue_wait_seconds, std::vector<double>{0.25});
  EXPECT_TRUE(first.tokens.empty());
  EXPECT_EQ(first.load.step_prefill_tokens, 512U);
  EXPECT_EQ(first.load.step_seconds, 0.01);
  EXPECT_EQ(first.load.queued_prefill_tokens, 88U);
  const StepReport second = harness_->Step();
  EXPECT_EQ(second.counts.ttft_seconds, std::vector<double>{0.27});
  EXPECT_EQ(second.counts.prefill_seconds, std::vector<double>{0.02});
  EXPECT_TRUE(second.counts.decode_seconds.empty());
  EXPECT_EQ(second.counts.prompt_tokens, 600U);
  EXPECT_EQ(second.counts.output_tokens, 1U);
  EXPECT_EQ(second.load.running_context_tokens, 600U);
  const StepReport third = harness_->Step();
  EXPECT_EQ(third.counts.inter_token_seconds, std::vector<double>{0.01});
  EXPECT_EQ(third.load.step_decode_tokens, 1U);
  EXPECT_EQ(third.load.step_prefill_tokens, 0U);
  EXPECT_EQ(harness_->outcome(1).queue_wait_seconds, 0.25);
  const StepReport last = harness_->Step();
  EXPECT_EQ(last.counts.decode_seconds, std::vector<double>{0.02});
  EXPECT_TRUE(last.counts.prefill_seconds.empty());
}

// At 512 tokens in 10 ms. The first prompt is computed before the speed is known.
TEST_F(EngineTest, CachedTokensSaveTheTimeThatTheirPrefillWouldTake) {
  double saved_seconds = 0;
  double computed_seconds = 0;
  const auto serve = [&](std::uint64_t id, std::uint64_t stream) {
    Submit(GreedyRequest(id, Text(512, stream), 1));
    while (harness_->engine().HasWork()) {
      const StepReport report = harness_->Step();
      saved_seconds += report.counts.saved_prefill_seconds;
      computed_seconds += report.counts.computed_prefill_seconds;
    }
  };
  for (std::uint64_t id = 1; id <= 4; ++id) serve(id, id);
  EXPECT_EQ(saved_seconds, 0);
  EXPECT_NEAR(computed_seconds, 0.03, 0.0003);
  serve(5, 1);
  EXPECT_EQ(harness_->outcome(5).cached_token_count, 511U);
  EXPECT_NEAR(saved_seconds, 0.01, 0.0001);
}

TEST_F(EngineTest, DeviceMemoryIsReportedOnceASecond) {
  EXPECT_TRUE(harness_->Step().device_memory.has_value());
  EXPECT_FALSE(harness_->Step().device_memory.has_value());
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(harness_->Step().device_memory.has_value());
}

TEST_F(EngineTest, AStepWithoutWorkReportsTheLoadAlone) {
  const StepReport report = harness_->Step();
  EXPECT_TRUE(report.tokens.empty());
  EXPECT_EQ(report.free_blocks, 1024U);
  EXPECT_EQ(report.load.step_seconds, 0);
  EXPECT_FALSE(harness_->engine().HasWork());
}

TEST_F(EngineTest, TheSnapshotIsWhatTheEventsSay) {
  (void)harness_->Serve(GreedyRequest(1, Text(100, 1), 10));
  (void)harness_->Serve(GreedyRequest(2, Join(Text(64, 1), Text(64, 2)), 10));
  std::set<BlockHash> listed;
  for (const wire::StoredRun& run : harness_->engine().Snapshot()) {
    listed.insert(run.hashes.begin(), run.hashes.end());
  }
  EXPECT_EQ(listed, harness_->resident());
}

// ---- wrong hashes ----

TEST_F(EngineTest, AWrongNumberOfHashesIsRepaired) {
  const auto prompt = Text(70, 1);
  (void)harness_->Serve(GreedyRequest(1, prompt, 1));
  auto request = GreedyRequest(2, prompt, 1);
  request.block_hashes = {BlockHash{1, 1}};
  EXPECT_EQ(harness_->Serve(request).cached_token_count, 69U);
}

TEST_F(EngineTest, HashesOfAnotherPromptAreMissesAndNeverWrongTokens) {
  const auto honest = Text(70, 1);
  const auto other = Text(70, 2);
  (void)harness_->Serve(GreedyRequest(1, honest, 20));
  auto liar = GreedyRequest(2, other, 20);
  liar.block_hashes = HashBlocks(kRoot, honest, 16);
  const auto outcome = harness_->Serve(liar);
  EXPECT_LT(outcome.cached_token_count, 16U);  // no block; the first tokens may happen to be equal
  EXPECT_EQ(outcome.tokens, Reference(other, 20));
  EXPECT_GT(harness_->totals().verification_misses, 0U);
  EXPECT_EQ(harness_->Serve(GreedyRequest(3, honest, 20)).tokens, Reference(honest, 20));
}

TEST_F(EngineTest, ALieThatCameFirstIsAMissForTheHonestOne) {
  const auto honest = Text(70, 1);
  auto liar = GreedyRequest(1, Text(70, 2), 3);
  liar.block_hashes = HashBlocks(kRoot, honest, 16);
  Submit(liar);
  Submit(GreedyRequest(2, honest, 3));
  harness_->Run();
  EXPECT_EQ(harness_->outcome(2).tokens, Reference(honest, 3));
  EXPECT_EQ(harness_->outcome(2).cached_token_count, 0U);
  EXPECT_EQ(harness_->outcome(1).tokens, Reference(Text(70, 2), 3));
}

TEST_F(EngineTest, OneHashForAllBlocksIsSafe) {
  auto liar = GreedyRequest(1, Text(200, 2), 5);
  liar.block_hashes.assign(12, BlockHash{5, 5});
  EXPECT_EQ(harness_->Serve(liar).tokens, Reference(Text(200, 2), 5));
  EXPECT_EQ(harness_->resident().size(), 1U);
}

// ---- preemption ----

TEST_F(EngineTest, PreemptedRequestsResumeFromTheirCachedBlocks) {
  Make({.block_count = 8}, {});
  const auto a = Text(30, 1);
  const auto b = Text(30, 2);
  Submit(GreedyRequest(1, a, 70));
  Submit(GreedyRequest(2, b, 70));
  harness_->Run();
  EXPECT_GT(harness_->totals().preemptions, 0U);
  EXPECT_EQ(harness_->outcome(1).tokens, Reference(a, 70));
  EXPECT_EQ(harness_->outcome(2).tokens, Reference(b, 70));
  EXPECT_EQ(harness_->outcome(2).cached_token_count, 0U);
  EXPECT_EQ(harness_->totals().prompt_tokens, 60U);
}

TEST_F(EngineTest, APreemptedPrefillCountsAsCachedOnlyWhatItNeverComputed) {
  // The first request grows while the second one prefills slowly.
  Make({.block_count = 8}, {.max_batch_tokens = 9});
  Submit(GreedyRequest(1, Text(9, 1), 100));
  harness_->Step();
  Submit(GreedyRequest(2, Text(100, 2), 4));
  harness_->Run();
  EXPECT_GT(harness_->totals().preemptions, 0U);
  EXPECT_EQ(harness_->outcome(2).cached_token_count, 0U);
  EXPECT_EQ(harness_->outcome(2).tokens, Reference(Text(100, 2), 4));
}

// ---- what a report contains ----

TEST_F(EngineTest, ReportsWhosePromptsAreStillToBeComputed) {
  Make({}, {.max_batch_tokens = 64});
  const LinkId other(7);
  const Instant came = clock_.Now();
  Submit(GreedyRequest(1, Text(100, 1), 3));
  Submit(GreedyRequest(2, Text(200, 2), 3), other);
  const StepReport first = harness_->Step();
  ASSERT_EQ(first.prompts.size(), 2U);
  EXPECT_EQ(first.prompts[0].key.link, kLink);
  EXPECT_EQ(first.prompts[1].key.link, other);
  EXPECT_EQ(first.prompts[1].submitted, came);
  EXPECT_EQ(first.prompts[0].uncached_tokens + first.prompts[1].uncached_tokens, 300 - 64U);
  bool alone = false;  // the shorter one is done first
  for (int i = 0; i < 10 && !alone; ++i) {
    const StepReport report = harness_->Step();
    alone = report.prompts.size() == 1 && report.prompts[0].key.link == other;
  }
  EXPECT_TRUE(alone);
  harness_->Run();
  EXPECT_TRUE(harness_->Step().prompts.empty());
}

TEST_F(EngineTest, ReportsTheFirstOfThePromptsAloneAndCountsAll) {
  Make({}, {.max_batch_tokens = 64, .max_running_requests = 1});
  for (std::uint64_t id = 0; id < 100; ++id) Submit(GreedyRequest(id, Text(70, id), 1));
  const StepReport report = harness_->Step();
  ASSERT_EQ(report.prompts.size(), kMaxReportedPrompts);
  for (std::uint64_t id = 0; id < kMaxReportedPrompts; ++id) EXPECT_EQ(report.prompts[id].key.request, RequestId(id));
  EXPECT_EQ(report.load.queued_prefill_tokens, 100 * 70 - 64U);
  EXPECT_EQ(report.submit_count, 100U);
  EXPECT_FALSE(harness_->Submit(GreedyRequest(0, Text(5, 1), 1)).ok());
  EXPECT_EQ(harness_->Step().submit_count, 101U);
}

}  // namespace
}  // namespace roost::worker

// Log probabilities of outputs and prompts: which are reported, when, and that nothing else changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tests/model/naive_logprobs.h"
#include "tests/worker/engine/engine_fixture.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using testing_support::kLink;
using testing_support::NaiveLogprobs;
using testing_support::NaiveLogprobsOf;

class EngineLogprobsTest : public EngineTest {
 protected:
  // Checks the report for the text's tokens from number `first` on.
  void ExpectTold(const std::vector<wire::TokenLogprobs>& told, const std::vector<TokenId>& text, std::size_t first,
                  std::size_t top_count) const {
    ASSERT_EQ(told.size(), text.size() - first);
    for (std::size_t i = first; i < text.size(); ++i) {
      const std::vector<float> logits = model_->ReferenceLogits(std::span(text).first(i));
      const NaiveLogprobs wanted = NaiveLogprobsOf(logits, text[i], top_count);
      const wire::TokenLogprobs& position = told[i - first];
      EXPECT_NEAR(position.logprob, wanted.logprob, 2e-6);
      EXPECT_EQ(position.rank, wanted.rank);
      ASSERT_EQ(position.top.size(), wanted.top.size());
      for (std::size_t k = 0; k < wanted.top.size(); ++k) {
        EXPECT_EQ(position.top[k].token, wanted.top[k]);
        EXPECT_NEAR(position.top[k].logprob, wanted.top_logprobs[k], 2e-6);
      }
    }
  }
  void ExpectOutputTold(const testing_support::EngineHarness::Outcome& outcome, const std::vector<TokenId>& prompt,
                        std::size_t top_count) const {
    ExpectTold(outcome.logprobs, Join(prompt, outcome.tokens), prompt.size(), top_count);
  }
  std::vector<wire::TokenLogprobs> PromptLogprobsOf(std::uint64_t id) { return harness_->outcome(id).prompt_logprobs; }
};

// Biases, penalties, temperature and filters change which token is drawn, not the log probabilities that are reported.
TEST_F(EngineLogprobsTest, OutputIsToldByTheModelsOwnLogits) {
  for (const bool plan_ahead : {false, true}) {
    Make({}, {.plan_ahead = plan_ahead});
    for (const std::uint32_t top_count : {0U, 1U, 20U}) {
      auto request = GreedyRequest(top_count, Text(40, top_count), 12);
      request.sampling = {.temperature = 1.5F, .top_k = 30, .seed = 5, .repetition_penalty = 1.5F};
      request.sampling.logit_bias = {{.token = 8, .bias = 6}};
      request.output_logprobs = top_count;
      const auto prompt = request.prompt;
      ExpectOutputTold(harness_->Serve(std::move(request)), prompt, top_count);
    }
  }
}

TEST_F(EngineLogprobsTest, NobodyElseIsTold) {
  for (std::uint64_t id = 0; id < 5; ++id) {
    auto request = GreedyRequest(id, Text(30 + id, id), 8);
    if (id == 2) request.output_logprobs = 3;
    Submit(std::move(request));
  }
  harness_->Run();
  for (std::uint64_t id = 0; id < 5; ++id) {
    EXPECT_EQ(harness_->outcome(id).logprobs.size(), id == 2 ? 8U : 0U);
    EXPECT_EQ(harness_->outcome(id).tokens, Reference(Text(30 + id, id), 8));
  }
  EXPECT_EQ(model_->scored_row_count(), 8U);
}

TEST_F(EngineLogprobsTest, EachChoiceIsToldItsOwn) {
  for (const bool plan_ahead : {false, true}) {
    Make({}, {.plan_ahead = plan_ahead});
    auto request = GreedyRequest(1, Text(40, 1), 10);
    request.sampling = {.temperature = 1, .seed = 5};
    request.sample_count = 3;
    request.output_logprobs = 2;
    Submit(request);
    harness_->Run();
    for (std::uint32_t choice = 0; choice < 3; ++choice) {
      ExpectOutputTold(harness_->choice(1, choice), request.prompt, 2);
    }
  }
}

TEST_F(EngineLogprobsTest, AContinuedRequestIsToldTheRest) {
  auto request = GreedyRequest(1, Text(30, 1), 20);
  request.output_logprobs = 4;
  const auto whole = harness_->Serve(request);
  const auto rest = harness_->Serve(RestAfter(request, whole.tokens, 7));
  EXPECT_TRUE(rest.logprobs == std::vector(whole.logprobs.begin() + 7, whole.logprobs.end()));
}

TEST_F(EngineLogprobsTest, AStopTokenIsToldByItsIdAlone) {
  const auto prompt = Text(20, 1);
  auto request = GreedyRequest(1, prompt, 10);
  request.stop_tokens = {Reference(prompt, 10).back()};
  request.output_logprobs = 1;
  const auto outcome = harness_->Serve(request);
  EXPECT_EQ(outcome.stop_token, request.stop_tokens[0]);
  EXPECT_EQ(outcome.logprobs.size(), outcome.tokens.size());
}

TEST_F(EngineLogprobsTest, AVocabularySmallerThanWhatIsAskedForIsToldWhole) {
  Make({.vocab_size = 7}, {});
  auto request = GreedyRequest(1, {1, 2, 3, 6}, 5);
  request.output_logprobs = 20;
  request.prompt_logprobs = 20;
  const auto outcome = harness_->Serve(request);
  ExpectOutputTold(outcome, {1, 2, 3, 6}, 7);
  ExpectTold(outcome.prompt_logprobs, {1, 2, 3, 6}, 1, 7);
}

TEST_F(EngineLogprobsTest, AnEngineThatRunsTooManyRequestsTellsNone) {
  for (const std::uint32_t max_running : {kMaxScoredRequests, kMaxScoredRequests + 1}) {
    Make({}, {.max_batch_tokens = 8192, .max_running_requests = max_running});
    auto request = GreedyRequest(1, Text(10, 1), 2);
    request.output_logprobs = 0;
    EXPECT_EQ(harness_->Submit(request).ok(), max_running == kMaxScoredRequests);
    harness_->Run();
  }
}

TEST_F(EngineLogprobsTest, MoreThanTheWireHasIsRefused) {
  auto request = GreedyRequest(1, Text(10, 1), 5);
  request.output_logprobs = wire::kMaxTopLogprobs + 1;
  EXPECT_EQ(harness_->Submit(request).error().code, ErrorCode::kInvalidArgument);
}

// ---- log probabilities of the prompt ----

TEST_F(EngineLogprobsTest, APromptIsToldInPiecesBeforeTheFirstToken) {
  for (const bool plan_ahead : {false, true}) {
    Make({}, {.plan_ahead = plan_ahead});
    auto request = GreedyRequest(1, Text(200, 1), 3);
    request.prompt_logprobs = 5;
    Submit(request);
    while (harness_->outcome(1).tokens.empty()) {
      const StepReport report = harness_->Step();
      for (const RequestEvent& event : report.tokens) {
        EXPECT_LE(event.event.prompt_logprobs.size(), std::size_t{kMaxFurtherLogits});
      }
    }
    ExpectTold(PromptLogprobsOf(1), request.prompt, 1, 5);
    harness_->Run();
    EXPECT_EQ(harness_->outcome(1).tokens, Reference(request.prompt, 3));
    EXPECT_TRUE(harness_->outcome(1).logprobs.empty());
  }
}

TEST_F(EngineLogprobsTest, APromptOfOneTokenHasNothingToTell) {
  auto request = GreedyRequest(1, {5}, 3);
  request.prompt_logprobs = 5;
  const auto outcome = harness_->Serve(request);
  EXPECT_TRUE(outcome.prompt_logprobs.empty());
  EXPECT_EQ(outcome.tokens, Reference({5}, 3));
}

TEST_F(EngineLogprobsTest, AScoredPromptIsComputedAnewAndLeavesItsBlocks) {
  const auto prompt = Text(100, 1);
  (void)harness_->Serve(GreedyRequest(1, prompt, 1));
  auto request = GreedyRequest(2, prompt, 1);
  request.prompt_logprobs = 0;
  const auto outcome = harness_->Serve(request);
  EXPECT_EQ(outcome.cached_token_count, 0U);
  ExpectTold(outcome.prompt_logprobs, prompt, 1, 0);
  EXPECT_EQ(harness_->totals().computed_prompt_tokens[IndexOf(MissReason::kDisabled)], 100U);
  auto other = GreedyRequest(3, Text(100, 2), 1);
  other.prompt_logprobs = 0;
  (void)harness_->Serve(other);
  EXPECT_EQ(harness_->Serve(GreedyRequest(4, Text(100, 2), 1)).cached_token_count, 99U);
}

// Other requests continue, and are admitted, while prompts are scored over many steps.
TEST_F(EngineLogprobsTest, ScoredPromptsHoldNobodyUp) {
  for (std::uint64_t id = 0; id < 3; ++id) {
    auto request = GreedyRequest(id, Text(700, id), 2);
    request.prompt_logprobs = 1;
    Submit(std::move(request));
  }
  Submit(GreedyRequest(9, Text(300, 9), 2));
  for (int step = 0; step < 3; ++step) harness_->Step();
  EXPECT_EQ(harness_->outcome(9).finish, wire::FinishReason::kLength);
  harness_->Run();
  for (std::uint64_t id = 0; id < 3; ++id) ExpectTold(PromptLogprobsOf(id), Text(700, id), 1, 1);
}

TEST_F(EngineLogprobsTest, PreemptedPromptsAreToldOnce) {
  for (const bool plan_ahead : {false, true}) {
    Make({.block_count = 12, .max_context_tokens = 190}, {.check_invariants = true, .plan_ahead = plan_ahead});
    for (std::uint64_t id = 0; id < 8; ++id) {
      auto request = GreedyRequest(id, Text(60 + 10 * id, id), 50);
      request.prompt_logprobs = 2;
      request.output_logprobs = 1;
      Submit(std::move(request));
    }
    harness_->Run();
    EXPECT_GT(harness_->totals().preemptions, 0U);
    for (std::uint64_t id = 0; id < 8; ++id) {
      ExpectTold(PromptLogprobsOf(id), Text(60 + 10 * id, id), 1, 2);
      ExpectOutputTold(harness_->outcome(id), Text(60 + 10 * id, id), 1);
    }
  }
}

TEST_F(EngineLogprobsTest, ACancelledRequestIsToldNoMore) {
  for (const bool plan_ahead : {false, true}) {
    Make({}, {.plan_ahead = plan_ahead});
    auto request = GreedyRequest(1, Text(300, 1), 3);
    request.prompt_logprobs = 5;
    Submit(request);
    harness_->Step();
    harness_->Step();
    harness_->engine().Cancel({kLink, RequestId(1)});
    harness_->Run();
    EXPECT_EQ(harness_->outcome(1).finish, wire::FinishReason::kCancelled);
  }
}

TEST_F(EngineLogprobsTest, BrokenLogitsStayWithinTheWiresBounds) {
  Make({.poison_token = 7}, {});
  auto request = GreedyRequest(1, {1, 7, 2, 3}, 3);
  request.prompt_logprobs = 2;
  const auto outcome = harness_->Serve(request);
  EXPECT_EQ(outcome.finish, wire::FinishReason::kLength);
  ASSERT_EQ(outcome.prompt_logprobs.size(), 3U);
  EXPECT_EQ(outcome.prompt_logprobs[1].logprob, wire::kMinLogprob);
}

}  // namespace
}  // namespace roost::worker

// No stop token is drawn before the output has min_output_tokens, whatever the engine does around the request.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/worker/engine/engine_fixture.h"

namespace roost::worker {
namespace {

using testing_support::GreedyRequest;
using wire::FinishReason;

class MinOutputTest : public EngineTest {
 protected:
  static constexpr std::uint32_t kVocab = 6;  // so small that stop tokens come at once
  static constexpr std::uint32_t kContext = 160;

  void MakeSmall(EngineOptions options, std::uint32_t block_count = 256) {
    options.stop_tokens = {4};
    options.check_invariants = true;
    Make({.block_count = block_count, .vocab_size = kVocab, .max_context_tokens = kContext}, std::move(options));
  }

  static wire::Generate RequestOf(std::uint64_t id, std::uint32_t min_output_tokens, std::uint32_t max_output_tokens) {
    auto request = GreedyRequest(id, PromptOf(id), max_output_tokens);
    request.ignore_eos = false;
    request.stop_tokens = {2, 2, 1000};
    request.min_output_tokens = min_output_tokens;
    return request;
  }
  static std::vector<TokenId> PromptOf(std::uint64_t id) {
    return {static_cast<TokenId>(id % kVocab), static_cast<TokenId>(id / kVocab % kVocab), 3};
  }

  // By definition: stop tokens do not count until the output is long enough.
  std::vector<TokenId> Wanted(const wire::Generate& request) const {
    std::vector<TokenId> output;
    while (output.size() < request.max_output_tokens) {
      std::vector<float> logits = model_->ReferenceLogits(Join(request.prompt, output));
      for (const auto& [token, bias] : request.sampling.logit_bias) logits[token] += bias;
      if (output.size() < request.min_output_tokens) {
        logits[2] = logits[4] = -std::numeric_limits<float>::infinity();
      }
      const auto best = std::max_element(logits.begin(), logits.end());
      const auto token = static_cast<TokenId>(best - logits.begin());
      if (token == 2 || token == 4) break;
      output.push_back(token);
    }
    return output;
  }
};

TEST_F(MinOutputTest, NothingStopsTheOutputBefore) {
  for (const bool plan_ahead : {false, true}) {
    MakeSmall({.plan_ahead = plan_ahead});
    std::vector<wire::Generate> requests;
    for (std::uint64_t id = 0; id < 30; ++id) {
      requests.push_back(RequestOf(id, static_cast<std::uint32_t>(id), 40));
      Submit(requests.back());
    }
    harness_->Run();
    for (const wire::Generate& request : requests) {
      const auto& outcome = harness_->outcome(request.request_id.value());
      EXPECT_EQ(outcome.tokens, Wanted(request));
      EXPECT_GE(outcome.tokens.size(), request.min_output_tokens);
    }
  }
}

TEST_F(MinOutputTest, ABiasOfAStopTokenChangesNothing) {
  MakeSmall({});
  auto request = RequestOf(1, 10, 40);
  request.sampling.logit_bias = {{.token = 0, .bias = 1}, {.token = 2, .bias = 100}};
  const auto outcome = harness_->Serve(request);
  EXPECT_EQ(outcome.tokens, Wanted(request));
  EXPECT_EQ(outcome.tokens.size(), 10U);
  EXPECT_EQ(outcome.stop_token, 2U);
}

TEST_F(MinOutputTest, ItMayBeAllOfTheOutput) {
  MakeSmall({});
  const auto outcome = harness_->Serve(RequestOf(1, 12, 12));
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(outcome.tokens.size(), 12U);
}

TEST_F(MinOutputTest, TheModelsOwnStopTokensMayBeDrawnWhereTheyStopNothing) {
  MakeSmall({});
  auto request = RequestOf(1, 30, 30);
  request.stop_tokens = {};
  request.ignore_eos = true;
  const auto tokens = harness_->Serve(request).tokens;
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 2U) > 0, true);
  EXPECT_EQ(tokens, Reference(request.prompt, 30));
}

TEST_F(MinOutputTest, PreemptionChangesNothing) {
  for (const bool plan_ahead : {false, true}) {
    MakeSmall({.plan_ahead = plan_ahead}, 10);
    std::vector<wire::Generate> requests;
    for (std::uint64_t id = 0; id < 6; ++id) {
      requests.push_back(RequestOf(id, 70, 100));
      Submit(requests.back());
    }
    harness_->Run();
    EXPECT_GT(harness_->totals().preemptions, 0U);
    for (const wire::Generate& request : requests) {
      EXPECT_EQ(harness_->outcome(request.request_id.value()).tokens, Wanted(request));
    }
  }
}

TEST_F(MinOutputTest, AContinuedRequestCountsTheTokensBefore) {
  MakeSmall({});
  const auto request = RequestOf(1, 20, 40);
  const auto whole = harness_->Serve(request).tokens;
  for (const std::uint32_t count : {1U, 19U, 20U}) {
    auto rest = RestAfter(request, whole, count);
    rest.request_id = RequestId(100 + count);
    EXPECT_EQ(harness_->Serve(rest).tokens, std::vector<TokenId>(whole.begin() + count, whole.end()));
  }
}

TEST_F(MinOutputTest, EachChoiceCountsItsOwn) {
  for (const bool plan_ahead : {false, true}) {
    MakeSmall({.plan_ahead = plan_ahead});
    auto request = RequestOf(1, 15, 40);
    request.sampling = {.temperature = 1, .seed = 7};
    request.sample_count = 4;
    Submit(request);
    harness_->Run();
    for (std::uint32_t choice = 0; choice < 4; ++choice) {
      auto alone = request;
      alone.request_id = RequestId(10 + choice);
      alone.sample_count = 1;
      alone.sampling.seed += choice;
      const auto& tokens = harness_->choice(1, choice).tokens;
      EXPECT_GE(tokens.size(), 15U);
      EXPECT_EQ(tokens, harness_->Serve(alone).tokens);
    }
  }
}

}  // namespace
}  // namespace roost::worker

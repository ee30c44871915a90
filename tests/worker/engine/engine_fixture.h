// An engine with a fake model, and small verbs for what tests ask of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/model/naive_penalties.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"
#include "worker/engine/engine.h"

namespace roost::worker {

class EngineTest : public testing::Test {
 protected:
  void SetUp() override { Make({}, {}); }

  void Make(testing_support::FakeModel::Options model, EngineOptions engine) {
    model.clock = &clock_;
    harness_.reset();
    model_ = std::make_unique<testing_support::FakeModel>(model);
    harness_ = std::make_unique<testing_support::EngineHarness>(*model_, clock_, std::move(engine));
  }

  // `count` tokens; a different `stream` gives a different text.
  std::vector<TokenId> Text(std::size_t count, std::uint64_t stream) const {
    Rng rng(stream);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(90));
    return tokens;
  }
  static std::vector<TokenId> Join(std::vector<TokenId> a, const std::vector<TokenId>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  // The answer that a greedy request must get, by definition.
  std::vector<TokenId> Reference(const std::vector<TokenId>& prompt, std::uint32_t output_count) const {
    return Penalized(prompt, output_count, {});
  }
  std::vector<TokenId> Penalized(const std::vector<TokenId>& prompt, std::uint32_t output_count,
                                 const wire::Sampling& sampling) const {
    std::vector<TokenId> output;
    for (std::uint32_t i = 0; i < output_count; ++i) {
      const std::vector<float> logits =
          testing_support::NaivePenalized(model_->ReferenceLogits(Join(prompt, output)), sampling, prompt, output);
      const auto best = std::max_element(logits.begin(), logits.end());
      output.push_back(static_cast<TokenId>(best - logits.begin()));
    }
    return output;
  }

  // The rest of a request after its first `count` tokens have been drawn elsewhere.
  static wire::Generate RestAfter(const wire::Generate& request, const std::vector<TokenId>& tokens,
                                  std::uint32_t count) {
    wire::Generate rest = request;
    rest.request_id = RequestId(request.request_id.value() + 1);
    rest.prompt.insert(rest.prompt.end(), tokens.begin(), tokens.begin() + count);
    rest.first_output_index = count;
    rest.max_output_tokens -= count;
    return rest;
  }

  void Submit(wire::Generate request, LinkId link = testing_support::kLink) {
    const Result<void> submitted = harness_->Submit(std::move(request), link);
    ASSERT_TRUE(submitted.ok()) << submitted.error().ToString();
  }

  ManualClock clock_;
  std::unique_ptr<testing_support::FakeModel> model_;
  std::unique_ptr<testing_support::EngineHarness> harness_;
};

}  // namespace roost::worker

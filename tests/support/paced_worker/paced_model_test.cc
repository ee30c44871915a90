#include "tests/support/paced_worker/paced_model.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace roost::testing_support {
namespace {

constexpr simulate::ServiceModel kService{.step_base_seconds = 0.004,
                                          .prefill_tokens_per_second = 10'000,
                                          .attention_seconds = 1e-6,
                                          .decode_base_seconds = 0,
                                          .decode_seconds_per_request = 0.001,
                                          .decode_seconds_per_context_token = 1e-5};

worker::Batch BatchOf(std::initializer_list<std::pair<std::uint32_t, std::uint32_t>> slices) {
  worker::Batch batch;
  for (const auto& [first, count] : slices) {
    batch.slices.push_back({.blocks = {}, .first_position = first, .token_count = count, .logits_count = 1});
  }
  return batch;
}

TEST(StepSecondsTest, AddsThePartsOfPromptsToTheDecodes) {
  // 4 ms for the step; 2 requests of 100 and 300 context tokens; 50 tokens of a prompt behind 200 others.
  EXPECT_NEAR(StepSeconds(kService, BatchOf({{99, 1}, {299, 1}})), 0.004 + 0.002 + 400e-5, 1e-9);
  EXPECT_NEAR(StepSeconds(kService, BatchOf({{200, 50}})), 0.004 + 0.005 + 50 * 224.5e-6, 1e-9);
  EXPECT_NEAR(StepSeconds(kService, BatchOf({{99, 1}, {299, 1}, {200, 50}})),
              0.004 + 0.002 + 400e-5 + 0.005 + 50 * 224.5e-6, 1e-9);
}

TEST(PacedModelTest, ResultsComeAtTheEndOfTheirStep) {
  PacedModel model({.service = kService, .vocab_size = 10, .max_context_tokens = 100, .block_count = 4, .token = 7});
  worker::Draws draws;
  draws.rows.resize(2);
  const auto begin = std::chrono::steady_clock::now();
  model.Compute(BatchOf({{9, 1}, {9, 1}}), draws);
  model.Compute(BatchOf({{10, 1}}), draws);
  EXPECT_EQ(model.AwaitSampled().size(), 2);
  EXPECT_EQ(model.AwaitSampled()[0].token, 7);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken.count(),
            StepSeconds(kService, BatchOf({{9, 1}, {9, 1}})) + StepSeconds(kService, BatchOf({{10, 1}})));
}

}  // namespace
}  // namespace roost::testing_support

#include "worker/sample/token_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"
#include "tests/model/naive_penalties.h"

namespace roost::worker {
namespace {

using kernels::CountedToken;
using kernels::kInPrompt;
using kernels::OutputPenalties;
using testing_support::NaivePenalized;

constexpr std::uint32_t kVocab = 50;

std::vector<CountedToken> Counts(const OutputPenalties& penalties, const std::vector<TokenId>& text,
                                 std::size_t output_count) {
  std::vector<CountedToken> counted;
  AppendCounts(penalties, text, output_count, counted);
  return counted;
}

class TokenCountsTest : public testing::Test {
 protected:
  std::vector<TokenId> Tokens(std::size_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng_.Below(kVocab));
    return tokens;
  }
  std::vector<float> Logits() {
    std::vector<float> logits(kVocab);
    for (float& logit : logits) logit = static_cast<float>(rng_.Uniform() * 16 - 8);
    return logits;
  }
  float Between(double low, double high) { return static_cast<float>(low + rng_.Uniform() * (high - low)); }

  wire::Sampling RandomSampling() {
    wire::Sampling sampling;
    if (rng_.Below(2) == 0) sampling.repetition_penalty = Between(0.5, 2);
    if (rng_.Below(2) == 0) sampling.presence_penalty = Between(-2, 2);
    if (rng_.Below(2) == 0) sampling.frequency_penalty = Between(-2, 2);
    for (TokenId token = 0; token < kVocab; ++token) {
      if (rng_.Below(10) == 0) sampling.logit_bias.push_back({.token = token, .bias = Between(-100, 100)});
    }
    return sampling;
  }

  Rng rng_{5};
};

// Reset once, and then counted from draw to draw, as a device does.
TEST_F(TokenCountsTest, DrawsSeeWhatTheDefinitionSaysAfterEachToken) {
  for (int round = 0; round < 300; ++round) {
    const wire::Sampling sampling = RandomSampling();
    std::vector<TokenId> text = Tokens(1 + rng_.Below(40));
    const std::size_t output_before = rng_.Below(2) * rng_.Below(text.size());  // of a request that continues
    const std::size_t prompt_count = text.size() - output_before;
    std::vector<kernels::LogitBias> biases;
    for (const wire::LogitBias& bias : sampling.logit_bias) biases.push_back({bias.token, bias.bias});
    std::vector<CountedToken> counted;
    AppendCounts(PenaltiesOf(sampling), text, output_before, counted);
    std::vector<kernels::TokenCount> counts(kVocab, 99);
    for (int step = 0; step < 20; ++step) {
      const std::vector<float> logits = Logits();
      const kernels::SampleRow draw{.bias_count = static_cast<std::uint32_t>(biases.size()),
                                    .penalties = PenaltiesOf(sampling),
                                    .has_counts = Penalizes(PenaltiesOf(sampling)),
                                    .resets_counts = step == 0,
                                    .has_newest = step > 0,
                                    .counted_count = static_cast<std::uint32_t>(counted.size())};
      const kernels::SampleArgs args{.vocab_size = kVocab,
                                     .biases = biases.data(),
                                     .counted = counted.data(),
                                     .counts = counts.data(),
                                     .tokens = &text.back()};
      std::vector<float> adjusted(kVocab);
      kernels::UpdateCounts(args, draw);
      kernels::AdjustLogits(args, draw, logits, adjusted);
      const std::span<const TokenId> all = text;
      const std::vector<float> wanted =
          NaivePenalized(logits, sampling, all.first(prompt_count), all.subspan(prompt_count));
      for (TokenId token = 0; token < kVocab; ++token) {
        // One f32 subtraction and one rounding.
        ASSERT_NEAR(adjusted[token], wanted[token], 1e-5) << "round " << round << " step " << step;
      }
      text.push_back(Tokens(1)[0]);
    }
  }
}

TEST_F(TokenCountsTest, EachTokenIsCountedOnceForPromptAndOutput) {
  const std::vector<CountedToken> counted = Counts({.repetition = 1.5F}, {7, 3, 7, 7, 9, 3, 9}, 3);
  ASSERT_EQ(counted.size(), 3U);
  EXPECT_EQ(counted[0].token, 3U);
  EXPECT_EQ(counted[0].count, kInPrompt | 1U);
  EXPECT_EQ(counted[1].token, 7U);
  EXPECT_EQ(counted[1].count, kInPrompt);
  EXPECT_EQ(counted[2].token, 9U);
  EXPECT_EQ(counted[2].count, 2U);
}

TEST_F(TokenCountsTest, PresenceAndFrequencyLeaveThePromptAlone) {
  const std::vector<CountedToken> counted = Counts({.presence = 0.5F, .frequency = 0.25F}, {1, 2, 2, 2, 2}, 2);
  ASSERT_EQ(counted.size(), 1U);
  EXPECT_EQ(counted[0].count, 2U);
  EXPECT_EQ(kernels::AdjustmentOf(0, counted[0].count, {.presence = 0.5F, .frequency = 0.25F}).subtract, 1.0F);
}

TEST_F(TokenCountsTest, MoreOutputThanTextDoesNoHarm) {
  const std::vector<TokenId> output = Tokens(10);
  EXPECT_EQ(Counts({.presence = 1}, output, 1000).size(), Counts({.presence = 1}, output, 10).size());
}

TEST_F(TokenCountsTest, OnlyWhatChangesSomethingIsAPenalty) {
  EXPECT_FALSE(Penalizes(PenaltiesOf({.temperature = 0.5F, .min_p = 0.1F})));
  EXPECT_FALSE(Penalizes(PenaltiesOf({.logit_bias = {{.token = 9, .bias = -100}}})));
  EXPECT_TRUE(Penalizes(PenaltiesOf({.repetition_penalty = 1.1F})));
  EXPECT_TRUE(Penalizes(PenaltiesOf({.presence_penalty = -1})));
  EXPECT_TRUE(Penalizes(PenaltiesOf({.frequency_penalty = 1})));
}

// ---- one logit ----

TEST(AdjustedTest, RepetitionMovesALogitDownOnBothSidesOfZero) {
  EXPECT_EQ(kernels::Adjusted(3, {.repetition = 1.5F}), 2);
  EXPECT_EQ(kernels::Adjusted(-3, {.repetition = 1.5F}), -4.5F);
  EXPECT_EQ(kernels::Adjusted(0, {.repetition = 1.5F}), 0);
}

TEST(AdjustedTest, TheBiasComesFirstAndTheDifferenceLast) {
  EXPECT_EQ(kernels::Adjusted(-1, {.bias = 4, .repetition = 2, .subtract = 0.25F}), 1.25F);
}

}  // namespace
}  // namespace roost::worker

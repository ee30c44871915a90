#include "worker/sample/logit_adjuster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"
#include "tests/model/naive_penalties.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kVocab = 50;

using testing_support::NaivePenalized;

std::vector<float> Adjust(const std::vector<float>& logits, const LogitAdjuster& adjuster) {
  std::vector<float> adjusted(logits.size());
  kernels::AdjustLogits(logits, adjuster.adjustments(), adjusted);
  return adjusted;
}

class LogitAdjusterTest : public testing::Test {
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

TEST_F(LogitAdjusterTest, AgreesWithTheDefinitionAfterEachToken) {
  for (int round = 0; round < 300; ++round) {
    const wire::Sampling sampling = RandomSampling();
    const std::vector<TokenId> prompt = Tokens(1 + rng_.Below(40));
    std::vector<TokenId> output;
    LogitAdjuster adjuster(sampling, prompt, 0);
    for (int step = 0; step < 20; ++step) {
      const std::vector<float> logits = Logits();
      const std::vector<float> adjusted = Adjust(logits, adjuster);
      const std::vector<float> wanted = NaivePenalized(logits, sampling, prompt, output);
      for (TokenId token = 0; token < kVocab; ++token) {
        // A subtrahend of f32, and one rounding.
        ASSERT_NEAR(adjusted[token], wanted[token], 1e-5) << "round " << round << " step " << step;
      }
      output.push_back(Tokens(1)[0]);
      adjuster.Append(output.back());
    }
  }
}

// What a step does that was begun before its newest token was known.
TEST_F(LogitAdjusterTest, ADrawThatCountsItsNewestTokenSeesWhatAppendingItGives) {
  for (int round = 0; round < 300; ++round) {
    LogitAdjuster adjuster(RandomSampling(), Tokens(1 + rng_.Below(40)), 0);
    for (int step = 0; step < 10; ++step) {
      const std::vector<kernels::LogitAdjustment> before(adjuster.adjustments().begin(), adjuster.adjustments().end());
      const std::vector<TokenId> batch = Tokens(3);
      const kernels::SampleRow draw{.adjustment_count = static_cast<std::uint32_t>(before.size()),
                                    .has_newest = adjuster.penalizes_output(),
                                    .newest = 1,
                                    .penalties = adjuster.penalties()};
      const std::vector<float> logits = Logits();
      std::vector<float> adjusted(kVocab);
      kernels::AdjustLogits(logits, draw, before.data(), batch.data(), adjusted);
      adjuster.Append(batch[1]);
      ASSERT_EQ(adjusted, Adjust(logits, adjuster)) << "round " << round << " step " << step;
    }
  }
}

TEST_F(LogitAdjusterTest, EntriesAreSortedAndEachTokenHasOne) {
  const wire::Sampling sampling = RandomSampling();
  LogitAdjuster adjuster(sampling, Tokens(60), 0);
  for (const TokenId token : Tokens(60)) adjuster.Append(token);
  const auto entries = adjuster.adjustments();
  ASSERT_FALSE(entries.empty());
  EXPECT_EQ(std::adjacent_find(entries.begin(), entries.end(),
                               [](const auto& a, const auto& b) { return a.token >= b.token; }),
            entries.end());
}

TEST_F(LogitAdjusterTest, WithoutPenaltiesThereIsNothingToDo) {
  LogitAdjuster adjuster({.temperature = 0.5F, .min_p = 0.1F}, Tokens(20), 3);
  adjuster.Append(7);
  EXPECT_TRUE(adjuster.adjustments().empty());
  EXPECT_TRUE(LogitAdjuster().adjustments().empty());
}

TEST_F(LogitAdjusterTest, ABiasAloneCountsNoTokens) {
  LogitAdjuster adjuster({.logit_bias = {{.token = 9, .bias = -100}}}, Tokens(20), 0);
  adjuster.Append(7);
  ASSERT_EQ(adjuster.adjustments().size(), 1U);
  EXPECT_EQ(adjuster.adjustments()[0].token, 9U);
  EXPECT_EQ(adjuster.adjustments()[0].repetition, 1);
  EXPECT_EQ(adjuster.adjustments()[0].subtract, 0);
}

TEST_F(LogitAdjusterTest, PresenceAndFrequencyLeaveThePromptAlone) {
  LogitAdjuster adjuster({.presence_penalty = 0.5F, .frequency_penalty = 0.25F}, std::vector<TokenId>{1, 2, 2}, 0);
  EXPECT_TRUE(adjuster.adjustments().empty());
  adjuster.Append(2);
  adjuster.Append(2);
  ASSERT_EQ(adjuster.adjustments().size(), 1U);
  EXPECT_EQ(adjuster.adjustments()[0].subtract, 1.0F);
}

TEST_F(LogitAdjusterTest, AContinuedOutputIsCountedAsOutput) {
  const wire::Sampling sampling{.repetition_penalty = 1.5F, .presence_penalty = 0.5F, .frequency_penalty = 0.25F};
  const std::vector<TokenId> prompt = Tokens(30);
  const std::vector<TokenId> output = Tokens(10);
  LogitAdjuster whole(sampling, prompt, 0);
  std::vector<TokenId> text = prompt;
  for (const TokenId token : output) {
    whole.Append(token);
    text.push_back(token);
  }
  const LogitAdjuster continued(sampling, text, output.size());
  const std::vector<float> logits = Logits();
  EXPECT_EQ(Adjust(logits, continued), Adjust(logits, whole));
  // More output than text can not be, and must do no harm.
  EXPECT_EQ(LogitAdjuster(sampling, output, 1000).adjustments().size(),
            LogitAdjuster(sampling, output, 10).adjustments().size());
}

TEST_F(LogitAdjusterTest, ACopyGoesItsOwnWay) {
  LogitAdjuster one({.frequency_penalty = 1}, {}, 0);
  one.Append(3);
  LogitAdjuster other = one;
  other.Append(3);
  EXPECT_EQ(one.adjustments()[0].subtract, 1);
  EXPECT_EQ(other.adjustments()[0].subtract, 2);
}

TEST_F(LogitAdjusterTest, ReservedTokensCostNoAllocation) {
  LogitAdjuster adjuster({.repetition_penalty = 1.1F}, Tokens(10), 0);
  adjuster.Reserve(kVocab);
  const auto* const before = adjuster.adjustments().data();
  for (TokenId token = 0; token < kVocab; ++token) adjuster.Append(token);
  EXPECT_EQ(adjuster.adjustments().data(), before);
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

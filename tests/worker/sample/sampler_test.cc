#include "worker/sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SamplerTest : public testing::Test {
 protected:
  TokenId Sample(const std::vector<float>& logits, const wire::Sampling& sampling, std::uint64_t output_index = 0) {
    return SampleToken(logits, sampling, output_index, scratch_).value();
  }
  kernels::SampleScratch scratch_;
};

// The definition, in double and by sorting everything: the tokens that can be drawn, likeliest first, with their
// shares.
struct Share {
  TokenId token;
  double probability;
};
std::vector<Share> NaiveShares(const std::vector<float>& logits, const wire::Sampling& sampling) {
  std::vector<Share> shares;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    shares.push_back({static_cast<TokenId>(i), std::exp(double{logits[i]} / double{sampling.temperature})});
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const Share& a, const Share& b) { return a.probability > b.probability; });
  const auto normalize = [&shares] {
    double total = 0;
    for (const Share& share : shares) total += share.probability;
    for (Share& share : shares) share.probability /= total;
  };
  std::erase_if(shares, [&, most = shares.front().probability](const Share& share) {
    return share.probability < double{sampling.min_p} * most;
  });
  if (sampling.top_k > 0 && sampling.top_k < shares.size()) shares.resize(sampling.top_k);
  normalize();
  double sum = 0;
  std::size_t kept = 0;
  while (kept < shares.size() && (kept == 0 || sum < double{sampling.top_p})) sum += shares[kept++].probability;
  if (sampling.top_p < 1) shares.resize(kept);
  normalize();
  return shares;
}

TokenId NaiveSample(const std::vector<float>& logits, const wire::Sampling& sampling, std::uint64_t output_index) {
  std::vector<Share> shares = NaiveShares(logits, sampling);
  if (sampling.top_k == 0 && sampling.top_p == 1.0F) {
    std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.token < b.token; });
  }
  const double uniform = CounterUniform(sampling.seed, output_index);
  double sum = 0;
  for (const Share& share : shares) {
    sum += share.probability;
    if (sum > uniform) return share.token;
  }
  return shares.back().token;
}

std::vector<float> RandomLogits(Rng& rng, std::size_t count) {
  std::vector<float> logits(count);
  for (float& logit : logits) logit = static_cast<float>(rng.Uniform() * 16 - 8);
  return logits;
}

TEST_F(SamplerTest, GreedyTakesTheHighestAndOfEqualsTheLowestId) {
  EXPECT_EQ(Sample({1, 3, 2, 3}, {.temperature = 0}), 1U);
  EXPECT_EQ(Sample({-kInfinity, -5, -kInfinity}, {.temperature = 0}), 1U);
}

TEST_F(SamplerTest, GreedyIgnoresTopKAndTopP) {
  EXPECT_EQ(Sample({1, 3, 2}, {.temperature = 0, .top_p = 0.1F, .top_k = 2, .seed = 9}), 1U);
}

TEST_F(SamplerTest, AgreesWithTheDefinition) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Rng rng(seed);
    const std::vector<float> logits = RandomLogits(rng, 1 + rng.Below(60));
    wire::Sampling sampling{.temperature = static_cast<float>(0.1 + rng.Uniform() * 2), .seed = seed};
    if (rng.Below(2) == 0) sampling.top_k = static_cast<std::uint32_t>(rng.Below(70));
    if (rng.Below(2) == 0) sampling.top_p = static_cast<float>(rng.Uniform());
    if (rng.Below(2) == 0) sampling.min_p = static_cast<float>(rng.Uniform() * rng.Uniform());
    const std::uint64_t index = rng.Below(1000);
    ASSERT_EQ(Sample(logits, sampling, index), NaiveSample(logits, sampling, index)) << "seed " << seed;
  }
}

// Pearson's statistic against the naive shares. 60 is beyond the 1e-6 quantile at 15 degrees of freedom or fewer.
void ExpectDistribution(const wire::Sampling& sampling) {
  Rng rng(77);
  const std::vector<float> logits = [&rng] {
    std::vector<float> row(16);
    for (float& logit : row) logit = static_cast<float>(rng.Uniform() * 3);
    return row;
  }();
  constexpr std::uint64_t kDraws = 200'000;
  std::vector<double> counts(logits.size());
  kernels::SampleScratch scratch;
  for (std::uint64_t i = 0; i < kDraws; ++i) ++counts[SampleToken(logits, sampling, i, scratch).value()];
  double statistic = 0;
  for (const Share& share : NaiveShares(logits, sampling)) {
    const double expected = share.probability * kDraws;
    statistic += (counts[share.token] - expected) * (counts[share.token] - expected) / expected;
    counts[share.token] = 0;
  }
  EXPECT_LT(statistic, 60);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0), 0) << "a token was drawn that can not be";
}

TEST_F(SamplerTest, DrawsInProportion) {
  ExpectDistribution({.temperature = 1, .seed = 1});
  ExpectDistribution({.temperature = 0.5F, .seed = 2});
  ExpectDistribution({.temperature = 2, .top_p = 0.7F, .seed = 3});
  ExpectDistribution({.temperature = 1, .top_k = 5, .seed = 4});
  ExpectDistribution({.temperature = 1, .top_p = 0.8F, .top_k = 6, .seed = 5});
  ExpectDistribution({.temperature = 1, .seed = 6, .min_p = 0.4F});
  ExpectDistribution({.temperature = 2, .top_p = 0.8F, .top_k = 9, .seed = 7, .min_p = 0.5F});
}

TEST_F(SamplerTest, SeedsDrawIndependently) {
  std::size_t equal = 0;
  const std::vector<float> logits(16, 0.0F);
  for (std::uint64_t i = 0; i < 1600; ++i) {
    equal += Sample(logits, {.seed = 1}, i) == Sample(logits, {.seed = 2}, i) ? 1 : 0;
  }
  EXPECT_GT(equal, 50U);
  EXPECT_LT(equal, 150U);
}

TEST_F(SamplerTest, TheDrawDependsOnSeedAndIndexAlone) {
  Rng rng(5);
  const std::vector<float> logits = RandomLogits(rng, 50);
  const wire::Sampling sampling{.temperature = 1, .top_p = 0.9F, .seed = 11};
  std::vector<TokenId> forwards;
  for (std::uint64_t i = 0; i < 20; ++i) forwards.push_back(Sample(logits, sampling, i));
  for (std::uint64_t i = 20; i-- > 0;) EXPECT_EQ(Sample(logits, sampling, i), forwards[i]);
}

TEST_F(SamplerTest, TopKOfOneAndTopPOfZeroAreGreedy) {
  for (std::uint64_t index = 0; index < 50; ++index) {
    EXPECT_EQ(Sample({1, 3, 2, 3}, {.top_k = 1}, index), 1U);
    EXPECT_EQ(Sample({1, 3, 2, 3}, {.top_p = 0}, index), 1U);
  }
}

TEST_F(SamplerTest, MinPOfOneLeavesTheLikeliestAlone) {
  std::set<TokenId> drawn;
  for (std::uint64_t index = 0; index < 50; ++index) {
    drawn.insert(Sample({1, 3, 2, 3}, {.temperature = 5, .min_p = 1}, index));
    EXPECT_EQ(Sample({1, 3, 2, 0}, {.temperature = 5, .min_p = 1}, index), 1U);
  }
  EXPECT_EQ(drawn, (std::set<TokenId>{1, 3}));
}

// p is 1/7, 2/7, 4/7. Min-p keeps the last two; top-p keeps the likeliest of them, because it has 2/3 of their
// probability.
TEST_F(SamplerTest, TopPIsOfWhatMinPKeeps) {
  const std::vector<float> logits = {0, std::log(2.0F), std::log(4.0F)};
  for (std::uint64_t index = 0; index < 100; ++index) {
    EXPECT_EQ(Sample(logits, {.top_p = 0.6F, .min_p = 0.4F}, index), 2U);
  }
}

TEST_F(SamplerTest, AMaskedTokenIsNeverDrawn) {
  for (std::uint64_t index = 0; index < 200; ++index) {
    EXPECT_EQ(Sample({-kInfinity, 0, -kInfinity}, {}, index), 1U);
    EXPECT_EQ(Sample({-kInfinity, 0, -kInfinity}, {.top_k = 3}, index), 1U);
  }
}

TEST_F(SamplerTest, ExtremeTemperaturesStayFinite) {
  EXPECT_EQ(Sample({1, 3, 2}, {.temperature = 1e-40F}), 1U);
  EXPECT_LT(Sample({-3e38F, 3e38F, 0}, {.temperature = 3e38F}), 3U);
}

TEST_F(SamplerTest, BrokenLogitsAreAnError) {
  for (const std::vector<float>& row :
       {std::vector<float>{0, kNan}, {kInfinity, 0}, {-kInfinity, -kInfinity}, {kNan}}) {
    for (const float temperature : {0.0F, 1.0F}) {
      const auto sample = SampleToken(row, {.temperature = temperature}, 0, scratch_);
      ASSERT_FALSE(sample.ok());
      EXPECT_EQ(sample.error().code, ErrorCode::kInternal);
    }
  }
}

TEST_F(SamplerTest, ValidationNamesTheField) {
  const auto field = [](const wire::Sampling& sampling) { return ValidateSampling(sampling, 10).error().field; };
  EXPECT_TRUE(ValidateSampling({}, 10).ok());
  EXPECT_EQ(field({.temperature = -1}), "temperature");
  EXPECT_EQ(field({.temperature = kNan}), "temperature");
  EXPECT_EQ(field({.temperature = kInfinity}), "temperature");
  EXPECT_EQ(field({.top_p = 1.1F}), "top_p");
  EXPECT_EQ(field({.top_p = kNan}), "top_p");
  EXPECT_EQ(field({.min_p = -0.1F}), "min_p");
  EXPECT_EQ(field({.min_p = kNan}), "min_p");
  EXPECT_EQ(field({.repetition_penalty = 0}), "repetition_penalty");
  EXPECT_EQ(field({.repetition_penalty = 101}), "repetition_penalty");
  EXPECT_EQ(field({.presence_penalty = 2.1F}), "presence_penalty");
  EXPECT_EQ(field({.frequency_penalty = -kInfinity}), "frequency_penalty");
  EXPECT_EQ(field({.logit_bias = {{.token = 10, .bias = 1}}}), "logit_bias");
  EXPECT_EQ(field({.logit_bias = {{.token = 1, .bias = kNan}}}), "logit_bias");
  EXPECT_EQ(field({.logit_bias = {{.token = 1, .bias = 1}, {.token = 1, .bias = 2}}}), "logit_bias");
  EXPECT_TRUE(ValidateSampling({.logit_bias = {{.token = 1, .bias = -100}, {.token = 9, .bias = 100}}}, 10).ok());
}

}  // namespace
}  // namespace roost::worker

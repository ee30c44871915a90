// Sampling on the device against the CPU's: the same tokens from the same numbers; see tested_ops.h.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/device_memory.h"
#include "tests/kernels/kernels_testing.h"
#include "tests/kernels/tested_ops.h"
#include "tests/support/sanitized.h"

namespace roost::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SampleCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto ops = TestedOps();
    if (!ops.ok()) GTEST_SKIP() << ops.error().ToString();
    tested_.emplace(Backend::Open(**ops, {}).value());
  }

  std::vector<SampledToken> Sample(const std::vector<float>& logits, std::uint32_t vocab_size,
                                   const std::vector<SampleRow>& draws,
                                   const std::vector<LogitAdjustment>& adjustments = {},
                                   const std::vector<TokenId>& tokens_before = {}) const {
    DeviceBuffer device_logits(*tested_);
    DeviceBuffer device_draws(*tested_);
    DeviceBuffer device_adjustments(*tested_);
    DeviceBuffer device_tokens(*tested_);
    DeviceBuffer adjusted(*tested_);
    DeviceBuffer out(*tested_);
    device_logits.Upload(std::span<const float>(logits));
    device_draws.Upload(std::span<const SampleRow>(draws));
    device_adjustments.Upload(std::span<const LogitAdjustment>(adjustments));
    device_tokens.Upload(std::span<const TokenId>(tokens_before));
    adjusted.Reserve(draws.size() * vocab_size * sizeof(float));
    out.Reserve(draws.size() * sizeof(SampledToken));
    tested_->ops().sample(tested_->device(), {.logits = device_logits.as<float>(),
                                              .vocab_size = vocab_size,
                                              .rows = device_draws.as<SampleRow>(),
                                              .row_count = static_cast<std::uint32_t>(draws.size()),
                                              .adjustments = device_adjustments.as<LogitAdjustment>(),
                                              .tokens = device_tokens.as<TokenId>(),
                                              .adjusted = adjusted.as<float>(),
                                              .out = out.as<SampledToken>()});
    std::vector<SampledToken> tokens(draws.size());
    tested_->ops().copy_to_host(tested_->device(), tokens.data(), out.data(), tokens.size() * sizeof(SampledToken));
    std::vector<float> logits_after(logits.size());
    tested_->ops().copy_to_host(tested_->device(), logits_after.data(), device_logits.data(),
                                logits.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(logits.data(), logits_after.data(), logits.size() * sizeof(float)), 0) << "logits changed";
    return tokens;
  }

  void ExpectAsOnTheCpu(const std::vector<float>& logits, std::uint32_t vocab_size, const std::vector<SampleRow>& draws,
                        const std::vector<LogitAdjustment>& adjustments = {},
                        const std::vector<TokenId>& tokens_before = {}) {
    const std::vector<SampledToken> tokens = Sample(logits, vocab_size, draws, adjustments, tokens_before);
    std::vector<float> adjusted(vocab_size);
    for (std::size_t i = 0; i < draws.size(); ++i) {
      const std::span<const float> row(logits.data() + std::size_t{draws[i].row} * vocab_size, vocab_size);
      AdjustLogits(row, draws[i], adjustments.data(), tokens_before.data(), adjusted);
      const SampledToken wanted = SampleOnCpu(adjusted, draws[i], scratch_);
      EXPECT_EQ(tokens[i].status, wanted.status);
      EXPECT_EQ(tokens[i].token, wanted.token)
          << "temperature " << draws[i].temperature << " top_k " << draws[i].top_k << " top_p " << draws[i].top_p
          << " min_p " << draws[i].min_p << " adjustments " << draws[i].adjustment_count << " newest "
          << draws[i].has_newest << " vocab " << vocab_size << " seed " << draws[i].seed << " at "
          << draws[i].output_index;
    }
  }

  // Draws from row `row`: a quarter of all kinds, or a sixteenth.
  std::vector<SampleRow> Draws(std::uint32_t row, std::uint32_t vocab_size) {
    constexpr std::uint64_t kOneIn = testing_support::kSanitized ? 16 : 4;
    std::vector<SampleRow> draws;
    for (const float temperature : {0.0F, 0.01F, 0.7F, 1.0F, 5.0F}) {
      for (const std::uint32_t top_k : {0U, 1U, 5U, 40U, vocab_size}) {
        for (const float top_p : {1.0F, 0.9F, 0.3F, 0.0F}) {
          if (rng_.Below(kOneIn) != 0) continue;
          draws.push_back({.seed = rng_(),
                           .output_index = rng_.Below(1000),
                           .row = row,
                           .temperature = temperature,
                           .top_k = top_k,
                           .top_p = top_p,
                           .min_p = rng_.Below(3) == 0 ? static_cast<float>(rng_.Uniform() / 10) : 0.0F});
        }
      }
    }
    return draws;
  }

  // Adjustments of some tokens for some of the draws, each in memory of its own.
  std::vector<LogitAdjustment> Adjust(std::vector<SampleRow>& draws, std::uint32_t vocab_size) {
    std::vector<LogitAdjustment> adjustments;
    std::uint32_t adjusted_count = 0;
    for (SampleRow& draw : draws) {
      if (rng_.Below(3) == 0) continue;
      draw.first_adjustment = static_cast<std::uint32_t>(adjustments.size());
      for (TokenId token = 0; token < vocab_size; ++token) {
        if (rng_.Below(3) > 0) continue;
        const auto uniform = [this](double scale) { return static_cast<float>(rng_.Uniform() * scale); };
        adjustments.push_back({.token = token,
                               .bias = rng_.Below(8) == 0 ? uniform(200) - 100 : 0,
                               .repetition = 0.5F + uniform(1.5),
                               .subtract = uniform(4) - 2});
      }
      draw.adjustment_count = static_cast<std::uint32_t>(adjustments.size()) - draw.first_adjustment;
      if (draw.adjustment_count > 0) draw.adjusted_row = adjusted_count++;
    }
    return adjustments;
  }

  Rng rng_{1};
  std::optional<Backend> tested_;
  SampleScratch scratch_;
};

TEST_F(SampleCudaTest, DrawsWhatTheCpuDraws) {
  for (const std::uint32_t vocab_size : {1U, 2U, 33U, 1000U, 2500U}) {
    const std::vector<float> logits = RandomFloats(rng_, 2 * vocab_size, 8);
    ExpectAsOnTheCpu(logits, vocab_size, Draws(0, vocab_size));
    ExpectAsOnTheCpu(logits, vocab_size, Draws(1, vocab_size));
  }
}

// As many tokens as models have; every kind of draw on a device, some behind the shim.
TEST_F(SampleCudaTest, AWholeVocabulary) {
  constexpr std::uint32_t kVocab = 151'936;
  const std::size_t most = tested_->ops().name == "cuda" ? 100 : 3;
  for (const float scale : {8.0F, 1.0F}) {
    const std::vector<float> logits = RandomFloats(rng_, kVocab, scale);
    std::vector<SampleRow> draws = Draws(0, kVocab);
    draws.resize(std::min(draws.size(), most));
    draws.push_back({.seed = rng_(), .temperature = 1, .top_p = 0.95F});
    draws.push_back({.temperature = 0});
    ExpectAsOnTheCpu(logits, kVocab, draws);
  }
}

TEST_F(SampleCudaTest, AdjustmentsAreEachDrawsOwn) {
  for (const std::uint32_t vocab_size : {1U, 33U, 1500U, 2500U}) {
    const std::vector<float> logits = RandomFloats(rng_, 2 * vocab_size, 8);
    std::vector<SampleRow> draws = Draws(0, vocab_size);
    const std::vector<SampleRow> more = Draws(1, vocab_size);
    draws.insert(draws.end(), more.begin(), more.end());
    const std::vector<LogitAdjustment> adjustments = Adjust(draws, vocab_size);
    ASSERT_FALSE(vocab_size > 1 && adjustments.empty());
    ExpectAsOnTheCpu(logits, vocab_size, draws, adjustments);
  }
}

// Of tokens that are among the draw's adjustments, and of others; draws without adjustments too.
TEST_F(SampleCudaTest, TheNewestTokenIsCounted) {
  for (const std::uint32_t vocab_size : {1U, 33U, 1500U}) {
    const std::vector<float> logits = RandomFloats(rng_, 2 * vocab_size, 8);
    std::vector<SampleRow> draws = Draws(0, vocab_size);
    const std::vector<SampleRow> more = Draws(1, vocab_size);
    draws.insert(draws.end(), more.begin(), more.end());
    std::vector<LogitAdjustment> adjustments = Adjust(draws, vocab_size);
    for (LogitAdjustment& adjustment : adjustments) {
      adjustment.output_count = static_cast<std::uint32_t>(rng_.Below(3));
    }
    std::vector<TokenId> tokens_before;
    std::uint32_t adjusted_count = 0;
    for (SampleRow& draw : draws) {
      draw.has_newest = rng_.Below(4) > 0;
      draw.newest = static_cast<std::uint32_t>(tokens_before.size());
      draw.penalties = {.repetition = 1.3F, .presence = -0.4F, .frequency = static_cast<float>(rng_.Uniform() * 4)};
      tokens_before.push_back(static_cast<TokenId>(rng_.Below(vocab_size)));
      if (IsAdjusted(draw)) draw.adjusted_row = adjusted_count++;
    }
    ExpectAsOnTheCpu(logits, vocab_size, draws, adjustments, tokens_before);
  }
}

TEST_F(SampleCudaTest, TheNewestTokenDecidesAGreedyDraw) {
  const std::vector<float> logits = {1, 5, 4, -2};
  const std::vector<LogitAdjustment> adjustments = {{.token = 1, .subtract = 0.5F, .output_count = 1}};
  const SampleRow one_more{.has_newest = true, .newest = 1, .penalties = {.frequency = 0.75F}};
  SampleRow listed = one_more;
  listed.adjustment_count = 1;
  listed.adjusted_row = 1;
  // Once is not enough to go below 4, twice is.
  const std::vector<SampledToken> tokens = Sample(logits, 4, {one_more, listed}, adjustments, {3, 1});
  EXPECT_EQ(tokens[0].token, 1U);
  EXPECT_EQ(tokens[1].token, 2U);
}

TEST_F(SampleCudaTest, AnAdjustmentDecidesAGreedyDraw) {
  const std::vector<float> logits = {1, 5, 4, -2};
  const std::vector<LogitAdjustment> adjustments = {{.token = 1, .repetition = 2}, {.token = 3, .bias = 100}};
  const std::vector<SampleRow> draws = {
      {.temperature = 0},
      {.temperature = 0, .first_adjustment = 0, .adjustment_count = 1},
      {.temperature = 0, .first_adjustment = 1, .adjustment_count = 1, .adjusted_row = 1}};
  const std::vector<SampledToken> tokens = Sample(logits, 4, draws, adjustments);
  EXPECT_EQ(tokens[0].token, 1U);
  EXPECT_EQ(tokens[1].token, 2U);
  EXPECT_EQ(tokens[2].token, 3U);
}

TEST_F(SampleCudaTest, MinPDropsWhatTheCpuDrops) {
  constexpr std::uint32_t kVocab = 5000;
  const std::vector<float> logits = RandomFloats(rng_, kVocab, 2);
  std::vector<SampleRow> draws;
  for (const float min_p : {0.001F, 0.1F, 0.7F, 1.0F}) {
    for (const std::uint32_t top_k : {0U, 50U, 4000U}) {
      for (const float top_p : {1.0F, 0.9F}) {
        draws.push_back({.seed = rng_(), .temperature = 1, .top_k = top_k, .top_p = top_p, .min_p = min_p});
      }
    }
  }
  ExpectAsOnTheCpu(logits, kVocab, draws);
}

// More tokens than the list in shared memory holds, most of which matter.
TEST_F(SampleCudaTest, FlatDistributionsOfManyTokens) {
  constexpr std::uint32_t kVocab = 9000;
  const std::vector<float> logits = RandomFloats(rng_, kVocab, 0.5F);
  std::vector<SampleRow> draws;
  for (const float top_p : {1.0F, 0.95F, 0.6F}) {
    for (const std::uint32_t top_k : {0U, 5000U, 8999U}) {
      draws.push_back({.seed = rng_(), .temperature = 1, .top_k = top_k, .top_p = top_p});
    }
  }
  ExpectAsOnTheCpu(logits, kVocab, draws);
}

TEST_F(SampleCudaTest, EqualLogitsAreTakenByTheirIds) {
  constexpr std::uint32_t kVocab = 700;
  std::vector<float> logits(kVocab);
  for (float& logit : logits) logit = static_cast<float>(rng_.Below(4));
  logits[5] = -0.0F;
  ExpectAsOnTheCpu(logits, kVocab, Draws(0, kVocab));
  const std::vector<float> all_equal(kVocab, 2.5F);
  ExpectAsOnTheCpu(all_equal, kVocab, Draws(0, kVocab));
}

TEST_F(SampleCudaTest, MinusInfinityIsNeverDrawn) {
  constexpr std::uint32_t kVocab = 300;
  std::vector<float> logits = RandomFloats(rng_, kVocab, 3);
  for (std::uint32_t i = 0; i < kVocab; ++i) {
    if (i % 3 != 1) logits[i] = -kInfinity;
  }
  const std::vector<SampleRow> draws = Draws(0, kVocab);
  ExpectAsOnTheCpu(logits, kVocab, draws);
  for (const SampledToken& sampled : Sample(logits, kVocab, draws)) EXPECT_EQ(sampled.token % 3, 1U);
}

TEST_F(SampleCudaTest, BrokenLogitsHaveNoToken) {
  constexpr std::uint32_t kVocab = 200;
  std::vector<float> logits = RandomFloats(rng_, 4 * kVocab);
  logits[37] = std::nanf("");
  logits[kVocab + 150] = kInfinity;
  std::fill_n(logits.begin() + 2 * kVocab, kVocab, -kInfinity);
  std::vector<SampleRow> draws;
  for (std::uint32_t row = 0; row < 4; ++row) {
    draws.push_back({.row = row, .temperature = 0});
    draws.push_back({.row = row, .temperature = 1, .top_k = 7});
  }
  const std::vector<SampledToken> tokens = Sample(logits, kVocab, draws);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(tokens[i].status, SampleStatus::kNotANumber);
    EXPECT_EQ(tokens[2 + i].status, SampleStatus::kInfinite);
    EXPECT_EQ(tokens[4 + i].status, SampleStatus::kAllMinusInfinity);
    EXPECT_EQ(tokens[6 + i].status, SampleStatus::kSampled);
  }
  ExpectAsOnTheCpu(logits, kVocab, draws);
}

}  // namespace
}  // namespace roost::kernels

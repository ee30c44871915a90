// Sampling on the CPU against the definition, which sorts and sums in f64.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/device_memory.h"
#include "kernels/sample.h"
#include "tests/kernels/kernels_testing.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kVocab = 151'936;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SampleTest : public testing::Test {
 protected:
  SampleRow RandomDraw(std::uint32_t vocab_size) {
    SampleRow draw{.seed = rng_(), .output_index = rng_.Below(1000)};
    draw.temperature = rng_.Below(8) == 0 ? 0 : static_cast<float>(0.05 + 2 * rng_.Uniform());
    if (rng_.Below(2) == 0)
      draw.top_k = 1 + static_cast<std::uint32_t>(rng_.Below(rng_.Below(2) == 0 ? 60 : vocab_size));
    if (rng_.Below(2) == 0) draw.top_p = static_cast<float>(rng_.Uniform());
    if (rng_.Below(3) == 0) draw.min_p = static_cast<float>(rng_.Uniform() / 10);
    return draw;
  }
  // The number of draws that differ from the definition's.
  std::uint32_t CountOthers(const std::vector<float>& logits, std::uint32_t draw_count) {
    std::uint32_t others = 0;
    for (; draw_count > 0; --draw_count) {
      const SampleRow draw = RandomDraw(static_cast<std::uint32_t>(logits.size()));
      const SampledToken token = SampleOnCpu(logits, draw, scratch_);
      const SampledToken wanted = SampleInDouble(logits, draw);
      EXPECT_EQ(token.status, wanted.status);
      others += token.token == wanted.token ? 0 : 1;
    }
    return others;
  }

  Rng rng_{3};
  SampleScratch scratch_;
};

// f32 weights move the border between two tokens by at most 1e-6, so about one draw in a million differs.
TEST_F(SampleTest, DrawsWhatTheDefinitionDraws) {
  std::uint32_t others = 0;
  for (const std::uint32_t vocab_size : {1U, 2U, 7U, 16U, 511U, 512U, 513U, 3000U}) {
    for (const float scale : {0.1F, 3.0F, 20.0F}) others += CountOthers(RandomFloats(rng_, vocab_size, scale), 200);
  }
  EXPECT_LE(others, 1U);
}

TEST_F(SampleTest, AWholeVocabulary) {
  std::uint32_t others = 0;
  for (const float scale : {1.0F, 10.0F}) others += CountOthers(RandomFloats(rng_, kVocab, scale), 50);
  EXPECT_LE(others, 1U);
}

// The probabilities of the draws are those of the definition; the draws cover all of [0, 1).
TEST_F(SampleTest, SharesAreTheDefinitions) {
  const std::vector<float> logits = RandomFloats(rng_, 2000, 6);
  SampleRow draw{.seed = 5, .temperature = 1.3F, .top_p = 0.97F};
  std::uint32_t others = 0;
  for (draw.output_index = 0; draw.output_index < 3000; ++draw.output_index) {
    others += SampleOnCpu(logits, draw, scratch_).token == SampleInDouble(logits, draw).token ? 0 : 1;
  }
  EXPECT_LE(others, 1U);
}

TEST_F(SampleTest, EqualLogitsAreTakenByTheirIds) {
  std::vector<float> logits(700);
  for (float& logit : logits) logit = static_cast<float>(rng_.Below(4));
  logits[5] = -0.0F;
  EXPECT_LE(CountOthers(logits, 300), 1U);
  EXPECT_LE(CountOthers(std::vector<float>(5000, 2.5F), 100), 1U);
}

TEST_F(SampleTest, MinusInfinityIsNeverDrawn) {
  std::vector<float> logits = RandomFloats(rng_, 300, 3);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (i % 3 != 1) logits[i] = -kInfinity;
  }
  for (int i = 0; i < 300; ++i) EXPECT_EQ(SampleOnCpu(logits, RandomDraw(300), scratch_).token % 3, 1U);
}

TEST_F(SampleTest, BrokenLogitsAreFoundWhereverTheyStand) {
  for (const std::uint32_t vocab_size : {1U, 9U, 40U}) {
    for (std::uint32_t place = 0; place < vocab_size; ++place) {
      for (const float broken : {std::nanf(""), kInfinity}) {
        std::vector<float> logits = RandomFloats(rng_, vocab_size, 3);
        logits[place] = broken;
        const SampleRow draw = RandomDraw(vocab_size);
        ASSERT_EQ(SampleOnCpu(logits, draw, scratch_).status, SampleInDouble(logits, draw).status);
        ASSERT_NE(SampleOnCpu(logits, draw, scratch_).status, SampleStatus::kSampled);
      }
    }
  }
  EXPECT_EQ(SampleOnCpu(std::vector<float>(50, -kInfinity), {}, scratch_).status, SampleStatus::kAllMinusInfinity);
}

std::vector<std::uint32_t> RandomMask(Rng& rng, std::uint32_t vocab_size) {
  std::vector<std::uint32_t> mask(MaskWords(vocab_size));
  const std::uint64_t share = 1 + rng.Below(8);
  for (std::uint32_t token = 0; token < vocab_size; ++token) {
    if (rng.Below(8) < share) mask[token / kMaskBits] |= 1U << token % kMaskBits;
  }
  mask.back() |= 1U << (vocab_size - 1) % kMaskBits;
  return mask;
}

TEST_F(SampleTest, AMaskedDrawIsOneOfARowWithoutTheOtherTokens) {
  for (const std::uint32_t vocab_size : {1U, 31U, 32U, 33U, 700U, 5000U}) {
    for (int i = 0; i < 20; ++i) {
      const std::vector<float> logits = RandomFloats(rng_, vocab_size, 6);
      const std::vector<std::uint32_t> mask = RandomMask(rng_, vocab_size);
      std::vector<float> left = logits;
      for (std::uint32_t token = 0; token < vocab_size; ++token) {
        if ((mask[token / kMaskBits] >> token % kMaskBits & 1U) == 0) left[token] = -kInfinity;
      }
      SampleRow draw = RandomDraw(vocab_size);
      const SampledToken wanted = SampleOnCpu(left, draw, scratch_);
      draw.has_mask = true;
      std::vector<float> adjusted(vocab_size);
      const SampleArgs args{
          .logits = logits.data(), .vocab_size = vocab_size, .masks = mask.data(), .adjusted = adjusted.data()};
      EXPECT_EQ(SampleOnCpu(LogitsOf(args, draw), draw, scratch_).token, wanted.token);
    }
  }
}

TEST_F(SampleTest, BrokenLogitsShowBehindAMask) {
  for (const float broken : {std::nanf(""), kInfinity}) {
    const std::vector<float> logits{0, broken, 1};
    const std::uint32_t mask = 0b101;
    std::vector<float> adjusted(3);
    SampleRow draw;
    draw.has_mask = true;
    const SampleArgs args{.logits = logits.data(), .vocab_size = 3, .masks = &mask, .adjusted = adjusted.data()};
    EXPECT_NE(SampleOnCpu(LogitsOf(args, draw), draw, scratch_).status, SampleStatus::kSampled);
  }
}

// Rows are drawn concurrently, each as if alone.
TEST_F(SampleTest, ABatchDrawsWhatItsRowsDraw) {
  constexpr std::uint32_t kRows = 9;
  constexpr std::uint32_t kWidth = 40'000;  // enough to be split over threads
  const std::vector<float> logits = RandomFloats(rng_, std::size_t{kRows} * kWidth, 6);
  std::vector<SampleRow> draws;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    draws.push_back(RandomDraw(kWidth));
    draws.back().row = row;
  }
  for (const std::uint32_t thread_count : {1U, 2U, 5U}) {
    const auto backend = Backend::Open(CpuOps(), {.thread_count = thread_count}).value();
    std::vector<SampledToken> sampled(kRows);
    backend.ops().sample(backend.device(), {.logits = logits.data(),
                                            .vocab_size = kWidth,
                                            .rows = draws.data(),
                                            .row_count = kRows,
                                            .out = sampled.data()});
    for (std::uint32_t row = 0; row < kRows; ++row) {
      const std::span<const float> own(logits.data() + std::size_t{row} * kWidth, kWidth);
      EXPECT_EQ(sampled[row].token, SampleOnCpu(own, draws[row], scratch_).token) << row;
    }
  }
}

}  // namespace
}  // namespace roost::kernels

// Sampling on the device against the CPU's: equal numbers give equal tokens; see tested_ops.h.
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

  // The other inputs of draws, and their outputs.
  struct Beside {
    std::vector<LogitBias> biases;
    std::vector<CountedToken> counted;
    std::vector<TokenCount> counts;
    std::vector<TokenId> tokens;
    std::vector<std::uint32_t> masks = {};
  };

  // Draws, and changes the counts.
  std::vector<SampledToken> Sample(const std::vector<float>& logits, std::uint32_t vocab_size,
                                   const std::vector<SampleRow>& draws, Beside& beside) const {
    DeviceBuffer device_logits(*tested_);
    DeviceBuffer device_draws(*tested_);
    DeviceBuffer device_biases(*tested_);
    DeviceBuffer device_counted(*tested_);
    DeviceBuffer device_counts(*tested_);
    DeviceBuffer device_tokens(*tested_);
    DeviceBuffer device_masks(*tested_);
    DeviceBuffer adjusted(*tested_);
    DeviceBuffer out(*tested_);
    device_logits.Upload(std::span<const float>(logits));
    device_draws.Upload(std::span<const SampleRow>(draws));
    device_biases.Upload(std::span<const LogitBias>(beside.biases));
    device_counted.Upload(std::span<const CountedToken>(beside.counted));
    device_counts.Upload(std::span<const TokenCount>(beside.counts));
    device_tokens.Upload(std::span<const TokenId>(beside.tokens));
    device_masks.Upload(std::span<const std::uint32_t>(beside.masks));
    adjusted.Reserve(draws.size() * vocab_size * sizeof(float));
    out.Reserve(draws.size() * sizeof(SampledToken));
    tested_->ops().sample(tested_->device(), {.logits = device_logits.as<float>(),
                                              .vocab_size = vocab_size,
                                              .rows = device_draws.as<SampleRow>(),
                                              .row_count = static_cast<std::uint32_t>(draws.size()),
                                              .biases = device_biases.as<LogitBias>(),
                                              .counted = device_counted.as<CountedToken>(),
                                              .counts = device_counts.as<TokenCount>(),
                                              .tokens = device_tokens.as<TokenId>(),
                                              .masks = device_masks.as<std::uint32_t>(),
                                              .adjusted = adjusted.as<float>(),
                                              .out = out.as<SampledToken>()});
    std::vector<SampledToken> tokens(draws.size());
    CopyBack(out, tokens);
    std::vector<float> logits_after(logits.size());
    CopyBack(device_logits, logits_after);
    EXPECT_EQ(std::memcmp(logits.data(), logits_after.data(), logits.size() * sizeof(float)), 0) << "logits changed";
    CopyBack(device_counts, beside.counts);
    return tokens;
  }
  std::vector<SampledToken> Sample(const std::vector<float>& logits, std::uint32_t vocab_size,
                                   const std::vector<SampleRow>& draws) const {
    Beside nothing;
    return Sample(logits, vocab_size, draws, nothing);
  }

  template <typename T>
  void CopyBack(const DeviceBuffer& from, std::vector<T>& to) const {
    if (!to.empty()) tested_->ops().copy_to_host(tested_->device(), to.data(), from.data(), to.size() * sizeof(T));
  }

  void ExpectAsOnTheCpu(const std::vector<float>& logits, std::uint32_t vocab_size,
                        const std::vector<SampleRow>& draws) {
    Beside nothing;
    ExpectAsOnTheCpu(logits, vocab_size, draws, std::move(nothing));
  }
  void ExpectAsOnTheCpu(const std::vector<float>& logits, std::uint32_t vocab_size, const std::vector<SampleRow>& draws,
                        Beside beside) {
    Beside of_cpu = beside;
    const std::vector<SampledToken> tokens = Sample(logits, vocab_size, draws, beside);
    std::vector<float> adjusted(draws.size() * vocab_size);
    const SampleArgs args{.logits = logits.data(),
                          .vocab_size = vocab_size,
                          .biases = of_cpu.biases.data(),
                          .counted = of_cpu.counted.data(),
                          .counts = of_cpu.counts.data(),
                          .tokens = of_cpu.tokens.data(),
                          .masks = of_cpu.masks.data(),
                          .adjusted = adjusted.data()};
    for (std::size_t i = 0; i < draws.size(); ++i) {
      const SampledToken wanted = SampleInDouble(LogitsOf(args, draws[i]), draws[i]);
      EXPECT_EQ(tokens[i].status, wanted.status);
      EXPECT_EQ(tokens[i].token, wanted.token)
          << "temperature " << draws[i].temperature << " top_k " << draws[i].top_k << " top_p " << draws[i].top_p
          << " min_p " << draws[i].min_p << " biases " << draws[i].bias_count << " counts " << draws[i].has_counts
          << " newest " << draws[i].has_newest << " vocab " << vocab_size << " seed " << draws[i].seed << " at "
          << draws[i].output_index;
    }
    EXPECT_EQ(beside.counts, of_cpu.counts);
  }

  // Draws from row `row`: a quarter of all kinds, or a sixteenth under sanitizers.
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

  // Adds biases of some tokens for some of the draws.
  void Bias(std::vector<SampleRow>& draws, std::uint32_t vocab_size, Beside& beside) {
    for (SampleRow& draw : draws) {
      if (rng_.Below(3) == 0) continue;
      draw.first_bias = static_cast<std::uint32_t>(beside.biases.size());
      for (TokenId token = 0; token < vocab_size; ++token) {
        if (rng_.Below(3) == 0) beside.biases.push_back({.token = token, .bias = Uniform(20) - 10});
      }
      draw.bias_count = static_cast<std::uint32_t>(beside.biases.size()) - draw.first_bias;
    }
  }
  // Masks for every second draw; two of them share a row.
  void Mask(std::vector<SampleRow>& draws, std::uint32_t vocab_size, Beside& beside) {
    constexpr std::uint32_t kRows = 3;
    beside.masks.resize(std::size_t{kRows} * MaskWords(vocab_size));
    for (std::uint32_t& word : beside.masks) word = static_cast<std::uint32_t>(rng_()) | 1U;
    for (std::size_t i = 0; i < draws.size(); i += 2) {
      draws[i].has_mask = true;
      draws[i].mask_row = static_cast<std::uint32_t>(i / 2 % kRows);
    }
  }

  // Penalties for some of the draws, each with its own counts. Some continue from the counts that are there, which may
  // be anything.
  void Penalize(std::vector<SampleRow>& draws, std::uint32_t vocab_size, Beside& beside) {
    std::uint32_t rows = 0;
    for (SampleRow& draw : draws) {
      if (rng_.Below(4) == 0) continue;
      draw.penalties = {.repetition = 0.5F + Uniform(1.5), .presence = Uniform(2) - 1, .frequency = Uniform(4)};
      draw.has_counts = true;
      draw.counts_row = rows++;
      draw.resets_counts = rng_.Below(2) == 0;
      draw.first_counted = static_cast<std::uint32_t>(beside.counted.size());
      for (TokenId token = 0; draw.resets_counts && token < vocab_size; ++token) {
        if (rng_.Below(3) == 0) beside.counted.push_back({.token = token, .count = RandomCount()});
      }
      draw.counted_count = static_cast<std::uint32_t>(beside.counted.size()) - draw.first_counted;
      draw.has_newest = rng_.Below(4) > 0;
      draw.newest = static_cast<std::uint32_t>(beside.tokens.size());
      beside.tokens.push_back(static_cast<TokenId>(rng_.Below(vocab_size)));
    }
    beside.counts.resize(std::size_t{rows} * vocab_size);
    for (TokenCount& count : beside.counts) count = RandomCount();
  }
  // Gives each adjusted draw its own memory.
  static void Place(std::vector<SampleRow>& draws) {
    std::uint32_t adjusted_count = 0;
    for (SampleRow& draw : draws) {
      if (IsAdjusted(draw)) draw.adjusted_row = adjusted_count++;
    }
  }

  float Uniform(double scale) { return static_cast<float>(rng_.Uniform() * scale); }
  TokenCount RandomCount() {
    return static_cast<TokenCount>(rng_.Below(3)) | (rng_.Below(2) == 0 ? kInPrompt : TokenCount{0});
  }

  Rng rng_{1};
  std::optional<Backend> tested_;
};

TEST_F(SampleCudaTest, DrawsWhatTheCpuDraws) {
  for (const std::uint32_t vocab_size : {1U, 2U, 33U, 1000U, 2500U}) {
    const std::vector<float> logits = RandomFloats(rng_, 2 * vocab_size, 8);
    ExpectAsOnTheCpu(logits, vocab_size, Draws(0, vocab_size));
    ExpectAsOnTheCpu(logits, vocab_size, Draws(1, vocab_size));
  }
}

// As many tokens as real models have; every kind of draw on a device, some kinds behind the shim.
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

TEST_F(SampleCudaTest, BiasesAndCountsAreEachDrawsOwn) {
  std::size_t bias_count = 0;
  std::size_t counted_count = 0;
  for (const std::uint32_t vocab_size : {1U, 33U, 1500U, 2500U}) {
    const std::vector<float> logits = RandomFloats(rng_, 2 * vocab_size, 8);
    std::vector<SampleRow> draws = Draws(0, vocab_size);
    const std::vector<SampleRow> more = Draws(1, vocab_size);
    draws.insert(draws.end(), more.begin(), more.end());
    Beside beside;
    Mask(draws, vocab_size, beside);
    Bias(draws, vocab_size, beside);
    Penalize(draws, vocab_size, beside);
    Place(draws);
    bias_count += beside.biases.size();
    counted_count += std::min(beside.counted.size(), beside.counts.size());
    ExpectAsOnTheCpu(logits, vocab_size, draws, std::move(beside));
  }
  EXPECT_GT(bias_count, 0U);
  EXPECT_GT(counted_count, 0U);
}

TEST_F(SampleCudaTest, CountsGrowOnTheDevice) {
  const std::vector<float> logits = {1, 5, 4, -2};
  SampleRow draw{.penalties = {.frequency = 0.75F}, .has_counts = true, .resets_counts = true, .counted_count = 1};
  Beside beside{.biases = {}, .counted = {{.token = 0, .count = 3}}, .counts = {9, 9, 9, 9}, .tokens = {1}};
  EXPECT_EQ(Sample(logits, 4, {draw}, beside)[0].token, 1U);
  EXPECT_EQ(beside.counts, (std::vector<TokenCount>{3, 0, 0, 0}));
  draw.resets_counts = false;
  draw.has_newest = true;
  // One penalty does not bring it below 4, two do.
  EXPECT_EQ(Sample(logits, 4, {draw}, beside)[0].token, 1U);
  EXPECT_EQ(Sample(logits, 4, {draw}, beside)[0].token, 2U);
  EXPECT_EQ(beside.counts, (std::vector<TokenCount>{3, 2, 0, 0}));
}

TEST_F(SampleCudaTest, ABiasDecidesAGreedyDraw) {
  const std::vector<float> logits = {1, 5, 4, -2};
  Beside beside{
      .biases = {{.token = 1, .bias = -2}, {.token = 3, .bias = 100}}, .counted = {}, .counts = {}, .tokens = {}};
  const std::vector<SampleRow> draws = {{.temperature = 0},
                                        {.temperature = 0, .first_bias = 0, .bias_count = 1},
                                        {.temperature = 0, .first_bias = 1, .bias_count = 1, .adjusted_row = 1}};
  const std::vector<SampledToken> tokens = Sample(logits, 4, draws, beside);
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

// More tokens than fit the list in shared memory, and most of them matter.
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

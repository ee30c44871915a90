#include "deploy/roostctl/bench/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/base/rng.h"

namespace roost::roostctl {
namespace {

// Quantiles from tables of the distribution.
TEST(StudentTest, HasTheQuantilesOfTheTables) {
  EXPECT_NEAR(StudentQuantile(0.975, 1), 12.7062, 1e-3);
  EXPECT_NEAR(StudentQuantile(0.975, 9), 2.26216, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.95, 4), 2.13185, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.995, 30), 2.75000, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.025, 9), -2.26216, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.5, 3), 0, 1e-6);
  EXPECT_NEAR(StudentQuantile(0.975, 1e6), 1.95997, 1e-4);
  EXPECT_NEAR(StudentShareBelow(2.26216, 9), 0.975, 1e-6);
}

TEST(MeanIntervalTest, IsStudentsAndNeedsTwoValues) {
  const std::vector<double> values{1, 2, 3, 4, 5};
  const Interval interval = MeanInterval(values, 0.95).value();
  EXPECT_DOUBLE_EQ(interval.mean, 3);
  EXPECT_NEAR(interval.high - 3, 2.77645 * std::sqrt(2.5 / 5), 1e-4);
  EXPECT_NEAR(interval.low, 6 - interval.high, 1e-12);
  EXPECT_FALSE(MeanInterval({values.data(), 1}, 0.95).has_value());
}

BenchSummary SummaryOf(double ttft) {
  BenchSummary summary;
  summary.ttft_seconds = {ttft, ttft, ttft, ttft, ttft};
  summary.itl_seconds.mean = 0.01;
  summary.total_seconds.mean = 1;
  summary.request_count = 10;
  summary.cached_of_tokens = summary.cached_tokens = summary.output_tokens = 100;
  summary.seconds = 1;
  summary.good_count = 10;
  return summary;
}

// Standard normal, by Box and Muller.
double Normal(Rng& rng) {
  return std::sqrt(-2 * std::log(1 - rng.Uniform())) * std::cos(6.283185307179586 * rng.Uniform());
}

std::vector<BlockPair> Blocks(Rng& rng, std::size_t count, double factor, double noise) {
  std::vector<BlockPair> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    const double shared = std::exp(Normal(rng));  // a block's own share is in both
    blocks.push_back({SummaryOf(shared * std::exp(noise * Normal(rng))),
                      SummaryOf(factor * shared * std::exp(noise * Normal(rng)))});
  }
  return blocks;
}

Verdict OfTtft(const std::vector<BlockPair>& blocks) {
  const auto differences = Compare(SummaryOf(1), SummaryOf(1), blocks);
  return std::find_if(differences.begin(), differences.end(),
                      [](const Difference& difference) { return difference.figure == "ttft mean"; })
      ->verdict;
}

TEST(CompareTest, FindsADifferenceBehindWhatBlocksHaveOfTheirOwn) {
  Rng rng(1);
  int found = 0;
  for (int i = 0; i < 100; ++i) found += OfTtft(Blocks(rng, 10, 1.2, 0.05)) == Verdict::kWorse ? 1 : 0;
  EXPECT_GE(found, 95);
  EXPECT_EQ(OfTtft(Blocks(rng, 10, 0.5, 0.05)), Verdict::kBetter);
}

TEST(CompareTest, CallsEqualSidesDifferentAboutAsRarelyAsItPromises) {
  Rng rng(2);
  int wrong = 0;
  constexpr int kRuns = 4000;
  for (int i = 0; i < kRuns; ++i) wrong += OfTtft(Blocks(rng, 10, 1, 0.3)) == Verdict::kNoise ? 0 : 1;
  // 0.05 / 8 for each figure; three standard deviations of the count are 0.0037.
  EXPECT_NEAR(static_cast<double>(wrong) / kRuns, 0.00625, 0.004);
}

TEST(CompareTest, SaysNothingWithFewBlocksAndOfFiguresThatAreMissing) {
  Rng rng(3);
  EXPECT_EQ(OfTtft(Blocks(rng, kFewestBlocks - 1, 2, 0.01)), Verdict::kUnknown);
  EXPECT_EQ(OfTtft(Blocks(rng, kFewestBlocks, 2, 0.01)), Verdict::kWorse);
  std::vector<BlockPair> blocks = Blocks(rng, 10, 2, 0.01);
  for (BlockPair& block : blocks) block.b.ttft_seconds = {};
  EXPECT_EQ(OfTtft(blocks), Verdict::kUnknown);
}

TEST(CompareTest, WhatOneSideDidNotMeasureIsLeftOut) {
  BenchSummary other = SummaryOf(1);
  other.cached_of_tokens = 0;
  other.itl_seconds = {};
  for (const Difference& difference : Compare(SummaryOf(1), other, {})) {
    EXPECT_NE(difference.figure, "cached");
    EXPECT_NE(difference.figure, "between tokens mean");
  }
  EXPECT_EQ(Compare(SummaryOf(1), other, {}).size(), Compare(SummaryOf(1), SummaryOf(1), {}).size() - 2);
  other.failed_count = other.request_count;
  EXPECT_TRUE(Compare(SummaryOf(1), other, {}).empty());
}

TEST(CompareTest, MoreIsBetterForRates) {
  std::vector<BlockPair> blocks(6, {SummaryOf(1), SummaryOf(1)});
  for (BlockPair& block : blocks) block.b.output_tokens = 150;
  for (const Difference& difference : Compare(SummaryOf(1), SummaryOf(1), blocks)) {
    EXPECT_EQ(difference.verdict, difference.figure == "output tokens" ? Verdict::kBetter : Verdict::kNoise)
        << difference.figure;
  }
}

}  // namespace
}  // namespace roost::roostctl

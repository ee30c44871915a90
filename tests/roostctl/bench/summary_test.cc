#include "deploy/roostctl/bench/summary.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace roost::roostctl {
namespace {

BenchSample Good() {
  return {.worker = "a",
          .ttft_seconds = 0.2,
          .total_seconds = 1.1,
          .gap_seconds = {0.1F, 0.3F},
          .prompt_tokens = 100,
          .cached_tokens = 75,
          .output_tokens = 10};
}

BenchSample Failed(std::string kind) {
  BenchSample sample;
  sample.error = "an error of kind " + kind;
  sample.error_kind = std::move(kind);
  return sample;
}

TEST(PercentileTest, IsTheNearestRank) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1.0);
  EXPECT_EQ(Percentile(values, 0.5), 50);
  EXPECT_EQ(Percentile(values, 0.99), 99);
  EXPECT_EQ(Percentile(values, 1), 100);
  EXPECT_EQ(Percentile({7}, 0.01), 7);
  EXPECT_EQ(Percentile({}, 0.5), 0);
}

TEST(SpreadTest, HasMeanPercentilesAndTheLargest) {
  const Spread spread = SpreadOf({4, 1, 2, 3});
  EXPECT_DOUBLE_EQ(spread.mean, 2.5);
  EXPECT_EQ(spread.p50, 2);
  EXPECT_EQ(spread.p90, 4);
  EXPECT_EQ(spread.max, 4);
  EXPECT_EQ(SpreadOf({}).mean, 0);
}

TEST(SummariseTest, CountsWholeAnswersAndErrorsByKind) {
  BenchSample other = Good();
  other.worker = "b";
  other.cached_tokens = 25;
  const std::vector<BenchSample> samples{Good(), Failed("status 503"), other, Failed("timeout"),
                                         Good(), Failed("status 503")};
  const BenchSummary summary = Summarise(samples, 2, {});
  EXPECT_EQ(summary.request_count, 6U);
  EXPECT_EQ(summary.failed_count, 3U);
  EXPECT_EQ(summary.first_error, "an error of kind status 503");
  EXPECT_EQ(summary.failed_by_kind, (std::map<std::string, std::uint64_t>{{"status 503", 2}, {"timeout", 1}}));
  EXPECT_DOUBLE_EQ(summary.cached_ratio(), 175.0 / 300);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_second(), 15);
  EXPECT_DOUBLE_EQ(summary.share_by_worker.at("a"), 2.0 / 3);
  EXPECT_NEAR(summary.gap_seconds.mean, 0.2, 1e-6);
  EXPECT_NEAR(summary.tokens_per_second.p50, 10, 1e-9);  // nine tokens in 0.9 s
  EXPECT_NEAR(summary.itl_seconds.mean, 0.1, 1e-9);
}

TEST(SummariseTest, HitsAreOfTheAnswersThatTellThem) {
  BenchSample silent = Good();
  silent.cached_tokens.reset();
  EXPECT_DOUBLE_EQ(Summarise(std::vector{Good(), silent}, 2, {}).cached_ratio(), 0.75);
  EXPECT_FALSE(Summarise(std::vector{silent}, 2, {}).tells_cached());
}

TEST(SummariseTest, ARequestIsGoodIfItKeepsEveryLimit) {
  const std::vector<BenchSample> samples{Good(), Failed("timeout")};
  const auto good = [&](const ServiceLimits& limits) { return Summarise(samples, 4, limits).good_count; };
  EXPECT_EQ(good({}), 1U);
  EXPECT_EQ(good({.ttft_seconds = 0.2}), 1U);
  EXPECT_EQ(good({.ttft_seconds = 0.19}), 0U);
  EXPECT_EQ(good({.itl_seconds = 0.1001}), 1U);
  EXPECT_EQ(good({.itl_seconds = 0.09}), 0U);
  EXPECT_EQ(good({.ttft_seconds = 1, .total_seconds = 1}), 0U);
  EXPECT_DOUBLE_EQ(Summarise(samples, 4, {}).good_per_second(), 0.25);
  EXPECT_DOUBLE_EQ(Summarise(samples, 4, {}).good_share(), 0.5);
}

TEST(SummariseTest, HashesAnswersInAnyOrder) {
  const auto with_hash = [](std::uint64_t hash) {
    BenchSample sample;
    sample.answer_hash = hash;
    return sample;
  };
  const auto hash_of = [](const std::vector<BenchSample>& samples) { return Summarise(samples, 1, {}).answers_hash; };
  EXPECT_EQ(hash_of({with_hash(1), with_hash(2)}), hash_of({with_hash(2), with_hash(1)}));
  EXPECT_NE(hash_of({with_hash(1), with_hash(2)}), hash_of({with_hash(1), with_hash(3)}));
}

TEST(GainTest, IsAboveOneWhereTheCacheHelps) {
  BenchSummary without;
  without.ttft_seconds.p50 = 0.3;
  without.ttft_seconds.p99 = 0.5;
  without.output_tokens = 100;
  without.seconds = 1;
  BenchSummary with;
  with.ttft_seconds.p50 = 0.1;
  with.ttft_seconds.p99 = 1.0;
  with.output_tokens = 250;
  with.seconds = 1;
  const CacheGain gain = GainOf(without, with);
  EXPECT_DOUBLE_EQ(gain.ttft_p50, 3);
  EXPECT_DOUBLE_EQ(gain.ttft_p99, 0.5);
  EXPECT_DOUBLE_EQ(gain.output_tokens_per_second, 2.5);
  EXPECT_EQ(GainOf({}, {}).ttft_p50, 0);
}

}  // namespace
}  // namespace roost::roostctl

#include "deploy/roostctl/simulate/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roost::simulate {
namespace {

using testing::HasSubstr;

RequestRecord Answered(double ttft_seconds, std::uint32_t prompt_tokens, std::uint32_t cached_tokens) {
  return {.arrival = Instant(FromSeconds(5)),
          .first_token = Instant(FromSeconds(5 + ttft_seconds)),
          .end = Instant(FromSeconds(5 + ttft_seconds + 4)),
          .prompt_token_count = prompt_tokens,
          .cached_token_count = cached_tokens};
}

TEST(OutcomeTest, FiguresAreOfTheRequestsThatWereNotRefused) {
  std::vector<RequestRecord> records;
  for (int i = 1; i <= 100; ++i) records.push_back(Answered(i, 100, i % 2 == 0 ? 50 : 0));
  records.push_back({.arrival = Instant{}, .end = Instant{}, .prompt_token_count = 1000, .refused = true});
  Outcome outcome;
  outcome.Fill(records, {3000, 1500, 1500, 0}, {});
  EXPECT_DOUBLE_EQ(outcome.hit_ratio, 0.25);
  EXPECT_DOUBLE_EQ(outcome.ttft.mean, 50.5);
  EXPECT_DOUBLE_EQ(outcome.ttft.p50, 50);
  EXPECT_DOUBLE_EQ(outcome.ttft.p99, 99);
  EXPECT_DOUBLE_EQ(outcome.ttft.max, 100);
  EXPECT_DOUBLE_EQ(outcome.imbalance, 2);
  EXPECT_EQ(outcome.refused_count, 1U);
}

// Answers of 5 tokens in 4 seconds, and first tokens after 1, 2 and 3 seconds.
TEST(OutcomeTest, AGoodRequestKeepsBothLimits) {
  std::vector<RequestRecord> records;
  for (const double ttft : {1, 2, 3}) {
    records.push_back(Answered(ttft, 10, 0));
    records.back().output_token_count = 5;
  }
  const auto good_share = [&](const ServiceLimits& limits) {
    Outcome outcome;
    outcome.Fill(records, {30}, limits);
    return outcome.good_share;
  };
  EXPECT_NEAR(good_share({.ttft_seconds = 2, .itl_seconds = 1}), 2.0 / 3, 1e-9);
  EXPECT_EQ(good_share({.ttft_seconds = 3, .itl_seconds = 0.99}), 0);
  Outcome outcome;
  outcome.Fill(records, {30}, {.ttft_seconds = 2, .itl_seconds = 1});
  EXPECT_DOUBLE_EQ(outcome.itl.p99, 1);
  EXPECT_DOUBLE_EQ(outcome.whole.mean, 6);
  EXPECT_NEAR(outcome.good_per_second, 2.0 / 7, 1e-9);
}

TEST(OutcomeTest, NothingServedIsNoDivisionByZero) {
  Outcome outcome;
  outcome.Fill({}, {0, 0}, {});
  EXPECT_EQ(outcome.hit_ratio, 0);
  EXPECT_EQ(outcome.imbalance, 1);
}

TEST(OutcomeTest, JsonHasTheFieldsInOrder) {
  Outcome outcome;
  outcome.policy = "random";
  outcome.worker_count = 4;
  outcome.cache_tokens = 100;
  EXPECT_EQ(
      ToJson(outcome),
      R"({"policy":"random","workers":4,"cache_tokens":100,"hit_ratio":0,"time_hit_ratio":0,"ttft_mean_s":0,"ttft_p50_s":0,)"
      R"("ttft_p99_s":0,"ttft_max_s":0,"itl_mean_s":0,"itl_p99_s":0,"whole_mean_s":0,"whole_p99_s":0,)"
      R"("goodput_rps":0,"good_share":0,"requests_per_s":0,"capacity_rps":null,"imbalance":0,"refused":0,)"
      R"("saved_prefill_s":0,"round_robin_saved_s":0,"round_robin_hit_ratio":0})");
  outcome.cache_tokens = 0;
  EXPECT_THAT(ToJson(outcome), HasSubstr(R"("cache_tokens":null)"));
}

TEST(OutcomeTest, ThePlotHasACurveAndALegendPerPolicy) {
  std::vector<Outcome> outcomes(2);
  outcomes[0].policy = "first";
  outcomes[1].policy = "second";
  for (Outcome& outcome : outcomes) {
    outcome.ttft_seconds = {0.5, 1, 20};
    outcome.ttft.max = 20;
  }
  const std::string svg = PlotTtft(outcomes);
  EXPECT_EQ(svg.rfind("<svg", 0), 0U);
  EXPECT_THAT(svg, HasSubstr("first ("));
  EXPECT_THAT(svg, HasSubstr("second ("));
  EXPECT_THAT(svg, HasSubstr("100 s"));
  std::size_t curves = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++curves;
  EXPECT_EQ(curves, 2U);
}

}  // namespace
}  // namespace roost::simulate

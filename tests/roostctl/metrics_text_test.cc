#include "deploy/roostctl/remote/metrics_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace roost::roostctl {
namespace {

constexpr std::string_view kText =
    "# HELP a_total What it counts.\n"
    "# TYPE a_total counter\n"
    "a_total{model=\"m\",reason=\"x\"} 3\n"
    "a_total{model=\"m\",reason=\"y \\\"z\\\" \\\\\"} 4.5\n"
    "plain 1.5e+03 1764000000000\n"
    "bad line\n"
    "h_bucket{le=\"0.1\"} 2\n"
    "h_bucket{le=\"1\"} 6\n"
    "h_bucket{le=\"+Inf\"} 8\n"
    "h_count 8";

TEST(MetricsTextTest, ReadsNamesLabelsAndValues) {
  const MetricsText metrics(kText);
  EXPECT_EQ(metrics.Sum("a_total"), 7.5);
  EXPECT_EQ(metrics.Sum("a_total", {{"reason", "x"}}), 3);
  EXPECT_EQ(metrics.Sum("a_total", {{"model", "m"}, {"reason", "y \"z\" \\"}}), 4.5);
  EXPECT_EQ(metrics.Sum("a_total", {{"reason", "none"}}), std::nullopt);
  EXPECT_EQ(metrics.Sum("plain"), 1500);
  EXPECT_EQ(metrics.Sum("bad"), std::nullopt);
  EXPECT_EQ(metrics.Sum("h_count"), 8);
  EXPECT_EQ(metrics.Buckets("h").size(), 3U);
}

TEST(MetricsTextTest, TakesAnyText) {
  for (const char* text :
       {"", "\n\n", "{", "a{", "a{b", "a{b=\"", "a{b=\"c", "a{b=\"c\"", "a{b=\"c\"}", "a{b=\"c\\", "a ", "a x"}) {
    EXPECT_TRUE(MetricsText(text).samples().empty()) << text;
  }
}

TEST(HistogramQuantileTest, IsOfTheObservationsBetweenTwoMoments) {
  const std::map<double, double> after = MetricsText(kText).Buckets("h");
  EXPECT_DOUBLE_EQ(HistogramQuantile({}, after, 0.25).value(), 0.1);
  EXPECT_DOUBLE_EQ(HistogramQuantile({}, after, 0.5).value(), 0.1 + 0.9 * 2 / 4);
  EXPECT_EQ(HistogramQuantile({}, after, 0.99), std::nullopt);  // above the last bound
  EXPECT_EQ(HistogramQuantile(after, after, 0.5), std::nullopt);
  EXPECT_EQ(HistogramQuantile({}, {}, 0.5), std::nullopt);
  std::map<double, double> before = after;
  before[0.1] = 0;
  before[1] = 4;
  before[std::numeric_limits<double>::infinity()] = 6;  // two more, both up to 0.1
  EXPECT_DOUBLE_EQ(HistogramQuantile(before, after, 0.5).value(), 0.05);
}

}  // namespace
}  // namespace roost::roostctl

#include "worker/adapters/metrics_page.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roost::worker::adapters {
namespace {

using Texts = std::vector<std::string>;

TEST(MetricsPageTest, ANameIsNotItsLongerNeighbour) {
  const MetricsPage page("a_total 1\na 2\n# a 3\nab 4\n");
  EXPECT_EQ(page.Sum("a"), 2.0);
}

TEST(MetricsPageTest, SeriesOfOneNameAdd) {
  const MetricsPage page("a{engine=\"0\"} 1.5\na{engine=\"1\"} 2 1795584678\n");
  EXPECT_EQ(page.Sum("a"), 3.5);
  EXPECT_EQ(page.Largest("a"), 2.0);
}

TEST(MetricsPageTest, SeriesOfOtherLabelsAreLeftOut) {
  const MetricsPage page("a{engine=\"1\"} 1\na{engine=\"11\"} 2\na{other=\"1\"} 4\na 8\n",
                         MetricsPage::Only{.label = "engine", .value = "11"});
  EXPECT_EQ(page.Sum("a"), 14.0) << "what has no such label is everybody's";
}

TEST(MetricsPageTest, WhatIsNotThereOrNoNumberIsNothing) {
  const MetricsPage page("a NaN\nb x\nc{d=\"}\nd{e=\"f\"}\n");
  for (const char* const name : {"a", "b", "c", "d", "e"}) EXPECT_EQ(page.Sum(name), std::nullopt) << name;
}

TEST(MetricsPageTest, LabelsAreFoundByTheirWholeName) {
  const MetricsPage page("a{block_size=\"32\",size=\"7\"} 1\n");
  EXPECT_EQ(page.Labels("a", "size"), Texts{"7"});
  EXPECT_EQ(page.Labels("a", "block_size"), Texts{"32"});
  EXPECT_TRUE(page.Labels("a", "block").empty());
}

TEST(MetricsPageTest, QuotedValuesMayHoldAnything) {
  const MetricsPage page("a{x=\"}, b=\\\"9\\\" \",b=\"1\"} 5\n");
  EXPECT_EQ(page.Labels("a", "b"), Texts{"1"});
  EXPECT_EQ(page.Labels("a", "x"), Texts{"}, b=\"9\" "});
  EXPECT_EQ(page.Sum("a"), 5.0);
}

}  // namespace
}  // namespace roost::worker::adapters

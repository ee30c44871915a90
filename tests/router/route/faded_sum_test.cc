#include "router/route/faded_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

TEST(FadedSumTest, HalvesWithEachHalfLife) {
  FadedSum sum(10s, Instant{});
  sum.Add(8, Instant{});
  EXPECT_DOUBLE_EQ(sum.At(Instant{} + 10s), 4);
  EXPECT_DOUBLE_EQ(sum.value(), 8);
  sum.Add(0, Instant{} + 20s);
  EXPECT_DOUBLE_EQ(sum.value(), 2);
}

TEST(FadedSumTest, IsTheSumOfWhatIsLeftOfEach) {
  Rng rng(1);
  FadedSum sum(7s, Instant{});
  std::vector<std::pair<Instant, double>> added;
  Instant now{};
  for (int i = 0; i < 200; ++i) {
    now += FromSeconds(3 * rng.Uniform());
    added.emplace_back(now, rng.Uniform());
    sum.Add(added.back().second, now);
    double expected = 0;
    for (const auto& [when, amount] : added) expected += amount * std::pow(0.5, ToSeconds(now - when) / 7);
    ASSERT_NEAR(sum.value(), expected, 1e-9);
  }
}

}  // namespace
}  // namespace roost::router

// PrefixSums against a list of all additions.
#include "router/route/replication.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

class NaiveSums {
 public:
  void Add(BlockHash prefix, double seconds, Instant now) { added_[prefix].emplace_back(now, seconds); }
  void Clear(BlockHash prefix) { added_.erase(prefix); }
  [[nodiscard]] double At(BlockHash prefix, Instant now) const {
    double sum = 0;
    const auto found = added_.find(prefix);
    if (found == added_.end()) return 0;
    for (const auto& [when, seconds] : found->second) {
      sum += seconds * std::pow(0.5, ToSeconds(now - when) / ToSeconds(kRecentTime));
    }
    return sum;
  }

 private:
  std::map<BlockHash, std::vector<std::pair<Instant, double>>> added_;
};

class PrefixSumsModelTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  // Some of `prefixes` wait, or start again from zero, at random times.
  void Change(const std::vector<BlockHash>& prefixes) {
    now_ += FromSeconds(rng_.Uniform());
    const BlockHash prefix = prefixes[rng_.Below(prefixes.size())];
    if (rng_.Below(20) == 0) {
      sums_.Clear(prefix);
      naive_.Clear(prefix);
    } else {
      const double seconds = rng_.Uniform();
      sums_.Add(prefix, seconds, now_);
      naive_.Add(prefix, seconds, now_);
    }
  }

  Rng rng_{GetParam()};
  Instant now_{};
  PrefixSums sums_{GetParam()};
  NaiveSums naive_;
};

TEST_P(PrefixSumsModelTest, IsExactForFewPrefixes) {
  const std::vector<BlockHash> prefixes = Chain(GetParam(), PrefixSums::kWays);
  for (int i = 0; i < 2000; ++i) {
    Change(prefixes);
    for (const BlockHash prefix : prefixes) {
      ASSERT_NEAR(sums_.At(prefix, now_), naive_.At(prefix, now_), 1e-9) << "seed " << GetParam();
    }
  }
}

TEST_P(PrefixSumsModelTest, NeverSaysMoreThanIsTrue) {
  const std::vector<BlockHash> prefixes = Chain(GetParam(), 4 * PrefixSums::kSets * PrefixSums::kWays);
  double kept = 0;
  for (int i = 0; i < 50'000; ++i) Change(prefixes);
  for (const BlockHash prefix : prefixes) {
    const double seconds = sums_.At(prefix, now_);
    ASSERT_LE(seconds, naive_.At(prefix, now_) + 1e-9) << "seed " << GetParam();
    kept += seconds;
  }
  EXPECT_GT(kept, 0);
}

// The prefix with the most waiting is remembered, however many others are added.
TEST_P(PrefixSumsModelTest, TheHottestStays) {
  const BlockHash hot = Chain(GetParam() + 1000, 1).front();
  const std::vector<BlockHash> others = Chain(GetParam(), 50'000);
  for (std::size_t i = 0; i < others.size(); ++i) {
    now_ += std::chrono::milliseconds(1);
    sums_.Add(others[i], rng_.Uniform(), now_);
    if (i % 100 > 0) continue;
    sums_.Add(hot, 1.5, now_);
    naive_.Add(hot, 1.5, now_);
  }
  EXPECT_NEAR(sums_.At(hot, now_), naive_.At(hot, now_), 1e-6) << "seed " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Seeds, PrefixSumsModelTest, ::testing::Range<std::uint64_t>(0, 10));

}  // namespace
}  // namespace roost::router

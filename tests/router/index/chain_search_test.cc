#include "router/index/chain_search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/base/rng.h"

namespace roost::router {
namespace {

// A chain of which every position's holders are known; counts who asks.
struct Chain {
  std::vector<Holders> holders;
  mutable std::vector<int> probes = std::vector<int>(holders.size());

  [[nodiscard]] std::uint32_t Begin(std::uint32_t position) const {
    ++probes[position];
    return position;
  }
  [[nodiscard]] Holders Finish(std::uint32_t position) const { return holders[position]; }
};

Holders Named(std::uint64_t number) { return Holders(SetId(static_cast<std::uint32_t>(number))); }

void ExpectResolved(const Chain& chain, std::span<const ChainSearch<std::uint32_t>::Sample> samples) {
  ASSERT_EQ(samples.front().position, 0U);
  ASSERT_EQ(samples.back().position, chain.holders.size() - 1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ(samples[i].holders, chain.holders[samples[i].position]);
    if (i == 0) continue;
    ASSERT_LT(samples[i - 1].position, samples[i].position);
    ASSERT_TRUE(samples[i - 1].holders == samples[i].holders || samples[i - 1].position + 1 == samples[i].position);
  }
}

TEST(ChainSearchTest, FindsEveryChangeWithFewProbes) {
  ChainSearch<std::uint32_t> search;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const std::size_t length = 1 + rng.Below(seed % 10 == 0 ? 6'250 : 40);
    std::vector<Holders> holders(length);
    const std::uint64_t odds = 1 + rng.Below(length);
    std::uint64_t changes = 0;
    for (Holders& at : holders) {
      if (rng.Below(odds) == 0) ++changes;
      at = Named(changes);
    }
    const Chain chain{holders};
    const auto samples = search.Run(static_cast<std::uint32_t>(length), chain);
    ExpectResolved(chain, samples);
    std::size_t found = 0;
    for (std::size_t i = 1; i < samples.size(); ++i) found += samples[i - 1].holders != samples[i].holders ? 1 : 0;
    EXPECT_EQ(found, holders.back().set().value() - holders.front().set().value());
    int probes = 0;
    for (const int count : chain.probes) {
      EXPECT_LE(count, 1);
      probes += count;
    }
    const double rounds = std::ceil(std::log(static_cast<double>(length)) / std::log(6.0)) + 1;
    EXPECT_LE(probes, 7 + 5 * static_cast<double>(found) * rounds);
  }
}

// What comes of lost events: nothing shrinks along the chain, and still it ends.
TEST(ChainSearchTest, EndsWhateverTheHolders) {
  ChainSearch<std::uint32_t> search;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    std::vector<Holders> holders(1 + rng.Below(300));
    for (Holders& at : holders) at = Named(rng.Below(3));
    const Chain chain{holders};
    ExpectResolved(chain, search.Run(static_cast<std::uint32_t>(holders.size()), chain));
  }
}

}  // namespace
}  // namespace roost::router

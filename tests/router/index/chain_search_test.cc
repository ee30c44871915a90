#include "router/index/chain_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kNotFetched = (1U << kSetIdBits) - 1;

// A chain with known holders at every position; counts the probes.
struct Chain {
  std::vector<Holders> holders;
  mutable std::vector<int> probes = std::vector<int>(holders.size());
  mutable std::vector<Holders> expected = {};

  [[nodiscard]] std::uint32_t Locate(std::uint32_t position) const { return position; }
  void Fetch(std::uint32_t position) const { ++probes[position]; }
  // Returns only what was fetched.
  [[nodiscard]] Holders Finish(std::uint32_t position) const {
    return probes[position] > 0 ? holders[position] : Holders(SetId(kNotFetched));
  }
  void Expect(Holders at) const { expected.push_back(at); }
};

Holders Named(std::uint64_t number) { return Holders(SetId(static_cast<std::uint32_t>(number))); }

using Stretch = ChainSearch<std::uint32_t>::Stretch;

std::vector<Stretch> StretchesOf(const std::vector<Holders>& holders) {
  std::vector<Stretch> stretches;
  for (std::size_t i = holders.size(); i-- > 0;) {
    const bool changes = i + 1 == holders.size() || holders[i] != holders[i + 1];
    if (changes) stretches.push_back({.end = static_cast<std::uint32_t>(i + 1), .holders = holders[i]});
  }
  return stretches;
}

void ExpectEqual(std::span<const Stretch> found, std::span<const Stretch> expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].end, expected[i].end);
    ASSERT_EQ(found[i].holders, expected[i].holders);
  }
}

int ProbesOf(const Chain& chain) { return std::accumulate(chain.probes.begin(), chain.probes.end(), 0); }

// Distributes the chains over this many families.
void ExpectEveryChange(std::uint64_t families, int probes_led_astray) {
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
    const auto stretches = search.Run(static_cast<std::uint32_t>(length), Mix64(seed % families), chain);
    ExpectEqual(stretches, StretchesOf(holders));
    for (const Stretch& stretch : stretches) {
      EXPECT_TRUE(std::find(chain.expected.begin(), chain.expected.end(), stretch.holders) != chain.expected.end());
    }
    const double rounds = std::ceil(std::log(static_cast<double>(length)) / std::log(5.0));
    const double probes = 6 + 4 * static_cast<double>(stretches.size() - 1) * rounds;
    EXPECT_LE(ProbesOf(chain) - probes_led_astray, probes);
  }
}

TEST(ChainSearchTest, FindsEveryChangeWithFewProbes) { ExpectEveryChange(1'000, 0); }

TEST(ChainSearchTest, WrongGuessesCostFewProbes) {
  for (const std::uint64_t families : {1U, 3U}) ExpectEveryChange(families, 4 * int{ChangeMemory::kMaxChanges});
}

// A system prompt, whose end some workers do not hold, before conversations that one worker holds.
TEST(ChainSearchTest, WhereAFamilyChangedBeforeFewerProbesDo) {
  ChainSearch<std::uint32_t> search;
  constexpr std::uint32_t kLength = 512;
  const auto probes_of = [&](std::uint64_t conversation) {
    std::vector<Holders> holders(kLength, Named(100 + conversation));
    const auto fill = [&](std::uint32_t begin, std::uint32_t end, std::uint64_t name) {
      std::fill(holders.begin() + begin, holders.begin() + end, Named(name));
    };
    fill(0, 31, 1);
    fill(31, 77, 2);
    fill(77, 78, 3);
    fill(78, 128, 4);
    const Chain chain{holders};
    ExpectEqual(search.Run(kLength, 1, chain), StretchesOf(holders));
    return ProbesOf(chain);
  };
  const int first = probes_of(0);
  EXPECT_EQ(probes_of(1), first);
  for (std::uint64_t conversation = 2; conversation < 10; ++conversation) {
    EXPECT_LE(probes_of(conversation), first / 2) << conversation;
  }
}

// As after lost events: holders do not shrink along the chain, and still the search ends.
TEST(ChainSearchTest, EndsWhateverTheHolders) {
  ChainSearch<std::uint32_t> search;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    std::vector<Holders> holders(1 + rng.Below(300));
    for (Holders& at : holders) at = Named(rng.Below(3));
    const Chain chain{holders};
    const auto stretches = search.Run(static_cast<std::uint32_t>(holders.size()), 1, chain);
    EXPECT_EQ(stretches.front().end, holders.size());
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      EXPECT_EQ(stretches[i].holders, holders[stretches[i].end - 1]);
      if (i > 0) {
        EXPECT_LT(stretches[i].end, stretches[i - 1].end);
      }
    }
    EXPECT_EQ(stretches.back().holders, holders.front());
  }
}

// The effect of a concurrent writer: reading a position twice gives two answers.
struct Flicker {
  std::uint32_t length = 0;
  mutable Rng rng;
  mutable std::optional<Holders> first_answer = {};

  [[nodiscard]] std::uint32_t Locate(std::uint32_t position) const {
    ROOST_CHECK(position < length, "position {} of {}", position, length);
    return position;
  }
  static void Fetch(std::uint32_t /*position*/) {}
  [[nodiscard]] Holders Finish(std::uint32_t /*position*/) const {
    const Holders answer = Named(rng.Below(3));
    if (!first_answer) first_answer = answer;
    return answer;
  }
  static void Expect(Holders /*at*/) {}
};

// The last stretch has what was read of the first block: only its holders count.
TEST(ChainSearchTest, StaysWithinTheChainWhateverChangesMeanwhile) {
  ChainSearch<std::uint32_t> search;
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    Rng rng(seed);
    const auto length = static_cast<std::uint32_t>(1 + rng.Below(40));
    const Flicker chain{length, Rng(seed)};
    const auto stretches = search.Run(length, 1, chain);
    EXPECT_EQ(stretches.front().end, length);
    EXPECT_GE(stretches.back().end, 1U);
    // A chain without changes has one stretch, which has what was read of the last block.
    EXPECT_TRUE(stretches.size() == 1 || stretches.back().holders == chain.first_answer) << "seed " << seed;
  }
}

}  // namespace
}  // namespace roost::router

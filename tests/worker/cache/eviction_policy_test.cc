// Properties that must hold for every eviction policy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/base/rng.h"
#include "tests/support/cache_user.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using testing::HasSubstr;
using testing_support::CacheUser;

constexpr std::uint32_t kBlockTokens = 4;

std::unique_ptr<EvictionPolicy> Make(std::string_view name, std::uint32_t block_count, std::uint32_t group_count) {
  const std::vector<double> shares(group_count - 1, 1.0 / group_count);
  return MakeEvictionPolicy(name, block_count, shares).value();
}

// A test's name must not contain a dash.
std::string NameOf(const testing::TestParamInfo<std::string_view>& policy) {
  std::string name(policy.param);
  std::erase(name, '-');
  return name;
}

class EvictionPolicyTest : public testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(All, EvictionPolicyTest, testing::ValuesIn(kEvictionPolicyNames), NameOf);

// Prompts with shared prefixes come, grow and go while the cache's invariants are checked. Two of them: a victim is a
// leaf, and there is a victim while any block is idle.
class Churn {
 public:
  Churn(std::string_view policy, std::uint64_t seed)
      : rng_(seed),
        block_count_(static_cast<std::uint32_t>(4 + rng_.Below(60))),
        pool_(block_count_),
        cache_(pool_, {.block_tokens = kBlockTokens}, Make(policy, block_count_, 1)) {}

  void Step() {
    if (users_.empty() || (users_.size() < 6 && rng_.Below(3) == 0)) {
      users_.push_back(RandomPrompt());
      users_.back().Match(cache_);
    } else if (rng_.Below(4) == 0) {
      End(rng_.Below(users_.size()));
    } else {
      CacheUser& user = users_[rng_.Below(users_.size())];
      if (user.blocks.size() < user.hashes.size()) (void)user.FillNext(cache_);
    }
  }

  void End(std::size_t which) {
    CacheUser& user = users_[which];
    const auto tokens = static_cast<std::uint32_t>(user.tokens.size());
    user.Release(cache_, {.number = released_++,
                          .prompt_token_count = tokens,
                          .cached_token_count = tokens / 2,
                          .output_token_count = static_cast<std::uint32_t>(rng_.Below(1000))});
    users_.erase(users_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void Check() const {
    std::vector<std::uint32_t> references(block_count_);
    for (const CacheUser& user : users_) {
      for (const BlockId block : user.blocks) ++references[block.value()];
    }
    const Result<void> sound = cache_.CheckInvariants(references);
    ASSERT_TRUE(sound.ok()) << sound.error().ToString();
  }

  // Every idle block can be evicted in the end: all blocks can be allocated at once.
  void Drain() {
    while (!users_.empty()) End(0);
    for (std::uint32_t i = 0; i < block_count_; ++i) ASSERT_TRUE(cache_.Allocate().has_value());
    EXPECT_EQ(cache_.ready_count(), 0U);
  }

 private:
  CacheUser RandomPrompt() {
    std::vector<TokenId> tokens;
    for (std::uint64_t block = 1 + rng_.Below(12); block > 0; --block) {
      tokens.insert(tokens.end(), kBlockTokens, static_cast<TokenId>(rng_.Below(2)));
    }
    return {BlockHash{1, rng_.Below(2)}, std::move(tokens), kBlockTokens};
  }

  Rng rng_;
  std::uint32_t block_count_;
  BlockPool pool_;
  PrefixCache cache_;
  std::vector<CacheUser> users_;
  std::uint64_t released_ = 0;
};

TEST_P(EvictionPolicyTest, KeepsTheCacheSoundAndLetsEveryIdleBlockGo) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Churn churn(GetParam(), seed);
    for (int step = 0; step < 500; ++step) {
      churn.Step();
      churn.Check();
      if (HasFatalFailure()) return;
    }
    churn.Drain();
    if (HasFatalFailure()) return;
  }
}

TEST_P(EvictionPolicyTest, VictimsAreOfTheirGroup) {
  constexpr std::uint32_t kBlocks = 64;
  constexpr std::uint32_t kGroups = 3;
  const auto policy = Make(GetParam(), kBlocks, kGroups);
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    policy->Insert(BlockId(block),
                   {.key = block, .group = EvictionGroup(block % kGroups), .request = {.number = block / 4}},
                   TreePlace::kLeaf);
  }
  for (std::uint32_t group = 0; group < kGroups; ++group) {
    std::set<std::uint32_t> gone;
    while (const std::optional<BlockId> victim = policy->Victim(EvictionGroup(group))) {
      EXPECT_EQ(victim->value() % kGroups, group);
      EXPECT_TRUE(gone.insert(victim->value()).second);
      policy->Evict(*victim);
    }
    EXPECT_EQ(gone.size(), (kBlocks - group + kGroups - 1) / kGroups);
  }
}

TEST_P(EvictionPolicyTest, AVictimStaysUntilItGoes) {
  const auto policy = Make(GetParam(), 8, 1);
  for (std::uint32_t block = 0; block < 8; ++block) {
    policy->Insert(BlockId(block),
                   {.key = block, .hit_count = block % 3, .group = EvictionGroup(0), .request = {.number = block}},
                   TreePlace::kLeaf);
  }
  const std::optional<BlockId> first = policy->Victim(EvictionGroup(0));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(policy->Victim(EvictionGroup(0)), first);
  policy->Erase(*first);
  EXPECT_NE(policy->Victim(EvictionGroup(0)), first);
}

// A caller that does not number its requests must not stop the process.
TEST_P(EvictionPolicyTest, TakesRequestsWithoutNumbers) {
  constexpr std::uint32_t kBlocks = 16;
  const auto policy = Make(GetParam(), kBlocks, 1);
  Rng rng(1);
  std::set<std::uint32_t> idle;
  for (int step = 0; step < 5000; ++step) {
    const auto block = static_cast<std::uint32_t>(rng.Below(kBlocks));
    if (idle.insert(block).second) {
      const std::uint64_t key = rng.Below(40);
      policy->Insert(
          BlockId(block),
          {.key = key, .position = static_cast<std::uint32_t>(rng.Below(5)), .group = EvictionGroup(0), .request = {}},
          TreePlace::kLeaf);
    } else {
      const std::optional<BlockId> victim = policy->Victim(EvictionGroup(0));
      ASSERT_TRUE(victim.has_value());
      ASSERT_EQ(idle.erase(victim->value()), 1U);
      policy->Evict(*victim);
    }
  }
}

TEST(EvictionFactoryTest, NamesTheNamesWhenThereIsNone) {
  const auto policy = MakeEvictionPolicy("fifo", 1);
  ASSERT_FALSE(policy.ok());
  for (const std::string_view name : kEvictionPolicyNames) EXPECT_THAT(policy.error().message, HasSubstr(name));
  EXPECT_THAT(kEvictionPolicyNames, testing::Contains(kDefaultEvictionPolicy));
}

}  // namespace
}  // namespace roost::worker

// Random operations on the prefix cache and on a naive one; every answer, event and invariant is compared. A failure
// prints its seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/base/rng.h"
#include "tests/model/naive_cache.h"
#include "tests/support/cache_user.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using testing_support::CacheUser;
using testing_support::NaiveCache;
using Kind = CommitResult::Kind;

constexpr std::uint32_t kBlockTokens = 4;
constexpr std::uint64_t kSeeds = 100;
constexpr int kOperationsPerSeed = 1000;

enum class Honesty { kHonest, kLying };

class Driver {
 public:
  Driver(std::uint64_t seed, Honesty honesty)
      : rng_(seed),
        honesty_(honesty),
        block_count_(static_cast<std::uint32_t>(1 + rng_.Below(40))),
        pool_(block_count_),
        cache_(pool_, {.block_tokens = kBlockTokens}, std::make_unique<LruEviction>(block_count_)),
        naive_(block_count_, kBlockTokens) {}

  void Step() {
    if (users_.empty() || (users_.size() < 8 && rng_.Below(4) == 0)) {
      Begin();
    } else {
      const std::size_t which = rng_.Below(users_.size());
      const std::uint64_t choice = rng_.Below(10);
      if (choice == 0) {
        End(which);
      } else if (choice == 1) {
        MatchNext(users_[which]);
      } else {
        FillNext(users_[which]);
      }
    }
    Compare();
  }

  void EndAll() {
    while (!users_.empty()) End(0);
    Compare();
    EXPECT_EQ(pool_.referenced_count(), 0U);
  }

 private:
  struct User {
    CacheUser held;
    bool collided = false;
  };

  // Few different blocks, so that prompts share prefixes and have equal blocks at other positions.
  CacheUser RandomPrompt() {
    const BlockHash root{1, rng_.Below(2)};
    std::vector<TokenId> tokens;
    for (std::uint64_t block = rng_.Below(10); block > 0; --block) {
      const auto letter = static_cast<TokenId>(rng_.Below(rng_.Below(3) + 1));
      tokens.insert(tokens.end(), kBlockTokens, letter);
    }
    for (std::uint64_t tail = rng_.Below(kBlockTokens); tail > 0; --tail) tokens.push_back(9);
    CacheUser prompt(root, std::move(tokens), kBlockTokens);
    if (honesty_ == Honesty::kLying && rng_.Below(3) == 0) {
      for (BlockHash& hash : prompt.hashes) {
        if (rng_.Below(2) == 0) hash = BlockHash{7, rng_.Below(6)};
      }
    }
    return prompt;
  }

  void Begin() {
    User user{RandomPrompt()};
    const auto limit = static_cast<std::uint32_t>(rng_.Below(12));
    const std::vector<BlockId> expected = naive_.Match(user.held.chain(), limit);
    std::vector<BlockRef> matched;
    cache_.Match(user.held.chain(), limit, matched);
    for (const BlockRef ref : matched) {
      cache_.Acquire(ref);
      naive_.Acquire(ref.block);
      user.held.blocks.push_back(ref.block);
    }
    ASSERT_EQ(user.held.blocks, expected);
    users_.push_back(std::move(user));
  }

  static std::optional<BlockId> Parent(const CacheUser& held, std::size_t index) {
    return index == 0 ? std::nullopt : std::optional(held.blocks[index - 1]);
  }

  void MatchNext(User& user) {
    const auto index = static_cast<std::uint32_t>(user.held.blocks.size());
    if (user.collided || index >= user.held.hashes.size()) return;
    const std::optional<BlockId> expected = naive_.Find(user.held.chain(), index, Parent(user.held, index));
    const std::optional<BlockRef> found = cache_.Find(user.held.chain(), index, user.held.blocks);
    ASSERT_EQ(found.has_value(), expected.has_value());
    if (!found) return;
    ASSERT_EQ(found->block, *expected);
    cache_.Acquire(*found);
    naive_.Acquire(found->block);
    user.held.blocks.push_back(found->block);
  }

  void FillNext(User& user) {
    const auto index = static_cast<std::uint32_t>(user.held.blocks.size());
    if (user.collided || index >= user.held.hashes.size()) return;
    const NaiveCache::Allocation allocation = naive_.Allocate();
    if (allocation.victim) expected_removed_.push_back(*allocation.victim);
    const std::optional<BlockId> block = cache_.Allocate();
    ASSERT_EQ(block.has_value(), allocation.possible);
    if (!block) return;
    user.held.blocks.push_back(*block);
    const CommitResult expected = naive_.Commit(user.held.chain(), index, Parent(user.held, index), *block);
    const CommitResult result = cache_.Commit(user.held.chain(), index, user.held.blocks);
    ASSERT_EQ(result.kind, expected.kind);
    ASSERT_EQ(result.block, expected.block);
    user.held.blocks.back() = result.block;
    user.collided = result.kind == Kind::kCollided;
  }

  void End(std::size_t which) {
    CacheUser& held = users_[which].held;
    for (auto block = held.blocks.rbegin(); block != held.blocks.rend(); ++block) naive_.Release(*block);
    held.Release(cache_);
    users_.erase(users_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void Compare() {
    std::vector<std::uint32_t> references(block_count_);
    for (const User& user : users_) {
      for (const BlockId block : user.held.blocks) ++references[block.value()];
    }
    const Result<void> sound = cache_.CheckInvariants(references);
    ASSERT_TRUE(sound.ok()) << sound.error().ToString();
    ASSERT_EQ(cache_.digest(), naive_.Digest());
    ASSERT_EQ(cache_.ready_count(), naive_.entries().size());
    ASSERT_EQ(pool_.free_count(), naive_.free_count());
    ASSERT_EQ(cache_.counters().verification_misses, naive_.verification_misses);
    ReplayEvents();
    if (rng_.Below(16) == 0) CompareSnapshot();
  }

  // A router's view: what the events say is resident, its parent known from the run or from the naive cache.
  void ReplayEvents() {
    std::vector<BlockHash> removed;
    for (const wire::CacheEvent& event : cache_.TakeEvents()) {
      for (const BlockHash hash : event.removed) {
        ASSERT_EQ(view_.erase(hash), 1U);
        removed.push_back(hash);
      }
      for (const BlockHash hash : event.stored.hashes) ASSERT_TRUE(view_.insert(hash).second);
    }
    ASSERT_EQ(removed, expected_removed_);
    expected_removed_.clear();
    std::set<BlockHash> resident;
    for (const NaiveCache::Entry& entry : naive_.entries()) resident.insert(entry.hash);
    ASSERT_EQ(view_, resident);
  }

  void CompareSnapshot() {
    std::set<BlockHash> seen;
    for (const wire::StoredRun& run : cache_.Snapshot()) {
      for (std::size_t i = 0; i < run.hashes.size(); ++i) {
        const auto entry = std::find_if(naive_.entries().begin(), naive_.entries().end(),
                                        [&](const NaiveCache::Entry& e) { return e.hash == run.hashes[i]; });
        ASSERT_NE(entry, naive_.entries().end());
        ASSERT_EQ(entry->prefix.size(), (run.first_position + i + 1) * kBlockTokens);
        if (entry->parent) {
          const auto parent = std::find_if(naive_.entries().begin(), naive_.entries().end(),
                                           [&](const NaiveCache::Entry& e) { return e.block == *entry->parent; });
          ASSERT_TRUE(seen.contains(parent->hash));
          if (i > 0) {
            ASSERT_EQ(parent->hash, run.hashes[i - 1]);
          }
        }
        ASSERT_TRUE(seen.insert(run.hashes[i]).second);
      }
    }
    ASSERT_EQ(seen.size(), naive_.entries().size());
  }

  Rng rng_;
  Honesty honesty_;
  std::uint32_t block_count_;
  BlockPool pool_;
  PrefixCache cache_;
  NaiveCache naive_;
  std::vector<User> users_;
  std::vector<BlockHash> expected_removed_;
  std::set<BlockHash> view_;
};

void Fuzz(Honesty honesty) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Driver driver(seed, honesty);
    for (int operation = 0; operation < kOperationsPerSeed; ++operation) {
      driver.Step();
      if (testing::Test::HasFatalFailure()) return;
    }
    driver.EndAll();
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(PrefixCacheModelTest, AgreesWithTheNaiveCache) { Fuzz(Honesty::kHonest); }

TEST(PrefixCacheModelTest, AgreesWithTheNaiveCacheWhenHashesLie) { Fuzz(Honesty::kLying); }

}  // namespace
}  // namespace roost::worker

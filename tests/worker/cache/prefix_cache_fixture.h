// A prefix cache whose tokens are letters, and small verbs for what requests do with it. Equal letters are equal blocks
// of four tokens; "abc" is a prompt of three blocks, and "c" names the last of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/cache_user.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

inline constexpr std::uint32_t kLetterTokens = 4;

class PrefixCacheFixture : public testing::Test {
 protected:
  PrefixCacheFixture() { Make(8); }

  // Replaces the cache by an empty one.
  void Make(std::uint32_t block_count, worker::CacheOptions options = {}) {
    options.block_tokens = kLetterTokens;
    const auto groups = static_cast<std::uint32_t>(options.group_shares.size()) + 1;
    taken_.clear();
    cache_.reset();
    pool_ = std::make_unique<worker::BlockPool>(block_count);
    cache_ = std::make_unique<worker::PrefixCache>(*pool_, std::move(options),
                                                   std::make_unique<worker::LruEviction>(block_count, groups));
    now_ = Instant(std::chrono::seconds(1));
    cache_->AdvanceTo(now_);
  }

  worker::PrefixCache& cache() { return *cache_; }
  worker::BlockPool& pool() { return *pool_; }
  [[nodiscard]] Instant After(Duration duration) const { return now_ + duration; }
  void Pass(Duration duration) {
    now_ += duration;
    cache_->AdvanceTo(now_);
  }

  static std::vector<TokenId> Tokens(std::string_view letters) {
    std::vector<TokenId> tokens;
    for (const char letter : letters) {
      for (std::uint32_t i = 0; i < kLetterTokens; ++i) tokens.push_back(static_cast<TokenId>(letter) * 10 + i);
    }
    return tokens;
  }
  CacheUser User(std::string_view letters, BlockHash root = {1, 1}) {
    CacheUser user(root, Tokens(letters), kLetterTokens);
    for (std::size_t i = 0; i < letters.size(); ++i) names_[user.hashes[i]] = letters[i];
    return user;
  }
  std::vector<BlockHash> Hashes(std::string_view letters) { return User(letters).hashes; }

  // A request that comes and goes. Returns how many blocks it found cached.
  std::uint32_t Visit(std::string_view letters, BlockHash root = {1, 1}) {
    CacheUser user = User(letters, root);
    const std::uint32_t matched = user.Use(*cache_);
    user.Release(*cache_);
    return matched;
  }
  // A request that asks for retention of its blocks.
  void VisitRetained(std::string_view letters, std::uint32_t priority, Duration duration) {
    CacheUser user = User(letters);
    (void)user.Use(*cache_);
    const worker::BlockRetention retention{.priority = priority, .end = After(duration)};
    user.Release(*cache_, {}, {.prompt = retention, .decode = retention});
  }
  // A request of a group.
  void VisitAs(std::uint32_t group, std::string_view letters) {
    CacheUser user = User(letters, {2, group});
    user.group = worker::EvictionGroup(group);
    (void)user.Use(*cache_);
    user.Release(*cache_);
  }

  // The cached blocks of the prompt; changes nothing.
  std::vector<worker::BlockRef> Refs(std::string_view letters, BlockHash root = {1, 1}) {
    const CacheUser user = User(letters, root);
    std::vector<worker::BlockRef> matched;
    cache_->Match(user.chain(), static_cast<std::uint32_t>(user.hashes.size()), matched);
    return matched;
  }
  std::uint32_t Cached(std::string_view letters, BlockHash root = {1, 1}) {
    return static_cast<std::uint32_t>(Refs(letters, root).size());
  }

  // Takes `count` blocks for good, and returns the blocks that were evicted for them, in order.
  std::string Take(std::uint32_t count, std::uint32_t group = 0) {
    (void)cache_->TakeEvents();
    for (; count > 0; --count) {
      const std::optional<BlockId> block = cache_->Allocate(worker::EvictionGroup(group));
      if (!block) break;
      taken_.push_back(*block);
    }
    return Gone();
  }
  // Takes held blocks for good, and returns them in order.
  std::string TakeHeld(std::uint32_t count, std::uint32_t group = 0) {
    (void)cache_->TakeEvents();
    for (; count > 0 && cache_->EvictHeld(worker::EvictionGroup(group)); --count) {
      taken_.push_back(cache_->Allocate().value());
    }
    return Gone();
  }
  // Gives back the block that was taken last.
  void GiveBack() {
    cache_->Release(taken_.back(), {});
    taken_.pop_back();
  }

  void ExpectSound(std::initializer_list<const CacheUser*> users = {}) {
    std::vector<std::uint32_t> references(pool_->block_count());
    for (const CacheUser* user : users) {
      for (const BlockId block : user->blocks) ++references[block.value()];
    }
    for (const BlockId block : taken_) ++references[block.value()];
    const Result<void> sound = cache_->CheckInvariants(references);
    EXPECT_TRUE(sound.ok()) << sound.error().ToString();
  }

 private:
  // The blocks that were evicted since the events were last taken.
  std::string Gone() {
    std::string gone;
    for (const wire::CacheEvent& event : cache_->TakeEvents()) {
      for (const BlockHash hash : event.removed) gone += names_.at(hash);
    }
    return gone;
  }

  Instant now_;
  std::unique_ptr<worker::BlockPool> pool_;
  std::unique_ptr<worker::PrefixCache> cache_;
  std::vector<BlockId> taken_;
  std::map<BlockHash, char> names_;
};

}  // namespace roost::testing_support

// What the prefix cache must do, too simple to be wrong: a list that is searched from end to end, whole prefixes
// instead of a tree, and a time stamp instead of an order. It trusts the real cache only for the numbers of free
// blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/prefix/block_hash.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

class NaiveCache {
 public:
  NaiveCache(std::uint32_t block_count, std::uint32_t block_tokens)
      : block_count_(block_count), block_tokens_(block_tokens) {}

  struct Entry {
    BlockId block;
    BlockHash hash;
    BlockHash root;
    std::optional<BlockId> parent;
    std::vector<TokenId> prefix;  // all tokens from the root to the end of this block
    std::uint32_t references = 0;
    std::uint64_t idle_since = 0;
  };

  // The ready block `index` of the chain after `parent`.
  std::optional<BlockId> Find(const worker::BlockChain& chain, std::uint32_t index, std::optional<BlockId> parent) {
    for (const Entry& entry : entries_) {
      if (entry.hash != chain.hashes[index]) continue;
      if (IsBlockOf(entry, chain, index, parent)) return entry.block;
      ++verification_misses;
    }
    return std::nullopt;
  }

  std::vector<BlockId> Match(const worker::BlockChain& chain, std::uint32_t limit) {
    std::vector<BlockId> matched;
    std::optional<BlockId> parent;
    for (std::uint32_t i = 0; i < std::min<std::size_t>(limit, chain.hashes.size()); ++i) {
      parent = Find(chain, i, parent);
      if (!parent) break;
      matched.push_back(*parent);
    }
    return matched;
  }

  void Acquire(BlockId block) { ++Get(block)->references; }

  void Release(BlockId block) {
    Entry* entry = Get(block);
    if (entry == nullptr) {
      --own_blocks_;
    } else if (--entry->references == 0) {
      entry->idle_since = ++time_;
    }
  }

  // Is a block to be had? And what goes for it: the idle leaf that became idle first.
  struct Allocation {
    bool possible = false;
    std::optional<BlockHash> victim;
  };
  Allocation Allocate() {
    Allocation allocation;
    if (free_count() == 0) {
      auto victim = entries_.end();
      for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (entry->references > 0 || HasChild(entry->block)) continue;
        if (victim == entries_.end() || entry->idle_since < victim->idle_since) victim = entry;
      }
      if (victim == entries_.end()) return allocation;
      allocation.victim = victim->hash;
      entries_.erase(victim);
    }
    allocation.possible = true;
    ++own_blocks_;
    return allocation;
  }

  // The caller's own block `block` is block `index` of the chain, after `parent`.
  worker::CommitResult Commit(const worker::BlockChain& chain, std::uint32_t index, std::optional<BlockId> parent,
                              BlockId block) {
    using Kind = worker::CommitResult::Kind;
    for (Entry& entry : entries_) {
      if (entry.hash != chain.hashes[index]) continue;
      if (!IsBlockOf(entry, chain, index, parent)) {
        ++verification_misses;
        return {Kind::kCollided, block};
      }
      ++entry.references;
      --own_blocks_;
      return {Kind::kMerged, entry.block};
    }
    const auto end = chain.tokens.begin() + static_cast<std::ptrdiff_t>((std::size_t{index} + 1) * block_tokens_);
    entries_.push_back({block, chain.hashes[index], chain.root, parent, {chain.tokens.begin(), end}, 1, 0});
    --own_blocks_;
    return {Kind::kStored, block};
  }

  [[nodiscard]] BlockHash Digest() const {
    BlockHash digest;
    for (const Entry& entry : entries_) digest = digest ^ entry.hash;
    return digest;
  }
  [[nodiscard]] std::size_t free_count() const { return block_count_ - entries_.size() - own_blocks_; }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

  std::uint64_t verification_misses = 0;

 private:
  // Through the parents and, independently, through all tokens; a difference between the two is a wrong cache.
  [[nodiscard]] bool IsBlockOf(const Entry& entry, const worker::BlockChain& chain, std::uint32_t index,
                               std::optional<BlockId> parent) const {
    const std::size_t length = (std::size_t{index} + 1) * block_tokens_;
    return entry.parent == parent && entry.root == chain.root && entry.prefix.size() == length &&
           std::equal(entry.prefix.begin(), entry.prefix.end(), chain.tokens.begin());
  }
  [[nodiscard]] bool HasChild(BlockId block) const {
    return std::any_of(entries_.begin(), entries_.end(), [block](const Entry& entry) { return entry.parent == block; });
  }
  [[nodiscard]] Entry* Get(BlockId block) {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [block](const Entry& entry) { return entry.block == block; });
    return found == entries_.end() ? nullptr : &*found;
  }

  std::uint32_t block_count_;
  std::uint32_t block_tokens_;
  std::vector<Entry> entries_;
  std::size_t own_blocks_ = 0;  // held by a user, not ready
  std::uint64_t time_ = 0;
};

}  // namespace roost::testing_support

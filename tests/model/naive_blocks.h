// The blocks of the naive cache (naive_cache.h), and what follows from them alone: found by a search from end to end,
// and counted again each time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/prefix/block_hash.h"
#include "tests/model/naive_entry.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

class NaiveBlocks {
 public:
  using Entry = NaiveEntry;

  NaiveBlocks(std::uint32_t block_count, worker::CacheOptions options)
      : block_count_(block_count), options_(std::move(options)), shares_(1, block_count) {
    for (const double share : options_.group_shares) {
      shares_.push_back(std::min(shares_[0], static_cast<std::uint32_t>(share * block_count)));
      shares_[0] -= shares_.back();
    }
  }

  // The number of tokens, at most `limit`, that the block `entry` after `blocks` shares with the chain.
  [[nodiscard]] std::uint32_t SharedTokens(const Entry& entry, const worker::BlockChain& chain,
                                           std::span<const BlockId> blocks, std::uint32_t limit) const {
    const std::optional<BlockId> parent = blocks.empty() ? std::nullopt : std::optional(blocks.back());
    if (entry.parent != parent || entry.root != chain.root) return 0;
    std::uint32_t shared = 0;
    for (std::size_t i = blocks.size() * options_.block_tokens; i < chain.tokens.size() && shared < limit; ++i) {
      if (i >= entry.prefix.size() || entry.prefix[i] != chain.tokens[i]) break;
      ++shared;
    }
    return shared;
  }
  // The number of tokens of the best tail.
  [[nodiscard]] std::uint32_t TailTokens(const worker::BlockChain& chain, std::span<const BlockId> blocks,
                                         std::uint32_t limit) const {
    std::uint32_t best = 0;
    for (const Entry& entry : entries_) best = std::max(best, SharedTokens(entry, chain, blocks, limit));
    return best;
  }

  [[nodiscard]] bool HasChild(BlockId block) const {
    return std::any_of(entries_.begin(), entries_.end(), [block](const Entry& entry) { return entry.parent == block; });
  }
  [[nodiscard]] BlockHash Digest() const {
    BlockHash digest;
    for (const Entry& entry : entries_) {
      if (!IsPartial(entry)) digest = digest ^ entry.hash;
    }
    return digest;
  }
  [[nodiscard]] const Entry* WithHash(BlockHash hash) const {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.hash == hash && !IsPartial(entry); });
    return found == entries_.end() ? nullptr : &*found;
  }
  [[nodiscard]] const Entry* Get(BlockId block) const {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [block](const Entry& entry) { return entry.block == block; });
    return found == entries_.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::uint32_t ReferencesOf(BlockId block) {
    const Entry* entry = Get(block);
    return entry != nullptr ? entry->references : GetOwn(block)->references;
  }
  [[nodiscard]] bool IsPartial(const Entry& entry) const { return entry.prefix.size() % options_.block_tokens != 0; }
  // Includes pins of later blocks.
  [[nodiscard]] bool IsPinned(const Entry& entry) const {
    return entry.has_pin || std::any_of(entries_.begin(), entries_.end(), [&](const Entry& other) {
             return other.parent == entry.block && IsPinned(other);
           });
  }
  [[nodiscard]] static std::uint32_t PriorityOf(const Entry& entry) {
    return entry.retention ? entry.retention_priority : worker::kDefaultRetentionPriority;
  }

  [[nodiscard]] std::uint32_t ready_count() const {  // without the partial ones
    return Count([this](const Entry& entry) { return !IsPartial(entry); });
  }
  [[nodiscard]] std::uint32_t pinned_count() const {
    return Count([this](const Entry& entry) { return IsPinned(entry); });
  }
  [[nodiscard]] std::uint32_t available_count() const {
    return static_cast<std::uint32_t>(free_count()) + Count([this](const Entry& entry) { return IsAvailable(entry); });
  }
  // Can it be allocated without taking a held block?
  [[nodiscard]] bool IsAvailable(const Entry& entry) const {
    return entry.references == 0 && !IsPinned(entry) && !entry.held;
  }
  [[nodiscard]] std::uint32_t held_count() const {
    return Count([](const Entry& entry) { return entry.held; });
  }
  [[nodiscard]] std::uint32_t ready_count_of(std::uint32_t group) const {
    return Count([group](const Entry& entry) { return entry.group == group; });
  }
  [[nodiscard]] std::size_t free_count() const { return block_count_ - entries_.size() - own_.size(); }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::uint32_t block_tokens() const { return options_.block_tokens; }
  [[nodiscard]] const std::vector<std::uint32_t>& shares() const { return shares_; }  // in blocks, by group

 protected:
  struct OwnBlock {
    BlockId block;
    std::uint32_t references;
  };

  template <typename Predicate>
  [[nodiscard]] std::uint32_t Count(const Predicate& predicate) const {
    return static_cast<std::uint32_t>(std::count_if(entries_.begin(), entries_.end(), predicate));
  }
  [[nodiscard]] std::size_t Length(std::uint32_t index) const {
    return (std::size_t{index} + 1) * options_.block_tokens;
  }
  // Checks the parents and, independently, all tokens; a difference between the two means that the cache is wrong.
  [[nodiscard]] bool IsBlockOf(const Entry& entry, const worker::BlockChain& chain, std::uint32_t index,
                               std::optional<BlockId> parent) const {
    return entry.parent == parent && entry.root == chain.root && entry.prefix.size() == Length(index) &&
           std::equal(entry.prefix.begin(), entry.prefix.end(), chain.tokens.begin());
  }
  [[nodiscard]] Entry* Get(BlockId block) { return const_cast<Entry*>(std::as_const(*this).Get(block)); }
  [[nodiscard]] Entry* WithHash(BlockHash hash) { return const_cast<Entry*>(std::as_const(*this).WithHash(hash)); }
  [[nodiscard]] std::vector<OwnBlock>::iterator GetOwn(BlockId block) {
    return std::find_if(own_.begin(), own_.end(), [block](const OwnBlock& own) { return own.block == block; });
  }

  [[nodiscard]] bool HasHeldChild(const Entry& entry) const {
    return Count([&entry](const Entry& other) { return other.held && other.parent == entry.block; }) > 0;
  }
  [[nodiscard]] std::uint32_t HeldCountOf(std::uint32_t group) const {
    return Count([group](const Entry& entry) { return (entry.held || entry.reserved) && entry.group == group; });
  }
  // The block and those before it, less those that are pinned or will be held anyway.
  [[nodiscard]] std::uint32_t HoldNeed(const Entry& entry) const {
    std::uint32_t need = 1;
    for (const Entry* each = &entry; each->parent;) {
      each = Get(*each->parent);
      need += IsPinned(*each) || each->reserved ? 0 : 1;
    }
    return need;
  }
  [[nodiscard]] bool ShouldHold(const Entry& entry, std::uint32_t pinned, std::uint32_t need) const {
    if (HasHeldChild(entry) || entry.reserved) return true;
    const double share = static_cast<double>(shares_[entry.group]) / block_count_;
    const auto limit = static_cast<std::uint32_t>(options_.held_share_limit * (block_count_ - pinned) * share);
    return entry.hold && HeldCountOf(entry.group) + need <= limit;
  }
  [[nodiscard]] Entry* ParentOf(const Entry& entry) { return entry.parent ? Get(*entry.parent) : nullptr; }

  std::uint32_t block_count_;
  worker::CacheOptions options_;
  std::vector<std::uint32_t> shares_;  // in blocks, by group
  std::vector<Entry> entries_;
  std::vector<OwnBlock> own_;  // held by users, not ready
};

}  // namespace roost::testing_support

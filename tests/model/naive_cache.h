// The prefix cache with LRU by definition, too simple to be wrong: lists that are searched from end to end, whole
// prefixes instead of a tree, and a time stamp instead of an order. Derived values are recomputed each time they are
// needed. It trusts the real cache only for the numbers of free blocks.
//
// The order of eviction, among the idle blocks of a group that have no child and are not pinned: those with the lowest
// priority first, wanted ones after all others; of these the one that became idle first. A block gets a new place in
// that order when its retention, hold, pin or last want ends and this changes its priority or whether it is pinned or
// wanted.
//
// A held block is evicted only if a held block is asked for: the oldest of those of a group that have no child. A block
// is held from when it becomes idle or its pin ends, if it is young and there is space for it and all blocks before it,
// or if a block behind it is held. It is released when it is no longer young and no block behind it is held.
//
// A partial block has a prefix that ends within it. No hash finds it and no listener is told of it; otherwise it is a
// block like the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "common/prefix/block_hash.h"
#include "tests/model/naive_blocks.h"
#include "tests/model/naive_entry.h"
#include "tests/model/naive_pin_table.h"
#include "tests/model/naive_victims.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

class NaiveCache : public NaiveBlocks {
 public:
  using NaiveBlocks::NaiveBlocks;
  using Reach = NaiveVictims::Reach;
  using Timer = NaiveTimer;
  // An event for a listener, for one block.
  struct Event {
    enum class Kind : std::uint8_t { kStored, kRemoved } kind;
    BlockHash hash;
    std::size_t position = 0;  // of a stored block

    bool operator==(const Event&) const = default;
  };

  // ---- requests ----

  // The ready block `index` of the chain after `parent`.
  std::optional<BlockId> Find(const worker::BlockChain& chain, std::uint32_t index, std::optional<BlockId> parent) {
    const Entry* entry = WithHash(chain.hashes[index]);
    if (entry == nullptr) return std::nullopt;
    if (IsBlockOf(*entry, chain, index, parent)) return entry->block;
    ++counters.verification_misses;
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

  // Adds a holder to a block, ready or not.
  void Acquire(BlockId block) {
    if (Entry* entry = Get(block)) {
      BecomeUsed(*entry);
    } else {
      ++GetOwn(block)->references;
    }
  }

  void Release(BlockId block, const worker::RequestUse& use, const worker::RequestRetention& retention) {
    Entry* entry = Get(block);
    if (entry == nullptr) {
      const auto own = GetOwn(block);
      if (--own->references == 0) own_.erase(own);
      return;
    }
    --entry->references;
    entry->in_prompt = entry->prefix.size() <= use.prompt_token_count;
    Retain(*entry, entry->in_prompt ? retention.prompt : retention.decode);
    TakePlace(*entry);
    if (entry->references > 0) return;
    entry->held = !IsPinned(*entry) && ShouldHold(*entry, pinned_count(), HoldNeed(*entry));
    entry->reserved = false;
  }

  // Ends the retention of a block and of all before it, if it is exactly this one, back to front.
  void EndRetention(BlockId last, const worker::RequestRetention& retention) {
    for (Entry* entry = Get(last); entry != nullptr; entry = entry->parent ? Get(*entry->parent) : nullptr) {
      const worker::BlockRetention& own = entry->in_prompt ? retention.prompt : retention.decode;
      if (!own.end || !entry->retention || entry->retention_priority != own.priority) continue;
      if (entry->retention->end_tick != TimerUntil(*own.end).end_tick) continue;
      const std::uint32_t priority = PriorityOf(*entry);
      entry->retention.reset();
      if (priority != PriorityOf(*entry) && !IsPinned(*entry) && entry->wants == 0) TakePlace(*entry);
    }
  }

  // Can a block be allocated? Evicts the victim if there must be one. The caller then says which block it got (Own).
  bool Allocate(std::uint32_t group) {
    if (free_count() > 0) return true;
    const std::optional<BlockId> victim = NaiveVictims(*this).First(group, {Reach::kUnwanted, Reach::kWanted});
    if (!victim) return false;
    Evict(*victim);
    return true;
  }
  bool EvictHeld(std::uint32_t group) {
    const std::optional<BlockId> victim = NaiveVictims(*this).First(group, {Reach::kHeld});
    if (victim) Evict(*victim);
    return victim.has_value();
  }
  void Own(BlockId block) { own_.push_back({block, 1}); }

  // The caller's own block `block` is block `index` of the chain, after `parent`.
  worker::CommitResult Commit(const worker::BlockChain& chain, std::uint32_t index, std::optional<BlockId> parent,
                              BlockId block, std::uint32_t group) {
    using Kind = worker::CommitResult::Kind;
    Entry* equal = WithHash(chain.hashes[index]);
    if (equal != nullptr && !IsBlockOf(*equal, chain, index, parent)) {
      ++counters.verification_misses;
      return {Kind::kCollided, block};
    }
    own_.erase(GetOwn(block));
    if (equal != nullptr) {
      BecomeUsed(*equal);
      return {Kind::kMerged, equal->block};
    }
    Add(chain, block, parent, Length(index), group);
    entries_.back().hash = chain.hashes[index];
    events.push_back({Event::Kind::kStored, chain.hashes[index], index});
    Forget(chain.hashes[index]);
    if (pins_.Has(chain.hashes[index])) GivePin(entries_.back());
    return {Kind::kStored, block};
  }

  // The caller's own block `block` holds `token_count` tokens after `blocks`, which are ready. It becomes a partial
  // block, unless a block after `blocks` holds these tokens already.
  void StorePartial(const worker::BlockChain& chain, std::span<const BlockId> blocks, BlockId block,
                    std::uint32_t token_count, std::uint32_t group) {
    if (TailTokens(chain, blocks, token_count) == token_count) return;
    own_.erase(GetOwn(block));
    const std::optional<BlockId> parent = blocks.empty() ? std::nullopt : std::optional(blocks.back());
    Add(chain, block, parent, blocks.size() * options_.block_tokens + token_count, group);
  }

  // ---- pins and time ----

  void AdvanceTo(Instant now) {
    now_ = now;
    EndTimers();
    for (const BlockHash hash : pins_.TakeEnded(now)) TakePin(hash);
  }

  void Want(BlockId block) {
    Entry* entry = Get(block);
    if (entry->wants++ == 0) TakePlace(*entry);
  }
  void Unwant(BlockId block) {
    Entry* entry = Get(block);
    if (--entry->wants == 0) TakePlace(*entry);
  }

  void Pin(std::span<const BlockHash> hashes, std::optional<Instant> end) {
    for (const BlockHash hash : hashes) {
      Entry* entry = WithHash(hash);
      const bool counts_already = pins_.Has(hash) || (entry != nullptr && IsPinned(*entry));
      if (!counts_already && PinCount() >= pin_limit()) {
        ++counters.refused_pins;
        continue;
      }
      pins_.Remove(hash);
      pins_.Add({hash, end, ++time_});
      if (entry != nullptr) GivePin(*entry);
    }
  }
  void Unpin(std::span<const BlockHash> hashes) {
    for (auto hash = hashes.rbegin(); hash != hashes.rend(); ++hash) {
      pins_.Remove(*hash);
      TakePin(*hash);
    }
  }

  // ---- what is erased ----

  // A block without a child leaves the tree; its holders keep it as their own.
  void Erase(BlockId block) {
    Entry& entry = *Get(block);
    if (!IsPartial(entry)) {
      pins_.Remove(entry.hash);
      TakePin(entry.hash);
      events.push_back({Event::Kind::kRemoved, entry.hash});
    }
    EndHold(entry);
    if (entry.references > 0) own_.push_back({block, entry.references});
    entries_.erase(std::find_if(entries_.begin(), entries_.end(),
                                [block](const Entry& candidate) { return candidate.block == block; }));
  }
  // The prompt with these blocks is erased: those that are not here leave nothing.
  void ForgetMissing(std::span<const BlockHash> hashes) {
    for (const BlockHash hash : hashes) {
      if (WithHash(hash) != nullptr) continue;
      pins_.Remove(hash);
      Forget(hash);
    }
  }

  // ---- state ----

  [[nodiscard]] bool WasEvicted(BlockHash hash) const {
    return std::find(ghosts_.begin(), ghosts_.end(), std::optional(hash.low)) != ghosts_.end();
  }
  [[nodiscard]] const std::deque<std::optional<std::uint64_t>>& ghosts() const { return ghosts_; }

  worker::CacheCounters counters;
  std::vector<Event> events;  // the listener clears them

 private:
  // Adds `block`, which its user holds: the first `length` tokens of the chain end with it.
  void Add(const worker::BlockChain& chain, BlockId block, std::optional<BlockId> parent, std::size_t length,
           std::uint32_t group) {
    Entry entry{.block = block,
                .hash = {},
                .root = chain.root,
                .parent = parent,
                .prefix = {chain.tokens.begin(), chain.tokens.begin() + static_cast<std::ptrdiff_t>(length)},
                .group = group,
                .tenant = chain.tenant,
                .hold = std::nullopt,
                .stored_at = ++time_,
                .retention = std::nullopt};
    if (options_.min_hold > Duration::zero()) entry.hold = TimerUntil(now_ + options_.min_hold);
    DropPrefixOf(entry);
    entries_.push_back(std::move(entry));
  }
  // Drops the sibling right before `entry`, in the order of tokens, if it is idle and a prefix of `entry`.
  void DropPrefixOf(const Entry& entry) {
    const auto order = [](const Entry& sibling) { return std::tie(sibling.prefix, sibling.block); };
    const Entry* before = nullptr;
    for (const Entry& sibling : entries_) {
      if (sibling.parent != entry.parent || sibling.root != entry.root || order(sibling) > order(entry)) continue;
      if (before == nullptr || order(*before) < order(sibling)) before = &sibling;
    }
    if (before == nullptr || !IsPartial(*before) || before->references > 0) return;
    if (before->prefix.size() > entry.prefix.size()) return;
    if (std::equal(before->prefix.begin(), before->prefix.end(), entry.prefix.begin())) Evict(before->block);
  }

  // ---- eviction ----

  void Evict(BlockId block) {
    const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                    [block](const Entry& candidate) { return candidate.block == block; });
    if (!IsPartial(*entry)) {
      events.push_back({Event::Kind::kRemoved, entry->hash});
      Forget(entry->hash);
      ghosts_.emplace_back(entry->hash.low);
      if (ghosts_.size() > block_count_) ghosts_.pop_front();
    }
    ++counters.evicted_blocks;
    const std::optional<BlockId> parent = entry->parent;
    entries_.erase(entry);
    if (parent) LetGoWithoutReason(Get(*parent));
  }

  // ---- the hold ----

  void BecomeUsed(Entry& entry) {
    ++entry.references;
    if (entry.held && entry.hold) entry.reserved = true;
    EndHold(entry);
  }
  // The block is in use or pinned now.
  void EndHold(Entry& entry) {
    const bool was_held = std::exchange(entry.held, false);
    if (was_held) LetGoWithoutReason(ParentOf(entry));
  }
  void LetGoWithoutReason(Entry* entry) {
    for (; entry != nullptr && entry->held && !entry->hold && !HasHeldChild(*entry); entry = ParentOf(*entry)) {
      entry->held = false;
      TakePlace(*entry);
    }
  }

  // Removes a ghost: its block was stored, or is evicted again.
  void Forget(BlockHash hash) {
    for (std::optional<std::uint64_t>& ghost : ghosts_) {
      if (ghost == hash.low) ghost.reset();
    }
  }

  // ---- timers ----

  void TakePlace(Entry& entry) {
    entry.idle_since = ++time_;
    entry.placed_by = PriorityOf(entry);
  }
  [[nodiscard]] Timer TimerUntil(Instant end) {
    const Duration since = end.time_since_epoch() + worker::TimerWheel::kTick - Duration(1);
    return {since / worker::TimerWheel::kTick, ++time_};
  }

  void Retain(Entry& entry, const worker::BlockRetention& retention) {
    if (!retention.end || *retention.end <= now_) return;
    entry.retention_priority =
        entry.retention ? std::max(entry.retention_priority, retention.priority) : retention.priority;
    const Timer timer = TimerUntil(*retention.end);
    if (!entry.retention || entry.retention->end_tick < timer.end_tick) entry.retention = timer;
  }

  // Ends all expired timers; then blocks whose priority changed get new places, in the order of the ends.
  void EndTimers() {
    const std::int64_t tick = now_.time_since_epoch() / worker::TimerWheel::kTick;
    using Ended = std::tuple<int, std::int64_t, std::uint64_t, Entry*>;
    std::vector<Ended> ended;
    for (Entry& entry : entries_) {
      for (std::optional<Timer>* timer : {&entry.hold, &entry.retention}) {
        if (!*timer || (*timer)->end_tick > tick) continue;
        ended.emplace_back(timer == &entry.hold ? 0 : 1, (*timer)->end_tick, (*timer)->number, &entry);
        timer->reset();
        if (!entry.hold) entry.reserved = false;
      }
    }
    std::sort(ended.begin(), ended.end());
    for (const auto& [kind, end, number, entry] : ended) {
      if (entry->held) {
        LetGoWithoutReason(entry);
      } else if (entry->placed_by != PriorityOf(*entry) && !IsPinned(*entry) && entry->wants == 0) {
        TakePlace(*entry);
      }
    }
  }

  // ---- pins ----

  [[nodiscard]] std::uint32_t pin_limit() const {
    return static_cast<std::uint32_t>(options_.pinned_share_limit * block_count_);
  }
  // The number of blocks that are or will be pinned.
  [[nodiscard]] std::size_t PinCount() const {
    return pins_.size() + Count([this](const Entry& entry) { return IsPinned(entry) && !entry.has_pin; });
  }

  // `entry` is in the pin table. All blocks before it must be pinned too; the pin is refused if that exceeds the limit,
  // or if the pin of one of these blocks was refused.
  void GivePin(Entry& entry) {
    std::size_t more = 0;
    bool refused = false;
    if (!IsPinned(entry)) {
      for (const Entry* parent = ParentOf(entry); parent != nullptr && !IsPinned(*parent); parent = ParentOf(*parent)) {
        ++more;
        refused = refused || pins_.Has(parent->hash);
      }
    }
    if (refused || (more > 0 && PinCount() + more > pin_limit())) {
      ++counters.refused_pins;
    } else {
      entry.has_pin = true;
      for (Entry* before = ParentOf(entry); before != nullptr; before = ParentOf(*before)) EndHold(*before);
      EndHold(entry);
    }
  }
  // Blocks that are no longer pinned because of it get new places, back to front.
  void TakePin(BlockHash hash) {
    Entry* entry = WithHash(hash);
    if (entry == nullptr || !entry->has_pin) return;
    entry->has_pin = false;
    std::vector<Entry*> unpinned;
    for (; entry != nullptr && !IsPinned(*entry); entry = ParentOf(*entry)) unpinned.push_back(entry);
    std::uint32_t pinned = pinned_count() + static_cast<std::uint32_t>(unpinned.size());
    for (Entry* each : unpinned) {
      --pinned;
      TakePlace(*each);
      each->held = each->references == 0 && ShouldHold(*each, pinned, 1);  // those before it are still pinned
    }
  }

  NaivePinTable pins_;
  std::deque<std::optional<std::uint64_t>> ghosts_;  // the last evictions, less those stored again
  Instant now_;
  std::uint64_t time_ = 0;  // counts the operations
};

}  // namespace roost::testing_support

// What the prefix cache with LRU must do, too simple to be wrong: lists that are searched from end to end, whole
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
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "common/prefix/block_hash.h"
#include "tests/model/naive_entry.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

class NaiveCache {
 public:
  NaiveCache(std::uint32_t block_count, worker::CacheOptions options)
      : block_count_(block_count), options_(std::move(options)), shares_(1, block_count) {
    for (const double share : options_.group_shares) {
      shares_.push_back(std::min(shares_[0], static_cast<std::uint32_t>(share * block_count)));
      shares_[0] -= shares_.back();
    }
  }

  using Timer = NaiveTimer;
  using Entry = NaiveEntry;
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

  // How many tokens, at most `limit`, the block `entry` after `blocks` shares with the chain.
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

  [[nodiscard]] std::uint32_t ReferencesOf(BlockId block) {
    const Entry* entry = Get(block);
    return entry != nullptr ? entry->references : GetOwn(block)->references;
  }

  // Can a block be allocated? Evicts the victim if there must be one. The caller then says which block it got (Own).
  bool Allocate(std::uint32_t group) {
    if (free_count() > 0) return true;
    const std::optional<BlockId> victim = Victim(group, {Reach::kUnwanted, Reach::kWanted});
    if (!victim) return false;
    Evict(*victim);
    return true;
  }
  bool EvictHeld(std::uint32_t group) {
    const std::optional<BlockId> victim = Victim(group, {Reach::kHeld});
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
    if (IsInPinTable(chain.hashes[index])) GivePin(entries_.back());
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
    std::vector<TablePin> ended;
    for (const TablePin& pin : pins_) {
      if (pin.end && *pin.end <= now) ended.push_back(pin);
    }
    // The latest end first; of equal ends the pin that was added last.
    std::sort(ended.begin(), ended.end(), [](const TablePin& a, const TablePin& b) {
      return std::tie(a.end, a.number) > std::tie(b.end, b.number);
    });
    for (const TablePin& pin : ended) RemoveFromPinTable(pin.hash);
    for (const TablePin& pin : ended) TakePin(pin.hash);
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
      const bool counts_already = IsInPinTable(hash) || (entry != nullptr && IsPinned(*entry));
      if (!counts_already && PinCount() >= pin_limit()) {
        ++counters.refused_pins;
        continue;
      }
      RemoveFromPinTable(hash);
      pins_.push_back({hash, end, ++time_});
      if (entry != nullptr) GivePin(*entry);
    }
  }
  void Unpin(std::span<const BlockHash> hashes) {
    for (auto hash = hashes.rbegin(); hash != hashes.rend(); ++hash) {
      RemoveFromPinTable(*hash);
      TakePin(*hash);
    }
  }

  // ---- what is erased ----

  // A block without a child goes; whoever holds it keeps it as its own.
  void Erase(BlockId block) {
    Entry& entry = *Get(block);
    if (!IsPartial(entry)) {
      RemoveFromPinTable(entry.hash);
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
      RemoveFromPinTable(hash);
      Forget(hash);
    }
  }

  // ---- state ----

  [[nodiscard]] bool HasChild(BlockId block) const {
    return std::any_of(entries_.begin(), entries_.end(), [block](const Entry& entry) { return entry.parent == block; });
  }
  [[nodiscard]] bool WasEvicted(BlockHash hash) const {
    return std::find(ghosts_.begin(), ghosts_.end(), std::optional(hash.low)) != ghosts_.end();
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
  [[nodiscard]] bool IsPartial(const Entry& entry) const { return entry.prefix.size() % options_.block_tokens != 0; }
  // Includes pins of later blocks.
  [[nodiscard]] bool IsPinned(const Entry& entry) const {
    return entry.has_pin || std::any_of(entries_.begin(), entries_.end(), [&](const Entry& other) {
             return other.parent == entry.block && IsPinned(other);
           });
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
  [[nodiscard]] const std::deque<std::optional<std::uint64_t>>& ghosts() const { return ghosts_; }

  worker::CacheCounters counters;
  std::vector<Event> events;  // the listener clears them

 private:
  struct OwnBlock {
    BlockId block;
    std::uint32_t references;
  };
  struct TablePin {
    BlockHash hash;
    std::optional<Instant> end;
    std::uint64_t number;  // number of the call
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

  enum class Reach : std::uint8_t { kUnwanted, kWanted, kHeld };

  [[nodiscard]] static Reach ReachOf(const Entry& entry) {
    if (entry.held) return Reach::kHeld;
    return entry.wants > 0 ? Reach::kWanted : Reach::kUnwanted;
  }

  [[nodiscard]] std::optional<BlockId> Victim(std::uint32_t group, std::initializer_list<Reach> reaches) const {
    std::vector<std::uint32_t> givers;
    for (std::uint32_t giver = 0; giver < shares_.size(); ++giver) givers.push_back(giver);
    const auto excess = [this](std::uint32_t giver) {
      return std::int64_t{ready_count_of(giver)} - std::int64_t{shares_[giver]};
    };
    // A group over its share gives first for itself, then the others over theirs, then a group within its share for
    // itself, then the rest.
    const auto rank = [&](std::uint32_t giver) {
      if (excess(giver) > 0) return giver == group ? 0 : 1;
      return giver == group ? 2 : 3;
    };
    std::stable_sort(givers.begin(), givers.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(rank(a), -excess(a)) < std::pair(rank(b), -excess(b));
    });
    for (const Reach reach : reaches) {
      for (const std::uint32_t giver : givers) {
        if (const std::optional<BlockId> block = VictimOf(giver, reach)) return block;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<BlockId> VictimOf(std::uint32_t group, Reach reach) const {
    const Entry* victim = nullptr;
    const auto order = [reach](const Entry& entry) {
      if (reach == Reach::kHeld) return std::pair(0U, entry.stored_at);
      return std::pair(entry.wants > 0 ? 0 : PriorityOf(entry), entry.idle_since);
    };
    for (const Entry& entry : entries_) {
      if (entry.references > 0 || entry.group != group || ReachOf(entry) != reach) continue;
      if (HasChild(entry.block) || IsPinned(entry)) continue;
      if (victim == nullptr || order(entry) < order(*victim)) victim = &entry;
    }
    return victim != nullptr ? std::optional(victim->block) : std::nullopt;
  }

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

  [[nodiscard]] std::uint32_t HeldCountOf(std::uint32_t group) const {
    return Count([group](const Entry& entry) { return (entry.held || entry.reserved) && entry.group == group; });
  }
  [[nodiscard]] bool HasHeldChild(const Entry& entry) const {
    return Count([&entry](const Entry& other) { return other.held && other.parent == entry.block; }) > 0;
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

  [[nodiscard]] static std::uint32_t PriorityOf(const Entry& entry) {
    return entry.retention ? entry.retention_priority : worker::kDefaultRetentionPriority;
  }
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
  [[nodiscard]] bool IsInPinTable(BlockHash hash) const {
    return std::any_of(pins_.begin(), pins_.end(), [hash](const TablePin& pin) { return pin.hash == hash; });
  }
  void RemoveFromPinTable(BlockHash hash) {
    pins_.erase(std::remove_if(pins_.begin(), pins_.end(), [hash](const TablePin& pin) { return pin.hash == hash; }),
                pins_.end());
  }

  // `entry` is in the pin table. All blocks before it must be pinned too; the pin is refused if that exceeds the limit,
  // or if the pin of one of these blocks was refused.
  void GivePin(Entry& entry) {
    std::size_t more = 0;
    bool refused = false;
    if (!IsPinned(entry)) {
      for (const Entry* parent = ParentOf(entry); parent != nullptr && !IsPinned(*parent); parent = ParentOf(*parent)) {
        ++more;
        refused = refused || IsInPinTable(parent->hash);
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
  [[nodiscard]] Entry* ParentOf(const Entry& entry) { return entry.parent ? Get(*entry.parent) : nullptr; }

  std::uint32_t block_count_;
  worker::CacheOptions options_;
  std::vector<std::uint32_t> shares_;  // in blocks, by group
  std::vector<Entry> entries_;
  std::vector<OwnBlock> own_;  // held by users, not ready
  std::vector<TablePin> pins_;
  std::deque<std::optional<std::uint64_t>> ghosts_;  // the last evictions, less those stored again
  Instant now_;
  std::uint64_t time_ = 0;  // counts the operations
};

}  // namespace roost::testing_support

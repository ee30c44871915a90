// Finds where the holders of a chain change, by a kind of bisection. Equal holders at both ends of an interval prove
// that the whole interval has them (prefix closure). An interval whose ends differ is cut into five parts.
//
//   first cut    0 ······ 102 ······ 204 ······ 306 ······ 408 ······ 511
//   holders      A        A          B          B          B          C
//   two more              |··|··|··|··|                    |··|··|··|··|
//
// All cuts but the first use guesses: the positions where earlier chains with the same beginning had changes
// (ChangeMemory). A cut probes both sides of up to two guesses. A right guess takes two probes instead of twelve.
//
// The probes of a cut are independent of each other, and so are the cuts, which wait in a queue. While one cut waits
// for memory, the memory of the next ones is already being read, so a round of cuts takes little more than one memory
// read. More probes for fewer rounds gain nothing: cuts into four, six and eight parts were measured to be slower.
//
// Keeps its memory from search to search. Probes: about 4 · (changes) · log5(length), plus about 4 · kMaxChanges if all
// guesses are wrong. Rounds: log5(length), plus one for every two wrong guesses.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "common/base/prefetch.h"
#include "router/index/holders.h"

namespace roost::router {

// Remembers where the holders changed along chains that were looked up before, by the chain's first block. Most prompts
// share their beginning with others, and the holders of such a beginning seldom change. A search uses these positions
// as guesses.
//
// A change is recalled once two consecutive lookups of a family have seen it, so that differences between single
// prompts do not mislead. A cache line has four families; a new one replaces the one that was not looked up for the
// longest time.
//
// 256 KiB, all touched at construction, so that no lookup causes a page fault. Not thread-safe.
class ChangeMemory {
 public:
  // A family keeps its first changes, at most this many, at positions below 2^16.
  static constexpr std::size_t kMaxChanges = 6;
  // Ascending positions, then kNone; at least the last two are kNone.
  using Changes = std::array<std::uint32_t, kMaxChanges + 2>;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // Chains that begin with the same block form a family. `family` has bits of that block's hash.
  void Prefetch(std::uint64_t family) const { roost::Prefetch(&SetOf(family)); }

  // The positions whose holders differ from those of the next position.
  [[nodiscard]] Changes Recall(std::uint64_t family) const {
    Changes changes;
    changes.fill(kNone);
    std::size_t count = 0;
    const Set& set = SetOf(family);
    const std::size_t way = WayOf(set, family);
    if (way == kWays) return changes;
    const Entry& entry = set.ways[way];
    for (std::size_t i = 0; i < kMaxChanges; ++i) {
      changes[count] = entry.positions[i];
      count += entry.confirmed >> i & 1U;
    }
    std::fill(changes.begin() + static_cast<std::ptrdiff_t>(count), changes.end(), kNone);
    return changes;
  }

  // Stores the changes that a lookup found: ascending, without duplicates.
  void Remember(std::uint64_t family, std::span<const std::uint32_t> changes) {
    Set& set = SetOf(family);
    const std::size_t way = WayOf(set, family);
    const Entry before = way < kWays ? set.ways[way] : Entry{};
    for (std::size_t i = std::min(way, kWays - 1); i > 0; --i) set.ways[i] = set.ways[i - 1];
    Entry& entry = set.ways[0];
    entry = {.tag = TagOf(family)};
    const std::size_t count = std::min(changes.size(), kMaxChanges);
    for (std::size_t i = 0; i < count && changes[i] < kMaxPositions; ++i) {
      const auto position = static_cast<std::uint16_t>(changes[i]);
      bool seen = false;
      for (const std::uint16_t known : before.positions) seen |= known == position;
      entry.positions[i] = position;
      entry.confirmed |= static_cast<std::uint16_t>(seen ? 1U << i : 0U);
    }
  }

 private:
  static constexpr std::size_t kSets = 4096;
  static constexpr std::size_t kWays = 4;
  static constexpr std::uint32_t kMaxPositions = 1U << 16U;

  struct Entry {
    std::uint16_t tag = 0;
    std::uint16_t confirmed = 0;  // bit i: two consecutive lookups have seen position i
    std::array<std::uint16_t, kMaxChanges> positions = {};
  };
  struct alignas(64) Set {
    std::array<Entry, kWays> ways;  // most recently looked up first
  };
  static_assert(sizeof(Set) == 64);  // a cache line

  static std::uint16_t TagOf(std::uint64_t family) { return static_cast<std::uint16_t>(family >> 48U); }
  // kWays when the family is not there.
  static std::size_t WayOf(const Set& set, std::uint64_t family) {
    std::size_t way = 0;
    while (way < kWays && set.ways[way].tag != TagOf(family)) ++way;
    return way;
  }
  [[nodiscard]] const Set& SetOf(std::uint64_t family) const { return sets_[family % kSets]; }
  [[nodiscard]] Set& SetOf(std::uint64_t family) { return sets_[family % kSets]; }

  std::vector<Set> sets_ = std::vector<Set>(kSets);
};

template <typename PendingRead>
class ChainSearch {
 public:
  // A run of positions with equal holders.
  struct Stretch {
    std::uint32_t end = 0;  // one past the last position
    Holders holders;
  };

  // The stretches of positions 0 … length - 1, deepest first; the last one has the holders of position 0. length > 0;
  // chains of a family begin with the same block.
  // A probe has
  //   PendingRead Locate(std::uint32_t position): what to read;
  //   void Fetch(const PendingRead& pending): starts the read, without waiting for it;
  //   Holders Finish(const PendingRead& pending): its result;
  //   void Expect(Holders holders): called, before the search is over, for holders that will be in the result.
  template <typename Probe>
  [[nodiscard]] std::span<const Stretch> Run(std::uint32_t length, std::uint64_t family, const Probe& probe) {
    cuts_.clear();
    stretches_.clear();
    const PendingRead first = probe.Locate(0);
    const PendingRead last = probe.Locate(length - 1);
    probe.Fetch(first);
    probe.Fetch(last);
    memory_.Prefetch(family);
    Cut& whole = Begin(EqualParts(0, length - 1), probe);
    const Holders front = probe.Finish(first);
    whole.before = front;
    whole.after = probe.Finish(last);
    probe.Expect(whole.after);
    stretches_.push_back({.end = length, .holders = whole.after});
    if (whole.before == whole.after) return stretches_;
    guesses_ = memory_.Recall(family);
    for (std::size_t i = 0; i < cuts_.size(); ++i) Resolve(cuts_[i], probe);
    const auto is_deeper = [](const Stretch& a, const Stretch& b) { return a.end > b.end; };
    std::sort(stretches_.begin(), stretches_.end(), is_deeper);
    // A position that was read twice may end two stretches, if its holders changed between the reads. Both say how deep
    // they reach; only what was read first says who holds the beginning.
    stretches_.back().holders = front;
    Remember(family);
    return stretches_;
  }

 private:
  static constexpr std::uint32_t kParts = 5;

  // The places where an interval's parts begin, and where the last one ends. Ascending; parts may be empty.
  using Bounds = std::array<std::uint32_t, kParts + 1>;
  struct Cut {
    Bounds bounds = {};
    Holders before;                                  // at the first bound
    Holders after;                                   // at the last bound
    std::array<PendingRead, kParts - 1> reads = {};  // at the bounds between
  };

  // visit(0) … visit(kCount - 1), unrolled, which saves a tenth of a search's time.
  template <std::uint32_t kCount, typename Visit>
  static void Unrolled(Visit visit) {
    [&]<std::uint32_t... kIndex>(std::integer_sequence<std::uint32_t, kIndex...>) { (visit(kIndex), ...); }
    (std::make_integer_sequence<std::uint32_t, kCount>());
  }

  static Bounds EqualParts(std::uint32_t first, std::uint32_t last) {
    Bounds bounds;
    const std::uint64_t width = last - first;
    Unrolled<kParts + 1>([&](std::uint32_t i) { bounds[i] = first + static_cast<std::uint32_t>(width * i / kParts); });
    return bounds;
  }

  // Cuts at both sides of the first one or two guesses inside the interval; without a guess, into equal parts. Later
  // cuts do not use these guesses again, because they are then at the ends of parts.
  [[nodiscard]] Bounds PartsOf(std::uint32_t first, std::uint32_t last) const {
    std::size_t passed = 0;
    for (std::size_t i = 0; i < ChangeMemory::kMaxChanges; ++i) passed += guesses_[i] < first ? 1U : 0U;
    const std::uint32_t guess = guesses_[passed];
    const std::uint32_t next = guesses_[passed + 1];
    if (guess >= last) return EqualParts(first, last);
    if (next < last) return {first, guess, guess + 1, next, next + 1, last};
    return {first, std::midpoint(first, guess), guess, guess + 1, std::midpoint(guess + 1, last), last};
  }

  template <typename Probe>
  [[gnu::always_inline]] Cut& Begin(const Bounds& bounds, const Probe& probe) {
    Cut& cut = cuts_.emplace_back();
    cut.bounds = bounds;
    Unrolled<kParts - 1>([&](std::uint32_t i) { cut.reads[i] = probe.Locate(bounds[i + 1]); });
    // A loop of its own, so that the processor can start all reads at once.
    Unrolled<kParts - 1>([&](std::uint32_t i) { probe.Fetch(cut.reads[i]); });
    return cut;
  }

  // Begins cuts of the parts whose ends differ; `cut` may dangle afterwards.
  template <typename Probe>
  void Resolve(const Cut& cut, const Probe& probe) {
    const Bounds bounds = cut.bounds;
    std::array<Holders, kParts + 1> holders;
    holders[0] = cut.before;
    Unrolled<kParts - 1>([&](std::uint32_t i) { holders[i + 1] = probe.Finish(cut.reads[i]); });
    holders[kParts] = cut.after;
    unsigned changes = 0;  // bit i: part i has a change; without branches, because they would be unpredictable
    Unrolled<kParts>([&](std::uint32_t i) { changes |= static_cast<unsigned>(holders[i] != holders[i + 1]) << i; });
    for (; changes != 0; changes &= changes - 1) {
      const auto part = static_cast<std::uint32_t>(std::countr_zero(changes));
      const std::uint32_t first = bounds[part];
      const std::uint32_t last = bounds[part + 1];
      probe.Expect(holders[part]);
      if (last - first > 1) {
        Cut& next = Begin(PartsOf(first, last), probe);
        next.before = holders[part];
        next.after = holders[part + 1];
      } else {
        stretches_.push_back({.end = first + 1, .holders = holders[part]});
      }
    }
  }

  void Remember(std::uint64_t family) {
    std::array<std::uint32_t, ChangeMemory::kMaxChanges> changes = {};
    std::size_t count = 0;
    for (std::size_t i = stretches_.size() - 1; i > 0 && count < changes.size(); --i) {
      const std::uint32_t position = stretches_[i].end - 1;
      // Two stretches may end at one position, as in Run.
      if (count == 0 || position > changes[count - 1]) changes[count++] = position;
    }
    memory_.Remember(family, std::span(changes).first(count));
  }

  std::vector<Cut> cuts_;  // a queue; processed cuts stay in it until the next search
  std::vector<Stretch> stretches_;
  ChangeMemory memory_;
  ChangeMemory::Changes guesses_ = {};  // of the current search
};

}  // namespace roost::router

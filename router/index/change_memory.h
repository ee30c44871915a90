// Remembers where the holders changed along chains that were looked up before, by the chain's first block. Most prompts
// share their beginning with others, and the holders of such a beginning seldom change. A search uses these positions
// as guesses.
//
// A change is recalled once two consecutive lookups of a family have seen it, so that differences between single
// prompts do not mislead. A cache line has four families; a new one replaces the one that was not looked up for the
// longest time.
//
// 256 KiB, all touched at construction, so that no lookup causes a page fault. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/base/prefetch.h"

namespace roost::router {

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

}  // namespace roost::router

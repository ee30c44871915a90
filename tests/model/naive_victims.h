// The block that a naive cache evicts, by definition (see naive_cache.h for the order).
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "tests/model/naive_blocks.h"

namespace roost::testing_support {

class NaiveVictims {
 public:
  using Entry = NaiveEntry;
  // The blocks that may go: those that no waiting sequence wants, those that one wants, or those that are held.
  enum class Reach : std::uint8_t { kUnwanted, kWanted, kHeld };

  explicit NaiveVictims(const NaiveBlocks& blocks) : blocks_(blocks) {}

  // The first of these reaches that has a victim decides. `group`: for whom a block is needed.
  [[nodiscard]] std::optional<BlockId> First(std::uint32_t group, std::initializer_list<Reach> reaches) const {
    std::vector<std::uint32_t> givers;
    for (std::uint32_t giver = 0; giver < blocks_.shares().size(); ++giver) givers.push_back(giver);
    const auto excess = [this](std::uint32_t giver) {
      return std::int64_t{blocks_.ready_count_of(giver)} - std::int64_t{blocks_.shares()[giver]};
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

 private:
  [[nodiscard]] static Reach ReachOf(const Entry& entry) {
    if (entry.held) return Reach::kHeld;
    return entry.wants > 0 ? Reach::kWanted : Reach::kUnwanted;
  }

  [[nodiscard]] std::optional<BlockId> VictimOf(std::uint32_t group, Reach reach) const {
    const Entry* victim = nullptr;
    const auto order = [reach](const Entry& entry) {
      if (reach == Reach::kHeld) return std::pair(0U, entry.stored_at);
      return std::pair(entry.wants > 0 ? 0 : NaiveBlocks::PriorityOf(entry), entry.idle_since);
    };
    for (const Entry& entry : blocks_.entries()) {
      if (entry.references > 0 || entry.group != group || ReachOf(entry) != reach) continue;
      if (blocks_.HasChild(entry.block) || blocks_.IsPinned(entry)) continue;
      if (victim == nullptr || order(entry) < order(*victim)) victim = &entry;
    }
    return victim != nullptr ? std::optional(victim->block) : std::nullopt;
  }

  const NaiveBlocks& blocks_;
};

}  // namespace roost::testing_support

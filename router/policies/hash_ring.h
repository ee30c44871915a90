// Consistent hashing (Karger et al., STOC 1997): every worker slot has kReplicas points on a circle of 64-bit hashes. A
// key belongs to the first point at or after its hash. Points of slots without a worker are skipped, so when a worker
// joins or leaves, the other workers' keys stay where they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"

namespace roost::router {

class HashRing {
 public:
  static constexpr std::uint32_t kReplicas = 256;
  static constexpr std::size_t kKeyBlocks = 4;

  // Adds the missing points of slots below `slot_count`. O(points · log points) when there are new ones.
  void Grow(std::uint32_t slot_count);

  // Calls visit(WorkerSlot) for each point from `hash` on, once round the circle, until it returns false. A slot is
  // visited once for each of its points.
  template <typename Visit>
  void Walk(std::uint64_t hash, Visit visit) const {
    const auto first = std::lower_bound(points_.begin(), points_.end(), Point{hash, WorkerSlot()});
    const auto start = static_cast<std::size_t>(first - points_.begin());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (!visit(points_[(start + i) % points_.size()].slot)) return;
    }
  }

  // The hash of a prompt's first kKeyBlocks blocks, or of all of them if there are fewer. `block_hashes` must not be
  // empty. A block's hash covers all blocks before it.
  [[nodiscard]] static std::uint64_t KeyOf(std::span<const BlockHash> block_hashes);

 private:
  struct Point {
    std::uint64_t hash = 0;
    WorkerSlot slot;

    auto operator<=>(const Point&) const = default;
  };

  std::uint32_t slot_count_ = 0;
  std::vector<Point> points_;  // ascending
};

}  // namespace roost::router

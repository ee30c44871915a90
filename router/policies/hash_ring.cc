#include "router/policies/hash_ring.h"

#include "common/base/check.h"
#include "common/base/rng.h"

namespace roost::router {

void HashRing::Grow(std::uint32_t slot_count) {
  if (slot_count <= slot_count_) return;
  for (; slot_count_ < slot_count; ++slot_count_) {
    Rng hashes(Mix64(slot_count_ + std::uint64_t{1}));
    for (std::uint32_t replica = 0; replica < kReplicas; ++replica)
      points_.push_back({hashes(), WorkerSlot(slot_count_)});
  }
  std::sort(points_.begin(), points_.end());
}

std::uint64_t HashRing::KeyOf(std::span<const BlockHash> block_hashes) {
  ROOST_CHECK(!block_hashes.empty());
  return block_hashes[std::min(kKeyBlocks, block_hashes.size()) - 1].low;
}

}  // namespace roost::router

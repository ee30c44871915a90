// Cost-aware eviction: keeps what is often used and dear to compute again, and forgets what was so long ago.
//
//     priority = clock when it became idle + worth,   worth = uses x cost of computing it again
//
// The block of least priority goes, and the clock moves on to its priority (GreedyDual-Size-Frequency: Cherkasova,
// Improving WWW proxies performance with GreedyDual-Size-Frequency caching policy, HP Labs 1998; with blocks of one
// size). A block costs more the deeper it lies, because attention reads all that is before it. Uses and depth are
// rounded to levels; a list holds one level of worth, so it is in order of priority by itself, and only the heads are
// compared.
//
// 24 bytes per block. See EvictionPolicy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/cache/eviction.h"

namespace roost::worker {

class CostAwareEviction final : public EvictionPolicy {
 public:
  explicit CostAwareEviction(std::uint32_t block_count, std::uint32_t group_count = 1);

  void Insert(BlockId block, const BlockUse& use, TreePlace place) override;
  void BecomeLeaf(BlockId block) override;
  void Erase(BlockId block) override;
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup group) override;
  void Evict(BlockId block) override;

 private:
  LeafLists lists_;               // by group and level of worth
  std::vector<double> priority_;  // by block
  double clock_ = 0;
};

}  // namespace roost::worker

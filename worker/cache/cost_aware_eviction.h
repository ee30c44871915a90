// Cost-aware eviction: keeps blocks that are used often and are expensive to compute again; the value of past uses
// fades.
//
//     priority = clock when it became idle + worth,   worth = uses x cost of computing it again
//
// The block of lowest priority is evicted, and the clock moves on to its priority (GreedyDual-Size-Frequency:
// Cherkasova, Improving WWW proxies performance with GreedyDual-Size-Frequency caching policy, HP Labs 1998; here all
// blocks have one size). A deeper block costs more, because attention reads everything before it. Uses and depth are
// rounded to levels. A list holds blocks of one level of worth, so it is ordered by priority, and only the heads are
// compared.
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

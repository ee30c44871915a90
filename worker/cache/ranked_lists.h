// Idle blocks in lists by (group, class of reuse), each in the order in which blocks became idle. It hands out the
// least valuable leaf. The value is either the time of the last use (which gives exact LRU over all classes) or what a
// ReuseModel says of class and age. Because all blocks of a list have one class, two leaves represent it, and values
// may change at any time without moving a block.
//
//     group 0, class 0:  [b7 t=3][b2 t=9] …  [b8 t=40][b5 t=40]    ┐
//     group 0, class 1:  [b4 t=1][b9 t=5] …  [b3 t=41]             ├─ of oldest and newest leaves, the least value goes
//     group 0, class 2:  (empty)                                   ┘
//
// The newest leaf, because values need not fall with age: a block that was just used is often not used again for a
// while, and a block that has waited for a long time is closer to its next use. If there is room for only one of them,
// the older one stays. The newest leaf is searched among the blocks that the latest request pushed (a run, deepest
// first), and when they are gone, in the run before.
//
// Not thread-safe. Every operation is O(1), FirstToGo in the number of classes and amortised over the pushes. 28 bytes
// per block and 40 per list.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "common/base/prefetch.h"
#include "worker/cache/leaf_lists.h"
#include "worker/cache/reuse_model.h"

namespace roost::worker {

// When a block was let go of: the request, and the place among its blocks. Counts up.
struct ReleaseTime {
  std::uint64_t request = 0;
  std::uint32_t place = 0;
};

enum class Ranking : std::uint8_t { kLastUse, kHitDensity };

class RankedLists {
 public:
  RankedLists(std::uint32_t block_count, std::uint32_t group_count);

  // `block` is in no list.
  void PushBack(std::uint32_t group, std::uint32_t reuse_class, BlockId block, ReleaseTime time, TreePlace place);

  // As of LeafLists.
  void BecomeLeaf(BlockId block);
  void Erase(BlockId block);

  // The leaf of least value in the group. `request` is the present time.
  [[nodiscard]] std::optional<BlockId> FirstToGo(std::uint32_t group, Ranking ranking, const ReuseModel& model,
                                                 std::uint64_t request);

  void Prefetch(BlockId block) const {
    lists_.Prefetch(block);
    roost::Prefetch(&released_at_[block.value()]);
  }

 private:
  // A release time in one word, ordered: requests above, places below. Places beyond the last are as the last.
  static constexpr std::uint32_t kPlaceBits = 24;

  // The newest run in a list begins at `first`, while there is any.
  struct Newest {
    std::uint64_t request = 0;
    std::optional<BlockId> first;
  };

  // The newest run is used up: the one before it is the newest.
  void StepBack(std::uint32_t list, BlockId back);
  void MarkFilled(std::uint32_t list);

  LeafLists lists_;
  BigVector<std::uint64_t> released_at_;  // by block
  std::vector<std::uint64_t> filled_;     // by group: bit c is set if class c's list may have a leaf
  std::vector<Newest> newest_;            // by list
  std::vector<std::uint32_t> run_first_;  // by block; for the last of a run, the run's first
};

}  // namespace roost::worker

// Idle blocks in lists by (group, class of reuse), each in the order in which blocks became idle, of which the least
// valuable leaf is handed out. The value is either the time of the last use (which gives LRU over all classes, exactly)
// or what a ReuseModel says of the class and the age. Because a list holds one class only, its oldest leaf stands for
// it, and values may change at any time without any block moving.
//
//     group 0, class 0:  [b7 t=3][b2 t=9] …    ┐
//     group 0, class 1:  [b4 t=1][b9 t=5] …    ├─ the first leaf of each: the one of least value goes
//     group 0, class 2:  (empty)               ┘
//
// Not thread-safe. Every operation is O(1), FirstToGo in the number of classes and amortised over the pushes. 20 bytes
// per block.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"
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
  void Erase(BlockId block) { lists_.Erase(block); }

  // The leaf of least value in the group. `request` is the present time.
  [[nodiscard]] std::optional<BlockId> FirstToGo(std::uint32_t group, Ranking ranking, const ReuseModel& model,
                                                 std::uint64_t request);

 private:
  // A release time in one word, ordered: requests above, places below. Places beyond the last are as the last.
  static constexpr std::uint32_t kPlaceBits = 24;

  void MarkFilled(std::uint32_t list);

  LeafLists lists_;
  std::vector<std::uint64_t> released_at_;  // by block
  std::vector<std::uint64_t> filled_;       // by group: bit c is set if class c's list may have a leaf
};

}  // namespace roost::worker

// Idle blocks in lists by (group, reuse class), each in the order in which blocks became idle. It returns the least
// valuable leaf. The value is either the time of the last use (exact LRU over all classes) or the ReuseModel's density
// for class and age, times the cost of computing the block again. All blocks of a list have one class, so two leaves
// represent it, and values may change at any time without moving a block. A list's order does not depend on the cost.
// So that cheap blocks do not wait behind expensive ones, each class has a list for each of three depths: blocks that
// cost less than 2 times the first block of a prompt, less than 4 times, and more, when they become idle.
//
//     group 0, depth 0, class 0:  [b7 t=3][b2 t=9] …  [b8 t=40][b5 t=40]    ┐
//     group 0, depth 0, class 1:  [b4 t=1][b9 t=5] …  [b3 t=41]             ├─ the least value of oldest and newest
//     group 0, depth 1, class 0:  (empty)                                   ┘  leaves goes
//
// The newest leaf is a candidate because values need not fall with age: a block that was just used is often not used
// again for a while, and a block that has waited for a long time is closer to its next use. If there is space for only
// one of them, the older one stays. The newest leaf is searched for among the blocks that the latest request pushed (a
// run, deepest first), and when they are gone, in the previous run.
//
// Not thread-safe. Every operation is O(1), FirstToGo in the lists of a group and amortised over the pushes. 32 bytes
// per block and 40 per list.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "common/base/prefetch.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/eviction/reuse_model.h"
#include "worker/cache/structures/leaf_lists.h"

namespace roost::worker {

// The time of a block's release: the request, and the block's place among the request's blocks. Ascends.
struct ReleaseTime {
  std::uint64_t request = 0;
  std::uint32_t place = 0;
};

enum class Ranking : std::uint8_t { kLastUse, kHitDensity };

class RankedLists {
 public:
  RankedLists(std::uint32_t block_count, std::uint32_t group_count);

  // `block`, with so many blocks before it, is in no list.
  void PushBack(std::uint32_t group, std::uint32_t reuse_class, BlockId block, std::uint32_t position, ReleaseTime time,
                TreePlace place);

  // See LeafLists.
  void BecomeLeaf(BlockId block);
  void Erase(BlockId block);

  void SetRecomputeCost(RecomputeCost cost) { cost_ = cost; }

  // The leaf of least value in the group. `request` is the present time.
  [[nodiscard]] std::optional<BlockId> FirstToGo(std::uint32_t group, Ranking ranking, const ReuseModel& model,
                                                 std::uint64_t request);

  void Prefetch(BlockId block) const {
    lists_.Prefetch(block);
    roost::Prefetch(&releases_[block.value()]);
  }

 private:
  // A release time in one word, in order: the request in the high bits, the place in the low bits. Larger places are
  // clamped.
  static constexpr std::uint32_t kPlaceBits = 24;

  // The release of a block.
  struct Release {
    std::uint64_t time = 0;
    std::uint32_t position = 0;   // in blocks from the root
    std::uint32_t run_first = 0;  // for the last of a run, the run's first block
  };

  static constexpr std::uint32_t kDepths = 3;

  // The first block of the newest run in a list, if there is one.
  struct Newest {
    std::uint64_t request = 0;
    std::optional<BlockId> first;
  };

  // The newest run has no block left: the previous run becomes the newest.
  void StepBack(std::uint32_t list, BlockId back);
  void MarkFilled(std::uint32_t list);
  [[nodiscard]] std::uint32_t DepthOf(std::uint32_t position) const;

  std::uint32_t depth_count_;  // fewer than kDepths if there are many groups
  LeafLists lists_;
  RecomputeCost cost_;
  BigVector<Release> releases_;        // by block
  std::vector<std::uint64_t> filled_;  // by group and depth: bit c is set if class c's list may have a leaf
  std::vector<Newest> newest_;         // by list
};

}  // namespace roost::worker

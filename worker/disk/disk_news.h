// A worker's disk as the routers are told of it: what has entered and left, in order, and the set as of what was told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/disk/disk_index.h"
#include "worker/disk/segment.h"

namespace roost::worker {

// The changes since the last time, and the set as of then.
struct DiskNews {
  struct Erased {
    std::uint64_t id = 0;
    std::uint32_t block_count = 0;
  };
  std::vector<wire::CacheEvent> events;
  std::uint32_t block_count = 0;
  BlockHash digest;
  double bytes_per_second = 0;  // 0: it is off
  std::vector<Erased> erased;
};

// The changes that have still to be told.
//
// Not thread-safe. O(1) for each change.
class UntoldChanges {
 public:
  void Add(const DiskBlock& block, bool is_stored) { changes_.push_back({block, is_stored}); }
  // Moves up to kToldAtOnce of them to `news`, with the set as of then.
  void Tell(DiskNews& news);
  // The whole set is told, and so no change is left.
  void TellAll(const DiskIndex& index);
  [[nodiscard]] bool empty() const { return changes_.empty(); }

 private:
  static constexpr std::size_t kToldAtOnce = 4096;

  struct Change {
    DiskBlock block;
    bool is_stored = false;
  };

  std::deque<Change> changes_;
  std::uint32_t told_count_ = 0;
  BlockHash told_digest_;
};

}  // namespace roost::worker

// The index's own numbers for workers' blocks. A worker has a lane from its first block until it is cleared. Then, at
// once and for every reader, the lane has no owner; its blocks are removed from the table later:
//
//   free ──Acquire──► owned ──Retire──► no owner, some blocks left ──last one dropped, epoch over──► free
//
// So after clearing, neither the worker nor another one in its slot sees the old blocks, and clearing takes no time.
//
// One writer; any thread may call OwnerOf.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/ids.h"
#include "router/index/epoch_gate.h"
#include "router/index/holders.h"

namespace roost::router {

class Lanes {
 public:
  // `gate` outlives the lanes.
  explicit Lanes(const EpochGate& gate) : gate_(gate) {}

  // Empty when the lane was retired.
  [[nodiscard]] std::optional<WorkerSlot> OwnerOf(Lane lane) const {
    const std::uint32_t owner = owners_[lane.value()].load(std::memory_order_acquire);
    if (owner == kNobody) return std::nullopt;
    return WorkerSlot(owner - 1);
  }

  // Takes the lowest free lane, so that sets stay short. Empty when none is free. O(kMaxLanes).
  [[nodiscard]] std::optional<Lane> Acquire(WorkerSlot worker);
  void Retire(Lane lane);

  // A block of this lane was added to the table, or removed from it.
  void AddBlock(Lane lane) { ++notes_[lane.value()].block_count; }
  void DropBlock(Lane lane);

  [[nodiscard]] std::uint64_t block_count(Lane lane) const { return notes_[lane.value()].block_count; }
  // The number of blocks of all lanes without an owner.
  [[nodiscard]] std::uint64_t retired_block_count() const { return retired_block_count_; }

 private:
  struct Note {
    std::uint64_t block_count = 0;
    Epoch idle_since = 0;  // when it lost its owner and its last block; 0 before its first owner
  };
  static constexpr std::uint32_t kNobody = 0;

  const EpochGate& gate_;
  std::array<std::atomic<std::uint32_t>, kMaxLanes> owners_ = {};  // a worker's slot + 1, or kNobody
  std::array<Note, kMaxLanes> notes_ = {};
  std::uint64_t retired_block_count_ = 0;
};

}  // namespace roost::router

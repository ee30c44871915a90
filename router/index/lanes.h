// The index's own numbers for what workers hold. A worker has a lane from its first block until it is cleared; then the
// lane is nobody's at once, for every reader, and its blocks are taken out of the table later:
//
//   free ──Acquire──► owned ──Retire──► nobody's, some blocks left ──last one dropped, epoch over──► free
//
// So a worker that is cleared, or another one in its slot, never sees blocks of before, and clearing costs no time.
//
// One writer; OwnerOf by any thread.
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
  // Outlives it.
  explicit Lanes(const EpochGate& gate) : gate_(gate) {}

  // Nothing when the lane was retired.
  [[nodiscard]] std::optional<WorkerSlot> OwnerOf(Lane lane) const {
    const std::uint32_t owner = owners_[lane.value()].load(std::memory_order_acquire);
    if (owner == kNobody) return std::nullopt;
    return WorkerSlot(owner - 1);
  }

  // The lowest one, so that sets stay short. Nothing when all are owned or not empty yet. O(kMaxLanes).
  [[nodiscard]] std::optional<Lane> Acquire(WorkerSlot worker);
  void Retire(Lane lane);

  // A block of this lane came into the table, or left it.
  void AddBlock(Lane lane) { ++notes_[lane.value()].block_count; }
  void DropBlock(Lane lane);

  [[nodiscard]] std::uint64_t block_count(Lane lane) const { return notes_[lane.value()].block_count; }
  // Of all lanes that are nobody's.
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

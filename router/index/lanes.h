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
#include <bit>
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

// The depth limit of a full index, which drops its deepest blocks. A block's descendants are deeper than itself, so the
// remaining blocks stay prefix-closed, regardless of the order in which entries are dropped.
//
// Positions are grouped into classes: up to 63 each position is a class, from there on an octave has 32. Entries of the
// limit's class and deeper count as absent as soon as the limit is set; they are dropped gradually.
//
// One writer; any thread may call limit().

// A deeper class has a higher number.
using DepthClass = std::uint32_t;

class DepthLimit {
 public:
  static constexpr unsigned kClassBits = 9;
  static constexpr DepthClass kClasses = 1U << kClassBits;
  // Above all classes: no limit.
  static constexpr DepthClass kNone = kClasses;

  [[nodiscard]] static constexpr DepthClass ClassOf(std::uint64_t position) {
    constexpr unsigned kStepsPerOctave = 32;
    if (position < kStepsPerOctave) return static_cast<DepthClass>(position);
    const auto octave = static_cast<std::uint64_t>(std::bit_width(position / kStepsPerOctave)) - 1;
    const std::uint64_t depth = octave * kStepsPerOctave + (position >> octave);
    return depth < kClasses ? static_cast<DepthClass>(depth) : kClasses - 1;
  }

  [[nodiscard]] DepthClass limit() const { return limit_.load(std::memory_order_acquire); }

  void Add(DepthClass depth) {
    ++counts_[depth];
    if (depth >= limit()) ++excess_count_;
  }
  void Drop(DepthClass depth) {
    --counts_[depth];
    if (depth >= limit()) --excess_count_;
  }
  // The number of entries beyond the limit, which are still to be dropped.
  [[nodiscard]] std::size_t excess_count() const { return excess_count_; }

  // Moves at least `count` entries beyond the limit; fewer if only blocks of position 0 would be left.
  void Lower(std::size_t count) {
    DepthClass limit = this->limit();
    while (limit > 1 && excess_count_ < count) excess_count_ += counts_[--limit];
    limit_.store(limit, std::memory_order_release);
  }
  // Removes the limit. No entry may be beyond it.
  void Lift() { limit_.store(kNone, std::memory_order_release); }

 private:
  std::array<std::size_t, kClasses> counts_ = {};
  std::size_t excess_count_ = 0;
  std::atomic<DepthClass> limit_ = kNone;
};

}  // namespace roost::router

// The depth at which an index that is full cuts off: it gives up the deepest blocks. A block's descendants are deeper
// than itself, so the rest stays prefix-closed, in whatever order entries are dropped.
//
// Positions fall into classes: each of its own up to 63, from there on 32 to an octave. Entries of the limit's class
// and deeper count as absent from the moment that the limit is set; they are dropped by and by.
//
// One writer; limit() by any thread.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace roost::router {

// Ordered: the deeper, the higher.
using DepthClass = std::uint32_t;

class DepthLimit {
 public:
  static constexpr unsigned kClassBits = 9;
  static constexpr DepthClass kClasses = 1U << kClassBits;
  // No class is this deep.
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
  // Entries that are to be dropped.
  [[nodiscard]] std::size_t excess_count() const { return excess_count_; }

  // Moves at least `count` entries beyond the limit; fewer if only blocks of position 0 would be left.
  void Lower(std::size_t count) {
    DepthClass limit = this->limit();
    while (limit > 1 && excess_count_ < count) excess_count_ += counts_[--limit];
    limit_.store(limit, std::memory_order_release);
  }
  // There is no limit: no entry is beyond it.
  void Lift() { limit_.store(kNone, std::memory_order_release); }

 private:
  std::array<std::size_t, kClasses> counts_ = {};
  std::size_t excess_count_ = 0;
  std::atomic<DepthClass> limit_ = kNone;
};

}  // namespace roost::router

// The depth limit of a full index, which drops its deepest blocks. A block's descendants are deeper than itself, so the
// remaining blocks stay prefix-closed, regardless of the order in which entries are dropped.
//
// Positions are grouped into classes: up to 63 each position is a class, from there on an octave has 32. Entries of the
// limit's class and deeper count as absent as soon as the limit is set; they are dropped gradually.
//
// One writer; any thread may call limit().
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace roost::router {

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

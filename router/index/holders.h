// The holders of a block, in 23 bits: up to two lanes in ascending order, or the id of an interned set of three or
// more. Equal sets always have equal values.
//
//   bits 0 … 10      11 … 21          22
//   lane + 1 or 0    lane + 1 or 0    0
//   SetId, 22                         1
//
// A plain value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/ids.h"

namespace roost::router {

// The index's own number for a worker's blocks, from its first block until it is cleared (lanes.h).
using Lane = StrongId<struct LaneTag, std::uint32_t>;
inline constexpr std::size_t kMaxLanes = 2047;

// Calls visit(Lane) for each bit of word number `word` of a bit set of lanes, in ascending order.
inline constexpr std::size_t kLanesPerWord = 64;
template <typename Visit>
void ForEachLaneOfWord(std::size_t word, std::uint64_t bits, Visit visit) {
  for (; bits != 0; bits &= bits - 1) {
    visit(Lane(static_cast<std::uint32_t>(word * kLanesPerWord) + static_cast<std::uint32_t>(std::countr_zero(bits))));
  }
}

// The place of a set in the memory of HolderSets.
using SetId = StrongId<struct SetTag, std::uint32_t>;
inline constexpr unsigned kSetIdBits = 22;

class Holders {
 public:
  static constexpr unsigned kBits = kSetIdBits + 1;
  static constexpr std::size_t kMaxInline = 2;

  constexpr Holders() = default;  // no holder
  constexpr explicit Holders(SetId set) : bits_(set.value() | kSetTag) {}
  // The inverse of bits().
  [[nodiscard]] static constexpr Holders FromBits(std::uint32_t bits) {
    Holders holders;
    holders.bits_ = bits;
    return holders;
  }

  [[nodiscard]] constexpr std::uint32_t bits() const { return bits_; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr bool is_set() const { return (bits_ & kSetTag) != 0; }
  constexpr bool operator==(const Holders&) const = default;

  // Requires is_set().
  [[nodiscard]] constexpr SetId set() const { return SetId(bits_ & ~kSetTag); }

  // The following require !is_set().
  [[nodiscard]] constexpr std::size_t inline_count() const {
    return (bits_ > 0 ? 1U : 0U) + (bits_ > kLaneMask ? 1U : 0U);
  }
  // Requires index < inline_count().
  [[nodiscard]] constexpr Lane lane(std::size_t index) const { return Lane((index == 0 ? low() : high()) - 1); }
  [[nodiscard]] constexpr bool ContainsInline(Lane lane) const {
    return low() == lane.value() + 1 || high() == lane.value() + 1;
  }
  // Adds a lane that is not in. Requires fewer than kMaxInline lanes.
  [[nodiscard]] constexpr Holders WithInline(Lane lane) const {
    const std::uint32_t added = lane.value() + 1;
    if (empty()) return FromBits(added);
    return FromBits(added < low() ? added | low() << kLaneBits : low() | added << kLaneBits);
  }
  // Removes a lane that is in.
  [[nodiscard]] constexpr Holders WithoutInline(Lane lane) const {
    return FromBits(low() == lane.value() + 1 ? high() : low());
  }

 private:
  static constexpr unsigned kLaneBits = kSetIdBits / kMaxInline;
  static constexpr std::uint32_t kLaneMask = (1U << kLaneBits) - 1;
  static constexpr std::uint32_t kSetTag = 1U << kSetIdBits;
  static_assert(kMaxLanes == kLaneMask);

  [[nodiscard]] constexpr std::uint32_t low() const { return bits_ & kLaneMask; }
  [[nodiscard]] constexpr std::uint32_t high() const { return bits_ >> kLaneBits & kLaneMask; }

  std::uint32_t bits_ = 0;
};

}  // namespace roost::router

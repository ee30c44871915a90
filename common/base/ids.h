// Strong ids: integers that can not be mixed up, and the ids that both daemons use.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace roost {

// An id of kind Tag. It compares and hashes; it does no arithmetic.
template <typename Tag, typename Rep>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

// A token of a model's vocabulary. A plain integer, because kernels and the wire hold arrays of them.
using TokenId = std::uint32_t;

// A physical KV block of one worker: 0 … block_count-1.
using BlockId = StrongId<struct BlockTag, std::uint32_t>;

// A request, unique within the router that accepted it (and the lifetime of that router's process).
using RequestId = StrongId<struct RequestTag, std::uint64_t>;

// A router's slot for a worker. It is reused after the worker is gone; the worker's name and epoch distinguish its
// lives.
using WorkerSlot = StrongId<struct WorkerSlotTag, std::uint32_t>;

}  // namespace roost

template <typename Tag, typename Rep>
struct std::hash<roost::StrongId<Tag, Rep>> {
  std::size_t operator()(roost::StrongId<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value()); }
};

// MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md) as values, from a peer that is not trusted: the
// depth, the number of values and the bytes of a message are bounded, and a length that the message announces reserves
// no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace roost::worker::adapters {

inline constexpr std::size_t kMaxPackedBytes = std::size_t{32} << 20U;
inline constexpr std::size_t kMaxPackedValues = std::size_t{1} << 22U;  // a prompt of a million tokens, four times
inline constexpr std::size_t kMaxPackedDepth = 8;

struct PackedValue {
  struct Bytes {
    std::string bytes;
  };
  using Array = std::vector<PackedValue>;
  struct Map {  // in the message's order; each name has a value
    std::vector<std::string> names;
    Array values;
  };

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Bytes, Array, Map> value;

  [[nodiscard]] bool is_nil() const { return std::holds_alternative<std::monostate>(value); }
  // Nothing unless it is a whole number from 0 to the largest one.
  [[nodiscard]] std::optional<std::uint32_t> AsU32() const;
  [[nodiscard]] const std::string* AsText() const { return std::get_if<std::string>(&value); }
  [[nodiscard]] const Array* AsArray() const { return std::get_if<Array>(&value); }
  [[nodiscard]] const Map* AsMap() const { return std::get_if<Map>(&value); }
};

// kDataLoss: not exactly one value, or over a bound. Keys of maps are texts; extension types become Bytes. O(bytes).
[[nodiscard]] Result<PackedValue> ParseMessagePack(std::span<const std::byte> message);

}  // namespace roost::worker::adapters

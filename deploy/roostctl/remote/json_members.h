// Reads members of a router's JSON answers by JSON pointer, with a default for absent ones and those of another type.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roost::roostctl {

[[nodiscard]] inline std::string_view TextAt(simdjson::dom::element object, const char* pointer) {
  std::string_view value;
  return object.at_pointer(pointer).get(value) == simdjson::SUCCESS ? value : "?";
}

[[nodiscard]] inline std::uint64_t CountAt(simdjson::dom::element object, const char* pointer) {
  std::uint64_t value = 0;
  return object.at_pointer(pointer).get(value) == simdjson::SUCCESS ? value : 0;
}

[[nodiscard]] inline bool FlagAt(simdjson::dom::element object, const char* pointer) {
  bool value = false;
  return object.at_pointer(pointer).get(value) == simdjson::SUCCESS && value;
}

// Nothing for null and for an absent member.
[[nodiscard]] inline std::optional<double> SecondsAt(simdjson::dom::element object, const char* pointer) {
  double value = 0;
  if (object.at_pointer(pointer).get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

// The items of an array; empty for anything else. O(items).
[[nodiscard]] std::vector<simdjson::dom::element> ListAt(simdjson::dom::element object, const char* pointer);

// Encodes a value for a URL's query.
[[nodiscard]] std::string PercentEncode(std::string_view text);

}  // namespace roost::roostctl

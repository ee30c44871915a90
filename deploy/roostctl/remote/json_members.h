// Reads members of a router's JSON answers by JSON pointer or name, with a default for absent ones and those of another
// type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/json/json_read.h"

namespace roost::roostctl {

[[nodiscard]] inline std::string_view TextAt(json::Element object, std::string_view place) {
  return json::At<std::string_view>(object, place).value_or("?");
}

[[nodiscard]] inline std::uint64_t CountAt(json::Element object, std::string_view place) {
  return json::At<std::uint64_t>(object, place).value_or(0);
}

[[nodiscard]] inline bool FlagAt(json::Element object, std::string_view place) {
  return json::At<bool>(object, place).value_or(false);
}

// Nothing for null and for an absent member.
[[nodiscard]] inline std::optional<double> SecondsAt(json::Element object, std::string_view place) {
  return json::At<double>(object, place);
}

// Encodes a value for a URL's query.
[[nodiscard]] std::string PercentEncode(std::string_view text);

}  // namespace roost::roostctl

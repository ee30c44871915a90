// Numbers that simdjson can not hold: integers beyond 64 bits, and decimals that a double changes. A text with such
// numbers is parsed with a string in place of each: kKept and the number's own text.
//
//   {"id":18446744073709551616} ─► WithKeptNumbers ─► {"id":"<U+10FFFF>18446744073709551616"} ─► simdjson ─► JsonText
//
// U+10FFFF is no character, so no text begins with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/json/json_read.h"

namespace roost::json {

// Sixteen digits in a row, as in each number that simdjson rounds. Looks at each fifteenth byte: a text without such
// numbers costs next to nothing.
[[nodiscard]] bool HasLongNumber(std::string_view json);

// `json` with its numbers that simdjson can not hold kept as strings. Valid JSON stays valid, anything else wrong.
// O(n).
[[nodiscard]] std::string WithKeptNumbers(std::string_view json);

// True if `text` is a number of JSON.
[[nodiscard]] bool IsNumber(std::string_view text);

// The text of a kept number; nothing for any other value.
[[nodiscard]] std::optional<std::string_view> KeptNumber(Element value);

// A string of the JSON text; nothing for a kept number.
[[nodiscard]] std::optional<std::string_view> TextOf(Element value);
// A number, the nearest double of a kept one.
[[nodiscard]] std::optional<double> NumberOf(Element value);

// The value as JSON without spaces, kept numbers as they were.
[[nodiscard]] std::string JsonText(Element value);

}  // namespace roost::json

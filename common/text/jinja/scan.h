// The small languages inside a template's tags: numbers, string escapes, names.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// May `c` begin a name? Letters, the underscore, and every byte of a code point outside ASCII.
[[nodiscard]] bool IsNameByte(char c);

struct NumberToken {
  std::size_t length;          // bytes of the number at the front
  std::optional<Value> value;  // Int or Float; nothing when it is malformed or out of range
};
// The number at the front of `text`, which begins with a digit: decimal, 0x, 0o, 0b, with underscores; or a float.
[[nodiscard]] NumberToken ScanNumber(std::string_view text);

// `quoted` is the text between the quotes. Escapes as in Python's string literals.
Result<std::string> DecodeString(std::string_view quoted);

}  // namespace roost::jinja

// Text from elsewhere as a line for operators.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/utf8.h"

namespace roost {

// The front of `text`, at most `most` bytes, as one line of UTF-8: a space for each control character and each byte
// that is no UTF-8.
[[nodiscard]] inline std::string OneLine(std::string_view text, std::size_t most) {
  std::string line;
  while (!text.empty()) {
    const std::optional<CodePoint> next = DecodeUtf8(text);
    const std::size_t length = next ? next->length : 1;
    std::string_view part = text.substr(0, length);
    if (!next || HasControlCharacter(part)) part = " ";
    if (line.size() + part.size() > most) break;
    line += part;
    text.remove_prefix(length);
  }
  return line;
}

}  // namespace roost

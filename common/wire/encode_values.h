// Writes single values inside messages, for the encoder that is made from the schema. A value over its limit stops the
// program.
#pragma once

#include <kj/string.h>

#include <cstddef>
#include <string>

#include "common/base/check.h"

namespace roost::wire {

// The size of a list, at most `most`. Cap'n Proto counts lists in 32 bits; the limits are far below that.
[[nodiscard]] inline unsigned Count(std::size_t count, std::size_t most, const char* field) {
  ROOST_CHECK(count <= most, "{} {}, limit {}", count, field, most);
  return static_cast<unsigned>(count);
}

// At most `most` bytes. It points into `text`.
[[nodiscard]] inline kj::StringPtr Text(const std::string& text, std::size_t most, const char* field) {
  ROOST_CHECK(text.size() <= most, "{}: {} bytes, limit {}", field, text.size(), most);
  return {text.c_str(), text.size()};
}

// Errors may quote long input. Only the front of a long text is sent, always as UTF-8.
[[nodiscard]] std::string BoundedText(const std::string& text);

}  // namespace roost::wire

// UTF-8 as Unicode defines it (The Unicode Standard, table 3-7): no overlong forms, no surrogates, nothing over
// U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace roost {

// Length in bytes, 1 to 4, of the well-formed sequence at the front of `text`; 0 when there is none.
[[nodiscard]] std::size_t Utf8SequenceLength(std::string_view text);

[[nodiscard]] bool IsValidUtf8(std::string_view text);

// Does valid UTF-8 hold a control character: U+0000 to U+001F, or U+007F to U+009F?
[[nodiscard]] bool HasControlCharacter(std::string_view text);

// Does valid UTF-8 hold an invisible character: a control character, a format character such as a zero-width space, or
// a separator of lines? Two names that differ by such a one look the same.
[[nodiscard]] bool HasInvisibleCharacter(std::string_view text);

// The number of bytes at the end of `text` that begin a sequence that more bytes could complete: 0 to 3. A stream holds
// these back.
[[nodiscard]] std::size_t IncompleteUtf8Suffix(std::string_view text);

// The code point at the front and its length; nothing when the front is not well-formed or `text` is empty.
struct CodePoint {
  char32_t value;
  std::size_t length;
};
[[nodiscard]] std::optional<CodePoint> DecodeUtf8(std::string_view text);

// `value` must be a scalar value (no surrogate, at most U+10FFFF).
void AppendUtf8(char32_t value, std::string& out);

// Copy of `text` in which each maximal ill-formed part is one U+FFFD, as Python and Rust replace it.
[[nodiscard]] std::string ReplaceInvalidUtf8(std::string_view text);

}  // namespace roost

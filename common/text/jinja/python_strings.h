// Strings by code point, counted and cut as in Python, over valid UTF-8. Linear in the text unless stated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roost::jinja {

[[nodiscard]] std::size_t CountCodePoints(std::string_view text);

// Byte offset of code point `index`; text.size() when there are fewer.
[[nodiscard]] std::size_t ByteOffset(std::string_view text, std::size_t index);

[[nodiscard]] std::vector<std::string_view> SplitCodePoints(std::string_view text);

// Python's str.isspace for one code point; `\s` and strip() use the same set.
[[nodiscard]] bool IsSpace(char32_t c);
// Would Python's repr() show it without an escape?
[[nodiscard]] bool IsPrintable(char32_t c);
[[nodiscard]] bool IsAlphabetic(char32_t c);
[[nodiscard]] bool IsDecimal(char32_t c);
[[nodiscard]] bool IsNumeric(char32_t c);
[[nodiscard]] bool IsUpperCase(char32_t c);
[[nodiscard]] bool IsLowerCase(char32_t c);

// Simple case mappings, and the only full mapping that ordinary text meets: ß becomes SS.
[[nodiscard]] std::string ToUpper(std::string_view text);
[[nodiscard]] std::string ToLower(std::string_view text);
// First code point in upper case, the others in lower case.
[[nodiscard]] std::string Capitalize(std::string_view text);

enum class Side { kLeft, kRight, kBoth };
// Without the characters at `side` that str.isspace accepts.
[[nodiscard]] std::string_view StripSpace(std::string_view text, Side side);
// Without the code points at `side` that occur in `chars`.
[[nodiscard]] std::string_view StripChars(std::string_view text, std::string_view chars, Side side);

// Byte offset of `wanted` in `text` from `begin` on, or npos. Linear in both; std::string::find takes the product of
// their lengths on hostile texts.
[[nodiscard]] std::size_t FindText(std::string_view text, std::string_view wanted, std::size_t begin);

enum class LineEnds { kKeep, kDrop };
[[nodiscard]] std::vector<std::string_view> SplitLines(std::string_view text, LineEnds ends);

}  // namespace roost::jinja

// Strings by code point, as Python counts and cuts them, over valid UTF-8. Linear in the text unless stated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roost::jinja {

[[nodiscard]] std::size_t CountCodePoints(std::string_view text);

// Byte offset of code point `index`; text.size() when there are not so many.
[[nodiscard]] std::size_t ByteOffset(std::string_view text, std::size_t index);

[[nodiscard]] std::vector<std::string_view> SplitCodePoints(std::string_view text);

// Python's str.isspace of one code point, which is also what `\s` and strip() mean there.
[[nodiscard]] bool IsSpace(char32_t c);
// Would Python's repr() show it as it is?
[[nodiscard]] bool IsPrintable(char32_t c);
[[nodiscard]] bool IsAlphabetic(char32_t c);
[[nodiscard]] bool IsDecimal(char32_t c);
[[nodiscard]] bool IsNumeric(char32_t c);
[[nodiscard]] bool IsUpperCase(char32_t c);
[[nodiscard]] bool IsLowerCase(char32_t c);

// Simple case mappings, and the one full mapping that meets ordinary text: ß becomes SS.
[[nodiscard]] std::string ToUpper(std::string_view text);
[[nodiscard]] std::string ToLower(std::string_view text);
// First code point in upper case, the others in lower case.
[[nodiscard]] std::string Capitalize(std::string_view text);

enum class Side { kLeft, kRight, kBoth };
// Without what str.isspace accepts, at the named side.
[[nodiscard]] std::string_view StripSpace(std::string_view text, Side side);
// Without code points that occur in `chars`.
[[nodiscard]] std::string_view StripChars(std::string_view text, std::string_view chars, Side side);

// Byte offset of `wanted` in `text` from `begin` on, or npos. Linear in both, unlike std::string::find, which takes the
// product of their lengths on texts made for it.
[[nodiscard]] std::size_t FindText(std::string_view text, std::string_view wanted, std::size_t begin);

enum class LineEnds { kKeep, kDrop };
[[nodiscard]] std::vector<std::string_view> SplitLines(std::string_view text, LineEnds ends);

}  // namespace roost::jinja

// Kinds of characters as the reference library defines them. Its tables are of other Unicode versions than utf8proc's
// (15), and of different ones for different kinds. Pure functions, constant time.
#pragma once

#include <string>

namespace roost::text {

// ASCII punctuation and symbols, and general category P of about Unicode 8.
[[nodiscard]] bool IsPunctuation(char32_t c);

// General category N of Unicode 17.
[[nodiscard]] bool IsNumeric(char32_t c);

// Appends the lower case of `c` by Unicode 17: one code point, but two for U+0130.
void AppendLowercase(char32_t c, std::string& out);

}  // namespace roost::text

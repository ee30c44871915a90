// The parts of Unicode that tokenizers need and that no library here provides in that form. Pure functions; all text is
// valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace roost::text {

// Has the property White_Space.
[[nodiscard]] bool IsWhitespace(char32_t c);

// The begin of the run of white space at the end of `text`, and the end of the one at its front.
[[nodiscard]] std::size_t TrailingWhitespaceBegin(std::string_view text);
[[nodiscard]] std::size_t LeadingWhitespaceEnd(std::string_view text);

enum class NormalForm { kC, kD, kKc, kKd };

// Replaces `text` by its normal form (Unicode Standard Annex 15). n log n in the longest run of combining marks, linear
// otherwise; utf8proc's own one-call interface is quadratic in such a run. The tables are utf8proc's (Unicode 15). The
// reference library's are older: their NFC orders three rare marks differently (U+1DF6, U+1E4EC, U+1E4ED). False when
// it would need more than `limit` characters on the way, or more bytes; then `text` is unchanged, or longer.
[[nodiscard]] bool Normalize(NormalForm form, std::size_t limit, std::string& text);

// PCRE2 10.42 knows Unicode 14, the reference library Unicode 16. Before matching, each code point that is new since 14
// is replaced by an older one of the same category, script (where patterns name it) and length in UTF-8, so that a
// pattern matches the same bytes. False, with `stand_in` unchanged, when `text` has none of them, as nearly always.
[[nodiscard]] bool ReplaceNewCodePoints(std::string_view text, std::string& stand_in);
// The stand-in of `c`, or `c` itself.
[[nodiscard]] char32_t StandInOf(char32_t c);

}  // namespace roost::text

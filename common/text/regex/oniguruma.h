// Translates the regular expressions of tokenizer files, written for Oniguruma with its Ruby syntax, into PCRE2's
// syntax (compiled with UTF, UCP, MULTILINE and newline LF), so that both match the same.
//
// Translated: \s (Unicode's White_Space in Oniguruma), {n,m}+ (greedy repeat of a repeat, not possessive), {,n}, \v,
// \h, scripts. Refused with a message that names it: what differs and is not worth translating (POSIX classes, class
// intersections, nested classes, back-references, \b, \w, case folding that changes a string's length, repeats of what
// may be empty, '.*' behind a look-around, …), because a wrong split would give a wrong prompt. oniguruma_compare_test
// compares random patterns with Oniguruma.
//
// The result contains callouts, with which regex.cc limits the time of a match.
//
// Source: Oniguruma's doc/RE and doc/SYNTAX.md; pcre2pattern(3).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace roost::text {

// Longer patterns are refused. The longest in use, DeepSeek's list of letters, has under 4,000 bytes.
inline constexpr std::size_t kMaxPatternBytes = 16 * 1024;

// Linear. The error has no field: only the caller knows the pattern's place in the file.
[[nodiscard]] Result<std::string> TranslateOniguruma(std::string_view pattern);

}  // namespace roost::text

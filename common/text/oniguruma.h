// Translates the regular expressions of tokenizer files, written for Oniguruma with its Ruby syntax, into PCRE2's
// syntax (to be compiled with UTF, UCP, MULTILINE and newline LF) such that both match alike.
//
// What differs, and is translated: \s (Unicode's White_Space in Oniguruma), {n,m}+ (greedy repeat of a repeat, not
// possessive), {,n}, \v, \h, scripts. What does not mean the same and is not worth translating (POSIX classes,
// class intersections, nested classes, back-references, \b, \w, case folding that changes a string's length, repeats of
// what may be empty, '.*' behind a look-around, …) is refused with a message that names it: a wrong split would be a
// wrong prompt. oniguruma_compare_test holds random patterns against Oniguruma.
//
// The result has callouts, by which regex.cc bounds the time of a match.
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

// Linear. The error has no field: the caller knows where the pattern stands.
[[nodiscard]] Result<std::string> TranslateOniguruma(std::string_view pattern);

}  // namespace roost::text

// Regular expressions of requests, as ECMA-262 has them, rewritten for the library that makes automata of them: with
// explicit classes, without anchors, in a form that the library reads the same way everywhere. What it would read
// otherwise, or not at all, is an error that says what.
//
//   supported   alternatives, groups, * + ? {m,n} with and without ?, classes, . \d \w \s and their opposites, escapes
//   of
//               characters, ^ and $ at the ends of an alternative outside groups
//   not         look-around, back references, word boundaries, flags, \p{…}, anchors elsewhere
//
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace roost::grammar {

inline constexpr std::size_t kMaxRegexBytes = 16'384;
inline constexpr std::size_t kMaxRegexDepth = 64;         // groups inside one another
inline constexpr std::size_t kMaxRegexElements = 65'536;  // characters and classes, with repetitions written out

enum class RegexUse {
  kWholeText,    // the text matches from its first to its last character
  kJsonPattern,  // a part of a JSON string's content does, as `pattern` of JSON Schema says. What matches is written
                 // without escapes, so no quote, backslash or control character can be in it
};

// kInvalidArgument names `field`.
[[nodiscard]] Result<std::string> LibraryRegex(std::string_view regex, RegexUse use, const std::string& field);

}  // namespace roost::grammar

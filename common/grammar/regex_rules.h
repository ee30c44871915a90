// Rewrites regular expressions of requests for the library that compiles automata from them: with explicit classes,
// without anchors, in a form with one reading. A construct that the library would read differently, or not at all, is
// an error that names it.
//
// LibraryRegex reads ECMA-262 and writes a regular expression. RuleOfRegex reads what Python and Rust have in common
// and writes the body of a rule (rule_text.h). Where these two differ, or know characters beyond ASCII by their kind
// (\w, \d and their opposites, i), the rule matches no more than either does.
//
//   supported   alternatives, groups, * + ? {m,n} with and without ?, classes, . \d \w \s and their opposites, escaped
//               characters, ^ and $ at the ends of an alternative outside groups
//   not         look-around, back references, word boundaries, flags, \p{…}, anchors elsewhere
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/grammar/rule_text.h"

namespace roost::grammar {

inline constexpr std::size_t kMaxRegexBytes = 16'384;
inline constexpr std::size_t kMaxRegexDepth = 64;         // groups inside one another
inline constexpr std::size_t kMaxRegexElements = 65'536;  // characters and classes, with repetitions written out

enum class RegexUse {
  kWholeText,    // the whole text must match
  kJsonPattern,  // part of a JSON string's content must match, as `pattern` of JSON Schema says. The match is written
                 // without escapes, so it contains no quote, backslash or control character
};

// The cost of compiling, in sixteenths of the most expensive state: one where any character may come next, for which
// the library tries nearly every token of the vocabulary. With 131,072 tokens such a state takes about 10 ms.
using CompileCost = std::uint64_t;
inline constexpr CompileCost kMaxCompileCost = 16 * 1024;
// A repetition is written out up to this many times; of a longer one, so many copies stand before and behind the count
// (worker/grammar/xgrammar.cmake).
inline constexpr std::size_t kWrittenOut = 16;

struct CostedText {
  std::string text;
  CompileCost cost = 0;
};

// kInvalidArgument names `field`.
[[nodiscard]] Result<CostedText> LibraryRegex(std::string_view regex, RegexUse use, const std::string& field);

enum class RegexAnchors : std::uint8_t { kMayStand, kRefused };
struct RuleOptions {
  RulePlace place = RulePlace::kText;
  RegexAnchors anchors = RegexAnchors::kMayStand;  // at the ends of an alternative outside groups
  bool ignores_case = false;                       // flag i; (?i) in front sets it too
  bool dot_is_any = false;                         // flag s
};

// Alternatives without parentheses around. The whole text must match. kInvalidArgument names `field`.
[[nodiscard]] Result<CostedText> RuleOfRegex(std::string_view regex, RuleOptions options, const std::string& field);

}  // namespace roost::grammar

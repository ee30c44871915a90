// Notation of characters in rules of EBNF, as the library reads them.
//
// Rules may describe a text that stands within a JSON string. Characters that JSON does not take as they are have one
// escaped form there: \" \\ \b \f \n \r \t. Other control characters, \u0001 and so on, are written where a set has
// few of them. Null is in no text.
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/grammar/code_points.h"

namespace roost::grammar {

enum class RulePlace : std::uint8_t { kText, kJsonString };

// One element that matches any character of the set; empty if none can be written.
[[nodiscard]] std::string RuleOfSet(const CodePoints& set, RulePlace place);
// One element that matches `text`, which is UTF-8 and not empty, without null characters.
[[nodiscard]] std::string RuleOfText(std::string_view text, RulePlace place);

}  // namespace roost::grammar

// Translates grammars of Lark into rules of EBNF for the library that compiles automata. A text matches if Lark's
// Earley parser takes it with the lexer `dynamic_complete`: terminals match as long or as short as the rules want.
//
//   supported   rules and terminals, alternatives, groups, [optional], ? * + ~n ~n..m, strings with and without i,
//               "a".."z", regular expressions (RuleOfRegex) with the flags i and s, %ignore, comments, aliases,
//               priorities of rules, %import common.NAME of the terminals in kLarkCommon
//   not         priorities of terminals, templates, %declare, %extend, %override, other imports, terminals that name
//               themselves
//
// The start rule is `start`. Ignored terminals may stand in front, and behind each terminal of a rule.
//
// Pure. O(text).
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/grammar/regex_rules.h"
#include "common/grammar/rule_text.h"

namespace roost::grammar {

inline constexpr std::size_t kMaxLarkBytes = 65'536;
inline constexpr std::size_t kMaxLarkNames = 4096;
inline constexpr std::size_t kMaxLarkDepth = 64;       // groups inside one another
inline constexpr std::size_t kMaxLarkCount = 4096;     // n and m of ~n..m
inline constexpr std::size_t kMaxRuleBytes = 262'144;  // of the translation

struct LarkTerminal {
  std::string_view name;
  std::string_view definition;
};
// Lark's own library of terminals, by the same names. Strings and comments end where they end first.
inline constexpr std::array<LarkTerminal, 25> kLarkCommon{{
    {"DIGIT", R"("0".."9")"},
    {"HEXDIGIT", R"("a".."f" | "A".."F" | DIGIT)"},
    {"INT", R"(DIGIT+)"},
    {"SIGNED_INT", R"(["+" | "-"] INT)"},
    {"DECIMAL", R"(INT "." INT? | "." INT)"},
    {"_EXP", R"(("e" | "E") SIGNED_INT)"},
    {"FLOAT", R"(INT _EXP | DECIMAL _EXP?)"},
    {"SIGNED_FLOAT", R"(["+" | "-"] FLOAT)"},
    {"NUMBER", R"(FLOAT | INT)"},
    {"SIGNED_NUMBER", R"(["+" | "-"] NUMBER)"},
    {"ESCAPED_STRING", R"(/"(\\[^\n]|[^"\\\n])*"/)"},
    {"LCASE_LETTER", R"("a".."z")"},
    {"UCASE_LETTER", R"("A".."Z")"},
    {"LETTER", R"(UCASE_LETTER | LCASE_LETTER)"},
    {"WORD", R"(LETTER+)"},
    {"CNAME", R"(("_" | LETTER) ("_" | LETTER | DIGIT)*)"},
    {"WS_INLINE", R"(/[ \t]+/)"},
    {"WS", R"(/[ \t\f\r\n]+/)"},
    {"CR", R"(/\r/)"},
    {"LF", R"(/\n/)"},
    {"NEWLINE", R"((CR? LF)+)"},
    {"SH_COMMENT", R"(/#[^\n]*/)"},
    {"CPP_COMMENT", R"(/\/\/[^\n]*/)"},
    {"C_COMMENT", R"(/\/\*([^*]|\*+[^*\/])*\*+\//)"},
    {"SQL_COMMENT", R"(/--[^\n]*/)"},
}};

// kInvalidArgument names `field`, and the line.
[[nodiscard]] Result<CostedText> LarkRules(std::string_view grammar, RulePlace place, const std::string& field);

}  // namespace roost::grammar

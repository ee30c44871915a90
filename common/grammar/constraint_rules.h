// Translates a constraint from the wire into input for the library that compiles automata (worker/grammar). The router
// calls it to refuse, with the name of the wrong field, what no worker would accept. The worker calls it again, because
// a router may be of another version.
//
// Pure. O(text).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/grammar/regex_rules.h"
#include "common/wire/messages.h"

namespace roost::grammar {

inline constexpr std::size_t kMaxChoices = 4096;
inline constexpr std::size_t kMaxGrammarBytes = 65'536;
inline constexpr std::size_t kMaxGrammarDepth = 64;     // parentheses inside one another
inline constexpr std::size_t kMaxGrammarCount = 4096;   // the largest m or n of a repetition {m,n}
inline constexpr std::size_t kMaxStructuralDepth = 32;  // formats inside one another

enum class LibraryForm : std::uint8_t { kSchema, kRegex, kGrammar, kStructuralTag };

struct LibraryInput {
  LibraryForm form = LibraryForm::kSchema;
  std::string text;
  std::vector<TokenId> tokens = {};  // special tokens that a structural tag names
  CompileCost cost = 0;
  bool has_grammar = false;  // a client's own, whose cost is not known before it is compiled
};

// Tells Lark from EBNF, which has ::= in each rule; Lark has it nowhere but in texts.
[[nodiscard]] bool IsLark(std::string_view grammar);

// kInvalidArgument names the constraint's field.
[[nodiscard]] Result<LibraryInput> LibraryInputOf(const wire::Constraint& constraint);

}  // namespace roost::grammar

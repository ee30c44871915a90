// What a constraint of the wire means to the library that makes automata (worker/grammar). The router asks in order to
// refuse, with the field that is wrong, what no worker would take; the worker asks again, because not every router is
// of its version.
//
// Pure. O(text).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"

namespace roost::grammar {

inline constexpr std::size_t kMaxChoices = 4096;
inline constexpr std::size_t kMaxGrammarBytes = 65'536;
inline constexpr std::size_t kMaxGrammarDepth = 64;     // parentheses inside one another
inline constexpr std::size_t kMaxGrammarCount = 4096;   // of a repetition {m,n}
inline constexpr std::size_t kMaxStructuralDepth = 32;  // formats inside one another

enum class LibraryForm : std::uint8_t { kSchema, kRegex, kGrammar, kStructuralTag };

struct LibraryInput {
  LibraryForm form = LibraryForm::kSchema;
  std::string text;
  std::vector<TokenId> tokens = {};  // special ones that a structural tag names
};

// kInvalidArgument names the constraint's field.
[[nodiscard]] Result<LibraryInput> LibraryInputOf(const wire::Constraint& constraint);

}  // namespace roost::grammar

// The form of an answer that must call tools, or whose calls must hold to schemas: the family's own syntax, as a
// structural tag for workers (common/grammar).
//
//   forced (`required`, a named function)   [reasoning] calls
//   strict (`strict: true`, `auto`)         [reasoning] text, free until a call's marker; then calls, and nothing after
//
//   calls     call, then up to kMaxCalls - 1 others; one where the request wants one
//   call      the function's name, then arguments by its schema; any object for functions that are not strict
//
// A marker that is a special token of the model's is asked for as that token, which no text can spell; another is text.
//
// Pure.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/api/family_output.h"
#include "router/api/tool_set.h"

namespace roost::router {

struct CallSyntax {
  OutputFamily family;
  ReasoningStart reasoning_start = ReasoningStart::kNever;
  // The special token of this text; nothing where there is none.
  std::function<std::optional<TokenId>(std::string_view)> special_token;
};

// Can calls be asked for as the family writes them? Not in XML and in Python, whose values are no JSON.
[[nodiscard]] bool HasCallSyntax(ToolFamily family);

// Of a family that has a syntax. Nothing when calls are neither forced nor strict. An error names the tools: their
// schemas hold what no form can express.
[[nodiscard]] Result<std::optional<wire::Constraint>> CallConstraint(const ToolSet& tools, const CallSyntax& syntax);

}  // namespace roost::router

// The constraint for an answer that must call tools, or whose calls must match schemas: the model family's own call
// syntax, as a structural tag for workers (common/grammar).
//
//   forced (`required`, a named function)   [reasoning] calls
//   strict (`strict: true`, `auto`)         [reasoning] text, free until a call's marker; then calls, and nothing
//   after;
//                                           also with a custom tool's grammar, or where the model sees more tools than
//                                           it may call (ToolSet::limits_calls)
//
//   form      [reasoning] an answer of the request's own form; or calls, where that form is JSON and the model may
//   call. A
//             regex, a choice or a grammar describes all that the model writes behind its reasoning
//
//   calls     a call, then up to kMaxForcedCalls - 1 others; only one if the request wants one
//   call      the function's name, then arguments that match its schema; any object if the function is not strict; for
//             a custom tool's grammar {"input": "a text of it"}
//
// A marker that is a special token of the model is required as that token, so text that spells it does not match. Any
// other marker is required as text.
//
// Pure.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/api/tool_parsers/output_parser.h"
#include "router/api/tool_set.h"

namespace roost::router {

struct CallSyntax {
  OutputFamily family;
  ReasoningStart reasoning_start = ReasoningStart::kNever;
  // The special token with this text, if the model has one.
  std::function<std::optional<TokenId>(std::string_view)> special_token;
};

// True if a constraint can describe the family's calls: not for XML and Python, whose values are not JSON.
[[nodiscard]] bool HasCallSyntax(ToolFamily family);
// True if a constraint can hold such calls to names and to custom tools' grammars: in XML a text stands as it is.
[[nodiscard]] bool HasXmlCalls(ToolFamily family);

// Forced calls as a list: [{"name": "f", "arguments": {…}}, …].
[[nodiscard]] Result<std::optional<wire::Constraint>> CallListConstraint(const ToolSet& tools);

// For a request with a form of its own (response_format and others), whose calls are not forced. Empty where the form
// alone says all: no call is possible, and the prompt has begun no reasoning.
[[nodiscard]] Result<std::optional<wire::Constraint>> FormConstraint(const wire::Constraint& form, const ToolSet& tools,
                                                                     const CallSyntax& syntax);

// The family must have a call syntax, or XML, of which calls are described that are not forced and limited. Empty when
// calls are neither forced nor strict. An error names the tools when their schemas use something that a constraint can
// not express.
[[nodiscard]] Result<std::optional<wire::Constraint>> CallConstraint(const ToolSet& tools, const CallSyntax& syntax);

}  // namespace roost::router

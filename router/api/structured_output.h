// The fields of a request that say what form its output has, as a constraint for workers:
//
//   response_format     {"type": "text" | "json_object" | "json_schema", "json_schema": {"name": …, "schema": {…}}}
//   guided_json         a JSON schema, as an object or as text      guided_regex     a regular expression
//   guided_choice       an array of strings                         guided_grammar   a grammar in EBNF
//   structured_outputs  {"json": …} or {"regex": …}, {"choice": …}, {"grammar": …}, {"json_object": true}
//
// At most one of them. What workers can not hold to is refused here, by the field (common/grammar).
//
// Pure.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/api/json_object.h"

namespace roost::router {

// Of the field at `path`; nothing where it asks for text of any form.
using ConstraintRead = Result<std::optional<wire::Constraint>>;
[[nodiscard]] ConstraintRead ReadResponseFormatConstraint(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadGuidedJson(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadGuidedRegex(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadGuidedChoice(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadGuidedGrammar(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadStructuredOutputs(JsonElement element, const std::string& path);

// Puts what a field asks for to what others have asked for. kInvalidArgument where there are two.
[[nodiscard]] Result<void> SetConstraint(ConstraintRead read, std::optional<wire::Constraint>& constraint);

}  // namespace roost::router

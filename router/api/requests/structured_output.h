// Turns the fields of a request that set the form of its output into a constraint for workers:
//
//   response_format     {"type": "text" | "json_object" | "json_schema", "json_schema": {"name": …, "schema": {…}}};
//                       "schema" may stand beside the type, with json_object too
//   guided_json         a JSON schema, as an object or as text      guided_regex     a regular expression
//   guided_choice       an array of strings                         guided_grammar   a grammar in EBNF
//   json_schema, regex, ebnf, grammar    other servers' names of guided_json, guided_regex and guided_grammar
//   format              "json", any JSON object, or a JSON schema, as Ollama's clients write it
//   structured_outputs  {"json": …} or {"regex": …}, {"choice": …}, {"grammar": …}, {"json_object": true}
//
// A request has at most one of them. A constraint that workers can not enforce (common/grammar) is an error that names
// the field.
//
// Pure.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/api/json_object.h"

namespace roost::router {

// The constraint of the field at `path`; empty if it allows any text.
using ConstraintRead = Result<std::optional<wire::Constraint>>;
[[nodiscard]] ConstraintRead ReadResponseFormatConstraint(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadGuidedJson(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadGuidedRegex(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadGuidedChoice(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadGuidedGrammar(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadFormat(JsonElement element, const std::string& path);
[[nodiscard]] ConstraintRead ReadStructuredOutputs(JsonElement element, const std::string& path);

// Stores a field's constraint in `constraint`. kInvalidArgument if another field has already set one.
[[nodiscard]] Result<void> SetConstraint(ConstraintRead read, std::optional<wire::Constraint>& constraint);

}  // namespace roost::router

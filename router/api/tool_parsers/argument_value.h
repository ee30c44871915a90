// The value that an argument's text means, in a family's syntax that writes strings without quotes (XML): the value
// that the parameter's schema allows, strings first.
//
//   schema                            text          value
//   string; string or null            12345         "12345"
//   string or null                    null          null
//   string or integer                 12345         "12345"
//   integer; none at all              12345         12345
//   integer                           12.5          "12.5"
//   enum of "a", "b"                  a             "a"
//   enum of "1", 2                    2             2
//   boolean                           True          true, as templates in Python write it
//   object                            {"a": 1}      {"a": 1}
//   array                             ['a', None]   ["a", null], as Python writes it
//
// Schemas are followed through $ref, anyOf, oneOf and allOf.
//
// Pure. O(schema) for each argument.
#pragma once

#include <string>
#include <string_view>

namespace roost::router {

// `schema` is that of the function's parameters, or empty. The value as JSON; a string if it is nothing else.
[[nodiscard]] std::string ArgumentJson(std::string_view schema, std::string_view name, std::string_view text);

// True if the schema names parameters.
[[nodiscard]] bool HasParameters(std::string_view schema);
// True if any text may be the value, as a string.
[[nodiscard]] bool TakesText(std::string_view schema, std::string_view name);

}  // namespace roost::router

// Rewrites JSON schemas of requests for the library that compiles automata from them. It lets through only what the
// library follows exactly, in a form with one reading. A keyword that the library would ignore or read differently is
// an error that names the keyword and its place.
//
//   every type   type, enum, const, $ref (within the document), $defs, definitions, anyOf, oneOf (alternatives that
//                exclude each other: schema_values.h), allOf of one schema; annotations, which mean nothing
//   string       minLength, maxLength, pattern (see regex_rules.h), format (those of kFormats and kNoteFormats)
//   number       minimum, maximum, exclusiveMinimum, exclusiveMaximum; integer: multipleOf too
//   array        items, prefixItems, minItems, maxItems
//   object       properties, required, additionalProperties, minProperties, maxProperties
//
// The output is narrower than the schema where authors want that from a model. An object with `properties` has these
// alone and in their order, whether additionalProperties is false, true or absent (a schema there is refused: the
// library could write a property's name again, with a value of another type). An array with prefixItems has no other
// items unless it says so. Strings with a length or a pattern have no escapes.
//
// Definitions that a reference names are written once, below $defs of the root and under names of our own, wherever
// they stood: the library follows no reference into an array, and no escaped one. Those that nothing names are left
// out.
//
// Pure. O(schema).
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/grammar/regex_rules.h"

namespace roost::grammar {

inline constexpr std::size_t kMaxSchemaDepth = 32;  // schemas nested inside one another
inline constexpr std::size_t kMaxJsonDepth = 4 * kMaxSchemaDepth;
inline constexpr std::size_t kMaxSchemas = 4096;      // in a document, all together
inline constexpr std::size_t kMaxSchemaCount = 4096;  // minLength, maxItems and so on
// Formats that say what a text is for and nothing of its characters.
inline constexpr std::array<std::string_view, 5> kNoteFormats{"password", "binary", "path", "file-path",
                                                              "directory-path"};
inline constexpr std::array<std::string_view, 10> kFormats{"date", "date-time", "duration", "email",         "hostname",
                                                           "ipv4", "time",      "uri",      "uri-reference", "uuid"};

// Rewrites a document that is a schema. kInvalidArgument names `field`.
[[nodiscard]] Result<CostedText> LibrarySchema(std::string_view document, const std::string& field);

}  // namespace roost::grammar

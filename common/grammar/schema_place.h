// A schema inside its document, and references between schemas. A view: the document outlives it.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

namespace roost::grammar {

struct SchemaPlace {
  simdjson::dom::element schema;
  std::string path;  // "#/properties/a"
  std::size_t depth = 0;

  // Only for a schema that is an object.
  [[nodiscard]] std::optional<simdjson::dom::element> Find(std::string_view key) const;
  [[nodiscard]] bool Contains(std::string_view key) const { return Find(key).has_value(); }
  [[nodiscard]] SchemaPlace Below(simdjson::dom::element child, std::string_view step) const;
};

template <typename... Args>
[[nodiscard]] Error ComplainAt(const SchemaPlace& place, const std::string& field, fmt::format_string<Args...> format,
                               Args&&... args) {
  return InvalidArgument(field, "the schema at {}: {}", place.path, fmt::format(format, std::forward<Args>(args)...));
}

// The schema that a reference names, if it is "#" or lies in this document below only $defs, definitions, properties
// and items: these keep their places when the document is rewritten.
[[nodiscard]] std::optional<SchemaPlace> Resolve(simdjson::dom::element root, std::string_view uri);

// Refuses a reference that leads back to itself without an object or an array between, with kInvalidArgument: following
// it would never end.
[[nodiscard]] Result<void> CheckReferences(simdjson::dom::element root, const std::string& field);

}  // namespace roost::grammar

// A schema inside its document, and references between schemas. A view: the document outlives it.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <cstddef>
#include <optional>
#include <set>
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

// The schema at a reference: "#", or a JSON pointer into this document (RFC 6901), with escapes as URIs have them.
// Nothing if there is none.
[[nodiscard]] std::optional<SchemaPlace> Resolve(simdjson::dom::element root, std::string_view uri);

// Refuses references that lead back to themselves without an object or an array between, with kInvalidArgument:
// following them would never end. Shares what it has found among the references of one document.
class ReferenceCheck {
 public:
  ReferenceCheck(simdjson::dom::element root, const std::string& field) : root_(root), field_(field) {}

  // `place` has the reference `uri`.
  [[nodiscard]] Result<void> Follow(const SchemaPlace& place, std::string_view uri);

 private:
  [[nodiscard]] Result<void> FollowAll(const SchemaPlace& place);

  const simdjson::dom::element root_;
  const std::string& field_;
  std::set<std::string> open_;  // the references that were followed to get here
  std::set<std::string> done_;
};

// The schema as it must be written below another root, where it stands at `pointer` ("#/$defs/a"): its references are
// made relative to that root. `schema` is JSON; kInvalidArgument names `field`.
[[nodiscard]] Result<std::string> MovedSchema(std::string_view schema, std::string_view pointer,
                                              const std::string& field);

}  // namespace roost::grammar

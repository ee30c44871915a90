// Whether the alternatives of `oneOf` exclude each other, so that it says what `anyOf` says, which the library follows
// through references too. Alternatives do if their types or values differ, or, for objects, those of a property that
// both require; or if one requires a property that the other has not and forbids.
//
// A discriminator ({"propertyName": "kind"}) names a property by which readers tell the alternatives. Some libraries
// leave it optional in each, because it has a default: it is required here, so that every output has it.
//
// A view: the document outlives it. O(alternatives² · schema), bounded.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/grammar/schema_place.h"

namespace roost::grammar {

class SchemaAlternatives {
 public:
  // Reads the discriminators of the whole document.
  explicit SchemaAlternatives(simdjson::dom::element root);

  // `list` are the places of the alternatives. False if nothing shows that they do.
  [[nodiscard]] bool ExcludeEachOther(const std::vector<SchemaPlace>& list);
  // The properties that discriminators make required in the schema at this place.
  [[nodiscard]] const std::set<std::string_view>& RequiredAt(const std::string& path) const;

 private:
  void ReadDiscriminators(const SchemaPlace& place);
  // The place behind references, and behind allOf of one schema; nothing if there are too many.
  [[nodiscard]] std::optional<SchemaPlace> Behind(SchemaPlace place) const;
  [[nodiscard]] bool Exclude(const SchemaPlace& left, const SchemaPlace& right, std::size_t depth);
  [[nodiscard]] bool ObjectsExclude(const SchemaPlace& left, const SchemaPlace& right, std::size_t depth);
  [[nodiscard]] std::set<std::string_view> RequiredOf(const SchemaPlace& place) const;

  const simdjson::dom::element root_;
  std::map<std::string, std::set<std::string_view>> required_;  // by path
  std::size_t steps_ = 0;
};

}  // namespace roost::grammar

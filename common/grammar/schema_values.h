// The keywords of a JSON schema for values that hold no others: those of strings and of numbers, and those that count
// characters, items or properties. A part of json_schema_rules.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/result.h"
#include "common/grammar/regex_rules.h"
#include "common/grammar/schema_place.h"

namespace roost::grammar {

// Finds alternatives of `oneOf` that exclude each other: then it says what `anyOf` says, which the library follows
// through references too. Alternatives do if their types or values differ, or, for objects, those of a property that
// both require; or if one requires a property that the other has not and forbids.
//
// A discriminator ({"propertyName": "kind"}) names a property by which readers tell the alternatives. Some libraries
// leave it optional in each, because it has a default: it is required here, so that every output has it.
//
// A view: the document outlives it. O(alternatives² · schema), bounded.
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

class SchemaValues {
 public:
  // Errors name `field`. The keywords are written to `json`, into the object that is open there.
  SchemaValues(const std::string& field, JsonWriter& json) : field_(field), json_(json) {}

  struct Counts {
    std::optional<std::uint64_t> least;
    std::optional<std::uint64_t> most;
  };
  // minItems and maxItems for "Items", and so on.
  [[nodiscard]] Result<Counts> CountsOf(const SchemaPlace& place, const std::string& what) const;

  [[nodiscard]] Result<void> WriteString(const SchemaPlace& place);
  // The compile cost of the patterns so far. The library compiles equal ones once.
  [[nodiscard]] CompileCost cost() const { return cost_; }
  // The types that the schema allows; one at least.
  struct NumberTypes {
    bool integer;
    bool number;
  };
  [[nodiscard]] Result<void> WriteNumber(const SchemaPlace& place, NumberTypes types);

 private:
  struct Bounds {
    std::optional<double> low;
    std::optional<double> high;
  };

  // A whole number from 0 to kMaxSchemaCount; nothing when absent.
  [[nodiscard]] Result<std::optional<std::uint64_t>> CountOf(const SchemaPlace& place, const std::string& key) const;
  // `regex` is in the request's dialect.
  [[nodiscard]] Result<void> WritePattern(const SchemaPlace& place, std::string_view regex);
  [[nodiscard]] Result<void> WriteMultiple(const SchemaPlace& place, Bounds bounds, NumberTypes types);

  const std::string& field_;
  JsonWriter& json_;
  CompileCost cost_ = 0;
  std::set<std::string> patterns_;  // that `cost_` counts
};

}  // namespace roost::grammar

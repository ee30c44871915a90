// The keywords of a JSON schema for values that hold no others: those of strings and of numbers, and those that count
// characters, items or properties. A part of json_schema_rules.h.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/json_writer.h"
#include "common/base/result.h"
#include "common/grammar/regex_rules.h"
#include "common/grammar/schema_place.h"

namespace roost::grammar {

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

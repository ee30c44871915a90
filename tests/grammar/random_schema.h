// Random JSON schemas within the rules of common/grammar; each has a valid value of limited size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/rng.h"

namespace roost::testing_support {

class RandomSchema {
 public:
  explicit RandomSchema(std::uint64_t seed) : rng_(seed) {}

  // Has definitions at the root; one of them refers to itself.
  [[nodiscard]] std::string Make() {
    json_.BeginObject();
    json_.Key("$defs").BeginObject();
    json_.Key("leaf").BeginObject();
    Leaf();
    json_.EndObject();
    json_.Key("list").Raw(
        R"({"type":"object","properties":{"value":{"type":"integer","minimum":0,"maximum":99},)"
        R"("next":{"anyOf":[{"type":"null"},{"type":"boolean"},{"$ref":"#/$defs/list"}]}},"required":["value","next"]})");
    json_.EndObject();
    has_definitions_ = true;
    Object(3);
    json_.EndObject();
    return json_.Take();
  }

 private:
  std::uint64_t Below(std::uint64_t bound) { return rng_.Below(bound); }

  void Schema(std::uint32_t depth) {
    json_.BeginObject();
    if (Below(4) == 0) json_.Key("description").String("any");
    switch (depth == 0 ? 9 : Below(10)) {
      case 0:
      case 1: Object(depth - 1); break;
      case 2: Array(depth - 1); break;
      case 3: Tuple(depth - 1); break;
      case 4: Alternatives(depth - 1); break;
      case 5: json_.Key("$ref").String(Below(4) == 0 ? "#/$defs/list" : "#/$defs/leaf"); break;
      case 6:
        json_.Key("allOf").BeginArray();
        Schema(depth - 1);
        json_.EndArray();
        break;
      default: Leaf();
    }
    json_.EndObject();
  }

  void Object(std::uint32_t depth) {
    json_.Key("type").String("object");
    if (!has_definitions_ || Below(12) == 0) {
      json_.Key("additionalProperties").BeginObject();
      Number();
      json_.EndObject();
      json_.Key("maxProperties").Number(3);
      return;
    }
    const std::uint64_t count = 1 + Below(4);
    std::vector<std::string> names;
    json_.Key("properties").BeginObject();
    for (std::uint64_t i = 0; i < count; ++i) {
      constexpr std::array<const char*, 6> kNames{"name", "a/b", "id \"x\"", "größe", "value", "k"};
      names.push_back(std::string(kNames[Below(kNames.size())]) + std::to_string(i));
      json_.Key(names.back());
      Schema(depth);
    }
    json_.EndObject();
    json_.Key("required").BeginArray();
    std::uint64_t required = 0;
    for (const std::string& name : names) {
      if (Below(3) == 0) continue;
      json_.String(name);
      ++required;
    }
    json_.EndArray();
    if (Below(3) == 0) json_.Key("additionalProperties").Bool(false);
    if (Below(6) == 0) json_.Key("minProperties").Number(std::uint64_t{1});
    if (Below(6) == 0) json_.Key("maxProperties").Number(std::max<std::uint64_t>(required, 1));
  }

  void Array(std::uint32_t depth) {
    json_.Key("type").String("array").Key("items");
    Schema(depth);
    const std::uint64_t least = Below(3);
    if (least > 0) json_.Key("minItems").Number(least);
    json_.Key("maxItems").Number(least + Below(3));
  }

  void Tuple(std::uint32_t depth) {
    json_.Key("type").String("array").Key("prefixItems").BeginArray();
    const std::uint64_t count = 1 + Below(2);
    for (std::uint64_t i = 0; i < count; ++i) Schema(depth);
    json_.EndArray();
    if (Below(2) == 0) json_.Key("minItems").Number(count);
  }

  void Alternatives(std::uint32_t depth) {
    if (Below(2) == 0) {
      json_.Key("oneOf").Raw(R"([{"type":"string","enum":["x","y"]},{"type":"integer"},{"type":"null"}])");
      return;
    }
    json_.Key("anyOf").BeginArray();
    for (std::uint64_t left = 1 + Below(3); left > 0; --left) Schema(depth);
    json_.EndArray();
  }

  void Leaf() {
    switch (Below(8)) {
      case 0: json_.Key("type").String("boolean"); break;
      case 1: json_.Key("type").String("null"); break;
      case 2: json_.Key("enum").Raw(R"(["red","gr\"een",3,4.5,null,{"a":[1,true]},"bl\u00fcü"])"); break;
      case 3: json_.Key("const").Raw(R"({"k":["v",-1]})"); break;
      case 4: json_.Key("type").Raw(R"(["boolean","integer"])"); break;
      case 5: Number(); break;
      default: String();
    }
  }

  void Number() {
    const bool is_integer = Below(2) == 0;
    json_.Key("type").String(is_integer ? "integer" : "number");
    const auto low = static_cast<std::int64_t>(Below(2000)) - 1000;
    const auto high = low + static_cast<std::int64_t>(1 + Below(Below(2) == 0 ? 20 : 100'000));
    switch (Below(5)) {
      case 0: json_.Key("minimum").Number(low); break;
      case 1: json_.Key("maximum").Number(high); break;
      case 2: json_.Key("minimum").Number(low).Key("maximum").Number(high); break;
      case 3: json_.Key("exclusiveMinimum").Number(low).Key("exclusiveMaximum").Number(high + 1); break;
      default:
        if (is_integer) json_.Key("multipleOf").Number(1 + Below(12));
        if (!is_integer) json_.Key("minimum").Number(static_cast<double>(low) + 0.25);
    }
  }

  void String() {
    json_.Key("type").String("string");
    constexpr std::array<const char*, 7> kPatterns{"^[a-z]{1,8}$", "^\\d{3}-\\d{4}$", "^(foo|bar)+$",           "[A-Z]",
                                                   "^a.c$",        "^x|y$",           "^\\w+@\\w+\\.(com|org)$"};
    constexpr std::array<const char*, 7> kFormats{"date", "date-time", "time", "email", "ipv4", "uuid", "hostname"};
    switch (Below(5)) {
      case 0: json_.Key("pattern").String(kPatterns[Below(kPatterns.size())]); break;
      case 1: json_.Key("format").String(kFormats[Below(kFormats.size())]); break;
      case 2: json_.Key("maxLength").Number(Below(30)); break;
      case 3: json_.Key("minLength").Number(Below(4)).Key("maxLength").Number(5 + Below(60)); break;
      default: break;
    }
  }

  Rng rng_;
  JsonWriter json_;
  bool has_definitions_ = false;
};

}  // namespace roost::testing_support

#include "common/grammar/json_schema_rules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/grammar/schema_place.h"

namespace roost::grammar {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string Rewritten(std::string_view schema) {
  const Result<CostedText> text = LibrarySchema(schema, "field");
  return text.ok() ? text->text : "! " + text.error().message;
}

TEST(JsonSchemaRulesTest, ObjectsHaveTheirPropertiesAlone) {
  EXPECT_EQ(Rewritten(R"({"type":"object","title":"T","properties":{"a":{"type":"null"}},"required":["a"]})"),
            R"({"type":"object","properties":{"a":{"type":"null"}},"required":["a"],"additionalProperties":false})");
  EXPECT_EQ(Rewritten(R"({"properties":{"a":{}},"additionalProperties":true})"),
            R"({"type":"object","properties":{"a":{}},"additionalProperties":false})");
  EXPECT_EQ(Rewritten(R"({"properties":{}})"), R"({"type":"object","properties":{},"additionalProperties":{}})");
  EXPECT_EQ(Rewritten(R"({"type":"object"})"), R"({"type":"object","additionalProperties":{}})");
  EXPECT_EQ(Rewritten(R"({"type":"object","additionalProperties":{"type":"integer"}})"),
            R"({"type":"object","additionalProperties":{"type":"integer"}})");
  for (const std::string_view names : {R"({"type":"string"})", "{}", "true"}) {
    EXPECT_EQ(Rewritten(fmt::format(R"({{"type":"object","propertyNames":{},"additionalProperties":{{}}}})", names)),
              R"({"type":"object","additionalProperties":{}})")
        << "any name is a text";
  }
}

TEST(JsonSchemaRulesTest, ArraysSayWhatTheirItemsAre) {
  EXPECT_EQ(Rewritten(R"({"type":"array","minItems":1})"), R"({"type":"array","minItems":1,"items":{}})");
  EXPECT_EQ(Rewritten(R"({"prefixItems":[{"type":"null"},true]})"),
            R"({"type":"array","prefixItems":[{"type":"null"},{}],"items":false})");
}

// The library's own length limits would allow control characters.
TEST(JsonSchemaRulesTest, LengthsBecomePatterns) {
  EXPECT_EQ(Rewritten(R"({"type":"string","minLength":2,"maxLength":5})"),
            R"({"type":"string","pattern":"^([^\\u0000-\\u001f\\u0022\\u005c]{2,5})$"})");
  EXPECT_EQ(Rewritten(R"({"type":"string","minLength":0})"), R"({"type":"string"})");
}

TEST(JsonSchemaRulesTest, PatternsAreAnchored) {
  EXPECT_EQ(Rewritten(R"({"type":"string","pattern":"^a|^b$"})"),
            R"({"type":"string","pattern":"^(a[^\\u0000-\\u001f\\u0022\\u005c]*|b)$"})");
}

TEST(JsonSchemaRulesTest, ReferencesStayWithinTheDocument) {
  const std::string tree =
      R"({"$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}}}},)"
      R"("$ref":"#/$defs/node"})";
  EXPECT_EQ(Rewritten(tree),
            R"({"$ref":"#/$defs/r0","$defs":{"r0":{"type":"object","properties":{)"
            R"("next":{"anyOf":[{"$ref":"#/$defs/r0"},{"type":"null"}]}},"additionalProperties":false}}})");
  for (const char* uri : {"other.json", "#/$defs/none", "#/$defs/a/type", "#node", "#/$defs/a~2", "#/allOf/0", "#/"}) {
    EXPECT_THAT(Rewritten(std::string(R"({"$defs":{"a":{"type":"null"}},"$ref":")") + uri + "\"}"), HasSubstr("$ref"))
        << uri;
  }
}

// Wherever a schema stands, a JSON pointer finds it.
TEST(JsonSchemaRulesTest, ReferencesMayLeadAnywhere) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"const":1}]},"b/~ c":{"type":"array",)"
      R"("prefixItems":[{"const":2}]},"$ref":{"const":3},"x":{"$ref":"URI"}},"components":{"schemas":{"S":{"const":4}}},)"
      R"("required":["x"]})";
  const auto target = [&](std::string_view uri) {
    std::string text = schema;
    text.replace(text.find("URI"), 3, uri);
    text.replace(text.find(R"("components")"), std::string_view(R"("components")").size(), R"("x-components")");
    const std::string rewritten = Rewritten(text);
    return rewritten.substr(std::min(rewritten.find("$defs\":{"), rewritten.size()));
  };
  EXPECT_THAT(target("#/properties/a/anyOf/1"), HasSubstr(R"({"const":1})"));
  EXPECT_THAT(target("#/properties/b~1~0%20c/prefixItems/0"), HasSubstr(R"({"const":2})"));
  EXPECT_THAT(target("#/properties/$ref"), HasSubstr(R"({"const":3})"));
  EXPECT_THAT(target("#/x-components/schemas/S"), HasSubstr(R"({"const":4})"));
}

TEST(JsonSchemaRulesTest, ReferencesThatLeadToThemselvesAreRefused) {
  EXPECT_THAT(Rewritten(R"({"$ref":"#"})"), HasSubstr("leads to itself"));
  EXPECT_THAT(
      Rewritten(R"({"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})"),
      HasSubstr("leads to itself"));
  EXPECT_EQ(
      Rewritten(R"({"type":"array","items":{"$ref":"#"}})"),
      R"({"type":"array","items":{"$ref":"#/$defs/r0"},"$defs":{"r0":{"type":"array","items":{"$ref":"#/$defs/r0"}}}})");
}

TEST(JsonSchemaRulesTest, AMovedSchemaKeepsItsReferences) {
  const auto moved = [](std::string_view schema) { return *MovedSchema(schema, "#/$defs/f0", "tools"); };
  EXPECT_EQ(moved(R"({"items":{"$ref":"#"},"anyOf":[{"$ref":"#/$defs/a"}]})"),
            R"({"items":{"$ref":"#/$defs/f0"},"anyOf":[{"$ref":"#/$defs/f0/$defs/a"}]})");
  const std::string values =
      R"({"properties":{"$ref":{"type":"string"},"default":{"type":"null"}},"const":{"$ref":"#"},"enum":[{"$ref":"#"}],)"
      R"("default":{"$ref":"#"},"description":"\"$ref\":\"#\""})";
  EXPECT_EQ(moved(values), values);
  EXPECT_EQ(moved(R"({"properties":{"const":{"$ref":"#"}}})"), R"({"properties":{"const":{"$ref":"#/$defs/f0"}}})");
  // Errors repeat a reference that leads nowhere as the client wrote it.
  EXPECT_EQ(moved(R"({"$ref":"#anchor"})"), R"({"$ref":"#anchor"})");
  EXPECT_EQ(MovedSchema("{", "#/$defs/f0", "tools").error().field, "tools");
}

// The alternatives differ in a property that both require, or in their types; through references too.
TEST(JsonSchemaRulesTest, OneOfWhoseAlternativesExcludeEachOtherIsAnyOf) {
  const auto kind = [](std::string_view name) {
    return fmt::format(R"({{"type":"object","properties":{{"kind":{{"const":"{}"}}}},"required":["kind"]}})", name);
  };
  const auto one_of = [](std::string_view list, std::string_view definitions) {
    return Rewritten(fmt::format(R"({{"oneOf":[{}],"$defs":{{{}}}}})", list, definitions));
  };
  constexpr std::string_view kBoth = R"({"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"})";
  const std::string definitions = fmt::format(R"("A":{},"B":{})", kind("a"), kind("b"));
  EXPECT_THAT(one_of(kBoth, definitions), StartsWith(R"({"anyOf":[{"$ref":"#/$defs/r0"},{"$ref":"#/$defs/r1"}])"));
  EXPECT_THAT(one_of(kind("a") + "," + kind("b"), ""), StartsWith(R"({"anyOf":)"));
  EXPECT_THAT(one_of(R"({"type":"string"},{"$ref":"#/$defs/A"},{"type":["null","boolean"]})", definitions),
              StartsWith(R"({"anyOf":)"));
  // A union of unions that names itself.
  EXPECT_THAT(
      one_of(R"({"$ref":"#/$defs/N"},{"$ref":"#/$defs/B"})",
             fmt::format(R"("N":{{"type":"object","required":["kind","of"],"properties":{{"kind":{{"enum":["n"]}},)"
                         R"("of":{{"oneOf":[{{"$ref":"#/$defs/N"}},{{"$ref":"#/$defs/B"}}]}}}}}},"B":{})",
                         kind("b"))),
      Not(HasSubstr("oneOf")));
}

TEST(JsonSchemaRulesTest, OneOfWhoseAlternativesMayHoldTogetherStays) {
  for (const std::string_view list :
       {R"({"type":"integer"},{"type":"number"})", R"({"enum":[1,2]},{"enum":[2.0]})", R"({"$ref":"#/$defs/A"},{})",
        R"({"$ref":"#/$defs/A"},{"type":"object","properties":{"kind":{"const":"b"}}})",
        R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"$ref":"#/$defs/A"})"}) {
    EXPECT_THAT(Rewritten(fmt::format(
                    R"({{"oneOf":[{}],"$defs":{{"A":{{"type":"object","properties":{{"kind":{{"const":"a"}}}},)"
                    R"("required":["kind"]}}}}}})",
                    list)),
                StartsWith(R"({"oneOf":)"))
        << list;
  }
}

// Pydantic leaves a discriminator that has a default optional.
TEST(JsonSchemaRulesTest, ADiscriminatorIsRequired) {
  const std::string written = Rewritten(
      R"({"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}],"discriminator":{"propertyName":"kind"},"$defs":{)"
      R"("A":{"type":"object","properties":{"kind":{"const":"a","default":"a"},"x":{"type":"null"}},"required":["x"]},)"
      R"("B":{"type":"object","properties":{"kind":{"const":"b","default":"b"}}}}})");
  EXPECT_THAT(written, StartsWith(R"({"anyOf":)"));
  EXPECT_THAT(written, HasSubstr(R"("required":["kind","x"])"));
  EXPECT_THAT(written, HasSubstr(R"("required":["kind"])"));
}

TEST(JsonSchemaRulesTest, FormatsThatSayNothingOfTheTextAreNotes) {
  EXPECT_EQ(Rewritten(R"({"type":"string","format":"password"})"), Rewritten(R"({"type":"string"})"));
  for (const std::string_view format : {"time", "date-time"}) {
    EXPECT_THAT(Rewritten(fmt::format(R"({{"type":"string","format":"{}"}})", format)),
                HasSubstr(R"([0-5][0-9]\\u003a[0-5][0-9])"))
        << "no second 60";
  }
  EXPECT_EQ(Rewritten(R"({"type":"object","properties":{"a":{}},"additionalProperties":{}})"),
            Rewritten(R"({"type":"object","properties":{"a":{}},"additionalProperties":true})"));
}

struct Refusal {
  std::string schema;
  std::string keyword;
};

// Everything that the library would ignore or interpret differently.
TEST(JsonSchemaRulesTest, WhatIsNotHeldToIsRefusedByItsKeyword) {
  const std::vector<Refusal> cases{
      {R"({"not":{}})", "'not'"},
      {R"({"if":{}})", "'if'"},
      {R"({"type":"object","patternProperties":{}})", "'patternProperties'"},
      {R"({"type":"object","propertyNames":{"pattern":"^a"}})", "'propertyNames'"},
      {R"({"type":"object","propertyNames":{"type":"integer"}})", "'propertyNames'"},
      {R"({"type":"object","propertyNames":false})", "'propertyNames'"},
      {R"({"type":"string","propertyNames":{}})", "'propertyNames'"},
      {R"({"type":"object","dependentRequired":{}})", "'dependentRequired'"},
      {R"({"type":"object","unevaluatedProperties":false})", "'unevaluatedProperties'"},
      {R"({"type":"object","properties":{"a":{}},"additionalProperties":{"type":"null"}})", "'additionalProperties'"},
      {R"({"type":"object","properties":{"a":{}},"required":["b"]})", "'required'"},
      {R"({"type":"object","required":["b"]})", "'required'"},
      {R"({"type":"object","minProperties":2})", "'minProperties'"},
      {R"({"type":"object","properties":{"a":{}},"minProperties":2})", "'minProperties'"},
      {R"({"type":"object","properties":{"a":{}},"required":["a"],"maxProperties":0})", "'maxProperties'"},
      {R"({"type":"array","uniqueItems":true})", "'uniqueItems'"},
      {R"({"type":"array","contains":{}})", "'contains'"},
      {R"({"type":"array","items":[{}]})", "a schema is an object"},
      {R"({"type":"array","additionalItems":false})", "'additionalItems'"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "'Items'"},
      {R"({"type":"array","prefixItems":[{}],"minItems":2})", "'minItems'"},
      {R"({"type":"string","minLength":-1})", "'minLength'"},
      {R"({"type":"string","maxLength":1000000})", "'maxLength'"},
      {R"({"type":"string","minLength":1,"pattern":"a"})", "'pattern'"},
      {R"({"type":"string","format":"iri"})", "'format'"},
      {R"x({"type":"string","pattern":"(?=a)"})x", "'pattern'"},
      {R"({"type":"number","multipleOf":2})", "'multipleOf'"},
      {R"({"type":"integer","multipleOf":0.5})", "'multipleOf'"},
      {R"({"type":"integer","multipleOf":3,"minimum":1})", "'multipleOf'"},
      {R"({"type":"integer","minimum":0.5})", "'minimum'"},
      {R"({"type":"number","minimum":1e-9})", "'minimum'"},
      {R"({"type":"number","exclusiveMinimum":true})", "'exclusiveMinimum'"},
      {R"({"type":"integer","minimum":3,"maximum":1})", "'minimum'"},
      {R"({"type":"text"})", "'type'"},
      {R"({"type":[]})", "'type'"},
      {R"({"minLength":3})", "'minLength'"},
      {R"({"anyOf":[{}],"minLength":3})", "'minLength'"},
      {R"({"allOf":[{},{}]})", "'allOf'"},
      {R"({"oneOf":[]})", "'oneOf'"},
      {R"({"enum":[]})", "'enum'"},
      {R"({"enum":[1,"a"],"type":"string"})", "'type'"},
      {R"({"const":18446744073709551615})", "'const'"},
      {R"({"$dynamicRef":"#a"})", "'$dynamicRef'"},
      {R"({"nullable":true,"type":"string"})", "'nullable'"},
      {R"({"madeUp":1})", "'madeUp'"},
      {R"(false)", "false"},
      {R"([])", "a schema is an object"},
      {R"({"type":)", "not JSON"},
  };
  for (const Refusal& each : cases) {
    const Result<CostedText> refused = LibrarySchema(each.schema, "guided_json");
    ASSERT_FALSE(refused.ok()) << each.schema << " became " << refused->text;
    EXPECT_EQ(refused.error().field, "guided_json");
    EXPECT_THAT(refused.error().message, HasSubstr(each.keyword)) << each.schema;
  }
}

TEST(JsonSchemaRulesTest, DepthAndNumberOfSchemasAreBounded) {
  std::string deep = R"({"type":"null"})";
  for (int i = 0; i < 40; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  EXPECT_THAT(Rewritten(deep), HasSubstr("inside one another"));
  std::string wide = R"({"anyOf":[{})";
  for (int i = 0; i < 5000; ++i) wide += ",{}";
  EXPECT_THAT(Rewritten(wide + "]}"), HasSubstr("in one document"));
}

}  // namespace
}  // namespace roost::grammar

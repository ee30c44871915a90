#include "common/base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace roost {
namespace {

TEST(JsonWriterTest, WritesNestedValues) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Number(1).Number(-2).Number(0.5).EndArray();
  json.Key("b").BeginObject().EndObject().Key("c").Bool(true).Key("d").Null().Key("e").Raw("[7]").EndObject();
  EXPECT_EQ(json.Take(), R"({"a":[1,-2,0.5],"b":{},"c":true,"d":null,"e":[7]})");
}

TEST(JsonWriterTest, EscapesControlCharactersAndQuotes) {
  std::string out;
  AppendJsonString(std::string_view("a\"\\\n\r\t\x01\x7f\0z", 10), out);
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\r\\t\\u0001\x7f\\u0000z\"");
}

TEST(JsonWriterTest, ReplacesBytesThatAreNotUtf8) {
  std::string out;
  AppendJsonString("é\xff", out);
  EXPECT_EQ(out, "\"é\xEF\xBF\xBD\"");
}

TEST(JsonWriterTest, NumbersThatJsonHasNotBecomeNull) {
  JsonWriter json;
  json.BeginArray().Number(std::numeric_limits<double>::infinity()).Number(1e300).EndArray();
  EXPECT_EQ(json.Take(), "[null,1e+300]");
}

}  // namespace
}  // namespace roost

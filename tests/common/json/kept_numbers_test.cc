#include "common/json/kept_numbers.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace roost::json {
namespace {

std::string ReadAndWritten(const std::string& text) {
  const Document document(text, Document::KeepNumbers());
  return document.ok() ? JsonText(document.root()) : std::string(document.error());
}

TEST(KeptNumbersTest, NumbersThatSimdjsonRoundsOrRefusesStayAsTheyAre) {
  for (const char* const text :
       {"18446744073709551616", "-9223372036854775809", "123456789012345678901234567890", "0.12345678901234567891234",
        "9007199254740993.0", "1e400", "[18446744073709551616,\"18446744073709551616\",1]",
        R"({"a":{"18446744073709551616":[3.14159265358979323846,"\"18446744073709551616"]}})"}) {
    EXPECT_EQ(ReadAndWritten(text), text);
  }
}

TEST(KeptNumbersTest, OthersAreReadAsUsual) {
  const std::string text =
      R"([0,-1,18446744073709551615,-9223372036854775808,0.30000000000000004,1.7976931348623157e+308,"12345678901234567890"])";
  EXPECT_EQ(WithKeptNumbers(text), text);
  EXPECT_EQ(ReadAndWritten(text), text);
}

TEST(KeptNumbersTest, WhatIsNoJsonStaysWrong) {
  for (const char* const text : {"018446744073709551616", "18446744073709551616.", "-", "1844674407370955161618446744x",
                                 "1e", "[18446744073709551616", "\"18446744073709551616", ""}) {
    EXPECT_FALSE(Document(text, Document::KeepNumbers()).ok()) << text;
  }
}

TEST(KeptNumbersTest, AKeptNumberIsANumberAndNoText) {
  const Document document("[18446744073709551616,0.1000000000000000055511,1e999,\"1\",1]", Document::KeepNumbers());
  const auto items = Elements(Array(document.root()));
  EXPECT_EQ(KeptNumber(items[0]), "18446744073709551616");
  EXPECT_EQ(NumberOf(items[0]), 18446744073709551616.0);
  EXPECT_EQ(NumberOf(items[1]), 0.1);
  EXPECT_EQ(NumberOf(items[2]), std::numeric_limits<double>::max());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(TextOf(items[i]), std::nullopt);
  EXPECT_EQ(TextOf(items[3]), "1");
  EXPECT_EQ(NumberOf(items[3]), std::nullopt);
  EXPECT_EQ(KeptNumber(items[4]), std::nullopt);
}

TEST(KeptNumbersTest, FindsALongNumberWhereverItStands) {
  const std::string number(16, '7');
  for (std::size_t before = 0; before < 40; ++before) {
    EXPECT_TRUE(HasLongNumber(std::string(before, ' ') + number + " "));
    EXPECT_FALSE(HasLongNumber(std::string(before, ' ') + number.substr(1) + " "));
  }
}

TEST(JsonReadTest, GivesWhatIsThereAndOfTheType) {
  const Document document(R"({"a":{"b":[1,"x",true,4294967296]},"n":null})");
  const Element root = document.root();
  EXPECT_EQ(At<std::uint64_t>(root, "/a/b/0"), 1U);
  EXPECT_EQ(At<std::string_view>(root, "/a/b/1"), "x");
  EXPECT_EQ(At<bool>(root, "/a/b/2"), true);
  EXPECT_EQ(At<std::uint32_t>(root, "/a/b/3"), std::nullopt);
  EXPECT_EQ(At<std::uint64_t>(root, "a"), std::nullopt);
  EXPECT_EQ(At<Object>(root, "n"), std::nullopt);
  EXPECT_TRUE(At<Element>(root, "n"));
  EXPECT_FALSE(At<Element>(root, "m"));
  EXPECT_EQ(ElementsAt(*At<Object>(root, "a"), "b").size(), 4U);
  EXPECT_TRUE(ElementsAt(root, "n").empty());
}

TEST(JsonReadTest, ATextThatIsNoJsonIsNull) {
  Document document("{");
  EXPECT_FALSE(document.ok());
  EXPECT_TRUE(document.root().is_null());
  document.Parse("[2]");
  EXPECT_TRUE(document.ok());
  EXPECT_EQ(At<std::uint64_t>(document.root(), "/0"), 2U);
}

}  // namespace
}  // namespace roost::json

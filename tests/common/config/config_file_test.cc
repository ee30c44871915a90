#include "common/config/config.h"

#include <gtest/gtest.h>

namespace roost {
namespace {

std::string ErrorOf(std::string_view text) {
  const auto file = ConfigFile::Parse(text, "roost.toml");
  return file.ok() ? "" : file.error().ToString();
}

TEST(ConfigFileTest, KnowsTheLineOfEachKey) {
  const auto file = ConfigFile::Parse(
      "# a comment\n"
      "\n"
      "model = \"demo\"   # the small one\n"
      "; another comment\n"
      "  threads=4\r\n"
      "\"insecure-bind\" = true",
      "roost.toml");
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->keys().size(), 3U);
  EXPECT_EQ(file->PlaceOf("model"), "roost.toml:3");
  EXPECT_EQ(file->PlaceOf("threads"), "roost.toml:5");
  EXPECT_EQ(file->PlaceOf("insecure-bind"), "roost.toml:6");
  EXPECT_EQ(file->PlaceOf("mode"), std::nullopt);
}

TEST(ConfigFileTest, ListsMayGoOverSeveralLines) {
  const auto file =
      ConfigFile::Parse("router = [\n  \"tcp://a:1\",\n  \"b = c\"\n]\nmodel = [1, 2]\nthreads = 1\n", "f");
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->keys().size(), 3U);
  EXPECT_EQ(file->PlaceOf("model"), "f:5");
  EXPECT_EQ(file->PlaceOf("threads"), "f:6");
}

TEST(ConfigFileTest, ErrorsNameFileAndLine) {
  EXPECT_EQ(ErrorOf("model = a\nthreads 4\n"), "roost.toml:2: 'threads 4' has no value: write KEY = VALUE");
  EXPECT_EQ(ErrorOf("\n[worker]\nmodel = a\n"),
            "roost.toml:2: [worker] is a section, and there are none: write the keys without it");
  EXPECT_EQ(ErrorOf("a = 1\nb = 2\na = 3\n"), "roost.toml:3: 'a' is given twice, first in roost.toml:1");
  EXPECT_EQ(ErrorOf("a = 1\nrouter = [\n1,\n"), "roost.toml:2: the list of 'router' has no end");
  EXPECT_EQ(ErrorOf(""), "");
}

TEST(ConfigFileTest, AMissingFileIsNamed) {
  const auto file = ConfigFile::Read("/nowhere/roost.toml");
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(file.error().field, "/nowhere/roost.toml");
}

}  // namespace
}  // namespace roost

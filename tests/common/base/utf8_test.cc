#include "common/base/utf8.h"

#include <gtest/gtest.h>

#include "common/base/one_line.h"

namespace roost {
namespace {

TEST(Utf8Test, RoundTripsEveryScalarValue) {
  for (char32_t value = 0; value <= 0x10FFFF; ++value) {
    if (value >= 0xD800 && value <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(value, text);
    const auto decoded = DecodeUtf8(text);
    ASSERT_TRUE(decoded.has_value());
    ASSERT_EQ(decoded->value, value);
    ASSERT_EQ(decoded->length, text.size());
  }
}

TEST(Utf8Test, RefusesOverlongSurrogateAndTooLarge) {
  EXPECT_FALSE(IsValidUtf8("\xC0\x80"));
  EXPECT_FALSE(IsValidUtf8("\xE0\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\xED\xA0\x80"));
  EXPECT_FALSE(IsValidUtf8("\xF4\x90\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\xF5\x80\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\x80"));
  EXPECT_TRUE(IsValidUtf8("aé€👋"));
}

TEST(Utf8Test, FindsCharactersThatNobodySees) {
  for (const std::string_view name : {"a\u200bb", "\u00ad", "x\u2028", "\u202eevil", "\ufeffa", "a\u3164", "\u2060",
                                      "\U000e0041", "\u061c", "a\n", "\x7f", "\u180e", "\u115f"}) {
    EXPECT_TRUE(HasInvisibleCharacter(name)) << name;
  }
  for (const std::string_view name : {"worker-1", "Köln", "日本語", "модель", "🐔", "a b", ""}) {
    EXPECT_FALSE(HasInvisibleCharacter(name)) << name;
  }
}

TEST(Utf8Test, HoldsBackWhatMoreBytesCouldComplete) {
  EXPECT_EQ(IncompleteUtf8Suffix("a"), 0U);
  EXPECT_EQ(IncompleteUtf8Suffix("a\xF0\x9F\x91"), 3U);
  EXPECT_EQ(IncompleteUtf8Suffix("a\xF0\x9F"), 2U);
  EXPECT_EQ(IncompleteUtf8Suffix("a\xC3"), 1U);
  EXPECT_EQ(IncompleteUtf8Suffix("\xED\xA0"), 0U);  // a surrogate can not become valid
  EXPECT_EQ(IncompleteUtf8Suffix("👋"), 0U);
}

TEST(Utf8Test, ReplacesEachMaximalIllFormedPart) {
  // The Unicode Standard, table 3-8: truncated sequences become one U+FFFD each.
  EXPECT_EQ(ReplaceInvalidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\xAF\x41"), "\uFFFD\uFFFDA");
}

TEST(OneLineTest, HasNoControlCharacterAndNoHalfOne) {
  EXPECT_EQ(OneLine("a\nb\x7f\xff"
                    "c\u0085d",
                    100),
            "a b  c d");
  EXPECT_EQ(OneLine("a\u20acb", 3), "a");
  EXPECT_EQ(OneLine("a\u20acb", 4), "a\u20ac");
}

}  // namespace
}  // namespace roost

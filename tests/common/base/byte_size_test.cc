#include "common/base/byte_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roost {
namespace {

using testing::HasSubstr;

TEST(ByteSizeTest, UnitsAreOfBothKinds) {
  EXPECT_EQ(ParseByteSize("8GiB").value(), 8ULL << 30U);
  EXPECT_EQ(ParseByteSize("512MiB").value(), 512ULL << 20U);
  EXPECT_EQ(ParseByteSize("64KiB").value(), 65536U);
  EXPECT_EQ(ParseByteSize("1TiB").value(), 1ULL << 40U);
  EXPECT_EQ(ParseByteSize("2GB").value(), 2'000'000'000U);
  EXPECT_EQ(ParseByteSize("3kB").value(), 3000U);
  EXPECT_EQ(ParseByteSize("1TB").value(), 1'000'000'000'000U);
}

TEST(ByteSizeTest, PlainNumbersAreBytes) {
  EXPECT_EQ(ParseByteSize("0").value(), 0U);
  EXPECT_EQ(ParseByteSize("8589934592").value(), 8589934592U);
  EXPECT_EQ(ParseByteSize("8e9").value(), 8'000'000'000U);
  EXPECT_EQ(ParseByteSize("17b").value(), 17U);
}

TEST(ByteSizeTest, PeopleWriteThemInTheirOwnWays) {
  EXPECT_EQ(ParseByteSize("1.5 GiB").value(), 3ULL << 29U);
  EXPECT_EQ(ParseByteSize("8Gi").value(), 8ULL << 30U);  // as Kubernetes does
  EXPECT_EQ(ParseByteSize("8gib").value(), 8ULL << 30U);
  EXPECT_EQ(ParseByteSize("2gb").value(), 2'000'000'000U);
}

TEST(ByteSizeTest, ALetterAloneCouldBeEither) {
  EXPECT_EQ(ParseByteSize("8G").error().message,
            "'8G' could be 8GB (powers of 1000) or 8GiB (powers of 1024): write one of them");
}

TEST(ByteSizeTest, WhatIsNoSizeIsNamed) {
  for (const char* wrong : {"", "GiB", "eight", "8GiBs", "8 G iB", "8XB", "-1", "-1GiB", "nan", "0x10", "8;"}) {
    const auto parsed = ParseByteSize(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_THAT(parsed.error().message, HasSubstr(std::string("'") + wrong + "'"));
  }
  EXPECT_THAT(ParseByteSize("1e19").error().message, HasSubstr("1e+18"));
  EXPECT_THAT(ParseByteSize("inf").error().message, HasSubstr("'inf'"));
}

TEST(ByteSizeTest, IsWrittenInTheLargestUnitThatItFills) {
  EXPECT_EQ(ByteSizeText(0), "0 bytes");
  EXPECT_EQ(ByteSizeText(999), "999 bytes");
  EXPECT_EQ(ByteSizeText(1023), "1023 bytes");
  EXPECT_EQ(ByteSizeText(1536), "1.5 KiB");
  EXPECT_EQ(ByteSizeText(8ULL << 30U), "8 GiB");
  EXPECT_EQ(ByteSizeText(1'234'567'890'123), "1.12 TiB");
  EXPECT_EQ(ByteSizeText(1023ULL << 30U), "1023 GiB");
}

}  // namespace
}  // namespace roost

#include "common/http/http_message.h"

#include <gtest/gtest.h>

namespace roost {
namespace {

TEST(HttpDateTest, HasTheFormOfTheStandard) {
  EXPECT_EQ(HttpDate(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");  // the example of RFC 9110
  EXPECT_EQ(HttpDate(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(HttpDate(1772323199), "Sat, 28 Feb 2026 23:59:59 GMT");
}

TEST(HttpDateTest, TheClockTellsTheSameWithinASecond) {
  HttpDateClock clock;
  const std::string first = clock.Now();
  EXPECT_EQ(first.size(), 29U);
  EXPECT_EQ(first.substr(25), " GMT");
}

}  // namespace
}  // namespace roost

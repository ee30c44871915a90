#include "deploy/roostctl/transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace roost::roostctl {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::string Table(const std::string& pairs) { return FormatTransfers(R"({"pairs":[)" + pairs + "]}").value(); }

TEST(FormatTransfersTest, PrintsAPairPerLine) {
  const std::string table =
      Table(R"({"from":"worker-a","to":"worker-b","model":"demo","bytes_per_second":1.84e9,"start_seconds":0.0021,)"
            R"("in_flight":2,"done":31,"failed":1,"last_outcome":"complete","paused_seconds":0},)"
            R"({"from":"worker-b","to":"worker-a","model":"demo","bytes_per_second":25.4e6,"start_seconds":0.3,)"
            R"("in_flight":0,"done":0,"failed":4,"last_outcome":"broken","paused_seconds":7.2})");
  EXPECT_THAT(table, ContainsRegex("worker-a +worker-b +demo +1.8 GB/s +2.1 ms +2 +31 +1 +-  complete\n"));
  EXPECT_THAT(table, ContainsRegex("worker-b +worker-a +demo +25.4 MB/s +300.0 ms +0 +0 +4 +8 s  broken\n"));
}

TEST(FormatTransfersTest, WhatIsNotKnownYetIsADash) {
  EXPECT_THAT(Table(R"({"from":"a","to":"b","model":"demo","bytes_per_second":null,"start_seconds":null,"in_flight":1,)"
                    R"("done":0,"failed":0,"last_outcome":null,"paused_seconds":0})"),
              ContainsRegex("a +b +demo +- +- +1 +0 +0 +-  -\n"));
}

TEST(FormatTransfersTest, NamesCanNotChangeTheTerminal) {
  EXPECT_THAT(Table(R"({"from":"\u001b[2Ja","to":"b"})"), testing::Not(HasSubstr("\x1b")));
}

TEST(FormatTransfersTest, SaysWhyThePairFailed) {
  EXPECT_THAT(Table(R"({"from":"a","to":"b","last_outcome":"broken","last_cause":"silent","paused_seconds":0})"),
              HasSubstr("  broken (silent)\n"));
  EXPECT_THAT(Table(R"({"from":"a","to":"b","last_outcome":"complete","last_cause":null,"paused_seconds":0})"),
              HasSubstr("  complete\n"));
}

TEST(FormatTransfersTest, SaysThatRequestsFetchNoBlocks) {
  EXPECT_THAT(FormatTransfers(R"({"pulls":"off","pairs":[]})").value(), HasSubstr("pulls are off"));
  EXPECT_THAT(FormatTransfers(R"({"pulls":"on","pairs":[]})").value(), testing::Not(HasSubstr("pulls are")));
}

TEST(FormatTransfersTest, SaysWhenThereIsNone) { EXPECT_THAT(Table(""), HasSubstr("(no blocks have travelled)")); }

TEST(FormatTransfersTest, AnotherAnswerIsAnError) {
  EXPECT_FALSE(FormatTransfers("<html>").ok());
  EXPECT_FALSE(FormatTransfers(R"({"error":{}})").ok());
}

}  // namespace
}  // namespace roost::roostctl

#include "deploy/roostctl/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace roost::roostctl {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string Worker(const std::string& name, const std::string& numbers, const std::string& state = "ready",
                   const std::string& model = "demo") {
  return R"({"id":")" + name + R"(","model":")" + model + R"(","state":")" + state + R"(",)" + numbers + "}";
}

Result<std::string> Victims(const std::string& workers, const std::string& model = "") {
  return FormatVictims(R"({"workers":[)" + workers + "]}", model);
}

TEST(FormatVictimsTest, NamesTheWorkerWhoseCacheSavesTheLeastThatNobodyElseCould) {
  const std::string told =
      Victims(Worker("a", R"("cache_value_seconds":120.4,"pinned_blocks":0)") + "," +
              Worker("b", R"("cache_value_seconds":7.6,"pinned_blocks":3,"running_requests":2,"waiting_requests":1,)"
                          R"("cached_blocks":40,"blocks":64)"))
          .value();
  EXPECT_THAT(told,
              StartsWith("b costs least to lose of demo: its cache saves 8 s of prefill an hour that no other could, "
                         "the least; 3 blocks are pinned there, 3 requests run or wait\n"));
  EXPECT_THAT(told, ContainsRegex("\n  b +7.6 +3 +3 +40/64\n  a +120.4 "));
}

TEST(FormatVictimsTest, OfCachesOfOneValuePinsDecideThenRequests) {
  const std::string saved = R"("cache_value_seconds":0.)";
  EXPECT_THAT(
      Victims(Worker("a", saved + R"(1,"pinned_blocks":1)") + "," + Worker("b", saved + R"(9,"pinned_blocks":0)"))
          .value(),
      StartsWith("b costs least to lose of demo: its cache saves nothing that others could not;"));
  EXPECT_THAT(Victims(Worker("a", saved + R"(1,"running_requests":5)") + "," + Worker("b", saved + R"(9)")).value(),
              StartsWith("b "));
}

TEST(FormatVictimsTest, AWorkerThatLeavesAnywayIsNotNamed) {
  const std::string told =
      Victims(Worker("a", R"("cache_value_seconds":0)", "cordoned") + "," + Worker("b", R"("cache_value_seconds":5)") +
              "," + Worker("c", R"("cache_value_seconds":6)"))
          .value();
  EXPECT_THAT(told, StartsWith("b "));
  EXPECT_THAT(told, Not(HasSubstr("  a ")));
}

TEST(FormatVictimsTest, TheOnlyWorkerOfAModelIsNotNamed) {
  const std::string workers = Worker("a", R"("cache_value_seconds":1)") + "," +
                              Worker("b", R"("cache_value_seconds":2)") + "," +
                              Worker("c", R"("cache_value_seconds":0)", "ready", "other");
  EXPECT_THAT(Victims(workers).value(), Not(HasSubstr("of other")));
  EXPECT_EQ(Victims(workers, "other").error().message, "other does not have two ready workers: none can be lost");
  EXPECT_EQ(Victims("").error().message, "no model has two ready workers: none can be lost");
}

TEST(FormatVictimsTest, EachModelHasItsOwn) {
  const std::string workers = Worker("a", R"("cache_value_seconds":1)") + "," +
                              Worker("b", R"("cache_value_seconds":2)") + "," +
                              Worker("c", R"("cache_value_seconds":9)", "ready", "other") + "," +
                              Worker("d", R"("cache_value_seconds":8)", "ready", "other");
  EXPECT_THAT(Victims(workers).value(), testing::AllOf(HasSubstr("a costs least"), HasSubstr("d costs least")));
  EXPECT_THAT(Victims(workers, "other").value(), StartsWith("d costs least to lose of other"));
}

TEST(FormatVictimsTest, NamesCanNotChangeTheTerminal) {
  EXPECT_THAT(Victims(Worker(R"(\u001b[2Ja)", R"("blocks":1)") + "," + Worker("b", R"("blocks":1)")).value(),
              Not(HasSubstr("\x1b")));
}

TEST(FormatVictimsTest, AnotherAnswerIsAnError) {
  EXPECT_FALSE(FormatVictims("<html>", "").ok());
  EXPECT_FALSE(FormatVictims(R"({"error":{}})", "").ok());
}

}  // namespace
}  // namespace roost::roostctl

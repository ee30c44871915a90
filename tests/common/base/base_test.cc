#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/rng.h"

namespace roost {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgument("value", "{} is odd", value);
  return value / 2;
}

Result<int> Quarter(int value) {
  ROOST_ASSIGN_OR_RETURN(const int half, Half(value));
  return Half(half);
}

Result<void> CheckQuarter(int value) {
  ROOST_RETURN_IF_ERROR(Quarter(value));
  return {};
}

TEST(ResultTest, CarriesValueOrError) {
  EXPECT_EQ(Quarter(12).value(), 3);
  const Result<int> odd = Quarter(6);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(odd.error().ToString(), "value: 3 is odd");
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_FALSE(CheckQuarter(9).ok());
}

TEST(ResultTest, MovesAValueThatCanNotBeCopied) {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 7);
}

TEST(ResultDeathTest, ValueOfAnErrorIsABug) { EXPECT_DEATH((void)Half(1).value(), "value: 1 is odd"); }

TEST(ErrorTest, EveryCodeHasAnHttpStatus) {
  for (int code = 0; code < kErrorCodeCount; ++code) {
    const ErrorTraits& traits = TraitsOf(static_cast<ErrorCode>(code));
    EXPECT_FALSE(traits.name.empty());
    EXPECT_GE(traits.http_status, 400);
    EXPECT_LT(traits.http_status, 600);
    EXPECT_FALSE(traits.openai_type.empty());
  }
}

TEST(RngTest, MatchesThePublishedSplitMix64Sequence) {
  // First outputs of the reference implementation for seed 1234567 (Vigna, prng.di.unimi.it/splitmix64.c).
  Rng rng(1234567);
  EXPECT_EQ(rng(), 6457827717110365317ULL);
  EXPECT_EQ(rng(), 3203168211198807973ULL);
  EXPECT_EQ(rng(), 9817491932198370423ULL);
}

TEST(RngTest, BelowStaysBelowAndReachesEveryValue) {
  Rng rng(7);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(rng.Below(10));
  EXPECT_EQ(seen.size(), 10U);
  EXPECT_EQ(*seen.rbegin(), 9U);
}

TEST(RngTest, CounterUniformDependsOnSeedAndCounterAlone) {
  EXPECT_EQ(CounterUniform(1, 5), CounterUniform(1, 5));
  EXPECT_NE(CounterUniform(1, 5), CounterUniform(1, 6));
  EXPECT_NE(CounterUniform(1, 5), CounterUniform(2, 5));
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double value = CounterUniform(42, i);
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(ClockTest, ManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const Instant before = clock.Now();
  EXPECT_EQ(clock.Now(), before);
  clock.Advance(FromSeconds(1.5));
  EXPECT_DOUBLE_EQ(ToSeconds(clock.Now() - before), 1.5);
}

TEST(LogTest, ParsesLevelAndFormatAndRefusesOthers) {
  EXPECT_EQ(ParseLogLevel("warning").value(), LogLevel::kWarning);
  EXPECT_FALSE(ParseLogLevel("loud").ok());
  EXPECT_EQ(ParseLogFormat("json").value(), LogFormat::kJson);
  EXPECT_FALSE(ParseLogFormat("xml").ok());
}

TEST(LogTest, ValuesCanNotForgeALine) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    SetUpLogging(LogLevel::kInfo, format);
    testing::internal::CaptureStderr();
    LogInfo("joined", {{"worker", "a\nb \"c\""}});
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
    EXPECT_NE(line.find("a\\nb \\\"c\\\""), std::string::npos) << line;
  }
  SetUpLogging(LogLevel::kInfo, LogFormat::kText);
}

TEST(LogTest, ValuesHaveTheTypesOfJson) {
  const std::optional<double> absent;
  const auto log = [&absent] {
    testing::internal::CaptureStderr();
    LogInfo("ended", {{"count", 3U},
                      {"change", -3},
                      {"bytes", std::uint64_t{18'446'744'073'709'551'615U}},
                      {"seconds", 0.0123456789},
                      {"known", true},
                      {"ttft_seconds", absent},
                      {"ratio", std::nan("")},
                      {"total", std::optional<std::uint64_t>(7)},
                      {"id", std::string("42")},
                      {"why", "text"}});
    return testing::internal::GetCapturedStderr();
  };
  SetUpLogging(LogLevel::kInfo, LogFormat::kJson);
  const std::string json = log();
  EXPECT_NE(json.find(R"("msg":"ended","count":3,"change":-3,"bytes":18446744073709551615,"seconds":0.0123457,)"
                      R"("known":true,"ttft_seconds":null,"ratio":null,"total":7,"id":"42","why":"text"})"),
            std::string::npos)
      << json;
  SetUpLogging(LogLevel::kInfo, LogFormat::kText);
  const std::string line = log();
  EXPECT_NE(line.find(R"(count=3 change=-3 bytes=18446744073709551615 seconds=0.0123457 known=true ttft_seconds="" )"),
            std::string::npos)
      << line;
}

}  // namespace
}  // namespace roost

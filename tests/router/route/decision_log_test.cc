#include "router/route/log/decision_log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roost::router {
namespace {

DecisionRecord RecordOf(std::string answer_id, std::string request_id = "") {
  DecisionRecord record;
  record.answer_id = std::move(answer_id);
  record.request_id = std::move(request_id);
  return record;
}

std::vector<std::string> IdsOf(const std::vector<DecisionRecord>& records) {
  std::vector<std::string> ids;
  ids.reserve(records.size());
  for (const DecisionRecord& record : records) ids.push_back(record.answer_id);
  return ids;
}

TEST(DecisionLogTest, FindsByEitherIdInTheOrderOfDecisions) {
  DecisionLog log;
  (void)log.Add(RecordOf("chatcmpl-1", "req-1"));
  (void)log.Add(RecordOf("chatcmpl-2", "req-2"));
  const std::uint64_t retry = log.Add(RecordOf("chatcmpl-1", "req-1"));
  log.SetOutcome(retry, {.cached_tokens = 3, .ttft_seconds = 0.5});
  for (const char* id : {"chatcmpl-1", "req-1"}) {
    const std::vector<DecisionRecord> found = log.Find(id);
    ASSERT_EQ(found.size(), 2U) << id;
    EXPECT_FALSE(found[0].outcome.has_value());
    EXPECT_EQ(found[1].outcome->cached_tokens, 3U);
  }
  EXPECT_TRUE(log.Find("chatcmpl-3").empty());
}

TEST(DecisionLogTest, GivesTheNewestFirst) {
  DecisionLog log;
  EXPECT_TRUE(log.Latest(5).empty());
  for (const char* id : {"a", "b", "c"}) (void)log.Add(RecordOf(id));
  EXPECT_THAT(IdsOf(log.Latest(2)), testing::ElementsAre("c", "b"));
  EXPECT_THAT(IdsOf(log.Latest(9)), testing::ElementsAre("c", "b", "a"));
}

TEST(DecisionLogTest, ForgetsTheOldestAndIgnoresTheirOutcomes) {
  DecisionLog log;
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < DecisionLog::kCapacity + 10; ++i) numbers.push_back(log.Add(RecordOf(fmt::to_string(i))));
  EXPECT_EQ(log.Latest(2 * DecisionLog::kCapacity).size(), DecisionLog::kCapacity);
  EXPECT_TRUE(log.Find("9").empty());
  EXPECT_EQ(log.Find("10").size(), 1U);
  log.SetOutcome(numbers[9], {});  // another decision has its place now
  for (const DecisionRecord& record : log.Latest(DecisionLog::kCapacity)) ASSERT_FALSE(record.outcome.has_value());
  log.SetOutcome(numbers.back(), {});
  EXPECT_TRUE(log.Latest(1)[0].outcome.has_value());
}

}  // namespace
}  // namespace roost::router

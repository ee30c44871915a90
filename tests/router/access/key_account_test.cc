#include "router/access/key_account.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <variant>
#include <vector>

#include "common/base/clock.h"

namespace roost::router {
namespace {

class KeyAccountTest : public ::testing::Test {
 protected:
  KeyEntry Entry(KeyLimits limits) {
    auto key = std::make_shared<ApiKey>();
    key->name = "hens";
    key->limits = limits;
    return {std::move(key), account_};
  }
  // Null when it is refused.
  std::shared_ptr<Admission> Ask(const KeyLimits& limits, std::uint32_t routers = 1) {
    auto asked = Admission::Ask(Entry(limits), routers, clock_.Now());
    if (auto* admission = std::get_if<std::shared_ptr<Admission>>(&asked)) return std::move(*admission);
    refusal_ = std::get<RateRefusal>(asked);
    return nullptr;
  }

  ManualClock clock_;
  const std::shared_ptr<KeyAccount> account_ = std::make_shared<KeyAccount>();
  RateRefusal refusal_;
};

TEST_F(KeyAccountTest, ConcurrentRequestsEndWithTheirLastOwner) {
  const KeyLimits limits{.concurrent_requests = 2};
  auto first = Ask(limits);
  auto second = Ask(limits);
  const auto other_owner = second;
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(Ask(limits), nullptr);
  EXPECT_EQ(refusal_.error.code, ErrorCode::kRateLimited);
  EXPECT_NE(refusal_.error.message.find("2 requests at a time"), std::string::npos);
  second.reset();
  EXPECT_EQ(Ask(limits), nullptr);
  first.reset();
  EXPECT_NE(Ask(limits), nullptr);
}

TEST_F(KeyAccountTest, TokensThatAreUsedKeepTheNextRequestWaiting) {
  const KeyLimits limits{.tokens_per_minute = 600};
  const auto admission = Ask(limits);
  admission->TakeTokens(900, clock_.Now());
  EXPECT_EQ(Ask(limits), nullptr);
  EXPECT_EQ(refusal_.retry_after, std::chrono::milliseconds(30'100));  // 301 tokens at 10 a second
  clock_.Advance(refusal_.retry_after);
  EXPECT_NE(Ask(limits), nullptr);
}

TEST_F(KeyAccountTest, RoutersShareALimit) {
  const KeyLimits limits{.requests_per_minute = 9};
  std::vector<std::shared_ptr<Admission>> admitted;
  for (int i = 0; i < 3; ++i) {
    admitted.push_back(Ask(limits, 3));
    ASSERT_NE(admitted.back(), nullptr);
  }
  EXPECT_EQ(Ask(limits, 3), nullptr);
  EXPECT_EQ(admitted.front()->Look(clock_.Now()).requests.limit, 3U);
}

TEST_F(KeyAccountTest, ALimitIsNeverSharedAwayToNothing) {
  EXPECT_NE(Ask({.requests_per_minute = 1}, 5), nullptr);
  EXPECT_EQ(Ask({.requests_per_minute = 0}, 5), nullptr);
}

TEST_F(KeyAccountTest, UsageCountsWhatWasComputedAndWhatWasRefused) {
  const auto admission = Ask({.concurrent_requests = 1});
  EXPECT_EQ(Ask({.concurrent_requests = 1}), nullptr);
  admission->account().CountGeneration(100, 64, 7);
  const KeyUsage usage = account_->usage();
  EXPECT_EQ(usage.requests, 1U);
  EXPECT_EQ(usage.refused, 1U);
  EXPECT_EQ(usage.prompt_tokens, 100U);
  EXPECT_EQ(usage.cached_tokens, 64U);
  EXPECT_EQ(usage.output_tokens, 7U);
}

}  // namespace
}  // namespace roost::router

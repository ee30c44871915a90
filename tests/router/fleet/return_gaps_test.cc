#include "router/fleet/requests/return_gaps.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class ReturnGapsTest : public ::testing::Test {
 protected:
  // A session of the tenant that has returned again and again.
  ReturnGapsTest() {
    for (int i = 0; i < 20; ++i) (void)Turn(1, 1s);
  }

  // A request of the session, `gap` after the last end, that takes a second. Returns the prediction.
  std::optional<Duration> Turn(std::uint64_t session, Duration gap, std::string_view tenant = "web") {
    now_ += gap;
    const std::optional<Duration> predicted = gaps_.OnRequest({session, tenant}, now_);
    now_ += 1s;
    gaps_.OnEnd({session, tenant}, now_);
    return predicted;
  }

  ReturnGaps gaps_;
  Instant now_{1s};
};

TEST_F(ReturnGapsTest, PredictsASessionsMeanGap) {
  EXPECT_EQ(Turn(7, 0s), std::nullopt) << "it has not returned so far";
  EXPECT_EQ(Turn(7, 10s), 10s);
  EXPECT_EQ(Turn(7, 20s), 15s);
  EXPECT_EQ(Turn(8, 5s), std::nullopt) << "another session";
}

TEST_F(ReturnGapsTest, ALongGapIsNotPredicted) {
  (void)Turn(7, 0s);
  EXPECT_EQ(Turn(7, ReturnGaps::kLongestGap), ReturnGaps::kLongestGap);
  EXPECT_EQ(Turn(7, ReturnGaps::kLongestGap + 2s), std::nullopt);
  EXPECT_NE(Turn(7, 1s), std::nullopt) << "the mean is short again";
}

TEST_F(ReturnGapsTest, ARequestBesideAnotherOfItsSessionIsNoReturn) {
  (void)Turn(7, 0s);
  (void)gaps_.OnRequest({7, "web"}, now_ + 4s);
  EXPECT_EQ(gaps_.OnRequest({7, "web"}, now_ + 9s), 4s) << "the first one had not ended";
  gaps_.OnEnd({7, "web"}, now_ + 10s);
  gaps_.OnEnd({7, "web"}, now_ + 20s);
  EXPECT_EQ(gaps_.OnRequest({7, "web"}, now_ + 26s), 5s) << "4 and 6 s: since the later end";
}

TEST_F(ReturnGapsTest, ATenantWhoseSessionsMostlyEndIsNotPredicted) {
  for (std::uint64_t session = 100; session < 110; ++session) {
    (void)Turn(session, 0s, "chat");
    (void)Turn(session, 1s, "chat");
  }
  EXPECT_EQ(Turn(109, 1s, "chat"), std::nullopt) << "half of the answers had no next request";
  EXPECT_NE(Turn(1, 1s), std::nullopt) << "of another tenant";
  for (int i = 0; i < 100; ++i) (void)Turn(109, 1s, "chat");
  EXPECT_NE(Turn(109, 1s, "chat"), std::nullopt) << "most have had one since";
}

TEST_F(ReturnGapsTest, AFewAnswersOfATenantSayNothing) {
  for (int i = 0; i < ReturnGaps::kLeastAnswers; ++i) EXPECT_EQ(Turn(7, 1s, "new"), std::nullopt) << i;
  EXPECT_EQ(Turn(7, 1s, "new"), 1s);
}

TEST_F(ReturnGapsTest, ATenantThatChangesIsFollowed) {
  for (std::uint64_t session = 10'000; session < 18'000; ++session) (void)Turn(session, 0s, "changed");
  for (int i = 0; i < 30'000; ++i) (void)Turn(7, 1s, "changed");
  EXPECT_EQ(Turn(7, 1s, "changed"), 1s);
  for (std::uint64_t session = 20'000; session < 28'000; ++session) {
    (void)Turn(session, 0s, "changed");
    (void)Turn(session, 1s, "changed");
  }
  EXPECT_EQ(Turn(27'999, 1s, "changed"), std::nullopt);
}

TEST_F(ReturnGapsTest, RequestsWithoutASessionHaveNoGap) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Turn(0, 1s), std::nullopt);
}

TEST_F(ReturnGapsTest, AnotherSessionInTheSamePlaceIsNotTakenForIt) {
  (void)Turn(7, 0s);
  EXPECT_EQ(Turn(7 + ReturnGaps::kSessions, 10s), std::nullopt);
  EXPECT_EQ(Turn(7, 10s), std::nullopt) << "the newer one took its place";
}

}  // namespace
}  // namespace roost::router

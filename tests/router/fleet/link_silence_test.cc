#include "router/fleet/workers/worker_health.h"

#include <gtest/gtest.h>

#include <chrono>

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class LinkSilenceTest : public testing::Test {
 protected:
  void MessageAfter(Duration gap) {
    clock_.Advance(gap);
    link_.OnMessage(clock_.Now());
  }
  // After how much more silence it is over.
  Duration TimeLeft() {
    Duration silence{};
    while (!link_.IsOver(clock_.Now() + silence)) silence += 100ms;
    return silence;
  }

  ManualClock clock_;
  LinkSilence link_{2s, clock_.Now()};
};

TEST_F(LinkSilenceTest, IsOverAfterTheTimeout) {
  EXPECT_EQ(TimeLeft(), 2100ms);
  for (int i = 0; i < 10; ++i) MessageAfter(250ms);
  EXPECT_EQ(TimeLeft(), 2100ms);
}

TEST_F(LinkSilenceTest, LateMessagesAreGivenMoreTime) {
  MessageAfter(1s);
  EXPECT_EQ(TimeLeft(), 4100ms);
  MessageAfter(3s);
  EXPECT_EQ(TimeLeft(), 10'100ms);
}

TEST_F(LinkSilenceTest, NoGapLengthensItBeyondFiveTimeouts) {
  MessageAfter(1h);
  EXPECT_EQ(TimeLeft(), 10'100ms);
}

TEST_F(LinkSilenceTest, LateMessagesAreForgottenOnceTheyComeInTime) {
  MessageAfter(1h);
  for (int i = 0; i < 4 * 10; ++i) MessageAfter(250ms);
  EXPECT_LT(TimeLeft(), 8s);
  for (int i = 0; i < 4 * 20; ++i) MessageAfter(250ms);
  EXPECT_EQ(TimeLeft(), 2100ms);
}

TEST_F(LinkSilenceTest, ItsOwnPauseIsNoGap) {
  clock_.Advance(5s);
  link_.Forgive(clock_.Now());
  MessageAfter(100ms);
  EXPECT_EQ(TimeLeft(), 2100ms);
}

}  // namespace
}  // namespace roost::router

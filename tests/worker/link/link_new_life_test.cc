// Every way to a new life of a link, and what does not lead to one.
#include <gtest/gtest.h>

#include <functional>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The duties of every way to a new life: end the requests, drop the engine's output for them, greet with a new epoch.
class NewLifeTest : public LinkCoreTest {
 protected:
  void ExpectNewLifeAfter(const std::function<void()>& happening) {
    BringUp(kPeer);
    const LinkId old = Submit(kPeer, 7);
    happening();
    effects_.outcome = wire::SendOutcome::kSent;
    const auto cancelled = effects_.TakeCommands<CancelLinkCommand>();
    ASSERT_EQ(cancelled.size(), 1U);
    EXPECT_EQ(cancelled[0].link, old);
    EXPECT_EQ(core_.in_flight_request_count(), 0U);
    EXPECT_EQ(core_.up_count(), 0U);
    effects_.sent.clear();
    Report({}, {TokensOf(old, 7)});
    EXPECT_TRUE(effects_.sent.empty());
    Pass(seconds(1));
    const auto hellos = effects_.Take<wire::Hello>();
    ASSERT_EQ(hellos.size(), 1U);
    EXPECT_GT(hellos[0].epoch, 100U);
    Welcome(kPeer, hellos[0].epoch, instance_);
    EXPECT_EQ(core_.up_count(), 1U);
    EXPECT_EQ(effects_.Take<wire::Step>().at(0).sequence, 1U);
    EXPECT_NE(Submit(kPeer, 7), old);
  }

  std::uint64_t instance_ = 1;  // of the router that welcomes the new life
};

TEST_F(NewLifeTest, RouterAsksForAHello) {
  ExpectNewLifeAfter([this] {
    core_.OnMessage(kPeer, wire::WantHello{});
    core_.OnMessage(kPeer, wire::WantHello{});  // the hello is on its way
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kAsked), 1U);
}

TEST_F(NewLifeTest, RouterIsSilent) {
  ExpectNewLifeAfter([this] {
    Pass(milliseconds(2999));
    EXPECT_EQ(core_.up_count(), 1U);
    Pass(milliseconds(1));
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kSilent), 1U);
}

TEST_F(NewLifeTest, RouterRestarted) {
  instance_ = 2;
  ExpectNewLifeAfter([this] { core_.OnMessage(kPeer, wire::WantHello{}); });
  EXPECT_EQ(ResyncCount(ResyncReason::kRouterRestart), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kAsked), 0U);
}

TEST_F(NewLifeTest, AnotherRouterProcessWelcomesTheRunningEpoch) {
  instance_ = 2;
  ExpectNewLifeAfter([this] { Welcome(kPeer, 100, 2); });
}

TEST_F(NewLifeTest, RouterDoesNotTakeItsMessages) {
  ExpectNewLifeAfter([this] {
    effects_.outcome = wire::SendOutcome::kFull;
    Report({Stored(1)});
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kUnsent), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 0U);
}

// The core notices a broken connection when it can not send a message; only the welcome reveals the router's restart.
TEST_F(NewLifeTest, RouterRestartedAndTheConnectionBroke) {
  instance_ = 2;
  ExpectNewLifeAfter([this] {
    effects_.outcome = wire::SendOutcome::kFull;
    Pass(milliseconds(250));
  });
  EXPECT_EQ(ResyncCount(ResyncReason::kRouterRestart), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kUnsent), 0U);
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 0U);
}

TEST_F(NewLifeTest, RouterSendsAMalformedMessage) {
  ExpectNewLifeAfter([this] { core_.OnMalformed(kPeer); });
  EXPECT_EQ(core_.counts().malformed_messages, 1U);
}

TEST_F(NewLifeTest, ReportsAreLostBetweenEngineAndLink) {
  ExpectNewLifeAfter([this] { core_.OnOutput(OutputLost{}); });
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 1U);
}

TEST_F(NewLifeTest, GenerateIsLost) {
  ExpectNewLifeAfter([this] { core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8})}); });
  EXPECT_EQ(ResyncCount(ResyncReason::kGap), 1U);
}

// Without mixing, the xor of the lost ids would be zero.
TEST_F(NewLifeTest, GeneratesThatFollowEachOtherAreLost) {
  ExpectNewLifeAfter([this] { core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8, 9, 10, 11})}); });
}

// The router sent it after a welcome that never arrived, so the worker did not accept it.
TEST_F(LinkCoreTest, GenerateThatCameBeforeItsWelcomeIsLost) {
  const std::uint64_t epoch = Greet(kPeer);
  core_.OnMessage(kPeer, GenerateNumber(7));
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7})});  // no life is up that could end
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7})});
  EXPECT_EQ(core_.up_count(), 0U);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
}

// The same request again after its end: the worker would compute it again.
TEST_F(LinkCoreTest, GenerateInThePlaceOfALostOneIsNoticed) {
  BringUp(kPeer);
  const LinkId link = Submit(kPeer, 7);
  Report({}, {TokensOf(link, 7, wire::FinishReason::kStop)});
  Submit(kPeer, 7);
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8})});
  EXPECT_EQ(core_.up_count(), 0U);
}

TEST_F(LinkCoreTest, PingAfterWhatCameChangesNothing) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = 0});
  const LinkId link = Submit(kPeer, 7);
  effects_.inbox_is_full = true;
  core_.OnMessage(kPeer, GenerateNumber(8));  // refused, but not lost
  core_.OnMessage(kPeer, wire::Ping{.generate_digest = DigestOf({7, 8})});
  core_.OnMessage(kPeer, wire::Ping{});  // from a router that sends no digest
  effects_.inbox_is_full = false;
  EXPECT_EQ(Submit(kPeer, 9), link);
}

TEST_F(LinkCoreTest, PingsTellIfOthersCanContinueWhatItHasBegun) {
  BringUp(kPeer);
  BringUp(kOther);
  EXPECT_FALSE(core_.is_sole());
  core_.OnMessage(kOther, wire::Ping{.sole = true});
  core_.OnMessage(kPeer, wire::Ping{});
  EXPECT_TRUE(core_.is_sole()) << "by one of its routers";
  core_.OnMessage(kOther, wire::Ping{});
  EXPECT_FALSE(core_.is_sole());
  core_.OnMessage(kOther, wire::Ping{.sole = true});
  core_.OnMessage(kOther, wire::WantHello{});
  EXPECT_FALSE(core_.is_sole()) << "of a link that is up";
}

TEST_F(LinkCoreTest, PingsKeepALinkUp) {
  BringUp(kPeer);
  for (int i = 0; i < 10; ++i) {
    Pass(seconds(1));
    core_.OnMessage(kPeer, wire::Ping{});
  }
  EXPECT_EQ(core_.up_count(), 1U);
  EXPECT_TRUE(effects_.Take<wire::Hello>().empty());
}

TEST_F(LinkCoreTest, SecondWelcomeOfTheSameProcessChangesNothing) {
  BringUp(kPeer);
  Welcome(kPeer, 100);
  EXPECT_EQ(core_.up_count(), 1U);
  EXPECT_TRUE(effects_.commands.empty());
}

TEST_F(LinkCoreTest, VanishedAddressEndsItsRequests) {
  BringUp(kPeer);
  const LinkId link = Submit(kPeer, 7);
  core_.RemovePeer(kPeer);
  EXPECT_EQ(effects_.TakeCommands<CancelLinkCommand>().at(0).link, link);
  EXPECT_EQ(core_.link_count(), 0U);
  core_.OnMessage(kPeer, wire::Ping{});
  Report({});
  EXPECT_TRUE(effects_.sent.empty());
}

TEST_F(LinkCoreTest, OneBrokenLinkLeavesTheOtherAlone) {
  BringUp(kPeer);
  BringUp(kOther);
  core_.OnMessage(kPeer, wire::WantHello{});
  EXPECT_EQ(core_.up_count(), 1U);
  Report({Stored(1)});
  ASSERT_EQ(effects_.sent.size(), 1U);
  EXPECT_EQ(effects_.sent[0].first, kOther);
}

}  // namespace
}  // namespace roost::worker

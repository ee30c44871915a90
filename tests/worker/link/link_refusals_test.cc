// Routers that do not take the worker: what it knows of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using wire::RefusalCause;

class LinkRefusalsTest : public LinkCoreTest {
 protected:
  void Refuse(PeerId peer, std::uint64_t epoch, RefusalCause cause, std::string reason = "a reason") {
    core_.OnMessage(peer, wire::Refused{.epoch = epoch, .reason = std::move(reason), .cause = cause});
  }
  std::uint64_t RefusalCount(RefusalCause cause) { return core_.counts().refusals[IndexOf(cause)]; }
  RouterStatus Status() { return core_.statuses().at(0); }
};

const RouterStatus kConnecting{"router", LinkStanding::kConnecting};
const RouterStatus kUp{"router", LinkStanding::kUp};
const RouterStatus kRefused{"router", LinkStanding::kRefused, "a reason"};

TEST_F(LinkRefusalsTest, ARouterIsConnectingUntilItAnswers) {
  EXPECT_TRUE(core_.statuses().empty());
  const std::uint64_t epoch = Greet(kPeer);
  EXPECT_EQ(Status(), kConnecting);
  Welcome(kPeer, epoch);
  EXPECT_EQ(Status(), kUp);
  Pass(seconds(3));  // silence
  EXPECT_EQ(Status(), kConnecting);
  core_.RemovePeer(kPeer);
  EXPECT_TRUE(core_.statuses().empty());
}

TEST_F(LinkRefusalsTest, ARefusalIsKnownUntilTheRouterTakesTheWorker) {
  const std::uint64_t epoch = Greet(kPeer);
  Refuse(kPeer, epoch, RefusalCause::kNameTaken);
  EXPECT_EQ(Status(), kRefused);
  Pass(seconds(1));
  Refuse(kPeer, epoch, RefusalCause::kNameTaken, "a later reason");
  EXPECT_EQ(Status().reason, "a later reason");
  EXPECT_EQ(RefusalCount(RefusalCause::kNameTaken), 2U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(Status(), kUp);
}

TEST_F(LinkRefusalsTest, ARefusalThatIsNotRepeatedIsForgotten) {
  Refuse(kPeer, Greet(kPeer), RefusalCause::kFull);
  Pass(milliseconds(9999));
  EXPECT_EQ(Status(), kRefused);
  Pass(milliseconds(1));
  EXPECT_EQ(Status(), kConnecting);
}

TEST_F(LinkRefusalsTest, EachRouterHasItsOwnStanding) {
  Refuse(kPeer, Greet(kPeer), RefusalCause::kKey);
  Welcome(kOther, Greet(kOther));
  EXPECT_THAT(core_.statuses(), ElementsAre(kRefused, kUp));
}

TEST_F(LinkRefusalsTest, ARefusalOfAnEarlierHelloSaysNothing) {
  const std::uint64_t epoch = Greet(kPeer);
  Refuse(kPeer, epoch + 1, RefusalCause::kOther);
  EXPECT_EQ(Status(), kConnecting);
  Welcome(kPeer, epoch);
  Refuse(kPeer, epoch, RefusalCause::kOther);
  EXPECT_EQ(Status(), kUp);
  EXPECT_EQ(RefusalCount(RefusalCause::kOther), 0U);
}

TEST_F(LinkRefusalsTest, AnotherMajorVersionIsARefusalOfTheWorkersOwn) {
  const std::uint64_t epoch = Greet(kPeer);
  core_.OnMessage(kPeer, wire::Welcome{1, epoch, {.major = wire::kProtocolMajor + 1, .minor = 0, .release = {}}});
  EXPECT_EQ(Status().standing, LinkStanding::kRefused);
  EXPECT_THAT(Status().reason, testing::HasSubstr("major versions must be equal"));
  EXPECT_EQ(RefusalCount(RefusalCause::kVersion), 1U);
}

TEST_F(LinkRefusalsTest, AHandshakeThatFailsIsARefusalToo) {
  core_.OnHandshakeFailure(kPeer, "nobody has this number");
  (void)Greet(kPeer);
  core_.OnHandshakeFailure(kPeer, "a reason");
  EXPECT_EQ(Status(), kRefused);
  EXPECT_EQ(core_.counts().refusals[kHandshakeRefusal], 1U);
}

TEST_F(LinkRefusalsTest, ChangesAreToldOnce) {
  (void)core_.TakeStatusChange();
  const std::uint64_t epoch = Greet(kPeer);
  EXPECT_TRUE(core_.TakeStatusChange());
  Pass(seconds(1));
  EXPECT_FALSE(core_.TakeStatusChange());
  Refuse(kPeer, epoch, RefusalCause::kOther);
  EXPECT_TRUE(core_.TakeStatusChange());
  Welcome(kPeer, epoch);
  EXPECT_TRUE(core_.TakeStatusChange());
  Report({});
  EXPECT_FALSE(core_.TakeStatusChange());
  Pass(seconds(3));
  EXPECT_TRUE(core_.TakeStatusChange());
}

}  // namespace
}  // namespace roost::worker

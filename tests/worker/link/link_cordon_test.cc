// Workers that an operator takes out of service, and puts back.
#include <gtest/gtest.h>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

TEST_F(LinkCoreTest, ACordonIsToldToEveryRouterAtOnceAndRefusesRequests) {
  BringUp(kPeer);
  BringUp(kOther);
  effects_.sent.clear();
  core_.OnMessage(kPeer, wire::Cordon{});
  const auto told = effects_.Take<wire::Step>();
  ASSERT_EQ(told.size(), 2U);
  for (const wire::Step& step : told) EXPECT_TRUE(step.load.cordoned && step.load.draining);
  core_.OnMessage(kOther, GenerateNumber(7));
  const auto refused = effects_.Take<wire::Step>();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].tokens.at(0).error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused[0].tokens.at(0).error->message, "the worker is cordoned");
  Report({});
  EXPECT_TRUE(effects_.Take<wire::Step>().at(0).load.cordoned);

  core_.OnMessage(kOther, wire::Cordon{.in_force = false});
  for (const wire::Step& step : effects_.Take<wire::Step>()) {
    EXPECT_FALSE(step.load.cordoned || step.load.draining);
  }
  core_.OnMessage(kOther, GenerateNumber(8));
  EXPECT_EQ(effects_.TakeCommands<SubmitCommand>().size(), 1U);
}

TEST_F(LinkCoreTest, ARouterThatComesLaterIsToldOfTheCordonWithItsFirstLoad) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::Cordon{});
  effects_.sent.clear();
  Welcome(kOther, Greet(kOther));
  EXPECT_TRUE(effects_.Take<wire::Step>().at(0).load.cordoned);
}

TEST_F(LinkCoreTest, AWorkerThatLeavesStaysDrainingWhenItsCordonEnds) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::Cordon{});
  core_.BeginDrain();
  effects_.sent.clear();
  core_.OnMessage(kPeer, wire::Cordon{.in_force = false});
  const auto told = effects_.Take<wire::Step>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].load.draining);
  EXPECT_FALSE(told[0].load.cordoned);
}

// ---- who may leave ----

class LinkHandoverTest : public LinkCoreTest {
 protected:
  LinkHandoverTest() : LinkCoreTest(SetupWithBlocks()) {}
  static LinkCore::Setup SetupWithBlocks() {
    LinkCore::Setup setup = MakeSetup();
    setup.hello.transfer.address = "127.0.0.1:7100";
    return setup;
  }
};

TEST_F(LinkHandoverTest, EveryRouterThatIsUpHasHandedOver) {
  BringUp(kPeer);
  BringUp(kOther);
  core_.BeginDrain();
  EXPECT_FALSE(core_.is_handed_over());
  core_.OnMessage(kPeer, wire::HandedOver{});
  EXPECT_FALSE(core_.is_handed_over());
  core_.OnMessage(kOther, wire::HandedOver{});
  EXPECT_TRUE(core_.is_handed_over());
}

TEST_F(LinkHandoverTest, ARouterThatIsAwayIsNotAwaited) {
  BringUp(kPeer);
  core_.BeginDrain();
  EXPECT_FALSE(core_.is_handed_over());
  core_.RemovePeer(kPeer);
  (void)Greet(kOther);
  EXPECT_TRUE(core_.is_handed_over());
}

TEST_F(LinkHandoverTest, AnOlderRouterIsNotAwaited) {
  wire::Welcome welcome{.router_instance = 1, .epoch = Greet(kPeer)};
  welcome.version.minor = 10;
  core_.OnMessage(kPeer, welcome);
  core_.BeginDrain();
  EXPECT_TRUE(core_.is_handed_over());
}

TEST_F(LinkHandoverTest, BlocksOnTheirWayAreAwaited) {
  BringUp(kPeer);
  core_.BeginDrain();
  core_.OnMessage(kPeer, wire::HandedOver{});
  core_.OnTravellingBytes({.arriving = 0, .leaving = 1});
  EXPECT_FALSE(core_.is_handed_over());
  core_.OnTravellingBytes({});
  EXPECT_TRUE(core_.is_handed_over());
}

TEST_F(LinkHandoverTest, ACordonThatEndedCountsForNoLaterDrain) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::HandedOver{});  // it does not drain
  core_.OnMessage(kPeer, wire::Cordon{});
  EXPECT_FALSE(core_.is_handed_over());
  core_.OnMessage(kPeer, wire::HandedOver{});
  EXPECT_TRUE(core_.is_handed_over());
  core_.OnMessage(kPeer, wire::Cordon{.in_force = false});
  core_.BeginDrain();
  EXPECT_FALSE(core_.is_handed_over());
}

TEST_F(LinkHandoverTest, ACordonThatIsHandedOverIsNotHandedOverAgainWhenTheWorkerLeaves) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::Cordon{});
  core_.OnMessage(kPeer, wire::HandedOver{});
  core_.BeginDrain();
  EXPECT_TRUE(core_.is_handed_over());
}

TEST_F(LinkCoreTest, AWorkerThatServesNoBlocksWaitsForNoHandover) {
  BringUp(kPeer);
  core_.BeginDrain();
  EXPECT_TRUE(core_.is_handed_over());
}

}  // namespace
}  // namespace roost::worker

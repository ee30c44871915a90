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

}  // namespace
}  // namespace roost::worker

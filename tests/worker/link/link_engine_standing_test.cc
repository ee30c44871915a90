// Engines that go away and come back, and ones that cease to tell what they hold.
#include <gtest/gtest.h>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

TEST_F(LinkCoreTest, AnEngineThatIsAwayMakesTheWorkerDrainUntilItIsBack) {
  BringUp(kPeer);
  EXPECT_TRUE(core_.TakeStatusChange());
  core_.OnOutput(EngineStanding{.absence = "no answer"});
  EXPECT_EQ(core_.engine_absence(), "no answer");
  EXPECT_TRUE(core_.TakeStatusChange());
  const wire::Load load = effects_.Take<wire::Step>().at(0).load;
  EXPECT_TRUE(load.draining);
  EXPECT_EQ(load.engine_away_ms, 1U) << "0 says that it is there";
  EXPECT_EQ(load.engine_absence, "no answer");
  core_.OnMessage(kPeer, GenerateNumber(7));
  const auto refused = effects_.Take<wire::Step>();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].tokens.at(0).error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused[0].tokens.at(0).error->message, "the engine is away: no answer");

  core_.OnOutput(EngineStanding{});
  EXPECT_EQ(core_.engine_absence(), "");
  EXPECT_FALSE(effects_.Take<wire::Step>().at(0).load.draining);
  (void)Submit(kPeer, 8);
}

TEST_F(LinkCoreTest, HowLongAnEngineIsAwayIsToldUntilTheWorkerLeaves) {
  BringUp(kPeer);
  core_.OnOutput(EngineStanding{.absence = "no answer"});
  clock_.Advance(std::chrono::seconds(2));
  core_.OnOutput(EngineStanding{.absence = "its health page answers with status 503"});
  wire::Load load = effects_.Take<wire::Step>().back().load;
  EXPECT_EQ(load.engine_away_ms, 2000U) << "since it went, whatever the reason is now";
  EXPECT_EQ(load.engine_absence, "its health page answers with status 503");
  core_.BeginDrain();
  load = effects_.Take<wire::Step>().back().load;
  EXPECT_TRUE(load.draining);
  EXPECT_EQ(load.engine_away_ms, 0U) << "what an operator asked for is told";
  EXPECT_EQ(load.engine_absence, "");
}

TEST_F(LinkCoreTest, AnAbsentEngineDoesNotEndACordonNorADrain) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::Cordon{});
  core_.OnOutput(EngineStanding{.absence = "no answer"});
  core_.OnOutput(EngineStanding{});
  EXPECT_TRUE(effects_.Take<wire::Step>().back().load.draining);
  core_.OnMessage(kPeer, wire::Cordon{.in_force = false});
  EXPECT_FALSE(effects_.Take<wire::Step>().back().load.draining);
}

TEST_F(LinkCoreTest, AnEngineThatLosesTrackOfItsCacheIsToldWithTheLoadAndEventsGoOn) {
  BringUp(kPeer);
  Report({Stored(1)});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.cached_block_count, 1U);
  core_.OnOutput(EngineStanding{.knows_cache = false});
  EXPECT_TRUE(effects_.Take<wire::Step>().at(0).load.cache_unknown) << "at once";
  Report({Removed(1), Stored(2)});
  const wire::Step step = effects_.Take<wire::Step>().at(0);
  EXPECT_TRUE(step.load.cache_unknown);
  EXPECT_EQ(step.load.cached_block_count, 100U) << "as many as there may be";
  EXPECT_EQ(step.events.size(), 2U);

  core_.OnOutput(EngineStanding{});
  EXPECT_FALSE(effects_.Take<wire::Step>().at(0).load.cache_unknown);
  Report({Stored(3)});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.cached_block_count, 2U);
  core_.OnMessage(kPeer, wire::WantSnapshot{});
  core_.Tick();
  EXPECT_EQ(effects_.Take<wire::Snapshot>().at(0).runs.size(), 2U);
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 0U);
  EXPECT_EQ(core_.up_count(), 1U) << "no link began anew";
}

TEST_F(LinkCoreTest, OtherAdaptersAreToldAtOnceAndInLaterHellos) {
  BringUp(kPeer);
  core_.OnOutput(EngineStanding{.adapters = {"clerk", "poet"}});
  const auto told = effects_.Take<wire::Adapters>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].names, (std::vector<std::string>{"clerk", "poet"}));
  core_.OnOutput(EngineStanding{.absence = "no answer", .adapters = {"clerk", "poet"}});
  EXPECT_TRUE(effects_.Take<wire::Adapters>().empty()) << "they are as before";
  const std::uint64_t epoch = told[0].epoch;
  core_.OnMessage(kPeer, wire::WantHello{});
  core_.Tick();
  const auto hello = effects_.Take<wire::Hello>();
  ASSERT_EQ(hello.size(), 1U);
  EXPECT_GT(hello[0].epoch, epoch);
  EXPECT_EQ(hello[0].adapters, (std::vector<std::string>{"clerk", "poet"}));
}

// The router goes by the hello that it welcomes.
TEST_F(LinkCoreTest, AdaptersThatChangeBetweenHelloAndWelcomeAreToldAfterIt) {
  core_.AddPeer(kPeer, "router");
  core_.Tick();
  const auto hello = effects_.Take<wire::Hello>();
  ASSERT_EQ(hello.size(), 1U);
  EXPECT_TRUE(hello[0].adapters.empty());
  core_.OnOutput(EngineStanding{.adapters = {"poet"}});
  EXPECT_TRUE(effects_.Take<wire::Adapters>().empty()) << "the router may not know the worker yet";
  core_.OnMessage(kPeer, wire::Welcome{.router_instance = 7, .epoch = hello[0].epoch, .version = {}});
  const auto told = effects_.Take<wire::Adapters>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].epoch, hello[0].epoch);
  EXPECT_EQ(told[0].names, (std::vector<std::string>{"poet"}));
}

TEST_F(LinkCoreTest, AStandingThatIsToldAgainChangesNothing) {
  BringUp(kPeer);
  core_.OnOutput(EngineStanding{.absence = "no answer"});
  (void)core_.TakeStatusChange();
  effects_.sent.clear();
  core_.OnOutput(EngineStanding{.absence = "no answer"});
  EXPECT_FALSE(core_.TakeStatusChange());
  EXPECT_TRUE(effects_.sent.empty());
}

TEST_F(LinkCoreTest, ALoadWithoutProgressIsNoProgress) {
  BringUp(kPeer);
  Report({});
  const std::uint64_t before = effects_.Take<wire::Step>().at(0).load.progress;
  StepReport report = cache_.Report({});
  report.made_progress = false;
  core_.OnOutput(std::move(report));
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.progress, before);
  Report({});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.progress, before + 1);
}

}  // namespace
}  // namespace roost::worker

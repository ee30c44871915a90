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
  EXPECT_TRUE(effects_.Take<wire::Step>().at(0).load.draining);
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

TEST_F(LinkCoreTest, AnAbsentEngineDoesNotEndACordonNorADrain) {
  BringUp(kPeer);
  core_.OnMessage(kPeer, wire::Cordon{});
  core_.OnOutput(EngineStanding{.absence = "no answer"});
  core_.OnOutput(EngineStanding{});
  EXPECT_TRUE(effects_.Take<wire::Step>().back().load.draining);
  core_.OnMessage(kPeer, wire::Cordon{.in_force = false});
  EXPECT_FALSE(effects_.Take<wire::Step>().back().load.draining);
}

TEST_F(LinkCoreTest, AnEngineThatCeasesToTellItsBlocksIsANewLifeWithoutEvents) {
  BringUp(kPeer);
  Report({Stored(1)});
  effects_.sent.clear();
  core_.OnOutput(EngineStanding{.tells_blocks = false});
  core_.Tick();
  const auto hellos = effects_.Take<wire::Hello>();
  ASSERT_EQ(hellos.size(), 1U);
  EXPECT_FALSE(hellos[0].sends_cache_events);
  Welcome(kPeer, hellos[0].epoch);
  core_.Tick();
  EXPECT_EQ(ResyncCount(ResyncReason::kCacheView), 1U);
  Report({Stored(2)});
  for (const auto& [peer, message] : effects_.sent) EXPECT_FALSE(std::holds_alternative<wire::Snapshot>(message));
  for (const wire::Step& step : effects_.Take<wire::Step>()) EXPECT_TRUE(step.events.empty());
}

TEST_F(LinkCoreTest, AnEngineThatTellsItsBlocksAgainIsAskedForThemFirst) {
  BringUp(kPeer);
  core_.OnOutput(EngineStanding{.tells_blocks = false});
  Report({Stored(1)});  // no mirror follows
  effects_.commands.clear();
  core_.OnOutput(EngineStanding{});
  EXPECT_EQ(effects_.TakeCommands<SnapshotCommand>().size(), 1U);
  core_.Tick();
  const auto hellos = effects_.Take<wire::Hello>();
  ASSERT_FALSE(hellos.empty());
  EXPECT_TRUE(hellos.back().sends_cache_events);
  Welcome(kPeer, hellos.back().epoch);
  core_.Tick();
  EXPECT_TRUE(effects_.Take<wire::Snapshot>().empty());
  core_.OnOutput(EngineSnapshot{{RunOf(1)}});
  core_.Tick();
  const auto snapshots = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(snapshots.size(), 1U);
  EXPECT_EQ(snapshots[0].runs, std::vector<wire::StoredRun>{RunOf(1)});
  Report({Stored(2)});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).events, std::vector<wire::CacheEvent>{Stored(2)});
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 0U);
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

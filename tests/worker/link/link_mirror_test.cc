// Snapshots of the ready blocks, which the link's core takes from its mirror.
#include <gtest/gtest.h>

#include <utility>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LinkMirrorTest : public LinkCoreTest {
 protected:
  // The runs of the one snapshot sent since the last call, all chunks together.
  std::vector<wire::StoredRun> TakeSnapshot() {
    std::vector<wire::StoredRun> runs;
    std::uint32_t chunk_count = 0;
    for (wire::Snapshot& chunk : effects_.Take<wire::Snapshot>()) {
      EXPECT_EQ(chunk.chunk_index, chunk_count++);
      runs.insert(runs.end(), chunk.runs.begin(), chunk.runs.end());
    }
    EXPECT_GT(chunk_count, 0U) << "no snapshot";
    return runs;
  }
  std::size_t AskedCount() { return effects_.TakeCommands<SnapshotCommand>().size(); }
  // Makes a report whose events do not reach the mirror, so that the next digest differs.
  void Falsify(std::uint64_t name) { (void)cache_.Report({Stored(name)}); }

  static std::vector<wire::StoredRun> RunsOf(std::initializer_list<std::uint64_t> names) {
    std::vector<wire::StoredRun> runs;
    for (const std::uint64_t name : names) runs.push_back(RunOf(name));
    return runs;
  }
};

// ---- the mirror equals the engine ----

TEST_F(LinkMirrorTest, SnapshotsComeWithoutTheEngine) {
  BringUp(kPeer);
  Report({Stored(1), Stored(2)});
  Report({Removed(1)});
  core_.OnMessage(kPeer, wire::WantSnapshot{});
  core_.Tick();
  EXPECT_EQ(TakeSnapshot(), RunsOf({2}));
  EXPECT_TRUE(effects_.commands.empty());
}

TEST_F(LinkMirrorTest, FollowsTheEngineWhileNoRouterListens) {
  Report({Stored(1)});
  Report({Stored(2), Removed(1), Stored(3)});
  Welcome(kPeer, Greet(kPeer));
  core_.Tick();
  EXPECT_EQ(TakeSnapshot(), RunsOf({2, 3}));
}

TEST_F(LinkMirrorTest, AnEmptyCacheIsASnapshotToo) {
  Welcome(kPeer, Greet(kPeer));
  core_.Tick();
  const auto chunks = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_TRUE(chunks[0].last);
  EXPECT_TRUE(chunks[0].runs.empty());
}

TEST_F(LinkMirrorTest, ALinkThatComesUpBetweenTwoStepsHearsEachEventOnce) {
  Report({Stored(1)});
  Welcome(kPeer, Greet(kPeer));
  effects_.sent.clear();
  Report({Stored(2)});  // before the snapshot, which includes it
  EXPECT_EQ(core_.TimeToNextTick(), Duration(0));
  core_.Tick();
  Report({Stored(3)});
  ASSERT_EQ(effects_.sent.size(), 3U);
  EXPECT_TRUE(std::get<wire::Step>(effects_.sent[0].second).events.empty());
  const auto& snapshot = std::get<wire::Snapshot>(effects_.sent[1].second);
  EXPECT_EQ(snapshot.runs, RunsOf({1, 2}));
  EXPECT_EQ(snapshot.chunk_index, 0U);
  EXPECT_TRUE(snapshot.last);
  EXPECT_EQ(std::get<wire::Step>(effects_.sent[2].second).events, std::vector<wire::CacheEvent>({Stored(3)}));
}

TEST_F(LinkMirrorTest, OneLinksSnapshotLeavesTheOthersInStep) {
  BringUp(kPeer);
  Report({Stored(1)});
  effects_.sent.clear();
  Welcome(kOther, Greet(kOther));
  effects_.sent.clear();
  Report({Stored(2)});
  core_.Tick();
  ASSERT_EQ(effects_.sent.size(), 3U);
  EXPECT_EQ(effects_.sent[0].first, kPeer);
  EXPECT_EQ(std::get<wire::Step>(effects_.sent[0].second).events, std::vector<wire::CacheEvent>({Stored(2)}));
  EXPECT_EQ(effects_.sent[1].first, kOther);
  EXPECT_TRUE(std::get<wire::Step>(effects_.sent[1].second).events.empty());
  EXPECT_EQ(effects_.sent[2].first, kOther);
  EXPECT_EQ(std::get<wire::Snapshot>(effects_.sent[2].second).runs, RunsOf({1, 2}));
}

TEST_F(LinkMirrorTest, LinksThatAreDueTogetherGetTheSameSnapshotUnderTheirOwnNumbers) {
  Report({Stored(1)});
  const std::uint64_t first = Greet(kPeer);
  const std::uint64_t second = Greet(kOther);
  Welcome(kPeer, first);
  Report({Stored(2)});
  Welcome(kOther, second);
  core_.Tick();
  const auto snapshots = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(snapshots.size(), 2U);
  EXPECT_EQ(snapshots[0].epoch, first);
  EXPECT_EQ(snapshots[0].sequence, 3U);  // after the load and a step
  EXPECT_EQ(snapshots[1].epoch, second);
  EXPECT_EQ(snapshots[1].sequence, 2U);
  EXPECT_EQ(snapshots[0].runs, snapshots[1].runs);
}

TEST_F(LinkMirrorTest, WantSnapshotIsAnsweredOnceInTheSameEpochAndKeepsRequests) {
  BringUp(kPeer);
  (void)Submit(kPeer, 7);
  core_.OnMessage(kPeer, wire::WantSnapshot{});
  core_.OnMessage(kPeer, wire::WantSnapshot{});  // one is due already
  core_.Tick();
  core_.Tick();
  const auto snapshot = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(snapshot.size(), 1U);
  EXPECT_EQ(snapshot[0].epoch, 100U);
  EXPECT_EQ(snapshot[0].sequence, 3U);  // after the load and the first snapshot
  EXPECT_EQ(core_.in_flight_request_count(), 1U);
  EXPECT_EQ(core_.up_count(), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kAsked), 1U);
}

TEST_F(LinkMirrorTest, ALargeSnapshotIsCutAndLosesNothing) {
  LinkCore::Setup setup = MakeSetup();
  setup.hello.block_count = 100'000;
  LinkCore core(std::move(setup), clock_, effects_);
  wire::CacheEvent event;
  for (std::uint64_t name = 1; name <= 80'000; ++name) event.stored.hashes.push_back({0, name});
  core.OnOutput(cache_.Report({event}));
  core.AddPeer(kPeer, "router");
  core.Tick();
  core.OnMessage(kPeer, wire::Welcome{1, effects_.Take<wire::Hello>().at(0).epoch});
  core.Tick();
  const auto chunks = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(chunks.size(), 20U);
  std::vector<BlockHash> hashes;
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(chunks[i].chunk_index, i);
    EXPECT_EQ(chunks[i].sequence, i + 2);
    EXPECT_EQ(chunks[i].last, i == 19);
    EXPECT_LE(chunks[i].runs[0].hashes.size(), wire::WireLimits::kMaxSnapshotHashes);
    ASSERT_EQ(chunks[i].runs.size(), 1U);
    EXPECT_EQ(chunks[i].runs[0].first_position, hashes.size());
    hashes.insert(hashes.end(), chunks[i].runs[0].hashes.begin(), chunks[i].runs[0].hashes.end());
  }
  EXPECT_EQ(hashes, event.stored.hashes);
}

TEST_F(LinkMirrorTest, ASnapshotThatCanNotBeSentEndsTheLifeOfItsLinkAlone) {
  BringUp(kPeer);
  Welcome(kOther, Greet(kOther));
  effects_.outcome = wire::SendOutcome::kFull;
  core_.Tick();
  EXPECT_EQ(core_.up_count(), 1U);
  effects_.outcome = wire::SendOutcome::kSent;
  effects_.sent.clear();
  Report({Stored(1)});
  ASSERT_EQ(effects_.sent.size(), 1U);
  EXPECT_EQ(effects_.sent[0].first, kPeer);
  EXPECT_EQ(std::get<wire::Step>(effects_.sent[0].second).events.size(), 1U);
}

// ---- lost reports ----

TEST_F(LinkMirrorTest, LostReportsAreHealedByOneSnapshotOfTheEngine) {
  Report({Stored(1)});
  BringUp(kPeer);
  core_.OnOutput(OutputLost{});
  EXPECT_EQ(AskedCount(), 1U);
  EXPECT_EQ(LossCount(MirrorLoss::kOverflow), 1U);
  Pass(milliseconds(50));  // greets
  Welcome(kPeer, effects_.Take<wire::Hello>().at(0).epoch);
  Report({Stored(3)});  // the engine's snapshot includes it
  core_.Tick();
  EXPECT_TRUE(effects_.Take<wire::Snapshot>().empty());
  core_.OnOutput(EngineSnapshot{RunsOf({2, 3})});
  Falsify(2);  // lost: block 1 was removed, block 2 was stored
  (void)cache_.Report({Removed(1)});
  core_.Tick();
  EXPECT_EQ(TakeSnapshot(), RunsOf({2, 3}));
  Report({Stored(4)});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).events, std::vector<wire::CacheEvent>({Stored(4)}));
  core_.OnMessage(kPeer, wire::WantSnapshot{});
  core_.Tick();
  EXPECT_EQ(TakeSnapshot(), RunsOf({2, 3, 4}));
  EXPECT_EQ(AskedCount(), 0U);
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 0U);
}

TEST_F(LinkMirrorTest, LossesWhileASnapshotIsAwaitedNeedNoOther) {
  core_.OnOutput(OutputLost{});
  core_.OnOutput(OutputLost{});
  Pass(seconds(5));
  EXPECT_EQ(AskedCount(), 1U);
  EXPECT_EQ(LossCount(MirrorLoss::kOverflow), 2U);
  Falsify(1);
  core_.OnOutput(EngineSnapshot{RunsOf({1})});
  Welcome(kPeer, Greet(kPeer));
  core_.Tick();
  EXPECT_EQ(TakeSnapshot(), RunsOf({1}));
}

TEST_F(LinkMirrorTest, TheEngineIsAskedOncePerIntervalAtMost) {
  core_.OnOutput(OutputLost{});
  core_.OnOutput(EngineSnapshot{});
  EXPECT_EQ(AskedCount(), 1U);
  Pass(milliseconds(900));
  core_.OnOutput(OutputLost{});
  EXPECT_EQ(AskedCount(), 0U);
  EXPECT_EQ(core_.TimeToNextTick(), milliseconds(100));
  Pass(milliseconds(99));
  EXPECT_EQ(AskedCount(), 0U);
  Pass(milliseconds(1));
  EXPECT_EQ(AskedCount(), 1U);
}

// ---- digests that differ ----

TEST_F(LinkMirrorTest, SumsThatDifferAreHealedAndKeepTheRequests) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId link = Submit(kPeer, 7);
  Falsify(1);
  Report({Stored(2)}, {TokensOf(link, 7)});
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kDigest), 2U);
  EXPECT_EQ(AskedCount(), 1U);
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].tokens.size(), 1U);
  EXPECT_TRUE(steps[0].events.empty());
  core_.OnMessage(kPeer, wire::WantSnapshot{});  // the router noticed it too
  Report({Stored(3)});
  core_.Tick();
  EXPECT_TRUE(effects_.Take<wire::Snapshot>().empty());
  core_.OnOutput(EngineSnapshot{RunsOf({1, 2, 3})});
  core_.Tick();
  const auto snapshots = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(snapshots.size(), 2U);
  EXPECT_EQ(snapshots[0].runs, RunsOf({1, 2, 3}));
  EXPECT_EQ(snapshots[0].epoch, 100U);
  Report({Stored(4)});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).events.size(), 1U);
  EXPECT_EQ(core_.in_flight_request_count(), 1U);
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kAsked), 0U);
}

TEST_F(LinkMirrorTest, ACountThatDiffersIsHealedToo) {
  StepReport report = cache_.Report({Stored(1)});
  report.load.cached_block_count = 2;
  core_.OnOutput(std::move(report));
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 1U);
  EXPECT_EQ(AskedCount(), 1U);
}

// An engine whose own digest is wrong is asked again and again, but seldom.
TEST_F(LinkMirrorTest, SumsThatStayWrongCostTheEngineLittle) {
  BringUp(kPeer);
  Falsify(1);
  std::size_t asked = 0;
  for (int i = 0; i < 999; ++i) {
    Report({});
    Pass(milliseconds(10));
    core_.OnMessage(kPeer, wire::Ping{});
    if (AskedCount() == 0) continue;
    ++asked;
    core_.OnOutput(EngineSnapshot{});  // without the block that is in the digest
  }
  EXPECT_EQ(asked, 10U);
  EXPECT_EQ(core_.up_count(), 1U);
}

// ---- without cache events ----

class LinkWithoutEventsTest : public LinkCoreTest {
 protected:
  LinkWithoutEventsTest() : LinkCoreTest(SetupWithoutEvents()) {}
  static LinkCore::Setup SetupWithoutEvents() {
    LinkCore::Setup setup = MakeSetup();
    setup.hello.sends_cache_events = false;
    return setup;
  }
};

TEST_F(LinkWithoutEventsTest, StepsHoldTokensAndLoadAndNoSnapshotComesWhoeverAsks) {
  Welcome(kPeer, Greet(kPeer));
  core_.Tick();
  core_.OnMessage(kPeer, wire::WantSnapshot{});
  Report({Stored(1), Stored(2), Removed(1)}, {TokensOf(LinkId(1), 5)});
  Pass(milliseconds(250));
  for (const auto& [peer, message] : effects_.sent) EXPECT_FALSE(std::holds_alternative<wire::Snapshot>(message));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 3U);  // the load at once, the report, a heartbeat
  EXPECT_TRUE(steps[1].events.empty());
  EXPECT_EQ(steps[1].tokens.size(), 1U);
  EXPECT_EQ(steps[1].load.cached_block_count, 1U);
  EXPECT_EQ(steps[2].sequence, 3U);
}

TEST_F(LinkWithoutEventsTest, LostReportsBeginANewLifeAndAskTheEngineForNothing) {
  BringUp(kPeer);
  core_.OnOutput(OutputLost{});
  core_.Tick();
  EXPECT_EQ(effects_.Take<wire::Hello>().size(), 1U);
  EXPECT_TRUE(effects_.TakeCommands<SnapshotCommand>().empty());
}

}  // namespace
}  // namespace roost::worker

// Links of a worker whose hits end only behind some blocks.
#include <gtest/gtest.h>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

class LinkCheckpointsTest : public LinkCoreTest {
 protected:
  LinkCheckpointsTest() : LinkCoreTest(HybridSetup()) {}
  static LinkCore::Setup HybridSetup() {
    LinkCore::Setup setup = MakeSetup();
    setup.hello.checkpoints = true;
    return setup;
  }

  void WelcomeOf(PeerId peer, std::uint64_t epoch, std::uint32_t minor) {
    wire::Welcome welcome{1, epoch};
    welcome.version.minor = minor;
    core_.OnMessage(peer, welcome);
  }
  static wire::CacheEvent Resumable(std::uint64_t name) {
    wire::CacheEvent event;
    event.kind = wire::CacheEvent::Kind::kResumable;
    event.resumable = {BlockHash{0, name}};
    return event;
  }
  void ReportBlocks() {
    StepReport report = cache_.Report({Stored(1), Stored(2), Resumable(2)});
    report.load.resumable_digest = BlockHash{0, 2};
    core_.OnOutput(std::move(report));
  }
};

TEST_F(LinkCheckpointsTest, ASnapshotNamesResumableBlocksBehindAllBlocks) {
  ReportBlocks();
  WelcomeOf(kPeer, Greet(kPeer), 10);
  core_.Tick();
  const auto chunks = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[0].runs.size(), 2U);
  EXPECT_EQ(chunks[1].resumable, std::vector<BlockHash>({BlockHash{0, 2}}));
  EXPECT_TRUE(chunks[1].last);
}

TEST_F(LinkCheckpointsTest, ARemovedBlockIsNotResumableAnyMore) {
  ReportBlocks();
  core_.OnOutput(cache_.Report({Removed(2)}));
  WelcomeOf(kPeer, Greet(kPeer), 10);
  core_.Tick();
  EXPECT_EQ(effects_.Take<wire::Snapshot>().size(), 1U);
  EXPECT_TRUE(effects_.commands.empty()) << "the mirror is the engine's";
}

TEST_F(LinkCheckpointsTest, ARouterThatDoesNotKnowThemIsToldThatTheCacheIsUnknown) {
  WelcomeOf(kPeer, Greet(kPeer), 9);
  WelcomeOf(kOther, Greet(kOther), 10);
  core_.Tick();
  effects_.sent.clear();
  ReportBlocks();
  ASSERT_EQ(effects_.sent.size(), 2U);
  const auto& older = std::get<wire::Step>(effects_.sent[0].second);
  EXPECT_TRUE(older.load.cache_unknown);
  EXPECT_EQ(older.load.cached_block_count, 100U);
  EXPECT_TRUE(older.events.empty());
  const auto& newer = std::get<wire::Step>(effects_.sent[1].second);
  EXPECT_FALSE(newer.load.cache_unknown);
  EXPECT_EQ(newer.events.size(), 3U);
}

TEST_F(LinkCheckpointsTest, LinksStartAgainWhenTheEngineIsOfAnotherKind) {
  WelcomeOf(kPeer, Greet(kPeer), 10);
  core_.OnOutput(EngineStanding{.checkpoints = true});
  EXPECT_TRUE(effects_.Take<wire::Hello>().empty());
  core_.OnOutput(EngineStanding{.checkpoints = false});
  core_.Tick();
  const auto hellos = effects_.Take<wire::Hello>();
  ASSERT_EQ(hellos.size(), 1U);
  EXPECT_FALSE(hellos[0].checkpoints);
}

}  // namespace
}  // namespace roost::worker

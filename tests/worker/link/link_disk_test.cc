// The blocks on the worker's disk: a second set beside the ready blocks, with its own digest.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

class LinkDiskTest : public LinkCoreTest {
 protected:
  explicit LinkDiskTest(LinkCore::Setup setup = WithDisk()) : LinkCoreTest(std::move(setup)) {}

  // Two blocks are on disk when the process begins.
  static LinkCore::Setup WithDisk() {
    LinkCore::Setup setup = MakeSetup();
    setup.disk = {.runs = {RunOf(1), RunOf(2)}, .most_blocks = 10, .bytes_per_second = 1e9, .block_bytes = 4096};
    return setup;
  }
  static wire::CacheEvent OnDisk(std::uint64_t name) {
    wire::CacheEvent event;
    event.kind = wire::CacheEvent::Kind::kDiskStored;
    event.disk_stored = RunOf(name);
    return event;
  }
  static wire::CacheEvent OffDisk(std::uint64_t name) {
    wire::CacheEvent event;
    event.kind = wire::CacheEvent::Kind::kDiskRemoved;
    event.disk_removed = {BlockHash{0, name}};
    return event;
  }
  // A report with the events; then these blocks are on disk.
  void Report(std::vector<wire::CacheEvent> events, std::initializer_list<std::uint64_t> on_disk) {
    StepReport report = cache_.Report(std::move(events));
    for (const std::uint64_t name : on_disk) report.load.disk_digest = report.load.disk_digest ^ BlockHash { 0, name };
    report.load.disk_block_count = static_cast<std::uint32_t>(on_disk.size());
    report.load.disk_bytes_per_second = 2e9;
    report.load.block_bytes = 4096;
    core_.OnOutput(std::move(report));
  }
  // The runs of both sets in the one snapshot since the last call.
  std::pair<std::vector<wire::StoredRun>, std::vector<wire::StoredRun>> TakeSnapshot() {
    std::pair<std::vector<wire::StoredRun>, std::vector<wire::StoredRun>> runs;
    for (wire::Snapshot& chunk : effects_.Take<wire::Snapshot>()) {
      runs.first.insert(runs.first.end(), chunk.runs.begin(), chunk.runs.end());
      runs.second.insert(runs.second.end(), chunk.disk_runs.begin(), chunk.disk_runs.end());
    }
    return runs;
  }
};

TEST_F(LinkDiskTest, ARouterHearsOfItBeforeTheFirstStep) {
  Welcome(kPeer, Greet(kPeer));
  core_.Tick();
  const auto [in_pool, on_disk] = TakeSnapshot();
  EXPECT_TRUE(in_pool.empty());
  EXPECT_EQ(on_disk, (std::vector{RunOf(1), RunOf(2)}));
  Pass(std::chrono::milliseconds(250));
  const wire::Load load = effects_.Take<wire::Step>().at(0).load;
  EXPECT_EQ(load.disk_block_count, 2U);
  EXPECT_EQ(load.disk_digest, (BlockHash{0, 1} ^ BlockHash{0, 2}));
  EXPECT_EQ(load.disk_bytes_per_second, 1e9);
  EXPECT_EQ(load.block_bytes, 4096U);
}

TEST_F(LinkDiskTest, EventsGoOnAndSnapshotsHaveBothSets) {
  BringUp(kPeer);
  Report({Stored(7), OnDisk(7), OffDisk(2)}, {1, 7});
  const wire::Step step = effects_.Take<wire::Step>().at(0);
  EXPECT_EQ(step.events.size(), 3U);
  EXPECT_EQ(step.load.disk_block_count, 2U);
  core_.OnMessage(kPeer, wire::WantSnapshot{});
  core_.Tick();
  const auto [in_pool, on_disk] = TakeSnapshot();
  EXPECT_EQ(in_pool, std::vector{RunOf(7)});
  EXPECT_EQ(on_disk, (std::vector{RunOf(1), RunOf(7)}));
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 0U);
}

TEST_F(LinkDiskTest, ASetThatDiffersIsHealedWithTheEnginesSnapshot) {
  BringUp(kPeer);
  Report({}, {1, 2, 3});
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 1U);
  EXPECT_EQ(effects_.TakeCommands<SnapshotCommand>().size(), 1U);
  effects_.sent.clear();
  core_.OnOutput(EngineSnapshot{.runs = {}, .disk_runs = {RunOf(1), RunOf(2), RunOf(3), RunOf(4)}});
  core_.Tick();
  EXPECT_EQ(TakeSnapshot().second.size(), 4U);
  // The disk went on after the report: what is told until the next one is what the snapshot has.
  Pass(std::chrono::milliseconds(250));
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.disk_block_count, 4U);
  Report({OffDisk(4)}, {1, 2, 3});
  EXPECT_EQ(LossCount(MirrorLoss::kDigest), 1U);
}

TEST_F(LinkDiskTest, ALargeSetIsCutIntoChunks) {
  LinkCore::Setup setup = WithDisk();
  wire::StoredRun run{0, {}};
  for (std::uint64_t i = 0; i < 5000; ++i) run.hashes.push_back({1, i});
  setup.disk = {.runs = {run}, .most_blocks = 5000};
  LinkCore core(std::move(setup), clock_, effects_);
  core.AddPeer(kPeer, "router");
  core.Tick();
  core.OnMessage(kPeer, wire::Welcome{1, effects_.Take<wire::Hello>().at(0).epoch});
  core.Tick();
  const std::vector<wire::Snapshot> chunks = effects_.Take<wire::Snapshot>();
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[1].disk_runs.at(0).hashes.size(), wire::WireLimits::kMaxSnapshotHashes);
  EXPECT_EQ(chunks[2].disk_runs.at(0).first_position, wire::WireLimits::kMaxSnapshotHashes);
  EXPECT_TRUE(chunks[2].last);
}

class LinkDiskWithoutEventsTest : public LinkDiskTest {
 protected:
  LinkDiskWithoutEventsTest()
      : LinkDiskTest([] {
          LinkCore::Setup setup = WithDisk();
          setup.hello.sends_cache_events = false;
          return setup;
        }()) {}
};

TEST_F(LinkDiskWithoutEventsTest, NothingIsToldOfIt) {
  BringUp(kPeer);
  Report({OnDisk(3)}, {1, 2, 3});
  const wire::Step step = effects_.Take<wire::Step>().at(0);
  EXPECT_TRUE(step.events.empty());
  EXPECT_EQ(step.load.disk_block_count, 0U);
  EXPECT_EQ(step.load.disk_digest, BlockHash());
  EXPECT_EQ(step.load.disk_bytes_per_second, 0);
}

}  // namespace
}  // namespace roost::worker

#include "worker/link/link_core.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/base/rng.h"
#include "tests/worker/link/link_core_fixture.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// ---- greeting ----

TEST_F(LinkCoreTest, SaysHelloEachSecondUntilWelcomed) {
  const std::uint64_t epoch = Greet(kPeer);
  EXPECT_EQ(epoch, 100U);
  Pass(milliseconds(999));
  EXPECT_TRUE(effects_.Take<wire::Hello>().empty());
  Pass(milliseconds(1));
  const auto again = effects_.Take<wire::Hello>();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].epoch, epoch);
  EXPECT_EQ(again[0].worker_id, "worker-1");
  Welcome(kPeer, epoch);
  Pass(seconds(1));
  EXPECT_TRUE(effects_.Take<wire::Hello>().empty());
}

TEST_F(LinkCoreTest, RetriesSoonWhileNoConnectionStands) {
  effects_.outcome = wire::SendOutcome::kFull;
  core_.AddPeer(kPeer, "router");
  core_.Tick();
  effects_.outcome = wire::SendOutcome::kSent;
  EXPECT_EQ(core_.TimeToNextTick(), milliseconds(50));
  Pass(milliseconds(50));
  EXPECT_EQ(effects_.Take<wire::Hello>().size(), 1U);
  EXPECT_EQ(ResyncCount(ResyncReason::kOverflow), 0U);
}

TEST_F(LinkCoreTest, ASilentRouterIsDialledAnewAndAgain) {
  BringUp(kPeer);
  Pass(milliseconds(2999));
  EXPECT_TRUE(effects_.redialled.empty());
  Pass(milliseconds(1));
  EXPECT_EQ(effects_.redialled, (std::vector<PeerId>{kPeer}));
  EXPECT_EQ(core_.up_count(), 0U);
  Pass(seconds(3));  // it does not answer hellos either
  EXPECT_EQ(effects_.redialled.size(), 2U);
}

TEST_F(LinkCoreTest, ARouterThatRefusesIsAskedEachSecondAndNotDialledAnew) {
  const std::uint64_t epoch = Greet(kPeer);
  for (int i = 0; i < 10; ++i) {
    core_.OnMessage(kPeer, wire::Refused{epoch, "another process serves under this name"});
    Pass(seconds(1));
  }
  EXPECT_TRUE(effects_.redialled.empty());
  EXPECT_EQ(effects_.Take<wire::Hello>().size(), 10U);
  EXPECT_EQ(core_.up_count(), 0U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
}

TEST_F(LinkCoreTest, EachReportOfTheEngineIsProgressAndAHeartbeatIsNone) {
  BringUp(kPeer);
  Report({});
  const std::uint64_t first = effects_.Take<wire::Step>().at(0).load.progress;
  Report({});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.progress, first + 1);
  Pass(milliseconds(250));
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.progress, first + 1);
}

TEST_F(LinkCoreTest, AHeartbeatTellsHowFarTheStepUnderWayIs) {
  BringUp(kPeer);
  Report({});
  const std::uint64_t first = effects_.Take<wire::Step>().at(0).load.progress;
  core_.OnStepParts({.count = 5, .under_way = seconds(7)});
  Pass(milliseconds(250));
  const wire::Load load = effects_.Take<wire::Step>().at(0).load;
  EXPECT_EQ(load.progress, first + 5);
  EXPECT_EQ(load.step_under_way_seconds, 7);
  EXPECT_EQ(load.step_seconds, 0) << "it has not ended";
  Report({});
  const wire::Load ended = effects_.Take<wire::Step>().at(0).load;
  EXPECT_EQ(ended.progress, first + 6);
  EXPECT_EQ(ended.step_under_way_seconds, 0);
}

TEST_F(LinkCoreTest, ReportsAndHeartbeatsTellTheBlocksOnTheirWay) {
  BringUp(kPeer);
  core_.OnTravellingBytes({.arriving = 700, .leaving = 30});
  Report({});
  const wire::Load load = effects_.Take<wire::Step>().at(0).load;
  EXPECT_EQ(load.arriving_bytes, 700U);
  EXPECT_EQ(load.leaving_bytes, 30U);
  core_.OnTravellingBytes({.arriving = 0, .leaving = 20});
  Pass(milliseconds(250));
  const wire::Load later = effects_.Take<wire::Step>().at(0).load;
  EXPECT_EQ(later.arriving_bytes, 0U);
  EXPECT_EQ(later.leaving_bytes, 20U);
}

TEST_F(LinkCoreTest, ACrowdedMachineIsToldInTheLogAndEachNewsOfItOnce) {
  const wire::Crowding crowding{.workers = 2, .threads = 16, .cores = 8};
  const auto log_of_welcome = [&](PeerId peer, std::uint64_t epoch) {
    testing::internal::CaptureStderr();
    core_.OnMessage(peer, wire::Welcome{.router_instance = 1, .epoch = epoch, .version = {}, .crowding = crowding});
    FlushLog();
    return testing::internal::GetCapturedStderr();
  };
  const std::string log = log_of_welcome(kPeer, Greet(kPeer));
  EXPECT_EQ(core_.up_count(), 1U);
  EXPECT_NE(log.find("--threads 4 for each"), std::string::npos) << log;
  const std::string second = log_of_welcome(kOther, Greet(kOther));
  EXPECT_EQ(core_.up_count(), 2U);
  EXPECT_EQ(second.find("--threads"), std::string::npos) << second;
}

TEST_F(LinkCoreTest, AMachineThatGetsCrowdedLaterIsToldInTheLogAndTheLinkStaysUp) {
  const std::uint64_t epoch = Greet(kPeer);
  Welcome(kPeer, epoch);
  testing::internal::CaptureStderr();
  core_.OnMessage(
      kPeer,
      wire::Welcome{
          .router_instance = 1, .epoch = epoch, .version = {}, .crowding = {.workers = 3, .threads = 24, .cores = 8}});
  FlushLog();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("--threads 2 for each"), std::string::npos) << log;
  EXPECT_EQ(core_.up_count(), 1U);
  EXPECT_EQ(core_.counts().resyncs, LinkCounts().resyncs);
}

TEST_F(LinkCoreTest, IgnoresAWelcomeToAnotherEpoch) {
  const std::uint64_t epoch = Greet(kPeer);
  Welcome(kPeer, epoch + 1);
  EXPECT_EQ(core_.up_count(), 0U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
}

TEST_F(LinkCoreTest, WelcomeOfAnotherMajorVersionIsNotTaken) {
  const std::uint64_t epoch = Greet(kPeer);
  core_.OnMessage(kPeer, wire::Welcome{1, epoch, {.major = wire::kProtocolMajor + 1, .minor = 0}});
  EXPECT_EQ(core_.up_count(), 0U);
  Welcome(kPeer, epoch);
  EXPECT_EQ(core_.up_count(), 1U);
}

TEST_F(LinkCoreTest, TokenizerIsSentToWhoAsks) {
  (void)Greet(kPeer);
  core_.OnMessage(kPeer, wire::WantTokenizer{});
  const auto sent = effects_.Take<wire::Tokenizer>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].digest, "digest");
}

// ---- sequence, load, tokens ----

TEST_F(LinkCoreTest, NumbersSnapshotsAndStepsWithoutGaps) {
  Welcome(kPeer, Greet(kPeer));  // message 1: the load
  Report({});
  core_.Tick();  // message 3: the snapshot
  Report({});
  Pass(milliseconds(250));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[1].sequence, 2U);
  EXPECT_EQ(steps[2].sequence, 4U);
  EXPECT_EQ(steps[3].sequence, 5U);
  EXPECT_EQ(steps[0].epoch, 100U);
}

TEST_F(LinkCoreTest, ARouterIsToldTheLoadAtOnce) {
  StepReport report = cache_.Report({Stored(1)});
  report.load.free_block_count = 99;
  core_.OnOutput(std::move(report));
  Welcome(kPeer, Greet(kPeer));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].sequence, 1U);
  EXPECT_EQ(steps[0].load.free_block_count, 99U);
  EXPECT_EQ(steps[0].load.step_seconds, 0.0);
}

TEST_F(LinkCoreTest, LoadIsRepeatedAsHeartbeatWithoutTheStep) {
  BringUp(kPeer);
  Report({Stored(1)});
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).load.step_seconds, 0.5);
  Pass(milliseconds(249));
  EXPECT_TRUE(effects_.sent.empty());
  Pass(milliseconds(1));
  const auto steps = effects_.Take<wire::Step>();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].load.cached_block_count, 1U);
  EXPECT_EQ(steps[0].load.step_decode_tokens, 0U);
  EXPECT_EQ(steps[0].load.step_seconds, 0.0);
  EXPECT_TRUE(steps[0].events.empty());
}

TEST_F(LinkCoreTest, TokensGoToTheirOwnRouterAlone) {
  BringUp(kPeer);
  BringUp(kOther);
  const LinkId first = Submit(kPeer, 1);
  const LinkId second = Submit(kOther, 2);
  Report({Stored(9)}, {TokensOf(first, 1), TokensOf(second, 2)});
  ASSERT_EQ(effects_.sent.size(), 2U);
  std::map<PeerId, std::uint64_t> requests;
  for (const auto& [peer, message] : effects_.sent) {
    const auto& step = std::get<wire::Step>(message);
    ASSERT_EQ(step.tokens.size(), 1U);
    requests[peer] = step.tokens[0].request_id.value();
    EXPECT_EQ(step.events.size(), 1U);
  }
  EXPECT_EQ(requests, (std::map<PeerId, std::uint64_t>{{kPeer, 1}, {kOther, 2}}));
}

// ---- draining ----

TEST_F(LinkCoreTest, DrainRefusesNewRequestsAndEndsOldOnes) {
  BringUp(kPeer);
  const LinkId link = Submit(kPeer, 7);
  core_.BeginDrain();
  const auto told = effects_.Take<wire::Step>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].load.draining);
  core_.OnMessage(kPeer, GenerateNumber(8));
  EXPECT_EQ(effects_.Take<wire::Step>().at(0).tokens.at(0).error->code, ErrorCode::kUnavailable);
  Report({}, {TokensOf(link, 7, wire::FinishReason::kStop)});
  EXPECT_TRUE(effects_.Take<wire::Step>().at(0).load.draining);
  EXPECT_EQ(core_.in_flight_request_count(), 0U);
  core_.SayBye();
  EXPECT_EQ(effects_.Take<wire::Bye>().at(0).epoch, 100U);
}

// ---- cutting snapshots ----

TEST(CutSnapshotTest, EmptyCacheIsOneEmptyChunk) { EXPECT_EQ(CutSnapshot({}, 10, 10).size(), 1U); }

TEST(CutSnapshotTest, RunsThatAreNotSplitAreNotCopied) {
  std::vector<wire::StoredRun> runs{{0, {BlockHash{0, 1}, BlockHash{0, 2}}}, {2, {BlockHash{0, 3}}}};
  const BlockHash* const first = runs[0].hashes.data();
  const BlockHash* const second = runs[1].hashes.data();
  const auto chunks = CutSnapshot(std::move(runs), 3, 2);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].at(0).hashes.data(), first);
  EXPECT_EQ(chunks[0].at(1).hashes.data(), second);
}

TEST(CutSnapshotTest, ChunksKeepToTheLimitsAndLoseNothing) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<wire::StoredRun> runs(rng.Below(8));
    std::vector<std::pair<std::uint32_t, BlockHash>> expected;
    for (wire::StoredRun& run : runs) {
      run.first_position = static_cast<std::uint32_t>(rng.Below(5));
      for (std::uint64_t n = rng.Below(12); n > 0; --n) {
        run.hashes.push_back({rng(), rng()});
        expected.emplace_back(run.first_position + run.hashes.size() - 1, run.hashes.back());
      }
    }
    const std::size_t max_hashes = 1 + rng.Below(6);
    const std::size_t max_runs = 1 + rng.Below(3);
    std::vector<std::pair<std::uint32_t, BlockHash>> found;
    for (const auto& chunk : CutSnapshot(runs, max_hashes, max_runs)) {
      EXPECT_LE(chunk.size(), max_runs);
      std::size_t hashes = 0;
      for (const wire::StoredRun& run : chunk) {
        hashes += run.hashes.size();
        for (std::size_t i = 0; i < run.hashes.size(); ++i) {
          found.emplace_back(run.first_position + static_cast<std::uint32_t>(i), run.hashes[i]);
        }
      }
      EXPECT_LE(hashes, max_hashes);
    }
    EXPECT_EQ(found, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace roost::worker

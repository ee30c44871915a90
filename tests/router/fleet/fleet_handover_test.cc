// Prefixes of workers that leave, which go to those that stay, and of the fleet, which go to workers that join.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "router/fleet/core/handovers.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

using Change = std::function<void(wire::Hello&)>;
using Ends = std::map<std::string, int>;

class FleetHandoverTest : public ::testing::Test {
 protected:
  FakeWorker& Join(
      const std::string& id, const Change& change = [](wire::Hello&) {}) {
    FakeWorker& worker = Add(id, change);
    BringUp(worker);
    return worker;
  }
  FakeWorker& Add(
      const std::string& id, const Change& change = [](wire::Hello&) {}) {
    FakeWorker& worker = sim_.AddWorker(id);
    worker.SetTransfers("127.0.0.1:" + std::to_string(7100 + sim_.workers.size()));
    change(worker.hello());
    return worker;
  }
  void BringUp(FakeWorker& worker) {
    worker.SayHello();
    sim_.DeliverAll();
    worker.Heartbeat();
    sim_.DeliverAll();
  }
  // It joins, and answers no Hold.
  FakeWorker& JoinMute(const std::string& id) {
    FakeWorker& worker = Add(id);
    worker.SetMute(true);
    BringUp(worker);
    return worker;
  }

  // A prefix of so many blocks that the worker holds, and tells of when it is asked.
  wire::UsedPrefix Use(FakeWorker& worker, TokenId seed, std::uint32_t blocks, std::uint64_t hits,
                       std::chrono::milliseconds age = 0ms) {
    const std::vector<BlockHash> hashes = HashesOf(seed, blocks);
    worker.Keep(hashes);
    wire::UsedPrefix used;
    used.hash = hashes.back();
    used.block_count = blocks;
    used.hits = hits;
    used.hashes = hashes;
    used.root = RootHash({});
    used.age_ms = static_cast<std::uint64_t>(age.count());
    used_[worker.id()].push_back(used);
    worker.SetUsedPrefixes(used_[worker.id()]);
    worker.Heartbeat();
    sim_.DeliverAll();
    return used;
  }
  static std::vector<BlockHash> HashesOf(TokenId seed, std::uint32_t blocks) {
    return BlocksOf(MakePrompt(seed, std::size_t{blocks} * FakeWorker::kBlockTokens));
  }

  void Drain(FakeWorker& worker, bool drains = true) {
    worker.SetDraining(drains);
    worker.Heartbeat();
    sim_.DeliverAll();
  }
  static std::uint64_t Holds(const FakeWorker& worker, TokenId seed, std::uint32_t blocks) {
    return worker.Held(HashesOf(seed, blocks));
  }
  static void Answer(FakeWorker& worker, std::size_t hold, wire::HoldOutcome outcome) {
    const wire::Hold& order = worker.holds()[hold];
    worker.outbox().emplace_back(
        wire::HoldAnswer{.answer_id = order.answer_id,
                         .missing_block_count = static_cast<std::uint32_t>(order.hashes.size()),
                         .outcome = outcome});
  }
  void ExpectNothingLeft() {
    EXPECT_EQ(sim_.core.handover_count(), 0U);
    EXPECT_EQ(sim_.core.pending_count(), 0U);
  }

  FleetSim sim_;
  std::map<std::string, std::vector<wire::UsedPrefix>> used_;
};

// ---- a worker leaves ----

TEST_F(FleetHandoverTest, AWorkerThatDrainsHandsOverWhatRequestsFind) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  const wire::UsedPrefix used = Use(a, 1, 10, 7);
  Drain(a);
  ASSERT_EQ(a.questions().size(), 1U);
  EXPECT_EQ(a.questions().front().with_hashes, wire::PrefixHashes::kTell);
  ASSERT_EQ(b.holds().size(), 1U);
  const wire::Hold& hold = b.holds().front();
  EXPECT_EQ(hold.hashes, used.hashes);
  EXPECT_EQ(hold.purpose, wire::HoldPurpose::kCopy);
  EXPECT_EQ(hold.source.worker_id, "a");
  EXPECT_EQ(hold.hits, 7U);
  EXPECT_EQ(Holds(b, 1, 10), 10U);
  EXPECT_EQ(a.handed_over_count(), 1);
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"leave complete", 1}}));
  EXPECT_TRUE(sim_.ViewIsExact(b));
  ExpectNothingLeft();
  sim_.Advance(2s);  // it reports that it drains all the time
  EXPECT_EQ(a.questions().size(), 1U);
  EXPECT_EQ(a.handed_over_count(), 1);
}

TEST_F(FleetHandoverTest, AnOperatorsDrainHandsOverAndAnotherOneLaterAgainButNoCordon) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  Use(a, 1, 10, 7);
  const auto order = [&](Service service, Duration patience = {}) {
    const CordonOrder cordon{"a", service, patience};
    ASSERT_TRUE(sim_.core.Send(cordon, {}, sim_.clock.Now(), [](std::vector<WorkerAnswer>) {}).ok());
    sim_.DeliverAll();
  };
  order(Service::kCordoned);
  EXPECT_TRUE(b.holds().empty());
  EXPECT_EQ(a.handed_over_count(), 0);
  order(Service::kCordoned, 1s);
  EXPECT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(a.handed_over_count(), 1);
  order(Service::kOpen);
  Use(a, 2, 5, 7);
  order(Service::kCordoned, 1s);
  EXPECT_EQ(a.handed_over_count(), 2);
  EXPECT_EQ(Holds(b, 2, 5), 5U);
}

TEST_F(FleetHandoverTest, WhatIsFoundMostOftenInAnHourGoesFirst) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  Use(a, 1, 10, 40, 10h);  // 4 an hour
  Use(a, 2, 10, 5);        // 5, in the first minute
  Use(a, 3, 40, 18, 2h);   // 9
  Use(a, 4, 60, 5);        // 5, and longer
  Drain(a);
  ASSERT_EQ(b.holds().size(), 4U);
  const std::vector<std::uint32_t> hits{b.holds()[0].hits, b.holds()[1].hits, b.holds()[2].hits, b.holds()[3].hits};
  EXPECT_EQ(hits, (std::vector<std::uint32_t>{9, 5, 5, 4}));
  EXPECT_EQ(b.holds()[1].hashes.size(), 60U);
}

TEST_F(FleetHandoverTest, AnHeirGetsAQuarterOfItsPool) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b", [](wire::Hello& hello) { hello.block_count = 80; });
  Use(a, 1, 15, 9);
  Use(a, 2, 15, 8);
  Use(a, 3, 15, 7);
  Drain(a);
  ASSERT_EQ(b.holds().size(), 2U);
  EXPECT_EQ(b.holds()[0].hashes.size(), 15U);
  EXPECT_EQ(b.holds()[1].hashes.size(), 5U);  // its front
  EXPECT_EQ(b.block_count(), 20U);
  EXPECT_EQ(a.handed_over_count(), 1);
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"leave partial", 1}}));
}

TEST_F(FleetHandoverTest, WorkersThatLeaveTogetherShareThatQuarter) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  FakeWorker& c = Join("c", [](wire::Hello& hello) { hello.block_count = 80; });
  Use(a, 1, 15, 9);
  Use(b, 2, 15, 9);
  c.SetMute(true);
  a.SetDraining(true);
  b.SetDraining(true);
  a.Heartbeat();
  b.Heartbeat();
  sim_.DeliverAll();
  ASSERT_EQ(c.holds().size(), 2U);
  EXPECT_EQ(c.holds()[0].hashes.size() + c.holds()[1].hashes.size(), 20U);
}

TEST_F(FleetHandoverTest, EqualHeirsShareWhatComes) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  FakeWorker& c = Join("c");
  for (TokenId seed = 1; seed <= 8; ++seed) Use(a, seed, 10, 20 - seed);
  Drain(a);
  EXPECT_EQ(b.holds().size(), 4U);
  EXPECT_EQ(c.holds().size(), 4U);
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"leave complete", 1}}));
}

// Its requests go there already.
TEST_F(FleetHandoverTest, WhatAnHeirHoldsIsNotSent) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  FakeWorker& c = Join("c");
  Use(a, 1, 10, 9);
  c.Keep(HashesOf(1, 10));
  c.Heartbeat();
  sim_.DeliverAll();
  Drain(a);
  EXPECT_TRUE(b.holds().empty());
  EXPECT_TRUE(c.holds().empty());
  EXPECT_EQ(a.handed_over_count(), 1);
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"leave nothing", 1}}));
}

TEST_F(FleetHandoverTest, ATenantsPrefixStaysTheTenants) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  wire::UsedPrefix used = Use(a, 1, 10, 9);
  used.tenant = "acme";
  used.own = {.first_block = 4, .root = {5, 6}};
  a.SetUsedPrefixes({used});
  Drain(a);
  ASSERT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(b.holds()[0].tenant, "acme");
  EXPECT_EQ(b.holds()[0].own, used.own);
  EXPECT_EQ(b.holds()[0].root, used.root);
}

TEST_F(FleetHandoverTest, WithoutAnHeirItEndsAtOnce) {
  FakeWorker& a = Join("a");
  FakeWorker& other = Join("other", [](wire::Hello& hello) { hello.transfer.layout = 8; });
  Use(a, 1, 10, 9);
  Drain(a);
  EXPECT_TRUE(a.questions().empty());
  EXPECT_TRUE(other.holds().empty());
  EXPECT_EQ(a.handed_over_count(), 1);
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"leave nothing", 1}}));
}

TEST_F(FleetHandoverTest, WithoutACacheOrBlocksThatOthersReachItEndsAtOnce) {
  Join("b");
  FakeWorker& empty = Join("empty");
  Drain(empty);
  EXPECT_EQ(empty.handed_over_count(), 1);
  FakeWorker& hidden = Join("hidden", [](wire::Hello& hello) { hello.transfer.address.clear(); });
  Use(hidden, 1, 10, 9);
  Drain(hidden);
  EXPECT_EQ(hidden.handed_over_count(), 1);
  EXPECT_TRUE(hidden.questions().empty());
}

TEST_F(FleetHandoverTest, FullHeirsEndItAtOnce) {
  for (const auto outcome : {wire::HoldOutcome::kNoRoom, wire::HoldOutcome::kRefused, wire::HoldOutcome::kBusy,
                             wire::HoldOutcome::kBroken, wire::HoldOutcome::kWrong}) {
    SCOPED_TRACE(NameOf(outcome));
    used_.clear();
    FakeWorker& a = Join("a");
    FakeWorker& b = Join("b");
    b.SetHoldResult(outcome, 0);
    for (TokenId seed = 1; seed < 5; ++seed) Use(a, seed, 10, 9);
    Drain(a);
    const bool may_pass = outcome == wire::HoldOutcome::kBusy || outcome == wire::HoldOutcome::kBroken;
    EXPECT_GE(b.holds().size(), may_pass ? Handovers::kHeirTries : 1U);
    EXPECT_LE(b.holds().size(), may_pass ? 5U : 1U) << "those that were on their way";
    EXPECT_EQ(a.handed_over_count(), 1);
    ExpectNothingLeft();
    a.SayBye();
    b.SayBye();
    sim_.DeliverAll();
  }
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"leave partial", 5}}));
}

TEST_F(FleetHandoverTest, WhatAnHeirThatDiesDidNotGetGoesToAnotherOne) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  FakeWorker& c = Join("c");
  b.SetMute(true);
  c.SetMute(true);
  Use(a, 1, 10, 9);
  Drain(a);
  FakeWorker& heir = b.holds().empty() ? c : b;
  FakeWorker& other = b.holds().empty() ? b : c;
  ASSERT_EQ(heir.holds().size(), 1U);
  EXPECT_EQ(a.handed_over_count(), 0);
  other.SetMute(false);
  sim_.Kill(heir);
  sim_.Advance(3s);
  EXPECT_EQ(Holds(other, 1, 10), 10U);
  EXPECT_EQ(a.handed_over_count(), 1);
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"leave complete", 1}}));
  ExpectNothingLeft();
}

TEST_F(FleetHandoverTest, ASourceThatDiesLeavesNothing) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  b.SetMute(true);
  Use(a, 1, 10, 9);
  Use(a, 2, 10, 8);
  Drain(a);
  ASSERT_EQ(b.holds().size(), 1U);
  sim_.Kill(a);
  sim_.Advance(3s);
  ExpectNothingLeft();
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"leave partial", 1}}));
  Answer(b, 0, wire::HoldOutcome::kBroken);
  sim_.DeliverAll();
  EXPECT_EQ(b.holds().size(), 1U);
}

TEST_F(FleetHandoverTest, SeveralAreOnTheirWayOnceItIsKnownHowLongTheyTake) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  b.SetMute(true);
  for (TokenId seed = 1; seed <= 20; ++seed) Use(a, seed, 10, 9);
  Drain(a);
  EXPECT_EQ(b.holds().size(), 1U);
  Answer(b, 0, wire::HoldOutcome::kMissing);
  sim_.DeliverAll();
  EXPECT_EQ(b.holds().size(), 1U + Handovers::kOpenHolds);
  Answer(b, 3, wire::HoldOutcome::kMissing);
  sim_.DeliverAll();
  EXPECT_EQ(b.holds().size(), 2U + Handovers::kOpenHolds);
  EXPECT_EQ(a.handed_over_count(), 0);
}

TEST_F(FleetHandoverTest, AWorkerThatTakesRequestsAgainHandsOverNothingMore) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  b.SetMute(true);
  Use(a, 1, 10, 9);
  Use(a, 2, 10, 8);
  Drain(a);
  ASSERT_EQ(b.holds().size(), 1U);
  Drain(a, false);
  Answer(b, 0, wire::HoldOutcome::kComplete);
  sim_.DeliverAll();
  EXPECT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(a.handed_over_count(), 0);
  ExpectNothingLeft();
}

TEST_F(FleetHandoverTest, AnEvictedPrefixIsNotHandedOver) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  b.SetMute(true);
  const std::vector<TokenId> prompt = MakePrompt(2, 40);
  Use(a, 1, 10, 9);
  Use(a, 2, 10, 8);
  Use(a, 3, 10, 7);
  Drain(a);
  const std::shared_ptr<const ServedModel> model = sim_.core.models()->Main("demo");
  const EvictOrder evict{.what = std::vector<PromptOfRevision>{{model, {RootHash({}), prompt, BlocksOf(prompt)}}},
                         .model = "demo"};
  ASSERT_TRUE(sim_.core.Send(evict, {}, sim_.clock.Now(), [](std::vector<WorkerAnswer>) {}).ok());
  sim_.DeliverAll();
  Answer(b, 0, wire::HoldOutcome::kMissing);
  sim_.DeliverAll();
  ASSERT_EQ(b.holds().size(), 2U);
  EXPECT_EQ(b.holds()[1].hashes, HashesOf(3, 10));
}

TEST_F(FleetHandoverTest, AfterAnEvictionAWorkerThatWasAskedIsAskedAgain) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  a.SetMute(true);
  const wire::UsedPrefix used = Use(a, 1, 10, 9);
  Drain(a);
  ASSERT_EQ(a.questions().size(), 1U);
  ASSERT_TRUE(
      sim_.core.Send(EvictOrder{.what = wire::TenantToEvict{}}, {}, sim_.clock.Now(), [](std::vector<WorkerAnswer>) {})
          .ok());
  a.outbox().emplace_back(wire::Prefixes{a.questions()[0].answer_id, {used}});
  sim_.DeliverAll();
  EXPECT_TRUE(b.holds().empty());
  sim_.Advance(200ms);
  ASSERT_EQ(a.questions().size(), 2U);
  a.outbox().emplace_back(wire::Prefixes{a.questions()[1].answer_id, {}});
  sim_.DeliverAll();
  EXPECT_EQ(a.handed_over_count(), 1);
}

TEST_F(FleetHandoverTest, AQuestionThatIsNotAnsweredIsNotAwaitedForEver) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  a.SetMute(true);
  Use(a, 1, 10, 9);
  Drain(a);
  sim_.Advance(4s);
  EXPECT_EQ(a.handed_over_count(), 0);
  sim_.Advance(2s);
  EXPECT_EQ(a.handed_over_count(), 1);
  a.outbox().emplace_back(wire::Prefixes{a.questions()[0].answer_id, used_["a"]});
  sim_.DeliverAll();
  EXPECT_TRUE(b.holds().empty());
}

TEST_F(FleetHandoverTest, AnAnswerOfAnotherWorkerIsNone) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  FakeWorker& c = Join("c");
  a.SetMute(true);
  const wire::UsedPrefix used = Use(a, 1, 10, 9);
  Drain(a);
  c.outbox().emplace_back(wire::Prefixes{a.questions()[0].answer_id, {used}});
  sim_.DeliverAll();
  EXPECT_TRUE(b.holds().empty() && c.holds().empty());
  EXPECT_EQ(a.handed_over_count(), 0);
}

TEST_F(FleetHandoverTest, AnEngineThatIsAwayIsNoWorkerThatLeaves) {
  FakeWorker& a = Join("a");
  Join("b");
  Use(a, 1, 10, 9);
  a.SetEngineAway(1000, "it does not answer");
  a.Heartbeat();
  sim_.DeliverAll();
  EXPECT_TRUE(a.questions().empty());
  EXPECT_EQ(a.handed_over_count(), 0);
}

TEST_F(FleetHandoverTest, AnOlderWorkerIsNotAsked) {
  FakeWorker& a = Join("a", [](wire::Hello& hello) { hello.version.minor = 10; });
  Join("b");
  Use(a, 1, 10, 9);
  Drain(a);
  EXPECT_TRUE(a.questions().empty());
  EXPECT_EQ(a.handed_over_count(), 0);
}

TEST_F(FleetHandoverTest, SoManyLeaveAtATimeAndTheOthersAfterThem) {
  std::vector<FakeWorker*> leavers;
  Join("z");
  for (std::size_t i = 0; i <= Handovers::kMostLeaving; ++i) {
    leavers.push_back(&Join("leaver-" + std::to_string(i)));
    leavers.back()->SetMute(true);
    Use(*leavers.back(), static_cast<TokenId>(i + 1), 10, 9);
  }
  const auto asked = [&] {
    return std::count_if(leavers.begin(), leavers.end(),
                         [](const FakeWorker* each) { return !each->questions().empty(); });
  };
  for (FakeWorker* const each : leavers) Drain(*each);
  EXPECT_EQ(asked(), static_cast<std::ptrdiff_t>(Handovers::kMostLeaving));
  leavers[2]->outbox().emplace_back(wire::Prefixes{leavers[2]->questions().back().answer_id, {}});
  sim_.Advance(200ms);
  EXPECT_EQ(asked(), static_cast<std::ptrdiff_t>(Handovers::kMostLeaving + 1));
}

// ---- a worker joins ----

TEST_F(FleetHandoverTest, AWorkerThatJoinsGetsTheFleetsMostUsedPrefixesFromTwoSourcesAtATime) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  for (TokenId seed = 1; seed <= 12; ++seed) Use(a, seed, 4, 100 - seed);
  for (TokenId seed = 13; seed <= 24; ++seed) Use(b, seed, 4, 100 - seed);
  FakeWorker& c = JoinMute("c");
  ASSERT_EQ(c.holds().size(), 1U);
  EXPECT_EQ(c.holds()[0].hashes, HashesOf(1, 4));
  Answer(c, 0, wire::HoldOutcome::kMissing);
  sim_.DeliverAll();
  ASSERT_EQ(c.holds().size(), 3U);
  EXPECT_NE(c.holds()[1].source.worker_id, c.holds()[2].source.worker_id);
  c.SetMute(false);
  Answer(c, 1, wire::HoldOutcome::kMissing);
  Answer(c, 2, wire::HoldOutcome::kMissing);
  sim_.DeliverAll();
  EXPECT_EQ(c.holds().size(), Handovers::kJoinPrefixes);
  EXPECT_EQ(Holds(c, 16, 4), 4U);
  EXPECT_EQ(Holds(c, 17, 4), 0U);
  EXPECT_EQ(c.handed_over_count(), 0);
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"join complete", 1}}));
  ExpectNothingLeft();
}

TEST_F(FleetHandoverTest, APrefixOfSeveralWorkersCountsForAll) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  Use(a, 1, 4, 10);
  Use(b, 1, 4, 10);
  Use(a, 2, 4, 15);
  FakeWorker& c = Join("c");
  sim_.Advance(200ms);
  ASSERT_EQ(c.holds().size(), 2U);
  EXPECT_EQ(c.holds()[0].hashes, HashesOf(1, 4));
  EXPECT_EQ(c.holds()[0].hits, 10U);  // one worker's
}

TEST_F(FleetHandoverTest, AWorkerThatJoinsGetsAQuarterOfItsPool) {
  FakeWorker& a = Join("a");
  for (TokenId seed = 1; seed <= 5; ++seed) Use(a, seed, 10, 100 - seed);
  FakeWorker& c = Join("c", [](wire::Hello& hello) { hello.block_count = 96; });
  sim_.Advance(200ms);
  EXPECT_EQ(c.block_count(), 24U);
  EXPECT_EQ(sim_.metrics.handovers, (Ends{{"join partial", 1}}));
}

// As in a rolling restart, where the next worker leaves while the one before still gets what the others give it.
TEST_F(FleetHandoverTest, AWorkerThatJoinsIsAnHeirWithARoomOfItsOwn) {
  FakeWorker& a = Join("a");
  Use(a, 1, 15, 9);
  Use(a, 2, 15, 8);
  FakeWorker& c = Add("c", [](wire::Hello& hello) { hello.block_count = 80; });
  c.SetMute(true);
  BringUp(c);
  ASSERT_EQ(c.holds().size(), 1U);
  EXPECT_EQ(c.holds()[0].hashes.size(), 15U);
  Drain(a);
  ASSERT_EQ(c.holds().size(), 2U);
  EXPECT_EQ(c.holds()[1].hashes.size(), 15U);
}

TEST_F(FleetHandoverTest, AFleetWithoutACacheIsNotAsked) {
  FakeWorker& a = Join("a");
  Join("b");
  sim_.Advance(500ms);
  EXPECT_TRUE(a.questions().empty());
  EXPECT_TRUE(sim_.metrics.handovers.empty());
}

// Its link began anew, or this router did.
TEST_F(FleetHandoverTest, AWorkerThatComesWithItsCacheGetsNothing) {
  FakeWorker& a = Join("a");
  Use(a, 1, 10, 9);
  FakeWorker& c = Add("c", [](wire::Hello& hello) { hello.block_count = 100; });
  c.Keep(HashesOf(5, 10));
  BringUp(c);
  sim_.Advance(500ms);
  EXPECT_TRUE(a.questions().empty());
  EXPECT_TRUE(c.holds().empty());
}

TEST_F(FleetHandoverTest, ASourceThatDiesIsReplacedByAnotherOne) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  Use(a, 1, 10, 9);
  Use(b, 1, 10, 9);
  FakeWorker& c = JoinMute("c");
  ASSERT_EQ(c.holds().size(), 1U);
  const std::string source = c.holds()[0].source.worker_id;
  sim_.Kill(source == "a" ? a : b);
  sim_.Advance(3s);
  c.SetMute(false);
  Answer(c, 0, wire::HoldOutcome::kBroken);
  sim_.DeliverAll();
  ASSERT_EQ(c.holds().size(), 2U);
  EXPECT_NE(c.holds()[1].source.worker_id, source);
  EXPECT_EQ(Holds(c, 1, 10), 10U);
  ExpectNothingLeft();
}

TEST_F(FleetHandoverTest, AWorkerThatDiesWhileItJoinsLeavesNothing) {
  FakeWorker& a = Join("a");
  Use(a, 1, 10, 9);
  FakeWorker& c = JoinMute("c");
  ASSERT_EQ(c.holds().size(), 1U);
  sim_.Kill(c);
  sim_.Advance(3s);
  ExpectNothingLeft();
}

// ---- the value of a cache ----

TEST(FleetCacheValueTest, CountsWhatNoOtherWorkerHolds) {
  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");
  FakeWorker& b = sim.JoinWorker("b");
  const std::vector<TokenId> prompt = MakePrompt(1, 402);
  for (int i = 0; i < 20; ++i) {
    sim.Submit(prompt, 2);
    sim.Run();
  }
  FakeWorker& holder = a.received().size() > b.received().size() ? a : b;
  FakeWorker& other = a.received().size() > b.received().size() ? b : a;
  ASSERT_EQ(other.block_count(), 0U);
  const double alone = sim.StatusOf(holder.id())->cache_value_seconds;
  EXPECT_GT(alone, 0);
  EXPECT_EQ(sim.StatusOf(other.id())->cache_value_seconds, 0);
  sim.Tick();
  EXPECT_GT(sim.metrics.cache_values.at(holder.id()), 0);
  // Once another one holds it too, hits of it count for neither.
  other.Keep(BlocksOf(prompt));
  other.Heartbeat();
  sim.DeliverAll();
  for (int i = 0; i < 20; ++i) {
    sim.Submit(prompt, 2);
    sim.Run();
  }
  EXPECT_LE(sim.StatusOf(holder.id())->cache_value_seconds, alone);
  EXPECT_EQ(sim.StatusOf(other.id())->cache_value_seconds, 0);
  sim.Advance(120s);
  EXPECT_LT(sim.StatusOf(holder.id())->cache_value_seconds, alone);
}

}  // namespace
}  // namespace roost::router

// Requests whose prompts' blocks are fetched from other workers: the Hold before the request, how it ends, and what the
// router learns from it.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

class FleetPullTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 200;
  static constexpr std::uint32_t kTokens = kBlocks * FakeWorker::kBlockTokens;  // 80 ms of prefill at a fake worker

  explicit FleetPullTest(const FleetCoreOptions& options = {}) : sim_(1, "cache-aware", options) {}

  FakeWorker& Join(const std::string& id) {
    FakeWorker& worker = sim_.AddWorker(id);
    worker.SetTransfers("127.0.0.1:" + std::to_string(7100 + sim_.workers.size()));
    worker.SayHello();
    sim_.DeliverAll();
    return worker;
  }
  // The workers' speeds are known: each has computed some prompts.
  void LearnSpeeds() {
    for (TokenId seed = 100; seed < 140; ++seed) {
      sim_.Submit(MakePrompt(seed, 200), 3);
      sim_.Run();
    }
  }
  // The worker computes the prompt's blocks, or fetches them from one that has them.
  void Warm(const std::vector<TokenId>& prompt, const std::string& name) {
    BeginWarmUp(prompt, name);
    sim_.Run();
  }
  void BeginWarmUp(const std::vector<TokenId>& prompt, const std::string& name) {
    WarmOrder order{.spec = {}, .workers = {PinTarget::kNamedWorkers, {name}}, .deadline = sim_.clock.Now() + 1h};
    order.spec.model = sim_.core.models()->Main("demo");
    order.spec.generate.prompt = prompt;
    order.spec.generate.root = RootHash({});
    order.spec.generate.block_hashes = BlocksOf(prompt);
    ASSERT_TRUE(sim_.core
                    .Send(order, sim_.Match(order.spec.generate.block_hashes), sim_.clock.Now(),
                          [](std::vector<WorkerAnswer>) {})
                    .ok());
  }
  // The pair's rate is known.
  void LearnRate(const std::string& from, const std::string& to) {
    const std::vector<TokenId> other = MakePrompt(90, kTokens);
    Warm(other, from);
    Warm(other, to);
  }
  // a_ holds the prompt and takes no requests; all speeds and the rate from it to b_ are known.
  void PrepareAPull() {
    LearnSpeeds();
    LearnRate("a", "b");
    Warm(prompt_, "a");
    a_.SetDraining(true);
    a_.Heartbeat();
    sim_.DeliverAll();
    sim_.metrics.pulls.clear();
    sim_.metrics.pulled_tokens = 0;
    holds_before_ = b_.holds().size();
    requests_before_ = b_.received().size();
  }
  // The Holds of b_ since then.
  [[nodiscard]] std::vector<wire::Hold> Holds() const {
    return {b_.holds().begin() + static_cast<std::ptrdiff_t>(holds_before_), b_.holds().end()};
  }
  [[nodiscard]] DecisionRecord LastDecision() const { return sim_.core.decisions().Latest(1).front(); }
  // The answer of a worker that was mute.
  void Answer(FakeWorker& worker, const wire::Hold& hold) {
    worker.SetMute(false);
    worker.Receive(hold);
    sim_.DeliverAll();
  }
  void ExpectNothingLeft() {
    EXPECT_EQ(sim_.core.request_count(), 0U);
    EXPECT_EQ(sim_.core.pending_count(), 0U);
    EXPECT_EQ(sim_.core.hold_count(), 0U);
    for (const WorkerStatus& worker : sim_.core.Workers(sim_.clock.Now())) {
      EXPECT_EQ(worker.in_flight_requests, 0U) << worker.worker_id;
    }
  }

  FleetSim sim_;
  FakeWorker& a_ = Join("a");
  FakeWorker& b_ = Join("b");
  const std::vector<TokenId> prompt_ = MakePrompt(1, kTokens + 2);
  std::size_t holds_before_ = 0;
  std::size_t requests_before_ = 0;
};

TEST_F(FleetPullTest, ARequestFetchesWhatAWorkerThatTakesNoRequestsHolds) {
  PrepareAPull();
  const Request request = sim_.Submit(prompt_, 3);
  sim_.Run();
  ASSERT_EQ(Holds().size(), 1U);
  const wire::Hold hold = Holds().front();
  EXPECT_EQ(hold.purpose, wire::HoldPurpose::kRequest);
  EXPECT_EQ(hold.hashes, BlocksOf(prompt_));
  EXPECT_EQ(hold.source.worker_id, "a");
  EXPECT_EQ(hold.source.address, a_.hello().transfer.address);
  EXPECT_GE(hold.patience_ms, 1000U);
  EXPECT_EQ(b_.requests_before_holds().back(), requests_before_) << "the Hold goes before the request";
  ASSERT_EQ(b_.received().size(), requests_before_ + 1);
  EXPECT_EQ(b_.received().back().expected_cached_tokens, kTokens);
  EXPECT_EQ(request.observer->cached_token_count, kTokens);
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"complete", 1}}));
  EXPECT_EQ(sim_.metrics.pulled_tokens, kTokens);
  ExpectNothingLeft();
}

TEST_F(FleetPullTest, TheDecisionTellsWhatWasPredictedAndWhatCame) {
  PrepareAPull();
  sim_.Submit(prompt_, 3);
  sim_.Run();
  const DecisionRecord record = LastDecision();
  EXPECT_EQ(record.worker_id, "b");
  EXPECT_EQ(record.source_ids, std::vector<std::string>{"a"});
  ASSERT_TRUE(record.decision.pull.has_value());
  EXPECT_EQ(record.decision.pull->block_count, kBlocks);
  EXPECT_EQ(record.decision.pull->price.bytes, 1000.0 * kBlocks);
  ASSERT_TRUE(record.pulled.has_value());
  EXPECT_EQ(record.pulled->outcome, "complete");
  EXPECT_EQ(record.pulled->block_count, kBlocks);
  EXPECT_DOUBLE_EQ(record.pulled->seconds, 0.002);
  ASSERT_TRUE(record.outcome.has_value());
  EXPECT_EQ(record.outcome->cached_tokens, kTokens);
  ASSERT_EQ(sim_.metrics.pull_seconds.size(), 1U);
  EXPECT_DOUBLE_EQ(sim_.metrics.pull_seconds[0].predicted_seconds, record.decision.pull->price.seconds);
  EXPECT_DOUBLE_EQ(sim_.metrics.pull_seconds[0].actual_seconds, 0.002);
  EXPECT_GT(record.decision.pull->price.seconds, 0);
}

// The holder is busy: another worker takes the request, because it can fetch the blocks.
TEST_F(FleetPullTest, ABusyHoldersBlocksAreFetched) {
  LearnSpeeds();
  LearnRate("a", "b");
  Warm(prompt_, "a");
  holds_before_ = b_.holds().size();
  a_.SetQueuedTokens(20'000);
  a_.Heartbeat();
  sim_.DeliverAll();
  sim_.Submit(prompt_, 3);
  sim_.DeliverAll();
  EXPECT_EQ(LastDecision().decision.reason, DecisionReason::kPull);
  EXPECT_EQ(LastDecision().worker_id, "b");
  EXPECT_EQ(Holds().size(), 1U);
}

TEST_F(FleetPullTest, WhatArrivesIsNoQueuedPrefill) {
  PrepareAPull();
  b_.SetMute(true);
  sim_.Submit(prompt_, 3);
  sim_.DeliverAll();
  const std::vector<TokenId> other = MakePrompt(2, 400);
  sim_.Submit(other, 3);
  sim_.DeliverAll();
  const std::vector<Candidate>& candidates = LastDecision().decision.candidates;
  ASSERT_EQ(candidates.size(), 1U);
  EXPECT_LT(candidates.front().queue_seconds, 0.02) << "two tokens are computed, not 802";
}

TEST_F(FleetPullTest, WhatDoesNotComeIsComputedAndCountsAgainstNoOne) {
  PrepareAPull();
  b_.SetHoldResult(wire::HoldOutcome::kMissing, kBlocks / 10);
  for (std::uint32_t i = 0; i < 2 * ModeOptions().window_requests + 2; ++i) {
    const Request request = sim_.Submit(prompt_, 3);
    sim_.Run();
    ASSERT_TRUE(request.observer->end.has_value() && !request.observer->end->error.has_value()) << i;
    b_.Evict(10'000);  // so that the next one is promised as much
    b_.Heartbeat();
    sim_.DeliverAll();
  }
  EXPECT_GT(sim_.metrics.pulls["missing"], 100);
  EXPECT_TRUE(sim_.metrics.mode_changes.empty());
  EXPECT_EQ(sim_.StatusOf("b")->mode, WorkerMode::kExact);
  EXPECT_TRUE(sim_.metrics.pull_seconds.empty()) << "not all came, so the time says nothing";
  ExpectNothingLeft();
}

TEST_F(FleetPullTest, AfterAFailureThePairIsLeftAlone) {
  PrepareAPull();
  b_.SetHoldResult(wire::HoldOutcome::kBroken, 0);
  sim_.Submit(prompt_, 3);
  sim_.Run();
  ASSERT_EQ(Holds().size(), 1U);
  b_.Evict(10'000);
  b_.Heartbeat();
  sim_.DeliverAll();
  sim_.Submit(prompt_, 3);
  sim_.DeliverAll();
  EXPECT_EQ(Holds().size(), 1U);
  EXPECT_EQ(LastDecision().decision.candidates.front().way(), Way::kCompute);
  sim_.Run();
  b_.Evict(10'000);
  b_.Heartbeat();
  sim_.Advance(1s);
  sim_.Submit(prompt_, 3);
  sim_.DeliverAll();
  EXPECT_EQ(Holds().size(), 2U);
}

TEST_F(FleetPullTest, ACancelledRequestFreesItsHold) {
  PrepareAPull();
  b_.SetMute(true);
  const Request request = sim_.Submit(prompt_, 3);
  sim_.DeliverAll();
  ASSERT_EQ(sim_.core.hold_count(), 1U);
  sim_.core.Cancel(*request.id);
  sim_.DeliverAll();
  EXPECT_EQ(sim_.core.hold_count(), 0U);
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"cancelled", 1}}));
  Answer(b_, Holds().front());  // late
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"cancelled", 1}}));
  sim_.Run();
  ExpectNothingLeft();
}

TEST_F(FleetPullTest, ARequestForBlocksOnTheirWayJoinsTheirHold) {
  PrepareAPull();
  b_.SetMute(true);
  const Request first = sim_.Submit(prompt_, 3);
  sim_.CarryOutEffects();
  std::vector<TokenId> sibling = prompt_;
  sibling.back() += 1;
  const Request second = sim_.Submit(sibling, 3);
  sim_.CarryOutEffects();
  EXPECT_EQ(Holds().size(), 1U);
  const DecisionRecord record = LastDecision();
  EXPECT_FALSE(record.decision.pull.has_value());
  EXPECT_EQ(record.decision.arriving_tokens, kTokens);
  EXPECT_GT(record.decision.candidates.front().transfer_seconds, 0);
  sim_.core.Cancel(*first.id);
  EXPECT_EQ(sim_.core.hold_count(), 1U) << "the second request waits for it";
  sim_.core.Cancel(*second.id);
  EXPECT_EQ(sim_.core.hold_count(), 0U);
}

// A copy's Hold goes on for the requests that wait for it, also when the copy has ended.
TEST_F(FleetPullTest, ARequestJoinsTheHoldOfAWarmUpAndKeepsIt) {
  PrepareAPull();
  b_.SetMute(true);
  BeginWarmUp(prompt_, "b");
  sim_.CarryOutEffects();
  ASSERT_EQ(Holds().size(), 1U);
  const Request request = sim_.Submit(prompt_, 3);
  sim_.CarryOutEffects();
  EXPECT_EQ(Holds().size(), 1U);
  EXPECT_EQ(LastDecision().decision.arriving_tokens, kTokens);
  const std::shared_ptr<const ServedModel> model = sim_.core.models()->Main("demo");
  const EvictOrder evict{.what = std::vector<PromptOfRevision>{{model, {RootHash({}), prompt_, BlocksOf(prompt_)}}},
                         .model = "demo"};
  ASSERT_TRUE(sim_.core.Send(evict, {}, sim_.clock.Now(), [](std::vector<WorkerAnswer>) {}).ok());
  EXPECT_EQ(sim_.core.copy_count(), 0U);
  EXPECT_EQ(sim_.core.hold_count(), 1U);
  Answer(b_, Holds().front());
  sim_.Run();
  EXPECT_EQ(request.observer->tokens, ExpectedOutput(prompt_, 3));
  ExpectNothingLeft();
}

TEST_F(FleetPullTest, ALostWorkersHoldIsForgottenAndTheRetryDecidesAnew) {
  Join("c");
  PrepareAPull();
  LearnSpeeds();
  LearnRate("b", "c");
  sim_.metrics.pulls.clear();
  b_.SetMute(true);
  sim_.workers.at("c")->SetMute(true);
  const Request request = sim_.Submit(prompt_, 3);
  sim_.DeliverAll();
  ASSERT_EQ(sim_.core.hold_count(), 1U);
  const std::string first = LastDecision().worker_id;
  const std::string second = first == "b" ? "c" : "b";
  sim_.workers.at(second)->SetMute(false);
  sim_.Kill(*sim_.workers.at(first));
  sim_.Advance(3s);
  EXPECT_EQ(LastDecision().worker_id, second);
  EXPECT_EQ(LastDecision().retry_count, 1U);
  EXPECT_EQ(sim_.workers.at(second)->holds().back().source.worker_id, "a");
  sim_.Run();
  EXPECT_EQ(request.observer->tokens, ExpectedOutput(prompt_, 3));
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"unanswered", 1}, {"complete", 1}}));
  ExpectNothingLeft();
}

// No answer comes within the patience: the Hold ends, and with it what it promised.
TEST_F(FleetPullTest, AHoldWithoutAnAnswerIsForgottenInTime) {
  PrepareAPull();
  b_.SetMute(true);
  b_.SetSilent(true);
  sim_.Submit(prompt_, 3);
  sim_.DeliverAll();
  ASSERT_EQ(sim_.core.hold_count(), 1U);
  sim_.Advance(7s);
  EXPECT_EQ(sim_.core.hold_count(), 0U);
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"unanswered", 1}}));
  EXPECT_EQ(LastDecision().pulled->outcome, "unanswered");
}

// Nothing is known of how fast blocks travel, nor how large they are: the first one finds out.
TEST_F(FleetPullTest, TheFirstPullIsTheMeasurement) {
  LearnSpeeds();
  Warm(prompt_, "a");
  a_.SetQueuedTokens(20'000);
  a_.Heartbeat();
  sim_.DeliverAll();
  holds_before_ = b_.holds().size();
  b_.SetMute(true);
  sim_.Submit(prompt_, 3);
  sim_.CarryOutEffects();
  ASSERT_EQ(Holds().size(), 1U);
  EXPECT_EQ(Holds().front().purpose, wire::HoldPurpose::kRequest);
  EXPECT_EQ(Holds().front().patience_ms, 1000U);
  EXPECT_EQ(LastDecision().decision.pull->price.bytes, 0);
  Answer(b_, Holds().front());
  sim_.Run();
  const std::vector<TokenId> next = MakePrompt(2, kTokens + 2);
  a_.SetQueuedTokens(0);
  Warm(next, "a");
  a_.SetQueuedTokens(20'000);
  a_.Heartbeat();
  sim_.DeliverAll();
  sim_.Submit(next, 3);
  sim_.Run();
  ASSERT_TRUE(LastDecision().decision.pull.has_value());
  EXPECT_EQ(LastDecision().decision.pull->price.bytes, 1000.0 * kBlocks);
  EXPECT_NEAR(LastDecision().decision.pull->price.seconds, 0.002, 1e-6);
}

// The same pairs, for operators.
TEST_F(FleetPullTest, TheSnapshotListsThePairs) {
  PrepareAPull();
  b_.SetMute(true);
  sim_.Submit(prompt_, 3);
  sim_.CarryOutEffects();
  sim_.Advance(1s);
  std::shared_ptr<const std::vector<TransferPair>> pairs = sim_.core.Snapshot(sim_.clock.Now()).transfers;
  ASSERT_EQ(pairs->size(), 1U);
  const TransferPair& pair = pairs->front();
  EXPECT_EQ(pair.from, "a");
  EXPECT_EQ(pair.to, "b");
  EXPECT_EQ(pair.model, "demo");
  EXPECT_EQ(pair.in_flight_count, 1U);
  EXPECT_EQ(pair.done_count, 1U);
  EXPECT_EQ(pair.failed_count, 0U);
  EXPECT_EQ(pair.last_outcome, "complete");
  EXPECT_EQ(pair.paused_seconds, 0);
  ASSERT_TRUE(pair.bytes_per_second && pair.start_seconds);
  EXPECT_GT(*pair.bytes_per_second, 1e7);
  EXPECT_EQ(pair.last_cause, "");
  EXPECT_TRUE(sim_.core.Snapshot(sim_.clock.Now()).requests_pull);
  b_.SetHoldResult(wire::HoldOutcome::kWrong, 0, wire::HoldCause::kSum);
  Answer(b_, Holds().front());
  sim_.Tick();
  EXPECT_EQ(sim_.core.Snapshot(sim_.clock.Now()).transfers, pairs) << "listed once a second";
  sim_.Advance(1s);
  pairs = sim_.core.Snapshot(sim_.clock.Now()).transfers;
  EXPECT_EQ(pairs->front().in_flight_count, 0U);
  EXPECT_EQ(pairs->front().failed_count, 1U);
  EXPECT_EQ(pairs->front().last_outcome, "wrong");
  EXPECT_EQ(pairs->front().last_cause, "sum");
  EXPECT_NEAR(pairs->front().paused_seconds, 59, 0.5);
  sim_.Advance(2s);
  EXPECT_NEAR(sim_.core.Snapshot(sim_.clock.Now()).transfers->front().paused_seconds, 57, 0.5);
  sim_.Kill(a_);
  sim_.Advance(5s);
  EXPECT_TRUE(sim_.core.Snapshot(sim_.clock.Now()).transfers->empty());
}

// Bytes that other routers have under way delay a pull.
TEST_F(FleetPullTest, ReportsOfBytesOnTheirWayCount) {
  PrepareAPull();
  a_.SetTransferBytes(0, std::uint64_t{1} << 40U);
  a_.Heartbeat();
  sim_.DeliverAll();
  sim_.Submit(prompt_, 3);
  sim_.DeliverAll();
  EXPECT_TRUE(Holds().empty());
  EXPECT_EQ(LastDecision().decision.candidates.front().way(), Way::kCompute);
}

class FleetPullFullTest : public FleetPullTest {
 protected:
  static FleetCoreOptions Options() {
    FleetCoreOptions options;
    options.requests.max_open_holds = 1;
    return options;
  }
  FleetPullFullTest() : FleetPullTest(Options()) {}
};

// A pull that can not be sent is not decided, so that the log tells what was done.
TEST_F(FleetPullFullTest, WhileNoMoreHoldsMayBeOpenNothingIsFetched) {
  const std::vector<TokenId> second = MakePrompt(2, kTokens + 2);
  const std::vector<TokenId> third = MakePrompt(3, kTokens + 2);
  Warm(second, "a");
  Warm(third, "a");
  PrepareAPull();
  b_.SetMute(true);
  const Request first = sim_.Submit(prompt_, 3);
  sim_.CarryOutEffects();
  ASSERT_EQ(Holds().size(), 1U);
  EXPECT_TRUE(LastDecision().decision.pull.has_value());
  const Request other = sim_.Submit(second, 3);
  sim_.CarryOutEffects();
  EXPECT_EQ(Holds().size(), 1U);
  EXPECT_FALSE(LastDecision().decision.pull.has_value());
  EXPECT_EQ(LastDecision().decision.arriving_tokens, 0U);
  for (const Candidate& candidate : LastDecision().decision.candidates) EXPECT_NE(candidate.way(), Way::kPull);
  Answer(b_, Holds().front());
  sim_.Submit(third, 3);
  EXPECT_TRUE(LastDecision().decision.pull.has_value()) << "there is room again";
}

class FleetPullOffTest : public FleetPullTest {
 protected:
  static FleetCoreOptions Options() {
    FleetCoreOptions options;
    options.requests.routing.pulls = RequestPulls::kOff;
    return options;
  }
  FleetPullOffTest() : FleetPullTest(Options()) {}
};

TEST_F(FleetPullOffTest, OffNoRequestFetches) {
  PrepareAPull();
  ASSERT_GT(holds_before_, 0U) << "warm-ups fetch all the same";
  sim_.Submit(prompt_, 3);
  sim_.Run();
  EXPECT_TRUE(Holds().empty());
  EXPECT_EQ(LastDecision().decision.candidates.front().way(), Way::kCompute);
}

}  // namespace
}  // namespace roost::router

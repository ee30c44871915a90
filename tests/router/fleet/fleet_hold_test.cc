// Prefixes that a worker fetches from another one: warm-ups and copies with Holds. What does not come is computed.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/wire/transfer_ticket.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kUnixSeconds = 1'800'000'000;

using Change = std::function<void(wire::Hello&)>;

class FleetHoldTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 100;
  static constexpr std::uint32_t kTokens = kBlocks * FakeWorker::kBlockTokens;

  FakeWorker& Join(
      const std::string& id, const Change& change = [](wire::Hello&) {}) {
    FakeWorker& worker = sim_.AddWorker(id);
    worker.SetTransfers("127.0.0.1:" + std::to_string(7100 + sim_.workers.size()));
    change(worker.hello());
    worker.SayHello();
    sim_.DeliverAll();
    return worker;
  }

  // The prompt's blocks are in the caches of these workers, which computed them.
  void Fill(const std::vector<TokenId>& prompt, const std::vector<std::string>& names) {
    ASSERT_TRUE(Warm(prompt, names).ok());
    sim_.Run();
    forgotten_ = sim_.metrics.copied_tokens;
  }

  Result<void> Warm(const std::vector<TokenId>& prompt, std::vector<std::string> names, std::string from = "",
                    Duration time = 1h) {
    WarmOrder order{.spec = {},
                    .workers = {PinTarget::kNamedWorkers, std::move(names)},
                    .source = std::move(from),
                    .deadline = sim_.clock.Now() + time};
    order.spec.model = sim_.core.models()->Main("demo");
    order.spec.generate.prompt = prompt;
    order.spec.generate.root = RootHash({});
    order.spec.generate.block_hashes = BlocksOf(prompt);
    return sim_.core.Send(order, sim_.Match(order.spec.generate.block_hashes), sim_.clock.Now(),
                          [this](std::vector<WorkerAnswer> answers) { answers_ = std::move(answers); });
  }
  // The only worker's part of the last warm-up that ended.
  [[nodiscard]] WarmOutcome Outcome() const {
    if (answers_.size() != 1) return WarmOutcome{.reason = "no single answer"};
    const auto* const outcome = std::get_if<WarmOutcome>(&answers_[0].reply);
    return outcome == nullptr ? WarmOutcome{.reason = "no outcome"} : *outcome;
  }
  [[nodiscard]] std::uint64_t ComputedTokens() const { return sim_.metrics.copied_tokens - forgotten_; }
  void ExpectNothingLeft() {
    EXPECT_EQ(sim_.core.copy_count(), 0U);
    EXPECT_EQ(sim_.core.request_count(), 0U);
    EXPECT_EQ(sim_.core.pending_count(), 0U);
  }
  // Warms `b_`, which has taken no Hold, and computed all.
  void ExpectComputedWithoutAHold(FakeWorker& worker) {
    ASSERT_TRUE(Warm(prompt_, {worker.id()}).ok());
    sim_.Run();
    EXPECT_EQ(Outcome(),
              (WarmOutcome{.kind = WarmOutcome::Kind::kComputed, .block_count = kBlocks, .computed_tokens = kTokens}))
        << worker.id();
    EXPECT_TRUE(worker.holds().empty()) << worker.id();
    EXPECT_EQ(worker.Held(BlocksOf(prompt_)), kBlocks);
  }

  static FleetCoreOptions Options() {
    FleetCoreOptions options;
    options.unix_seconds = [] { return kUnixSeconds; };
    return options;
  }

  FleetSim sim_{1, "cache-aware", Options()};
  const std::vector<TokenId> prompt_ = MakePrompt(1, kTokens + 2);
  std::vector<WorkerAnswer> answers_;
  std::uint64_t forgotten_ = 0;  // tokens that were computed to prepare a test
};

TEST_F(FleetHoldTest, AWarmUpFetchesWhatAnotherWorkerHolds) {
  FakeWorker& a = Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  const Pull pull{.source = "a",
                  .outcome = wire::HoldOutcome::kComplete,
                  .block_count = kBlocks,
                  .bytes = 1000 * kBlocks,
                  .seconds = 0.002};
  EXPECT_EQ(Outcome(), (WarmOutcome{.kind = WarmOutcome::Kind::kPulled, .block_count = kBlocks, .pull = pull}));
  ASSERT_EQ(b.holds().size(), 1U);
  const wire::Hold& hold = b.holds().front();
  EXPECT_EQ(hold.hashes, BlocksOf(prompt_));
  EXPECT_EQ(hold.root, RootHash({}));
  EXPECT_EQ(hold.parent, hold.root);
  EXPECT_EQ(hold.first_position, 0U);
  EXPECT_EQ(hold.purpose, wire::HoldPurpose::kCopy);
  EXPECT_EQ(hold.source.worker_id, "a");
  EXPECT_EQ(hold.source.address, a.hello().transfer.address);
  EXPECT_TRUE(b.received().empty());
  EXPECT_EQ(ComputedTokens(), 0U);
  EXPECT_EQ(sim_.metrics.pulled_tokens, kTokens);
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"complete", 1}}));
  EXPECT_TRUE(sim_.ViewIsExact(b));
  ExpectNothingLeft();
}

TEST_F(FleetHoldTest, WhatDidNotComeIsComputed) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  b.SetHoldResult(wire::HoldOutcome::kMissing, 40);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kComputed);
  EXPECT_EQ(Outcome().block_count, kBlocks);
  EXPECT_EQ(Outcome().computed_tokens, kTokens - 40 * FakeWorker::kBlockTokens);
  EXPECT_EQ(Outcome().pull->block_count, 40U);
  EXPECT_EQ(ComputedTokens(), Outcome().computed_tokens);
  EXPECT_EQ(sim_.metrics.pulled_tokens, 40U * FakeWorker::kBlockTokens);
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"missing", 1}}));
  EXPECT_EQ(b.Held(BlocksOf(prompt_)), kBlocks);
  ExpectNothingLeft();
}

TEST_F(FleetHoldTest, OnlyWhatTheSourceHoldsIsFetched) {
  Join("a");
  const std::vector<TokenId> front(prompt_.begin(), prompt_.begin() + kTokens / 2);
  Fill(front, {"a"});
  FakeWorker& b = Join("b");
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  ASSERT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(b.holds().front().hashes, BlocksOf(front));
  EXPECT_EQ(Outcome().computed_tokens, kTokens / 2);
  EXPECT_EQ(Outcome().pull->outcome, wire::HoldOutcome::kComplete);
}

TEST_F(FleetHoldTest, AfterAFailureAllIsComputed) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  for (const auto outcome :
       {wire::HoldOutcome::kBusy, wire::HoldOutcome::kSlow, wire::HoldOutcome::kBroken, wire::HoldOutcome::kWrong,
        wire::HoldOutcome::kNoRoom, wire::HoldOutcome::kCancelled, wire::HoldOutcome::kRefused}) {
    SCOPED_TRACE(NameOf(outcome));
    b.SetHoldResult(outcome, 0);
    ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
    sim_.Run();
    EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kComputed);
    EXPECT_EQ(Outcome().computed_tokens, kTokens);
    EXPECT_EQ(Outcome().pull->outcome, outcome);
    EXPECT_EQ(sim_.metrics.pulls[std::string(NameOf(outcome))], 1);
    ExpectNothingLeft();
    b.Evict(FakeWorker::kBlockCount);
    sim_.Advance(1s);
  }
  EXPECT_EQ(sim_.metrics.pulled_tokens, 0U);
}

TEST_F(FleetHoldTest, AnAnswerThatNeverComesIsNotAwaitedForEver) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  b.SetMute(true);
  ASSERT_TRUE(Warm(prompt_, {"b"}, "", 3s).ok());
  sim_.Advance(7s);
  EXPECT_TRUE(b.received().empty());
  EXPECT_EQ(b.holds().front().patience_ms, 3000U);
  sim_.Advance(2s);
  sim_.Run();
  EXPECT_EQ(b.Held(BlocksOf(prompt_)), kBlocks);
  EXPECT_EQ(ComputedTokens(), kTokens);
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"unanswered", 1}}));
  ExpectNothingLeft();
  b.outbox().emplace_back(wire::HoldAnswer{.answer_id = b.holds().front().answer_id, .arrived_block_count = kBlocks});
  sim_.DeliverAll();
  EXPECT_EQ(sim_.metrics.pulled_tokens, 0U);
}

TEST_F(FleetHoldTest, ALostSourceIsNoConcernUntilTheWorkerSaysSo) {
  FakeWorker& a = Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  b.SetMute(true);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.DeliverAll();
  sim_.Kill(a);
  sim_.Advance(3s);
  EXPECT_EQ(sim_.core.copy_count(), 1U);
  b.outbox().emplace_back(wire::HoldAnswer{
      .answer_id = b.holds().front().answer_id, .missing_block_count = kBlocks, .outcome = wire::HoldOutcome::kBroken});
  sim_.Run();
  EXPECT_EQ(Outcome().computed_tokens, kTokens);
  EXPECT_EQ(Outcome().pull->outcome, wire::HoldOutcome::kBroken);
  // A worker that is gone is no source.
  FakeWorker& c = Join("c");
  ASSERT_TRUE(Warm(prompt_, {"c"}).ok());
  sim_.Run();
  ASSERT_EQ(c.holds().size(), 1U);
  EXPECT_EQ(c.holds().front().source.worker_id, "b");
}

TEST_F(FleetHoldTest, ALostWorkerLeavesNothing) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  b.SetMute(true);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.DeliverAll();
  const std::uint64_t id = b.holds().front().answer_id;
  sim_.Kill(b);
  sim_.Advance(3s);
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(answers_[0].reply));
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"unanswered", 1}}));
  ExpectNothingLeft();
  sim_.Revive(b);
  sim_.DeliverAll();
  b.outbox().emplace_back(wire::HoldAnswer{.answer_id = id, .arrived_block_count = kBlocks});
  sim_.Advance(1h / 60);
  EXPECT_EQ(sim_.metrics.pulls.size(), 1U);
  EXPECT_TRUE(b.received().empty());
}

TEST_F(FleetHoldTest, AnAnswerOfAnotherWorkerIsNone) {
  FakeWorker& a = Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  b.SetMute(true);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.DeliverAll();
  a.outbox().emplace_back(wire::HoldAnswer{.answer_id = b.holds().front().answer_id, .arrived_block_count = kBlocks});
  sim_.DeliverAll();
  EXPECT_TRUE(sim_.metrics.pulls.empty());
  EXPECT_EQ(sim_.core.copy_count(), 1U);
}

TEST_F(FleetHoldTest, AWorkerCanNotClaimMoreThanItWasAskedFor) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  b.SetMute(true);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.DeliverAll();
  b.outbox().emplace_back(wire::HoldAnswer{.answer_id = b.holds().front().answer_id,
                                           .held_block_count = 4'000'000'000,
                                           .arrived_block_count = 4'000'000'000});
  sim_.Run();
  EXPECT_EQ(Outcome().block_count, kBlocks);
  EXPECT_EQ(sim_.metrics.pulled_tokens, 0U);
  ExpectNothingLeft();
}

// Each of them is of an older release, or a source that the others can not fetch from.
TEST_F(FleetHoldTest, WhoCanNotFetchComputes) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& older = Join("older", [](wire::Hello& hello) {
    hello.features.erase(wire::Feature::kHolds);
    hello.transfer = {};
  });
  ExpectComputedWithoutAHold(older);
  ExpectComputedWithoutAHold(Join("other layout", [](wire::Hello& hello) { hello.transfer.layout = 8; }));
  ExpectComputedWithoutAHold(Join("no layout", [](wire::Hello& hello) { hello.transfer.layout = 0; }));
  ExpectComputedWithoutAHold(Join("other numerics", [](wire::Hello& hello) { hello.transfer.numerics = 8; }));
  ExpectComputedWithoutAHold(Join("other machine", [](wire::Hello& hello) { hello.compute.machine = 6; }));
  ExpectComputedWithoutAHold(Join("other host", [](wire::Hello& hello) { hello.host = "pod"; }));
  ExpectComputedWithoutAHold(Join("unknown machine", [](wire::Hello& hello) { hello.compute.machine = 0; }));
}

TEST_F(FleetHoldTest, NobodyFetchesFromAWorkerThatServesNoBlocks) {
  Join("a", [](wire::Hello& hello) { hello.transfer.address.clear(); });
  Fill(prompt_, {"a"});
  ExpectComputedWithoutAHold(Join("b"));
}

TEST_F(FleetHoldTest, AnAddressBeyondLoopbackIsOneForAllMachines) {
  Join("a", [](wire::Hello& hello) { hello.transfer.address = "10.0.0.5:7100"; });
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b", [](wire::Hello& hello) { hello.compute.machine = 6; });
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  EXPECT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kPulled);
}

TEST_F(FleetHoldTest, TheDeepestHolderIsTheSourceAndOfEqualsTheOneWithTheLeastToSend) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  Join("c");
  Fill(std::vector<TokenId>(prompt_.begin(), prompt_.begin() + kTokens / 2), {"c"});
  for (const char* const name : {"a", "b"}) {
    Fill(prompt_, {name});
    if (a.Held(BlocksOf(prompt_)) == 0) FAIL() << "a computes first";
  }
  a.SetTransferBytes(0, 1'000'000);
  sim_.Advance(1s);
  FakeWorker& d = Join("d");
  ASSERT_TRUE(Warm(prompt_, {"d"}).ok());
  sim_.Run();
  ASSERT_EQ(d.holds().size(), 1U);
  EXPECT_EQ(d.holds().front().source.worker_id, "b");
  a.SetTransferBytes(0, 0);
  b.SetTransferBytes(0, 1'000'000);
  sim_.Advance(1s);
  FakeWorker& e = Join("e", [](wire::Hello& hello) { hello.worker_id = "e"; });
  ASSERT_TRUE(Warm(prompt_, {"e"}).ok());
  sim_.Run();
  ASSERT_EQ(e.holds().size(), 1U);
  EXPECT_NE(e.holds().front().source.worker_id, "b");
}

TEST_F(FleetHoldTest, TheNamedSourceIsTheOnlyOne) {
  FakeWorker& a = Join("a");
  Join("c");
  Fill(prompt_, {"a"});
  const std::vector<TokenId> front(prompt_.begin(), prompt_.begin() + kTokens / 2);
  Fill(front, {"c"});
  EXPECT_EQ(Warm(prompt_, {"a"}, "x").error().field, "from");
  FakeWorker& b = Join("b");
  ASSERT_TRUE(Warm(prompt_, {"b"}, "c").ok());
  sim_.Run();
  ASSERT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(b.holds().front().source.worker_id, "c");
  EXPECT_EQ(b.holds().front().hashes, BlocksOf(front));
  EXPECT_EQ(a.holds().size(), 0U);
}

TEST_F(FleetHoldTest, ACordonedWorkerIsASource) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  const CordonOrder cordon{.worker_id = "a", .service = Service::kCordoned};
  ASSERT_TRUE(sim_.core.Send(cordon, {}, sim_.clock.Now(), [](std::vector<WorkerAnswer>) {}).ok());
  sim_.Advance(1s);
  ASSERT_EQ(sim_.core.Workers(sim_.clock.Now()).front().state, WorkerState::kCordoned);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  EXPECT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kPulled);
}

TEST_F(FleetHoldTest, ADrainingWorkerIsASource) {
  FakeWorker& a = Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  a.SetDraining(true);
  sim_.Advance(1s);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  EXPECT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kPulled);
}

// It has no room for a request, and others wait there already.
TEST_F(FleetHoldTest, AFullWorkerIsASource) {
  FakeWorker& a = Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  std::vector<wire::OtherPrompt> queue;
  for (std::uint64_t id = 1; id <= 100; ++id) queue.push_back({.uncached_tokens = 5000, .waited_ms = 0, .id = id});
  a.SetOtherPrompts(queue);
  sim_.Advance(1s);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  ASSERT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(b.holds().front().source.worker_id, "a");
  EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kPulled);
}

TEST_F(FleetHoldTest, AHoldHasATicketForItsSource) {
  const auto secret = wire::TransferSecret::Random();
  Join("a", [&secret](wire::Hello& hello) { hello.transfer.secret = secret.ToText(); });
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b", [](wire::Hello& hello) {
    hello.transfer.secret = wire::TransferSecret::Random().ToText();  // its own does not matter
  });
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  ASSERT_EQ(b.holds().size(), 1U);
  const Result<wire::TransferTicket> ticket = wire::TransferTicket::Parse(b.holds().front().source.ticket);
  ASSERT_TRUE(ticket.ok()) << ticket.error().ToString();
  const wire::WallSeconds now{std::chrono::seconds(kUnixSeconds)};
  EXPECT_EQ(ticket->expiry(), now + wire::kTicketLife);
  const auto derived = wire::DeriveTicket(secret, {.consumer = "b", .expiry = ticket->expiry()}, now);
  ASSERT_TRUE(derived.ok()) << derived.error().ToString();
  EXPECT_EQ(*derived, *ticket) << "the source derives the same one";
}

TEST_F(FleetHoldTest, ASourceWithoutASecretNeedsNoTicket) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.Run();
  ASSERT_EQ(b.holds().size(), 1U);
  EXPECT_TRUE(b.holds().front().source.ticket.empty());
}

// They tell numerics 0: they exchange blocks with each other, and with no one else.
TEST_F(FleetHoldTest, WorkersThatTakeAnyNumericsAreAFleetOfTheirOwn) {
  const Change any = [](wire::Hello& hello) { hello.transfer.numerics = 0; };
  Join("a", any);
  Fill(prompt_, {"a"});
  ExpectComputedWithoutAHold(Join("same"));
  FakeWorker& b = Join("b", any);
  ASSERT_TRUE(Warm(prompt_, {"b"}, "a").ok());
  sim_.Run();
  EXPECT_EQ(b.holds().size(), 1U);
  EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kPulled);
}

TEST_F(FleetHoldTest, ASecretIsInNoAnswerOfTheRouter) {
  const std::string secret = wire::TransferSecret::Random().ToText();
  Join("a", [&secret](wire::Hello& hello) { hello.transfer.secret = secret; });
  const std::vector<WorkerStatus> workers = sim_.core.Workers(sim_.clock.Now());
  ASSERT_EQ(workers.size(), 1U);
  EXPECT_EQ(workers[0].transfer.address, "127.0.0.1:7101");
  EXPECT_EQ(workers[0].transfer.layout, 7U);
  EXPECT_TRUE(workers[0].transfer.secret.empty());
}

TEST_F(FleetHoldTest, AnEvictionEndsThePull) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  b.SetMute(true);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.DeliverAll();
  const std::shared_ptr<const ServedModel> model = sim_.core.models()->Main("demo");
  const EvictOrder evict{.what = std::vector<PromptOfRevision>{{model, {RootHash({}), prompt_, BlocksOf(prompt_)}}},
                         .model = "demo"};
  ASSERT_TRUE(sim_.core.Send(evict, {}, sim_.clock.Now(), [](std::vector<WorkerAnswer>) {}).ok());
  sim_.DeliverAll();
  EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kRefused);
  EXPECT_EQ(sim_.metrics.pulls, (std::map<std::string, int>{{"cancelled", 1}}));
  ExpectNothingLeft();
  b.outbox().emplace_back(wire::HoldAnswer{.answer_id = b.holds().front().answer_id});
  sim_.DeliverAll();
  EXPECT_TRUE(b.received().empty());
  EXPECT_TRUE(b.cancelled().empty());
}

TEST_F(FleetHoldTest, ARouterThatStopsEndsPulls) {
  Join("a");
  Fill(prompt_, {"a"});
  FakeWorker& b = Join("b");
  b.SetMute(true);
  ASSERT_TRUE(Warm(prompt_, {"b"}).ok());
  sim_.CarryOutEffects();
  sim_.core.Shutdown();
  sim_.CarryOutEffects();
  EXPECT_EQ(Outcome().kind, WarmOutcome::Kind::kRefused);
}

// A copy comes from its holder too.
TEST_F(FleetHoldTest, ACopyOfAHotPrefixIsFetched) {
  FleetCoreOptions options;
  options.requests.routing.min_copies = 2;
  FleetSim sim(1, "cache-aware", options);
  for (const char* const name : {"a", "b"}) {
    FakeWorker& worker = sim.AddWorker(name);
    worker.SetTransfers(name == std::string("a") ? "127.0.0.1:7101" : "127.0.0.1:7102");
    worker.SayHello();
    sim.DeliverAll();
  }
  const std::vector<TokenId> prompt = MakePrompt(1, kTokens + 2);
  for (int i = 0; i < 6; ++i) {
    const FleetSim::Request request = sim.Submit(prompt, 2);
    sim.Run();
    sim.Advance(1s);
  }
  EXPECT_EQ(sim.metrics.pulls, (std::map<std::string, int>{{"complete", 1}}));
  EXPECT_EQ(sim.metrics.copied_tokens, 0U);
  for (const auto& [name, worker] : sim.workers) {
    EXPECT_EQ(worker->Held(BlocksOf(prompt)), kBlocks);
    EXPECT_TRUE(sim.ViewIsExact(*worker));
  }
}

}  // namespace
}  // namespace roost::router

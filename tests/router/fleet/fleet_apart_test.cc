// Prompts that are computed at a worker for prompts, while their answers go on at another one.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

// How blocks travel: the workers fetch them, or their engines do.
enum class By { kHold, kConnector };

class FleetApartTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 200;
  static constexpr std::uint32_t kTokens = kBlocks * FakeWorker::kBlockTokens;

  explicit FleetApartTest(By by = By::kHold) : by_(by) {}
  FakeWorker& Join(const std::string& id, wire::WorkerRole role) {
    FakeWorker& worker = sim_.AddWorker(id);
    if (by_ == By::kHold) worker.SetTransfers("127.0.0.1:" + std::to_string(7100 + sim_.workers.size()));
    if (by_ == By::kConnector) worker.SetConnector();
    worker.hello().role = role;
    worker.SayHello();
    sim_.DeliverAll();
    return worker;
  }
  // The worker computes the prompt's blocks, or fetches them from one that has them.
  void Warm(const std::vector<TokenId>& prompt, const std::string& name) {
    WarmOrder order{.spec = {}, .workers = {PinTarget::kNamedWorkers, {name}}, .deadline = sim_.clock.Now() + 1h};
    order.spec.model = sim_.core.models()->Main("demo");
    order.spec.generate.prompt = prompt;
    order.spec.generate.root = RootHash({});
    order.spec.generate.block_hashes = BlocksOf(prompt);
    const auto sent = sim_.core.Send(order, sim_.Match(order.spec.generate.block_hashes), sim_.clock.Now(),
                                     [](const std::vector<WorkerAnswer>&) {});
    ASSERT_TRUE(sent.ok());
    sim_.Run();
  }
  // Speeds of workers and links are known, and so many answers run at each worker for answers.
  void LetAnswersRun(int count) {
    for (TokenId seed = 100; seed < 140; ++seed) {
      sim_.Submit(MakePrompt(seed, 200), 3);
      sim_.Run();
    }
    for (const char* name : {"p", "d1", "d2"}) Warm(MakePrompt(90, kTokens), name);
    for (int i = 0; i < 2 * count; ++i) {
      answers_.push_back(sim_.Submit(MakePrompt(200 + static_cast<TokenId>(i), 7), 4000, NoStops()));
      Step();
    }
    for (int i = 0; i < 3; ++i) Step();
  }
  static GenerateSpec NoStops() {
    GenerateSpec wishes;
    wishes.generate.min_output_tokens = 4000;
    return wishes;
  }
  void Step() {
    for (const auto& [id, worker] : sim_.workers) worker->Step();
    sim_.DeliverAll();
  }
  [[nodiscard]] DecisionRecord LastDecision() const { return sim_.core.decisions().Latest(1).front(); }
  // Until it has ended; the answers that run go on.
  void RunUntilEnd(const Request& request) {
    for (int i = 0; i < 200 && !request.observer->end; ++i) Step();
    ASSERT_TRUE(request.observer->end.has_value());
    EXPECT_FALSE(request.observer->end->error.has_value());
  }
  void ExpectRight(const Request& request, std::uint32_t tokens) {
    EXPECT_EQ(request.observer->tokens, ExpectedOutput(request.prompt, tokens, 0, request.min_output_tokens));
  }
  // Ends all, and what was charged or awaited for it.
  void ExpectNothingLeft() {
    for (const Request& answer : answers_) sim_.core.Cancel(*answer.id);
    sim_.DeliverAll();
    sim_.Run();
    EXPECT_EQ(sim_.core.request_count(), 0U);
    EXPECT_EQ(sim_.core.pending_count(), 0U);
    EXPECT_EQ(sim_.core.hold_count(), 0U);
    for (const WorkerStatus& worker : sim_.core.Workers(sim_.clock.Now())) {
      EXPECT_EQ(worker.in_flight_requests, 0U) << worker.worker_id;
    }
  }
  // A long prompt that goes apart, before anything of it is computed.
  Request SubmitApart(std::uint32_t tokens = 20) {
    Request request = sim_.Submit(prompt_, tokens);
    sim_.CarryOutEffects();
    EXPECT_EQ(LastDecision().worker_id, "p") << LastDecision().decision.together;
    return request;
  }

  const By by_;
  FleetSim sim_;
  FakeWorker& p_ = Join("p", wire::WorkerRole::kPrefill);
  FakeWorker& d1_ = Join("d1", wire::WorkerRole::kDecode);
  FakeWorker& d2_ = Join("d2", wire::WorkerRole::kDecode);
  const std::vector<TokenId> prompt_ = MakePrompt(1, kTokens + 2);
  std::vector<Request> answers_;
};

TEST_F(FleetApartTest, ALongPromptIsComputedElsewhereThanWhereAnswersRun) {
  LetAnswersRun(8);
  const std::size_t outcomes = sim_.metrics.outcomes.size();
  const Request request = SubmitApart();
  const std::string decode = LastDecision().decode_id;
  FakeWorker& d = decode == "d1" ? d1_ : d2_;
  const wire::Hold hold = d.holds().back();
  EXPECT_TRUE(hold.source.follow);
  EXPECT_EQ(hold.source.worker_id, "p");
  EXPECT_EQ(hold.hashes, BlocksOf(prompt_));
  const wire::Generate& prompt = p_.received().back();
  EXPECT_EQ(prompt.part, wire::RequestPart::kPrompt);
  EXPECT_EQ(prompt.max_output_tokens, 1U);
  RunUntilEnd(request);
  ExpectRight(request, 20);
  const wire::Generate& answer = d.received().back();
  EXPECT_EQ(answer.part, wire::RequestPart::kAnswer);
  EXPECT_EQ(answer.prompt.size(), prompt_.size() + 1);
  EXPECT_EQ(answer.first_output_index, 1U);
  EXPECT_EQ(answer.max_output_tokens, 19U);
  EXPECT_EQ(answer.expected_cached_tokens, kTokens);
  EXPECT_EQ(request.observer->workers, (std::vector<std::string>{"p", decode}));
  EXPECT_TRUE(sim_.metrics.retries.empty()) << "the move is none";
  ASSERT_EQ(sim_.metrics.outcomes.size(), outcomes + 1) << "it counts once";
  EXPECT_EQ(sim_.metrics.outcomes.back().actual_cached_tokens, 0U);
  ExpectNothingLeft();
}

TEST_F(FleetApartTest, AShortPromptStaysWithItsAnswer) {
  LetAnswersRun(8);
  const Request request = sim_.Submit(MakePrompt(2, 7), 3);
  sim_.DeliverAll();
  EXPECT_NE(LastDecision().worker_id, "p");
  EXPECT_EQ(LastDecision().decision.together, "few_blocks");
  RunUntilEnd(request);
  ExpectNothingLeft();
}

TEST_F(FleetApartTest, WhatCanNotGoApartSaysWhy) {
  LetAnswersRun(8);
  const auto why = [&](std::uint32_t tokens, const GenerateSpec& wishes) {
    const Request request = sim_.Submit(prompt_, tokens, wishes);
    sim_.CarryOutEffects();
    const std::string reason(LastDecision().decision.together);
    EXPECT_NE(LastDecision().worker_id, "p");
    sim_.core.Cancel(*request.id);
    sim_.DeliverAll();
    return reason;
  };
  EXPECT_EQ(why(1, {}), "one_token");
  GenerateSpec wishes;
  wishes.generate.sample_count = 2;
  EXPECT_EQ(why(9, wishes), "choices");
  wishes.generate.sample_count = 1;
  wishes.generate.cache_mode = wire::CacheMode::kOff;
  EXPECT_EQ(why(9, wishes), "cache_off");
  p_.SetDraining(true);
  p_.Heartbeat();
  sim_.DeliverAll();
  const Request request = sim_.Submit(prompt_, 9);
  sim_.DeliverAll();
  EXPECT_EQ(LastDecision().decision.together, "") << "no worker for prompts takes requests";
  RunUntilEnd(request);
  ExpectNothingLeft();
}

TEST_F(FleetApartTest, WithoutRunningAnswersThePromptStays) {
  LetAnswersRun(0);
  const Request request = sim_.Submit(prompt_, 9);
  sim_.DeliverAll();
  EXPECT_NE(LastDecision().worker_id, "p");
  EXPECT_EQ(LastDecision().decision.together, "price");
  RunUntilEnd(request);
}

TEST_F(FleetApartTest, AWorkerForPromptsTakesAllWhenItIsAlone) {
  LetAnswersRun(0);
  for (FakeWorker* worker : {&d1_, &d2_}) {
    worker->SayBye();
    sim_.DeliverAll();
  }
  const Request request = sim_.Submit(prompt_, 9);
  sim_.DeliverAll();
  EXPECT_EQ(LastDecision().worker_id, "p");
  EXPECT_EQ(p_.received().back().part, wire::RequestPart::kWhole);
  RunUntilEnd(request);
  ExpectRight(request, 9);
}

// Engines refuse a least length above the most.
TEST_F(FleetApartTest, ALeastLengthIsThatOfTheAnswer) {
  LetAnswersRun(8);
  GenerateSpec wishes;
  wishes.generate.min_output_tokens = 10;
  const Request request = sim_.Submit(prompt_, 20, wishes);
  sim_.DeliverAll();
  ASSERT_EQ(LastDecision().worker_id, "p");
  EXPECT_EQ(p_.received().back().min_output_tokens, 1U);
  const std::string decode = LastDecision().decode_id;
  RunUntilEnd(request);
  EXPECT_EQ((decode == "d1" ? d1_ : d2_).received().back().min_output_tokens, 10U);
}

TEST_F(FleetApartTest, AHintForTheSessionsReturnStaysWithTheAnswer) {
  LetAnswersRun(8);
  GenerateSpec wishes;
  wishes.generate.session_hash = 77;
  wishes.generate.retention = wire::Retention{.prompt_priority = 90};
  wishes.generate.expect_return_ms = 5000;
  const Request request = sim_.Submit(prompt_, 20, wishes);
  sim_.DeliverAll();
  ASSERT_EQ(LastDecision().worker_id, "p");
  EXPECT_EQ(p_.received().back().session_hash, 0U);
  EXPECT_FALSE(p_.received().back().retention.has_value());
  const std::string decode = LastDecision().decode_id;
  RunUntilEnd(request);
  const wire::Generate& answer = (decode == "d1" ? d1_ : d2_).received().back();
  EXPECT_EQ(answer.session_hash, 77U);
  EXPECT_EQ(answer.retention->prompt_priority, 90U);
  ExpectNothingLeft();
}

TEST_F(FleetApartTest, APromptWhoseWorkerDiesIsComputedElsewhere) {
  LetAnswersRun(8);
  const Request request = SubmitApart();
  sim_.Kill(p_);
  sim_.Advance(5s);
  RunUntilEnd(request);
  ExpectRight(request, 20);
  EXPECT_EQ(sim_.metrics.retries["worker_lost"], 1);
  ExpectNothingLeft();
}

TEST_F(FleetApartTest, AnAnswerWhoseWorkerDiesBeforeItBeginsGoesToAnother) {
  LetAnswersRun(8);
  const Request request = SubmitApart();
  FakeWorker& d = LastDecision().decode_id == "d1" ? d1_ : d2_;
  sim_.Kill(d);
  sim_.Advance(5s);
  RunUntilEnd(request);
  ExpectRight(request, 20);
  EXPECT_NE(request.observer->workers.back(), d.id());
  ExpectNothingLeft();
}

TEST_F(FleetApartTest, AnAnswerWhoseWorkerDiesInTheMiddleGoesOn) {
  LetAnswersRun(8);
  const Request request = SubmitApart(60);
  for (int i = 0; i < 200 && request.observer->tokens.size() < 10; ++i) Step();
  FakeWorker& d = request.observer->workers.back() == "d1" ? d1_ : d2_;
  sim_.Kill(d);
  sim_.Advance(5s);
  RunUntilEnd(request);
  ExpectRight(request, 60);
  ExpectNothingLeft();
}

TEST_F(FleetApartTest, ACancelledOneLeavesNothing) {
  LetAnswersRun(8);
  d1_.SetMute(true);
  d2_.SetMute(true);
  const Request request = SubmitApart();
  EXPECT_EQ(sim_.core.hold_count(), 1U);
  sim_.core.Cancel(*request.id);
  sim_.DeliverAll();
  EXPECT_EQ(p_.cancelled().size(), 1U);
  ExpectNothingLeft();
}

// Its answer begins elsewhere, and does not come back.
TEST_F(FleetApartTest, AWorkerForPromptsThatSendsNoTokenSendsNobodyInACircle) {
  LetAnswersRun(8);
  // Nothing comes, so the prompt would cost less there again.
  for (FakeWorker* worker : {&d1_, &d2_}) worker->SetHoldResult(wire::HoldOutcome::kMissing, 0);
  const Request request = SubmitApart();
  const RequestId id = p_.received().back().request_id;
  for (int i = 0; i < 20 && p_.running_count() > 0; ++i) p_.Step();
  for (wire::WorkerMessage& message : p_.outbox()) {
    auto* const step = std::get_if<wire::Step>(&message);
    if (step == nullptr) continue;
    step->events.clear();  // nothing is known to be there
    for (wire::TokenEvent& event : step->tokens) {
      if (event.request_id == id) event.tokens = {};
    }
  }
  const std::size_t prompts = p_.received().size();
  sim_.DeliverAll();
  RunUntilEnd(request);
  EXPECT_EQ(p_.received().size(), prompts);
  ExpectRight(request, 20);
  ExpectNothingLeft();
}

// Nothing has come when the prompt is done: the answer's worker fetches what it lacks, or computes it.
TEST_F(FleetApartTest, BlocksThatDidNotComeAreNoError) {
  LetAnswersRun(8);
  for (FakeWorker* worker : {&d1_, &d2_}) worker->SetHoldResult(wire::HoldOutcome::kBusy, 0);
  const Request request = SubmitApart();
  RunUntilEnd(request);
  ExpectRight(request, 20);
  ExpectNothingLeft();
}

// ---- engines with connectors ----

class FleetConnectorTest : public FleetApartTest {
 protected:
  FleetConnectorTest() : FleetApartTest(By::kConnector) {}
  // Until the prompt is computed, and the answer was asked for.
  FakeWorker& RunUntilAnswer(const Request& request) {
    for (int i = 0; i < 200 && request.observer->workers.size() < 2; ++i) Step();
    return request.observer->workers.back() == "d1" ? d1_ : d2_;
  }
};

TEST_F(FleetConnectorTest, TheAnswerBeginsAnewWhereItsConnectorFindsTheBlocks) {
  LetAnswersRun(8);
  const std::size_t outcomes = sim_.metrics.outcomes.size();
  const Request request = SubmitApart();
  EXPECT_EQ(sim_.core.hold_count(), 0U);
  EXPECT_EQ(p_.received().back().part, wire::RequestPart::kPrompt);
  EXPECT_EQ(p_.received().back().max_output_tokens, 1U);
  const FakeWorker& d = RunUntilAnswer(request);
  EXPECT_TRUE(request.observer->tokens.empty()) << "the token of the prompt's engine is drawn again";
  const wire::Generate& answer = d.received().back();
  EXPECT_EQ(answer.part, wire::RequestPart::kAnswer);
  EXPECT_EQ(answer.kv_transfer, FakeWorker::kTransfer);
  EXPECT_EQ(answer.prompt, prompt_);
  EXPECT_EQ(answer.first_output_index, 0U);
  EXPECT_EQ(answer.max_output_tokens, 20U);
  RunUntilEnd(request);
  ExpectRight(request, 20);
  EXPECT_EQ(request.observer->cached_token_count, 0U) << "as the prompt's engine found";
  EXPECT_TRUE(sim_.metrics.retries.empty());
  EXPECT_EQ(sim_.metrics.outcomes.size(), outcomes + 1) << "it counts once";
  ExpectNothingLeft();
}

// Others are served there meanwhile, so the worker as a whole is not silent.
TEST_F(FleetConnectorTest, BlocksThatNeverComeAreComputed) {
  LetAnswersRun(8);
  for (FakeWorker* worker : {&d1_, &d2_}) worker->SetAwaitsBlocks(true);
  const Request request = SubmitApart();
  const FakeWorker& d = RunUntilAnswer(request);
  const RequestId waiting = d.received().back().request_id;
  for (int i = 0; i < 100 && d.cancelled().empty(); ++i) {
    sim_.Advance(100ms);
    Step();
  }
  ASSERT_EQ(d.cancelled(), std::vector<RequestId>{waiting});
  const std::size_t prompts = p_.received().size();
  RunUntilEnd(request);
  ExpectRight(request, 20);
  EXPECT_EQ(p_.received().size(), prompts) << "it does not go apart again";
  const FakeWorker& last = request.observer->workers.back() == "d1" ? d1_ : d2_;
  EXPECT_TRUE(last.received().back().kv_transfer.empty());
  EXPECT_EQ(last.received().back().part, wire::RequestPart::kWhole);
  EXPECT_EQ(sim_.metrics.retries["no_first_token"], 1);
  ExpectNothingLeft();
}

TEST_F(FleetConnectorTest, APromptWhoseEngineDiesIsComputedElsewhere) {
  LetAnswersRun(8);
  const Request request = SubmitApart();
  sim_.Kill(p_);
  sim_.Advance(5s);
  RunUntilEnd(request);
  ExpectRight(request, 20);
  ExpectNothingLeft();
}

TEST_F(FleetConnectorTest, AnAnswerWhoseEngineDiesIsComputedByAnother) {
  LetAnswersRun(8);
  for (FakeWorker* worker : {&d1_, &d2_}) worker->SetAwaitsBlocks(true);
  const Request request = SubmitApart();
  FakeWorker& d = RunUntilAnswer(request);
  sim_.Kill(d);
  sim_.Advance(5s);
  RunUntilEnd(request);
  ExpectRight(request, 20);
  EXPECT_NE(request.observer->workers.back(), d.id());
  ExpectNothingLeft();
}

TEST_F(FleetConnectorTest, AnEngineThatNamesNothingIsNoError) {
  LetAnswersRun(8);
  const Request request = SubmitApart();
  for (int i = 0; i < 20 && p_.running_count() > 0; ++i) p_.Step();
  for (wire::WorkerMessage& message : p_.outbox()) {
    if (auto* const step = std::get_if<wire::Step>(&message)) {
      for (wire::TokenEvent& event : step->tokens) event.kv_transfer.clear();
    }
  }
  sim_.DeliverAll();
  RunUntilEnd(request);
  ExpectRight(request, 20);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace roost::router

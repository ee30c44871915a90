// Request options besides tokens: hints to the cache and the queue, several choices.
#include <gtest/gtest.h>

#include "router/fleet/requests/return_gaps.h"
#include "tests/router/fleet/fleet_answers.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

constexpr std::uint64_t kMinuteMs = 60'000;

// ---- hints to the cache and the queue ----

TEST(FleetCoreTest, WishesReachTheWorker) {
  FleetSim sim;
  const FakeWorker& worker = sim.JoinWorker("a");
  GenerateSpec wishes;
  wishes.generate.tenant = "roosters";
  wishes.generate.priority = 70;
  wishes.generate.retention = wire::Retention{80, 1000, 20, 2000};
  wishes.generate.session_hash = 7;
  wishes.generate.expect_return_ms = 3000;
  wishes.generate.sample_count = 2;
  sim.Submit(MakePrompt(1, 20), 4, wishes);
  sim.DeliverAll();
  ASSERT_EQ(worker.received().size(), 1U);
  const wire::Generate& sent = worker.received().front();
  EXPECT_EQ(sent.tenant, "roosters");
  EXPECT_EQ(sent.cache_mode, wire::CacheMode::kOn);
  EXPECT_EQ(sent.priority, 70U);
  EXPECT_EQ(sent.retention, wishes.generate.retention);
  EXPECT_EQ(sent.session_hash, 7U);
  EXPECT_EQ(sent.expect_return_ms, 3000U);
  EXPECT_EQ(sent.sample_count, 2U);
}

// A session whose requests come ten seconds after their answers.
class LearnedGapTest : public ::testing::Test {
 protected:
  LearnedGapTest() { wishes_.generate.session_hash = 7; }

  // The return that the worker is told to expect after a request of the session.
  std::uint64_t Turn(std::uint64_t longest_learned_ms) {
    sim_.Advance(10s);
    wishes_.longest_learned_return_ms = longest_learned_ms;
    sim_.Submit(MakePrompt(1, 20), 4, wishes_);
    sim_.Run();
    return worker_.received().back().expect_return_ms;
  }

  FleetSim sim_;
  FakeWorker& worker_ = sim_.JoinWorker("a");
  GenerateSpec wishes_;
};

TEST_F(LearnedGapTest, ASessionThatComesBackIsExpectedAgain) {
  EXPECT_EQ(Turn(kMinuteMs), 0U);
  for (int i = 0; i < ReturnGaps::kLeastAnswers; ++i) (void)Turn(kMinuteMs);
  EXPECT_NEAR(static_cast<double>(Turn(kMinuteMs)), 10'000, 500);
  EXPECT_EQ(Turn(2000), 2000U) << "the bound of the client's key";
}

TEST_F(LearnedGapTest, WhatTheClientSaysCounts) {
  for (int i = 0; i <= ReturnGaps::kLeastAnswers; ++i) (void)Turn(kMinuteMs);
  EXPECT_EQ(Turn(0), 0U) << "it said how long the blocks stay";
  wishes_.generate.expect_return_ms = 3000;
  EXPECT_EQ(Turn(0), 3000U);
}

TEST(FleetCoreTest, NothingIsExpectedOfTheCacheWhenItIsOff) {
  FleetSim sim;
  const FakeWorker& worker = sim.JoinWorker("a");
  sim.Submit(MakePrompt(1, 40), 4);
  sim.Run();
  GenerateSpec off;
  off.generate.cache_mode = wire::CacheMode::kOff;
  const Request request = sim.Submit(MakePrompt(1, 40), 4, off);
  sim.DeliverAll();
  EXPECT_EQ(worker.received().back().cache_mode, wire::CacheMode::kOff);
  EXPECT_EQ(worker.received().back().expected_cached_tokens, 0U);
  EXPECT_EQ(request.observer->decisions.front().matched_tokens, 0U);
  EXPECT_EQ(sim.metrics.cache_off, 1);
}

// ---- several choices ----

class FleetCoreChoicesTest : public ::testing::Test {
 protected:
  // Two choices with long answers, which a worker's death leaves unfinished.
  Request SubmitTwo() {
    std::vector<TokenId> prompt = MakePrompt(1, 30);
    for (TokenId seed = 1000;
         ExpectedOutput(prompt, kOutput, 0).size() < kOutput || ExpectedOutput(prompt, kOutput, 1).size() < kOutput;) {
      prompt = MakePrompt(++seed, 30);
    }
    GenerateSpec wishes;
    wishes.generate.sample_count = 2;
    Request request = sim_.Submit(prompt, kOutput, wishes);
    sim_.DeliverAll();
    return request;
  }
  FakeWorker& HolderOf(const Request& request) { return *sim_.workers.at(request.observer->workers.front()); }
  static void ExpectBothWhole(const Request& request) {
    ASSERT_TRUE(request.observer->end.has_value());
    EXPECT_EQ(request.observer->end->reason, wire::FinishReason::kLength);
    EXPECT_EQ(request.observer->choice_ends.size(), 1U);
    for (const std::uint32_t choice : {0U, 1U}) {
      EXPECT_EQ(request.observer->choices[choice], ExpectedOutput(request.prompt, kOutput, choice)) << choice;
    }
  }

  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  FakeWorker& b_ = sim_.JoinWorker("b");
};

TEST_F(FleetCoreChoicesTest, ChoicesAreOneAttemptAndEndOnce) {
  const Request request = SubmitTwo();
  sim_.Run();
  ExpectBothWhole(request);
  EXPECT_EQ(a_.received().size() + b_.received().size(), 1U);
  EXPECT_EQ(request.observer->cached_token_count, 0U);
  EXPECT_EQ(sim_.metrics.outcomes.size(), 1U);
  EXPECT_TRUE(HolderOf(request).cancelled().empty());
  ExpectNothingCharged(sim_);
}

TEST_F(FleetCoreChoicesTest, AreSentAgainTogetherBeforeTheFirstToken) {
  const Request request = SubmitTwo();
  FakeWorker& holder = HolderOf(request);
  sim_.Kill(holder);
  sim_.Advance(3s);
  const FakeWorker& other = Other(holder, a_, b_);
  ASSERT_EQ(other.received().size(), 1U);
  EXPECT_EQ(other.received().front().sample_count, 2U);
  sim_.Run();
  ExpectBothWhole(request);
}

TEST_F(FleetCoreChoicesTest, AreContinuedEachAloneAfterTheFirstToken) {
  const Request request = SubmitTwo();
  FakeWorker& holder = HolderOf(request);
  holder.Step();
  sim_.DeliverAll();
  sim_.Kill(holder);
  sim_.Advance(3s);
  const FakeWorker& other = Other(holder, a_, b_);
  ASSERT_EQ(other.received().size(), 2U);
  for (const std::uint32_t choice : {0U, 1U}) {
    const wire::Generate& sent = other.received()[choice];
    EXPECT_EQ(sent.sample_count, 1U);
    EXPECT_EQ(sent.sampling.seed, choice);
    EXPECT_EQ(sent.first_output_index, request.observer->choices[choice].size());
    EXPECT_EQ(sent.prompt.size(), request.prompt.size() + sent.first_output_index);
  }
  sim_.Run();
  ExpectBothWhole(request);
  ExpectNothingCharged(sim_);
}

TEST_F(FleetCoreChoicesTest, EndTogetherWhenOneCanNotGoOn) {
  const Request request = SubmitTwo();
  FakeWorker& holder = HolderOf(request);
  holder.Step();
  sim_.DeliverAll();
  sim_.Kill(holder);
  FakeWorker& other = Other(holder, a_, b_);
  sim_.Kill(other);
  sim_.Advance(3s);
  ASSERT_TRUE(request.observer->end.has_value() && request.observer->end->error.has_value());
  EXPECT_EQ(request.observer->end->error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(sim_.core.request_count(), 0U);
}

TEST_F(FleetCoreChoicesTest, OneThatWaitsGoesAlongWithAnotherAndWaitsNoMore) {
  Request request = SubmitTwo();
  FakeWorker& holder = HolderOf(request);
  holder.Step();
  sim_.DeliverAll();
  sim_.Kill(holder);
  sim_.Advance(3s);
  FakeWorker& other = Other(holder, a_, b_);
  ASSERT_EQ(other.received().size(), 2U);
  other.GiveUp(other.received()[1].request_id);
  sim_.DeliverAll();
  EXPECT_EQ(sim_.core.waiting_count(), 1U);
  FakeWorker& third = sim_.JoinWorker("c");
  other.GiveUp(other.received()[0].request_id);
  sim_.DeliverAll();
  EXPECT_EQ(third.received().size(), 2U);
  EXPECT_EQ(sim_.core.waiting_count(), 0U);
  sim_.Run();
  ExpectBothWhole(request);
  ExpectNothingCharged(sim_);
}

TEST_F(FleetCoreChoicesTest, CancelReachesEveryAttempt) {
  const Request request = SubmitTwo();
  FakeWorker& holder = HolderOf(request);
  holder.Step();
  sim_.DeliverAll();
  sim_.Kill(holder);
  sim_.Advance(3s);
  FakeWorker& other = Other(holder, a_, b_);
  sim_.core.Cancel(*request.id);
  sim_.DeliverAll();
  EXPECT_EQ(other.cancelled().size(), 2U);
  EXPECT_EQ(request.observer->end->reason, wire::FinishReason::kCancelled);
  ExpectNothingCharged(sim_);
}

// `old`, which still has to say hello, gets no request with these wishes; a new worker does.
void ExpectOnlyNewWorkersGet(FleetSim& sim, FakeWorker& old, const GenerateSpec& wishes,
                             ErrorCode refusal = ErrorCode::kUnavailable) {
  old.SayHello();
  sim.DeliverAll();
  EXPECT_EQ(sim.Submit(MakePrompt(1, 20), 4, wishes).refusal->code, refusal);
  sim.JoinWorker("new");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(sim.Submit(MakePrompt(1, 20), 4, wishes).id.has_value());
  sim.DeliverAll();
  EXPECT_TRUE(old.received().empty());
}

TEST(FleetCoreTest, ChoicesGoToWorkersThatKnowOfThem) {
  FleetSim sim;
  FakeWorker& old = sim.AddWorker("old");
  old.hello().max_sample_count = 1;
  GenerateSpec wishes;
  wishes.generate.sample_count = 2;
  ExpectOnlyNewWorkersGet(sim, old, wishes);
}

TEST(FleetCoreTest, PenaltiesGoToWorkersThatKnowOfThem) {
  FleetSim sim;
  FakeWorker& old = sim.AddWorker("old");
  old.hello().features.erase(wire::Feature::kFullSampling);
  GenerateSpec wishes;
  wishes.generate.sampling.frequency_penalty = 0.5F;
  ExpectOnlyNewWorkersGet(sim, old, wishes);
  EXPECT_TRUE(sim.Submit(MakePrompt(2, 20), 4).id.has_value());
}

TEST(FleetCoreTest, LogprobsGoToWorkersThatKnowOfThem) {
  for (const bool of_prompt : {false, true}) {
    FleetSim sim;
    FakeWorker& old = sim.AddWorker("old");
    old.hello().features.erase(wire::Feature::kLogprobs);
    GenerateSpec wishes;
    (of_prompt ? wishes.generate.prompt_logprobs : wishes.generate.output_logprobs) = 0;
    ExpectOnlyNewWorkersGet(sim, old, wishes);
    EXPECT_TRUE(sim.Submit(MakePrompt(2, 20), 4).id.has_value());
  }
}

TEST(FleetCoreTest, LeastOutputsGoToWorkersThatKnowOfThem) {
  FleetSim sim;
  FakeWorker& old = sim.AddWorker("old");
  old.hello().features.erase(wire::Feature::kMinOutputTokens);
  GenerateSpec wishes;
  wishes.generate.min_output_tokens = 3;
  ExpectOnlyNewWorkersGet(sim, old, wishes, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(sim.Submit(MakePrompt(2, 20), 4).id.has_value());
}

TEST(FleetCoreTest, MoreLogprobsThanTheWireCarriesAreRefused) {
  FleetSim sim;
  sim.JoinWorker("a");
  GenerateSpec wishes;
  wishes.generate.output_logprobs = wire::kMaxTopLogprobs + 1;
  EXPECT_EQ(sim.Submit(MakePrompt(1, 20), 4, wishes).refusal->field, "logprobs");
  wishes.generate.output_logprobs = 0;
  wishes.generate.prompt_logprobs = wire::kMaxTopLogprobs + 1;
  EXPECT_EQ(sim.Submit(MakePrompt(1, 20), 4, wishes).refusal->field, "prompt_logprobs");
}

TEST(FleetCoreTest, ConstrainedRequestsGoToWorkersThatKnowOfConstraints) {
  FleetSim sim;
  FakeWorker& old = sim.AddWorker("old");
  old.hello().features.erase(wire::Feature::kConstrainsOutput);
  old.SayHello();
  sim.DeliverAll();
  GenerateSpec wishes;
  wishes.generate.constraint = wire::Constraint{.text = "", .field = "response_format"};
  const auto refusal = sim.Submit(MakePrompt(1, 20), 4, wishes).refusal;
  EXPECT_EQ(refusal->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal->field, "response_format");
  FakeWorker& able = sim.JoinWorker("new");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(sim.Submit(MakePrompt(1, 20), 4, wishes).id.has_value());
  sim.DeliverAll();
  EXPECT_TRUE(old.received().empty());
  ASSERT_EQ(able.received().size(), 4U);
  EXPECT_EQ(able.received().front().constraint, wishes.generate.constraint);
  EXPECT_TRUE(sim.Submit(MakePrompt(2, 20), 4).id.has_value());
}

TEST(FleetCoreTest, TooManyChoicesAreRefused) {
  FleetSim sim;
  sim.JoinWorker("a");
  GenerateSpec wishes;
  wishes.generate.sample_count = wire::kMaxSampleCount + 1;
  EXPECT_EQ(sim.Submit(MakePrompt(1, 20), 4, wishes).refusal->field, "n");
}

}  // namespace
}  // namespace roost::router

// Operators' questions to the fleet about prefixes: what a prompt would hit, the most used ones, and warm-ups.
#include "router/fleet/core/orders.h"

#include <gtest/gtest.h>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class OrdersTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 100;
  static constexpr std::uint32_t kTokens = kBlocks * FakeWorker::kBlockTokens;

  PromptMatch Match(const std::vector<TokenId>& prompt) {
    const std::vector<BlockHash> hashes = BlocksOf(prompt);
    return sim_.core
        .Match({.model = sim_.core.models()->Main("demo"),
                .prompt_token_count = static_cast<std::uint32_t>(prompt.size()),
                .block_hashes = hashes},
               sim_.Match(hashes), sim_.clock.Now())
        .value();
  }

  Result<void> Warm(const std::vector<TokenId>& prompt, WorkerChoice workers = {}, Duration time = 1h) {
    WarmOrder order{.spec = {}, .workers = std::move(workers), .deadline = sim_.clock.Now() + time};
    order.spec.model = sim_.core.models()->Main("demo");
    order.spec.generate.prompt = prompt;
    order.spec.generate.root = RootHash({});
    order.spec.generate.block_hashes = BlocksOf(prompt);
    return sim_.core.Send(order, sim_.Match(order.spec.generate.block_hashes), sim_.clock.Now(), Done());
  }

  AnswersDone Done() {
    return [this](std::vector<WorkerAnswer> answers) {
      ++done_count_;
      answers_ = std::move(answers);
    };
  }
  const WarmOutcome& OutcomeOf(const std::string& worker) const {
    for (const WorkerAnswer& answer : answers_) {
      if (answer.worker_id == worker) return std::get<WarmOutcome>(answer.reply);
    }
    ADD_FAILURE() << "no answer of " << worker;
    static const WarmOutcome kNone;
    return kNone;
  }

  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  FakeWorker& b_ = sim_.JoinWorker("b");
  const std::vector<TokenId> prompt_ = MakePrompt(1, kTokens + 2);
  std::vector<WorkerAnswer> answers_;
  int done_count_ = 0;
};

// ---- match ----

TEST_F(OrdersTest, AMatchTellsWhoHoldsWhatAndWhereARequestWouldGo) {
  const FleetSim::Request request = sim_.Submit(prompt_, 4);
  sim_.Run();
  const std::string holder = request.observer->workers.front();
  const PromptMatch match = Match(prompt_);
  ASSERT_EQ(match.holders.size(), 2U);
  EXPECT_EQ(match.holders[0].worker_id, holder);
  EXPECT_EQ(match.holders[0].held_block_count, kBlocks);
  EXPECT_EQ(match.holders[0].pending_block_count, 0U);
  EXPECT_EQ(match.holders[1].held_block_count, 0U);
  ASSERT_TRUE(match.choice.has_value());
  EXPECT_EQ(match.choice->worker_id, holder);
  EXPECT_EQ(match.choice->policy, "cache-aware");
  EXPECT_EQ(match.choice->reason, DecisionReason::kDeepestMatch);
  EXPECT_EQ(match.choice->cached_tokens, kTokens);
  EXPECT_FALSE(match.choice->ttft_seconds.has_value());  // no speed is known yet
}

TEST_F(OrdersTest, AMatchTellsWhatIsBeingComputed) {
  const FleetSim::Request request = sim_.Submit(prompt_, 4);
  sim_.DeliverAll();
  const PromptMatch match = Match(prompt_);
  EXPECT_EQ(match.holders[0].worker_id, request.observer->workers.front());
  EXPECT_EQ(match.holders[0].held_block_count, 0U);
  EXPECT_EQ(match.holders[0].pending_block_count, kBlocks);
}

// The workers to which six prompts go, one after the other; with `asked`, after this many questions about each.
std::vector<std::string> WorkersOfSix(std::string_view policy, int asked) {
  FleetSim sim(1, policy);
  for (const char* name : {"a", "b", "c"}) sim.JoinWorker(name);
  std::vector<std::string> workers;
  for (TokenId seed = 1; seed <= 6; ++seed) {
    const std::vector<TokenId> prompt = MakePrompt(seed, 40);
    const PromptQuery query{sim.core.models()->Main("demo"), 40, BlocksOf(prompt)};
    for (int i = 0; i < asked; ++i) {
      EXPECT_TRUE(sim.core.Match(query, sim.Match(query.block_hashes), sim.clock.Now()).ok());
    }
    const FleetSim::Request request = sim.Submit(prompt, 2);
    sim.Run();
    workers.push_back(request.observer->workers.front());
  }
  EXPECT_EQ(sim.metrics.decisions, 6);
  return workers;
}

TEST_F(OrdersTest, AMatchLeavesNoTrace) {
  for (const char* policy : {"cache-aware", "round-robin"}) {
    EXPECT_EQ(WorkersOfSix(policy, 0), WorkersOfSix(policy, 1)) << policy;
  }
  EXPECT_EQ(sim_.core.pending_count(), 0U);
}

TEST_F(OrdersTest, AMatchWithoutAWorkerIsUnavailable) {
  const auto model = sim_.core.models()->Main("demo");
  sim_.Kill(a_);
  sim_.Kill(b_);
  sim_.Advance(3s);
  EXPECT_EQ(sim_.core.Match({model, 8, {}}, {}, sim_.clock.Now()).error().code, ErrorCode::kUnavailable);
}

// ---- the most used ----

TEST_F(OrdersTest, TheMostUsedAreAskedOfAllWorkers) {
  a_.SetUsedPrefixes({{.hash = {1, 2}, .block_count = 3, .hits = 4, .first_tokens = {}, .last_tokens = {}}});
  const auto model = sim_.core.models()->Main("demo");
  const PrefixesQuestion question{{model}, 5, wire::PrefixTokens::kTell};
  ASSERT_TRUE(sim_.core.Send(question, {}, sim_.clock.Now(), Done()).ok());
  sim_.DeliverAll();
  ASSERT_EQ(done_count_, 1);
  ASSERT_EQ(answers_.size(), 2U);
  EXPECT_EQ(std::get<wire::Prefixes>(answers_[0].reply).prefixes.front().hits, 4U);
  EXPECT_EQ(answers_[0].model, model);
  EXPECT_TRUE(std::get<wire::Prefixes>(answers_[1].reply).prefixes.empty());
  ASSERT_EQ(b_.questions().size(), 1U);
  EXPECT_EQ(b_.questions().front().most, 5U);
  EXPECT_EQ(b_.questions().front().tokens, wire::PrefixTokens::kTell);
}

TEST_F(OrdersTest, OfSeveralModelsThoseWithWorkersAreAsked) {
  ServedModel gone = *sim_.core.models()->Main("demo");
  gone.name = "gone";
  gone.revision = "gone";
  const auto none = std::make_shared<const ServedModel>(gone);
  PrefixesQuestion question{{none}, 5, wire::PrefixTokens::kOmit};
  EXPECT_EQ(sim_.core.Send(question, {}, sim_.clock.Now(), Done()).error().code, ErrorCode::kUnavailable);
  question.models.push_back(sim_.core.models()->Main("demo"));
  ASSERT_TRUE(sim_.core.Send(question, {}, sim_.clock.Now(), Done()).ok());
  sim_.DeliverAll();
  ASSERT_EQ(done_count_, 1);
  ASSERT_EQ(answers_.size(), 2U);
  EXPECT_EQ(answers_[1].model, question.models[1]);
}

TEST_F(OrdersTest, AQuestionAboutNoModelIsAnsweredAtOnce) {
  ASSERT_TRUE(sim_.core.Send(PrefixesQuestion{{}, 5, wire::PrefixTokens::kOmit}, {}, sim_.clock.Now(), Done()).ok());
  EXPECT_TRUE(answers_.empty());
}

// ---- warm ----

TEST_F(OrdersTest, AWarmUpIsComputedByAllAndAnsweredOnce) {
  ASSERT_TRUE(Warm(prompt_).ok());
  sim_.DeliverAll();
  EXPECT_EQ(done_count_, 0);
  sim_.Run();
  ASSERT_EQ(done_count_, 1);
  for (const FakeWorker* worker : {&a_, &b_}) {
    EXPECT_EQ(worker->Held(BlocksOf(prompt_)), kBlocks);
    EXPECT_EQ(OutcomeOf(worker->id()),
              (WarmOutcome{.kind = WarmOutcome::Kind::kComputed, .block_count = kBlocks, .computed_tokens = kTokens}));
  }
  EXPECT_EQ(sim_.core.request_count(), 0U);
}

TEST_F(OrdersTest, WhatAWorkerHoldsIsNotComputedAgain) {
  ASSERT_TRUE(Warm(prompt_, {PinTarget::kNamedWorkers, {"b"}}).ok());
  sim_.Run();
  EXPECT_TRUE(a_.received().empty());
  const std::size_t pieces = b_.received().size();
  ASSERT_TRUE(Warm(prompt_).ok());
  sim_.Run();
  ASSERT_EQ(done_count_, 2);
  EXPECT_EQ(OutcomeOf("a").kind, WarmOutcome::Kind::kComputed);
  EXPECT_EQ(OutcomeOf("b"), (WarmOutcome{.kind = WarmOutcome::Kind::kHeld, .block_count = kBlocks}));
  EXPECT_EQ(b_.received().size(), pieces);
}

TEST_F(OrdersTest, OfAPrefixThatIsHeldOnlyTheRestIsComputed) {
  const std::vector<TokenId> front(prompt_.begin(), prompt_.begin() + kTokens / 2);
  ASSERT_TRUE(Warm(front).ok());
  sim_.Run();
  ASSERT_TRUE(Warm(prompt_).ok());
  sim_.Run();
  EXPECT_EQ(
      OutcomeOf("a"),
      (WarmOutcome{.kind = WarmOutcome::Kind::kComputed, .block_count = kBlocks, .computed_tokens = kTokens / 2}));
}

TEST_F(OrdersTest, AWorkerThatIsBusyWithAnotherPrefixRefuses) {
  ASSERT_TRUE(Warm(prompt_).ok());
  ASSERT_TRUE(Warm(MakePrompt(2, kTokens), {PinTarget::kNamedWorkers, {"a"}}).ok());
  sim_.CarryOutEffects();
  ASSERT_EQ(done_count_, 1);
  EXPECT_EQ(OutcomeOf("a").kind, WarmOutcome::Kind::kRefused);
  EXPECT_NE(OutcomeOf("a").reason, "");
}

TEST_F(OrdersTest, WhatAWorkerSaysAgainstAWarmUpIsTold) {
  a_.SetFull(true);
  ASSERT_TRUE(Warm(prompt_).ok());
  sim_.Run();
  ASSERT_EQ(done_count_, 1);
  EXPECT_EQ(OutcomeOf("a"), (WarmOutcome{.kind = WarmOutcome::Kind::kRefused, .reason = "queue is full"}));
  EXPECT_EQ(OutcomeOf("b").kind, WarmOutcome::Kind::kComputed);
}

TEST_F(OrdersTest, AWarmUpOfALostWorkerOrPastItsDeadlineHasNoAnswer) {
  ASSERT_TRUE(Warm(prompt_, {PinTarget::kNamedWorkers, {"a"}}).ok());
  sim_.Kill(a_);
  sim_.Advance(3s);
  ASSERT_EQ(done_count_, 1);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(answers_[0].reply));
  b_.SetHung(true);
  ASSERT_TRUE(Warm(prompt_, {PinTarget::kNamedWorkers, {"b"}}, 1s).ok());
  sim_.Advance(1500ms);
  ASSERT_EQ(done_count_, 2);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(answers_[0].reply));
}

TEST_F(OrdersTest, AWarmUpOfNoBlockIsRefused) {
  EXPECT_EQ(Warm({1, 2, 3}).error().field, "prompt");
  EXPECT_EQ(Warm(prompt_, {PinTarget::kNamedWorkers, {"c"}}).error().field, "workers");
}

TEST_F(OrdersTest, WhoStopsEndsWarmUps) {
  ASSERT_TRUE(Warm(prompt_).ok());
  sim_.CarryOutEffects();
  sim_.core.Shutdown();
  sim_.CarryOutEffects();
  ASSERT_EQ(done_count_, 1);
  EXPECT_EQ(OutcomeOf("a").kind, WarmOutcome::Kind::kRefused);
}

}  // namespace
}  // namespace roost::router

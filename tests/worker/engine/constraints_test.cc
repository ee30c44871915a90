// Requests under a constraint against a naive loop: logits from the definition, masked, and drawn one token at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_constrainer.h"
#include "tests/support/fake_model.h"
#include "worker/sample/sampler.h"

namespace roost::worker {
namespace {

using testing_support::EngineHarness;
using testing_support::FakeAutomaton;
using testing_support::FakeConstrainer;
using testing_support::FakeModel;
using testing_support::GreedyRequest;
using testing_support::kLink;
using wire::FinishReason;

constexpr TokenId kStop = 0;
constexpr std::uint32_t kVocab = 97;

struct Answer {
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::kLength;
};

// The right answer for choice `index` of a request, by the definition.
Answer Wanted(const wire::Generate& request, std::uint32_t index = 0) {
  const FakeModel model({});
  FakeAutomaton automaton(std::stoull(request.constraint->text), kVocab);
  std::vector<TokenId> text = request.prompt;
  kernels::SampleScratch scratch;
  Answer answer;
  std::vector<std::uint32_t> mask(MaskWords(kVocab));
  while (answer.tokens.size() < request.max_output_tokens) {
    automaton.FillMask(mask);
    const bool can_go_on = std::any_of(mask.begin(), mask.end(), [](std::uint32_t word) { return word != 0; });
    if (!can_go_on) return {answer.tokens, FinishReason::kStop};
    if (automaton.MayEnd() && !request.ignore_eos) mask[kStop / 32] |= 1U << kStop % 32;
    std::vector<float> logits = model.ReferenceLogits(text);
    for (TokenId token = 0; token < kVocab; ++token) {
      if ((mask[token / 32] >> token % 32 & 1U) == 0) logits[token] = -std::numeric_limits<float>::infinity();
    }
    kernels::SampleRow draw = DrawOf(request.sampling, answer.tokens.size());
    draw.seed += index;
    const TokenId token = kernels::SampleOnCpu(logits, draw, scratch).token;
    if (token == kStop) return {answer.tokens, FinishReason::kStop};
    EXPECT_TRUE(automaton.Accept(token));
    answer.tokens.push_back(token);
    text.push_back(token);
  }
  return answer;
}

wire::Generate Constrained(std::uint64_t id, std::uint64_t seed, std::uint32_t max_output_tokens = 60) {
  std::vector<TokenId> prompt;
  for (std::uint64_t i = 0; i < 5 + id % 40; ++i) prompt.push_back(static_cast<TokenId>(1 + Mix64(id * 100 + i) % 96));
  wire::Generate request = GreedyRequest(id, std::move(prompt), max_output_tokens);
  request.ignore_eos = false;
  request.constraint = wire::Constraint{
      .kind = wire::ConstraintKind::kJsonSchema, .text = std::to_string(seed), .field = "response_format"};
  return request;
}

class ConstraintsTest : public testing::TestWithParam<bool> {
 protected:
  void Make(FakeModel::Options model, EngineOptions options = {},
            FakeConstrainer::Pace pace = FakeConstrainer::Pace::kAtOnce) {
    harness_.reset();
    model.clock = &clock_;
    model_ = std::make_unique<FakeModel>(model);
    constrainer_ = std::make_unique<FakeConstrainer>(kVocab, pace);
    options.plan_ahead = GetParam();
    options.check_invariants = true;
    options.stop_tokens = {kStop};
    options.constrainer = constrainer_.get();
    harness_ = std::make_unique<EngineHarness>(*model_, clock_, std::move(options));
  }
  void ExpectWanted(const wire::Generate& request) {
    const auto& outcome = harness_->outcome(request.request_id.value());
    const Answer wanted = Wanted(request);
    EXPECT_EQ(outcome.tokens, wanted.tokens) << request.request_id.value();
    EXPECT_EQ(outcome.finish, wanted.finish) << request.request_id.value();
  }

  ManualClock clock_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<FakeConstrainer> constrainer_;
  std::unique_ptr<EngineHarness> harness_;
};

// Each reading of the clock is later than the previous one, as on a real machine.
class TickingClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const override { return Instant(std::chrono::microseconds(++looks_)); }

 private:
  mutable std::int64_t looks_ = 0;
};

TEST_P(ConstraintsTest, TimeGoesOnWhileARequestIsTakenIn) {
  const TickingClock clock;
  FakeModel model({});
  FakeConstrainer constrainer(kVocab, FakeConstrainer::Pace::kWhenReleased);
  EngineOptions options;
  options.plan_ahead = GetParam();
  options.stop_tokens = {kStop};
  options.constrainer = &constrainer;
  EngineHarness harness(model, clock, options);
  const wire::Generate request = Constrained(1, 4);
  ASSERT_TRUE(harness.Submit(request).ok());
  constrainer.Release();
  harness.Run();
  EXPECT_EQ(harness.outcome(1).tokens, Wanted(request).tokens);
}

TEST_P(ConstraintsTest, OutputsAreThoseOfMaskedDrawsOneAfterAnother) {
  Make({});
  for (std::uint64_t id = 1; id <= 40; ++id) {
    wire::Generate request = Constrained(id, id);
    if (id % 2 == 0) request.sampling = {.temperature = 1.2F, .top_k = id % 4 == 0 ? 20U : 0U, .seed = id};
    if (id % 5 == 0) request.ignore_eos = true;
    if (id % 7 == 0) request.max_output_tokens = 4;
    (void)harness_->Serve(request);
    ExpectWanted(request);
  }
}

// The pool is so small that some requests are preempted.
TEST_P(ConstraintsTest, NeitherTheBatchNorPreemptionChangesAnOutput) {
  Make({.block_tokens = 4, .block_count = 40}, {.max_batch_tokens = 64});
  std::vector<wire::Generate> requests;
  for (std::uint64_t id = 1; id <= 30; ++id) {
    requests.push_back(id % 3 == 0 ? GreedyRequest(id, {1, 2, static_cast<TokenId>(id)}, 30) : Constrained(id, id % 6));
    ASSERT_TRUE(harness_->Submit(requests.back()).ok());
    if (id % 4 == 0) harness_->Step();
  }
  harness_->Run();
  EXPECT_GT(harness_->totals().preemptions, 0U);
  for (const wire::Generate& request : requests) {
    if (request.constraint) ExpectWanted(request);
  }
}

TEST_P(ConstraintsTest, EachChoiceHasAnAutomatonOfItsOwn) {
  Make({});
  wire::Generate request = Constrained(1, 4);
  request.sampling = {.temperature = 1, .seed = 9};
  request.sample_count = 4;
  (void)harness_->Serve(request);
  for (std::uint32_t choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(harness_->choice(1, choice).tokens, Wanted(request, choice).tokens) << choice;
  }
}

// As after the loss of the worker that began the output.
TEST_P(ConstraintsTest, AContinuedOutputGoesOnWhereItStood) {
  Make({});
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const wire::Generate request = Constrained(seed, seed);
    const Answer whole = Wanted(request);
    for (std::uint32_t begun = 1; begun < whole.tokens.size(); begun += 3) {
      wire::Generate rest = request;
      rest.request_id = RequestId(seed * 1000 + begun);
      rest.prompt.insert(rest.prompt.end(), whole.tokens.begin(), whole.tokens.begin() + begun);
      rest.first_output_index = begun;
      rest.max_output_tokens -= begun;
      const auto outcome = harness_->Serve(rest);
      EXPECT_EQ(outcome.tokens, std::vector<TokenId>(whole.tokens.begin() + begun, whole.tokens.end()));
      EXPECT_EQ(outcome.finish, whole.finish);
    }
  }
}

TEST_P(ConstraintsTest, PenaltiesAndBiasesActBeforeTheMask) {
  Make({});
  wire::Generate request = Constrained(3, 8);
  request.sampling.frequency_penalty = 1;
  request.sampling.logit_bias = {{.token = 5, .bias = 100}};
  FakeAutomaton automaton(8, kVocab);
  for (const TokenId token : harness_->Serve(request).tokens) ASSERT_TRUE(automaton.Accept(token));
}

TEST_P(ConstraintsTest, ARequestWaitsForItsAutomatonAndOthersDoNot) {
  Make({}, {}, FakeConstrainer::Pace::kWhenReleased);
  const wire::Generate request = Constrained(1, 5);
  ASSERT_TRUE(harness_->Submit(request).ok());
  EXPECT_FALSE(harness_->engine().HasWork());
  EXPECT_EQ(harness_->Submit(request).error().field, "request_id");
  EXPECT_EQ(harness_->Serve(GreedyRequest(2, {1, 2, 3}, 5)).tokens.size(), 5U);
  EXPECT_EQ(harness_->outcome(1).event_count, 0U);
  constrainer_->Release();
  EXPECT_TRUE(harness_->engine().HasWork());
  harness_->Run();
  ExpectWanted(request);
}

TEST_P(ConstraintsTest, WhoWaitsForAnAutomatonCanBeCancelled) {
  Make({}, {}, FakeConstrainer::Pace::kWhenReleased);
  ASSERT_TRUE(harness_->Submit(Constrained(1, 5)).ok());
  ASSERT_TRUE(harness_->Submit(Constrained(2, 5)).ok());
  harness_->engine().Cancel({kLink, RequestId(1)});
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).finish, FinishReason::kCancelled);
  EXPECT_EQ(constrainer_->job_count(), 1U);
  harness_->engine().CancelLink(kLink);
  EXPECT_EQ(constrainer_->job_count(), 0U);
  EXPECT_FALSE(harness_->engine().HasWork());
}

TEST_P(ConstraintsTest, TheDeadlineCountsWhileAGrammarIsCompiled) {
  Make({}, {}, FakeConstrainer::Pace::kWhenReleased);
  wire::Generate request = Constrained(1, 5);
  request.deadline_ms = 100;
  ASSERT_TRUE(harness_->Submit(request).ok());
  clock_.Advance(std::chrono::milliseconds(99));
  EXPECT_FALSE(harness_->engine().HasWork());
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(harness_->engine().HasWork());
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).error->code, ErrorCode::kDeadlineExceeded);
}

TEST_P(ConstraintsTest, AConstraintThatCanNotBeHeldToEndsItsRequest) {
  Make({});
  wire::Generate request = Constrained(1, 5);
  request.constraint->text = "bad";
  const auto outcome = harness_->Serve(request);
  EXPECT_EQ(outcome.finish, FinishReason::kError);
  EXPECT_EQ(outcome.error->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(outcome.error->field, "response_format");
}

// The automaton allows one token, which ends the output as a stop token of the request, and is forbidden until the
// output has two tokens.
TEST_P(ConstraintsTest, ARequestThatForbidsEveryTokenIsAtFaultItself) {
  Make({});
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    wire::Generate request = Constrained(seed, seed);
    FakeAutomaton automaton(seed, kVocab);
    std::vector<std::uint32_t> mask(MaskWords(kVocab));
    automaton.FillMask(mask);
    for (TokenId token = 0; token < kVocab; ++token) {
      if ((mask[token / 32] >> token % 32 & 1U) != 0) request.stop_tokens.push_back(token);
    }
    request.min_output_tokens = 2;
    const auto outcome = harness_->Serve(request);
    ASSERT_EQ(outcome.finish, FinishReason::kError);
    EXPECT_EQ(outcome.error->code, ErrorCode::kInvalidArgument) << outcome.error->ToString();
    EXPECT_EQ(outcome.error->field, "response_format");
    ++refused;
  }
  EXPECT_EQ(refused, 60);
}

// A token that is the only allowed one has a log probability too.
TEST_P(ConstraintsTest, EveryTokenHasItsLogProbability) {
  Make({});
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    wire::Generate request = Constrained(seed, seed);
    request.output_logprobs = 3;
    const auto outcome = harness_->Serve(request);
    ExpectWanted(request);
    EXPECT_EQ(outcome.logprobs.size(), outcome.tokens.size());
  }
}

TEST_P(ConstraintsTest, MoreThanMayWaitAreRefused) {
  Make({}, {.max_waiting_requests = 2}, FakeConstrainer::Pace::kWhenReleased);
  ASSERT_TRUE(harness_->Submit(Constrained(1, 5)).ok());
  ASSERT_TRUE(harness_->Submit(Constrained(2, 5)).ok());
  EXPECT_EQ(harness_->Submit(Constrained(3, 5)).error().code, ErrorCode::kOverloaded);
}

INSTANTIATE_TEST_SUITE_P(Planning, ConstraintsTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Ahead" : "InTurn"; });

// A token that is the only allowed one takes no step of its own.
TEST(ConstraintsInTurnTest, ForcedTokensComeTogether) {
  const ManualClock clock;
  FakeModel model({});
  FakeConstrainer constrainer(kVocab);
  EngineOptions options;
  options.stop_tokens = {kStop};
  options.constrainer = &constrainer;
  EngineHarness harness(model, clock, std::move(options));
  std::size_t tokens = 0;
  std::size_t events = 0;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    const auto outcome = harness.Serve(Constrained(id, id));
    tokens += outcome.tokens.size();
    events += outcome.event_count;
  }
  EXPECT_LT(events + tokens / 5, tokens);
}

TEST(ConstraintsInTurnTest, WithoutAConstrainerTheyAreRefused) {
  const ManualClock clock;
  FakeModel model({});
  EngineHarness harness(model, clock, {});
  EXPECT_EQ(harness.Submit(Constrained(1, 1)).error().field, "response_format");
}

}  // namespace
}  // namespace roost::worker

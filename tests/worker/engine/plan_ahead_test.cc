// Steps that are planned while the previous one is computed: the order of calls to the model, and what happens to
// requests that end meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "tests/support/engine_harness.h"
#include "tests/support/fake_model.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing_support::EngineHarness;
using testing_support::FakeModel;
using testing_support::GreedyRequest;
using testing_support::kLink;
using wire::FinishReason;

// Records its calls: "begin" and "end" of steps.
class ListeningModel final : public Model {
 public:
  explicit ListeningModel(FakeModel::Options options) : model_(std::move(options)) {}

  [[nodiscard]] const ModelShape& shape() const override { return model_.shape(); }
  [[nodiscard]] std::uint32_t block_tokens() const override { return model_.block_tokens(); }
  [[nodiscard]] std::uint32_t block_count() const override { return model_.block_count(); }
  void Compute(const Batch& batch, const Draws& draws) override {
    calls_.emplace_back("begin");
    model_.Compute(batch, draws);
  }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override {
    calls_.emplace_back("end");
    return model_.AwaitSampled();
  }
  [[nodiscard]] Scores AwaitedScores() const override { return model_.AwaitedScores(); }
  [[nodiscard]] std::span<const float> Logits() override { return model_.Logits(); }

  [[nodiscard]] FakeModel& fake() { return model_; }
  // The calls since the last TakeCalls.
  [[nodiscard]] std::vector<std::string> TakeCalls() { return std::exchange(calls_, {}); }

 private:
  FakeModel model_;
  std::vector<std::string> calls_;
};

class PlanAheadTest : public testing::Test {
 protected:
  void SetUp() override { Make({}); }

  void Make(FakeModel::Options model, EngineOptions options = {}) {
    harness_.reset();
    model.clock = &clock_;
    model_ = std::make_unique<ListeningModel>(model);
    options.plan_ahead = true;
    options.check_invariants = true;
    harness_ = std::make_unique<EngineHarness>(*model_, clock_, std::move(options));
  }

  // The calls in the first steps of a request, which is served to its end.
  std::vector<std::string> CallsOf(const wire::Generate& request, int step_count) {
    EXPECT_TRUE(harness_->Submit(request).ok());
    for (int step = 0; step < step_count; ++step) harness_->Step();
    std::vector<std::string> calls = model_->TakeCalls();
    harness_->Run();
    return calls;
  }

  // The answer of an engine without plan_ahead.
  std::vector<TokenId> Wanted(wire::Generate request) const {
    const ManualClock clock;
    FakeModel model({});
    EngineHarness harness(model, clock, {});
    return harness.Serve(std::move(request)).tokens;
  }

  ManualClock clock_;
  std::unique_ptr<ListeningModel> model_;
  std::unique_ptr<EngineHarness> harness_;
};

const std::vector<TokenId> kPrompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

TEST_F(PlanAheadTest, TheNextStepBeginsBeforeTheTokensOfTheOneBeforeAreAskedFor) {
  ASSERT_TRUE(harness_->Submit(GreedyRequest(1, kPrompt, 3)).ok());
  EXPECT_TRUE(harness_->Step().tokens.empty());
  EXPECT_THAT(model_->TakeCalls(), ElementsAre("begin"));
  EXPECT_EQ(harness_->Step().tokens.size(), 1U);
  EXPECT_THAT(model_->TakeCalls(), ElementsAre("begin", "end"));
  EXPECT_EQ(harness_->Step().tokens.size(), 1U);
  EXPECT_THAT(model_->TakeCalls(), ElementsAre("begin", "end"));
  EXPECT_EQ(harness_->Step().tokens.size(), 1U);
  EXPECT_THAT(model_->TakeCalls(), ElementsAre("end"));  // no fourth token was requested
  EXPECT_FALSE(harness_->engine().HasWork());
  EXPECT_EQ(harness_->outcome(1).tokens, Wanted(GreedyRequest(1, kPrompt, 3)));
  EXPECT_EQ(model_->fake().computed_token_count(), kPrompt.size() + 2);
}

TEST_F(PlanAheadTest, AStopTokenEndsARequestWhoseNextStepHasBegun) {
  const std::vector<TokenId> tokens = Wanted(GreedyRequest(1, kPrompt, 8));
  wire::Generate request = GreedyRequest(1, kPrompt, 8);
  request.stop_tokens = {tokens[3]};
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[3]) - tokens.begin();
  const auto outcome = harness_->Serve(request);
  EXPECT_EQ(outcome.finish, FinishReason::kStop);
  EXPECT_EQ(outcome.tokens, std::vector<TokenId>(tokens.begin(), tokens.begin() + first));
  // Includes the stop token itself, which was computed although it is not needed.
  EXPECT_EQ(model_->fake().computed_token_count(), kPrompt.size() + static_cast<std::size_t>(first) + 1);
}

TEST_F(PlanAheadTest, ACancelledRequestLeavesNothingBehind) {
  ASSERT_TRUE(harness_->Submit(GreedyRequest(1, kPrompt, 8)).ok());
  ASSERT_TRUE(harness_->Submit(GreedyRequest(2, {3, 4, 5}, 8)).ok());
  harness_->Step();
  harness_->Step();
  harness_->engine().Cancel({kLink, RequestId(1)});
  harness_->Run();
  EXPECT_EQ(harness_->outcome(1).finish, FinishReason::kCancelled);
  EXPECT_EQ(harness_->outcome(2).tokens, Wanted(GreedyRequest(2, {3, 4, 5}, 8)));
}

TEST_F(PlanAheadTest, AStepOfWhichAllRequestsAreGoneIsTakenAllTheSame) {
  ASSERT_TRUE(harness_->Submit(GreedyRequest(1, kPrompt, 8)).ok());
  harness_->Step();
  harness_->engine().CancelLink(kLink);
  EXPECT_TRUE(harness_->engine().HasWork());
  EXPECT_TRUE(harness_->Step().tokens.empty());
  EXPECT_THAT(model_->TakeCalls(), ElementsAre("begin", "end"));
  EXPECT_FALSE(harness_->engine().HasWork());
}

// Without penalties the answer is different.
TEST_F(PlanAheadTest, PenaltiesCountTheTokenThatIsStillBeingDrawn) {
  wire::Generate request = GreedyRequest(1, kPrompt, 12);
  request.sampling.frequency_penalty = 1.5F;
  request.sampling.presence_penalty = 0.5F;
  request.sampling.repetition_penalty = 1.5F;
  EXPECT_THAT(CallsOf(request, 3), ElementsAre("begin", "begin", "end", "begin", "end"));
  EXPECT_EQ(harness_->outcome(1).tokens, Wanted(request));
  EXPECT_NE(harness_->outcome(1).tokens, Wanted(GreedyRequest(1, kPrompt, 12)));
}

// Some requests have penalties, some several choices, and they arrive one after another. The model always has a step to
// compute between the first request and the last.
TEST_F(PlanAheadTest, NoStepWaitsForTokensWhateverRequestsWant) {
  std::vector<wire::Generate> requests;
  for (std::uint64_t id = 1; id <= 8; ++id) {
    requests.push_back(GreedyRequest(id, {static_cast<TokenId>(id), 2, 3, 4, 5}, 20));
    if (id % 4 == 1) requests.back().sampling.frequency_penalty = 0.5F;
    if (id % 4 == 2) requests.back().sample_count = 3;
    ASSERT_TRUE(harness_->Submit(requests.back()).ok());
    harness_->Step();
  }
  harness_->Run();
  const std::vector<std::string> calls = model_->TakeCalls();
  int under_way = 0;
  int waits = 0;
  for (std::size_t i = 0; i + 1 < calls.size(); ++i) {
    under_way += calls[i] == "begin" ? 1 : -1;
    waits += under_way == 0 ? 1 : 0;
  }
  EXPECT_GT(calls.size(), 50U);
  EXPECT_EQ(waits, 0);
  for (const wire::Generate& request : requests) {
    const std::uint64_t id = request.request_id.value();
    EXPECT_EQ(harness_->outcome(id).tokens, Wanted(request)) << id;
  }
}

TEST_F(PlanAheadTest, ABiasAloneDependsOnNothing) {
  wire::Generate request = GreedyRequest(1, kPrompt, 3);
  request.sampling.logit_bias = {{.token = 5, .bias = 2}};
  EXPECT_THAT(CallsOf(request, 2), ElementsAre("begin", "begin", "end"));
  EXPECT_EQ(harness_->outcome(1).tokens, Wanted(request));
}

TEST_F(PlanAheadTest, ChoicesBeginBeforeTheirFirstTokensAreKnown) {
  wire::Generate request = GreedyRequest(1, kPrompt, 4);
  request.sample_count = 3;
  request.sampling = {.temperature = 1, .seed = 5};
  EXPECT_THAT(CallsOf(request, 3), ElementsAre("begin", "begin", "end", "begin", "end"));
  for (std::uint32_t choice = 0; choice < 3; ++choice) {
    wire::Generate alone = GreedyRequest(1, kPrompt, 4);
    alone.sampling = {.temperature = 1, .seed = 5 + choice};
    EXPECT_EQ(harness_->choice(1, choice).tokens, Wanted(alone));
  }
}

TEST_F(PlanAheadTest, BrokenLogitsEndARequestWhoseNextStepHasBegun) {
  const std::vector<TokenId> tokens = Wanted(GreedyRequest(1, kPrompt, 8));
  Make({.poison_token = tokens[2]});
  const auto outcome = harness_->Serve(GreedyRequest(1, kPrompt, 8));
  EXPECT_EQ(outcome.finish, FinishReason::kError);
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[2]);
  EXPECT_EQ(outcome.tokens, std::vector<TokenId>(tokens.begin(), first + 1));
}

TEST_F(PlanAheadTest, ADeadlineEndsARequestWhoseNextStepHasBegun) {
  wire::Generate request = GreedyRequest(1, kPrompt, 20);
  request.deadline_ms = 45;  // a step takes 10
  const auto outcome = harness_->Serve(request);
  ASSERT_EQ(outcome.finish, FinishReason::kError);
  EXPECT_EQ(outcome.error->code, ErrorCode::kDeadlineExceeded);
  const std::vector<TokenId> tokens = Wanted(request);
  ASSERT_LT(outcome.tokens.size(), 6U);
  EXPECT_TRUE(std::equal(outcome.tokens.begin(), outcome.tokens.end(), tokens.begin()));
}

// When the broken logits are known, the requests that continued from the broken request's blocks have begun their own
// steps.
TEST_F(PlanAheadTest, BrokenLogitsLeaveNoBlocksBehind) {
  constexpr TokenId kPoison = 11;
  Make({.vocab_size = 12, .poison_token = kPoison});
  std::vector<TokenId> prompt(40, 3);
  prompt.push_back(kPoison);
  ASSERT_TRUE(harness_->Submit(GreedyRequest(1, prompt, 8)).ok());
  harness_->Step();
  for (std::uint64_t id = 2; id <= 4; ++id) {
    ASSERT_TRUE(harness_->Submit(GreedyRequest(id, prompt, 8)).ok());
  }
  harness_->Run();
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(harness_->outcome(id).finish, FinishReason::kError) << id;
  EXPECT_EQ(harness_->totals().wrong_hits, 0U) << "they are broken without the blocks that they found, too";
  EXPECT_TRUE(harness_->resident().empty());
  EXPECT_EQ(harness_->Step().free_blocks, model_->block_count());
}

TEST_F(PlanAheadTest, ARequestBehindBrokenBlocksIsComputedAgainWhileItsNextStepHasBegun) {
  wire::Generate request = GreedyRequest(1, std::vector<TokenId>(40, 3), 20);
  const std::vector<TokenId> tokens = Wanted(request);
  EXPECT_EQ(harness_->Serve(request).tokens, tokens);
  for (const std::uint64_t steps : {0U, 1U, 2U, 9U}) {
    request.request_id = RequestId(10 + steps);
    ASSERT_TRUE(harness_->Submit(request).ok());
    for (std::uint64_t i = 0; i < steps; ++i) harness_->Step();
    model_->fake().BreakKv();
    harness_->Run();
    EXPECT_EQ(harness_->outcome(10 + steps).tokens, tokens) << steps;
  }
  EXPECT_EQ(harness_->totals().wrong_hits, 4U);
}

// The reported step time, used for fitting rates, counts from the end of the previous step, not from the step's own
// beginning.
TEST_F(PlanAheadTest, StepsAreTimedFromTheEndOfTheOneBefore) {
  const Instant begin = clock_.Now();
  ASSERT_TRUE(harness_->Submit(GreedyRequest(1, kPrompt, 4)).ok());
  StepReport report = harness_->Step();
  EXPECT_EQ(report.load.step_seconds, 0);
  EXPECT_EQ(report.load.step_prefill_tokens, 0U);
  report = harness_->Step();
  EXPECT_EQ(report.load.step_prefill_tokens, kPrompt.size());
  EXPECT_EQ(report.load.step_decode_tokens, 0U);
  double seconds = report.load.step_seconds;
  while (harness_->engine().HasWork()) {
    report = harness_->Step();
    EXPECT_EQ(report.load.step_decode_tokens, 1U);
    seconds += report.load.step_seconds;
  }
  EXPECT_NEAR(seconds, ToSeconds(clock_.Now() - begin), 1e-9);
}

TEST_F(PlanAheadTest, HitsCanNotBeVerifiedMeanwhile) {
  const auto make = [this] { Make({}, {.verify_hits_share = 0.5}); };
  EXPECT_DEATH(make(), "verify_hits_share");
}

}  // namespace
}  // namespace roost::worker

#include "worker/engine/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <utility>

#include "common/base/clock.h"
#include "tests/support/fake_constrainer.h"
#include "tests/support/fake_model.h"

namespace roost::worker {
namespace {

constexpr std::chrono::seconds kPatience{20};

// Counts steps, so that a test can wait for one, and makes one step wait for the test.
class CountingModel final : public Model {
 public:
  [[nodiscard]] const ModelShape& shape() const override { return model_.shape(); }
  [[nodiscard]] std::uint32_t block_tokens() const override { return model_.block_tokens(); }
  [[nodiscard]] std::uint32_t block_count() const override { return model_.block_count(); }
  void Compute(const Batch& batch, const Draws& draws) override {
    if (pulse_) pulse_();
    if (++forward_count == waiting_forward_) gate_.wait();
    model_.Compute(batch, draws);
  }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override { return model_.AwaitSampled(); }
  [[nodiscard]] Scores AwaitedScores() const override { return model_.AwaitedScores(); }
  [[nodiscard]] std::span<const float> Logits() override { return model_.Logits(); }
  void SetPulse(std::function<void()> pulse) override { pulse_ = std::move(pulse); }
  // Call it before the thread starts: forward number `forward` waits for `gate`.
  void WaitIn(std::size_t forward, std::shared_future<void> gate) {
    waiting_forward_ = forward;
    gate_ = std::move(gate);
  }

  std::atomic<std::size_t> forward_count{0};

 private:
  std::size_t waiting_forward_ = 0;
  std::shared_future<void> gate_;
  std::function<void()> pulse_;
  testing_support::FakeModel model_{testing_support::FakeModel::Options{}};
};

class EngineThreadTest : public ::testing::Test {
 protected:
  static EngineCommand Request(std::uint64_t id, std::uint32_t output_tokens) {
    wire::Generate generate;
    generate.request_id = RequestId(id);
    generate.prompt = {1, 2, 3};
    generate.max_output_tokens = output_tokens;
    return SubmitCommand{LinkId(1), std::move(generate)};
  }

  bool WaitUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      if (done()) return true;
      wire::WaitForMessages({}, waker_, std::chrono::milliseconds(1));
    }
    return false;
  }

  // Waits for the next output. Returns a StepReport if none comes.
  EngineOutput NextOutput() {
    std::optional<EngineOutput> output;
    EXPECT_TRUE(WaitUntil([&] { return (output = thread_.TryTake()).has_value(); }));
    return output ? *std::move(output) : EngineOutput();
  }

  SteadyClock clock_;
  wire::Waker waker_;
  CountingModel model_;
  Engine engine_{model_, clock_, EngineOptions{}};
  EngineThread thread_{engine_, clock_, waker_};
};

TEST_F(EngineThreadTest, ReportsEachStepAndThenWaits) {
  thread_.Start();
  ASSERT_TRUE(thread_.TryPost(Request(1, 3)));
  std::size_t tokens = 0;
  for (bool finished = false; !finished && !HasFailure();) {
    const EngineOutput output = NextOutput();
    for (const RequestEvent& event : std::get<StepReport>(output).tokens) {
      tokens += event.event.tokens.size();
      finished = event.event.finish.has_value();
    }
  }
  EXPECT_EQ(tokens, 3U);
  EXPECT_EQ(model_.forward_count, 3U);
}

TEST_F(EngineThreadTest, TellsOfThePartsOfAStepBeforeItEnds) {
  std::promise<void> gate;
  model_.WaitIn(1, gate.get_future().share());
  thread_.Start();
  EXPECT_EQ(thread_.stall_watch().parts().count, 0U);
  ASSERT_TRUE(thread_.TryPost(Request(1, 1)));
  EXPECT_TRUE(WaitUntil([&] { return thread_.stall_watch().parts().count == 1; }));
  EXPECT_FALSE(thread_.TryTake().has_value());
  gate.set_value();
  (void)NextOutput();
}

TEST_F(EngineThreadTest, AnswersARequestThatTheEngineRefuses) {
  thread_.Start();
  ASSERT_TRUE(thread_.TryPost(Request(1, 0)));
  const EngineOutput output = NextOutput();
  const auto& tokens = std::get<StepReport>(output).tokens;
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens[0].link, LinkId(1));
  EXPECT_EQ(tokens[0].event.request_id, RequestId(1));
  EXPECT_EQ(tokens[0].event.finish, wire::FinishReason::kError);
  EXPECT_EQ(tokens[0].event.error->code, ErrorCode::kInvalidArgument);
}

// Otherwise a router takes it for hung: it has a request and does not get on.
TEST(EngineThreadConstraintsTest, ReportsWhileARequestWaitsForItsGrammar) {
  const SteadyClock clock;
  wire::Waker waker;
  testing_support::FakeModel model{testing_support::FakeModel::Options{}};
  testing_support::FakeConstrainer constrainer(model.shape().vocab_size,
                                               testing_support::FakeConstrainer::Pace::kWhenReleased);
  EngineOptions options;
  options.constrainer = &constrainer;
  Engine engine(model, clock, options);
  EngineThread thread(engine, clock, waker);
  thread.Start();
  wire::Generate request;
  request.request_id = RequestId(1);
  request.prompt = {1, 2, 3};
  request.max_output_tokens = 3;
  request.constraint = wire::Constraint{.kind = wire::ConstraintKind::kRegex, .text = "1", .field = "f"};
  ASSERT_TRUE(thread.TryPost(SubmitCommand{LinkId(1), std::move(request)}));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int reports = 0;
  while (reports < 2 && std::chrono::steady_clock::now() < deadline) {
    wire::WaitForMessages({}, waker, std::chrono::milliseconds(1));
    const std::optional<EngineOutput> output = thread.TryTake();
    if (!output) continue;
    const auto& report = std::get<StepReport>(*output);
    EXPECT_TRUE(report.made_progress && report.tokens.empty());
    ++reports;
  }
  EXPECT_EQ(reports, 2);
}

TEST_F(EngineThreadTest, SnapshotFollowsTheReportThatItFits) {
  thread_.Start();
  ASSERT_TRUE(thread_.TryPost(SnapshotCommand{}));
  EXPECT_TRUE(std::holds_alternative<StepReport>(NextOutput()));
  EXPECT_TRUE(std::holds_alternative<EngineSnapshot>(NextOutput()));
}

// The snapshot is not lost with the reports around it, and no report comes between it and the report that it matches.
TEST_F(EngineThreadTest, SnapshotWaitsForRoom) {
  constexpr std::size_t kSteps = kOutboxCapacity - 1;
  std::promise<void> gate;
  model_.WaitIn(kSteps, gate.get_future().share());
  thread_.Start();
  ASSERT_TRUE(thread_.TryPost(Request(1, kSteps)));
  ASSERT_TRUE(WaitUntil([this] { return model_.forward_count == kSteps; }));
  // Both commands are there before the next step, whose report takes the last space.
  ASSERT_TRUE(thread_.TryPost(SnapshotCommand{}));
  ASSERT_TRUE(thread_.TryPost(Request(2, 2)));
  gate.set_value();
  ASSERT_TRUE(WaitUntil([this] { return model_.forward_count == kSteps + 2; }));
  BlockHash told;
  EngineOutput output = NextOutput();
  for (; !std::holds_alternative<EngineSnapshot>(output) && !HasFailure(); output = NextOutput()) {
    if (const auto* const report = std::get_if<StepReport>(&output)) told = report->load.digest;
  }
  ASSERT_FALSE(HasFailure());
  BlockHash held;
  for (const wire::StoredRun& run : std::get<EngineSnapshot>(output).runs) {
    for (const BlockHash hash : run.hashes) held = held ^ hash;
  }
  EXPECT_EQ(held, told);
  EXPECT_NE(held, BlockHash());
}

TEST_F(EngineThreadTest, AnEndedLinkIsSeenInTheLoadOfAnIdleEngineToo) {
  thread_.Start();
  ASSERT_TRUE(thread_.TryPost(Request(1, 1000)));
  EXPECT_EQ(std::get<StepReport>(NextOutput()).load.running_requests, 1U);
  ASSERT_TRUE(thread_.TryPost(CancelLinkCommand{LinkId(1)}));
  while (std::get<StepReport>(NextOutput()).load.running_requests > 0 && !HasFailure()) {
  }
}

TEST_F(EngineThreadTest, PinsAreReportedByAnIdleEngineToo) {
  thread_.Start();
  ASSERT_TRUE(thread_.TryPost(OrderCommand{LinkId(1), wire::Pin{{1, 2}, {{3, 4}}, 0}}));
  EXPECT_TRUE(std::holds_alternative<StepReport>(NextOutput()));
  ASSERT_TRUE(thread_.TryPost(OrderCommand{LinkId(1), wire::Unpin{{1, 2}, {{3, 4}}}}));
  EXPECT_TRUE(std::holds_alternative<StepReport>(NextOutput()));
}

TEST_F(EngineThreadTest, AnswersFollowTheReportOfWhatTheyAnswer) {
  thread_.Start();
  ASSERT_TRUE(thread_.TryPost(OrderCommand{LinkId(3), wire::Pin{{1, 2}, {{3, 4}, {5, 6}}, 0, 9}}));
  EXPECT_TRUE(std::holds_alternative<StepReport>(NextOutput()));
  const auto pinned = std::get<EngineAnswer>(NextOutput());
  EXPECT_EQ(pinned.link, LinkId(3));
  EXPECT_EQ(std::get<wire::PinAnswer>(pinned.answer), (wire::PinAnswer{9, 0, 2, 0}));
  ASSERT_TRUE(thread_.TryPost(OrderCommand{LinkId(3), wire::Unpin{{1, 2}, {{3, 4}}, 10}}));
  EXPECT_TRUE(std::holds_alternative<StepReport>(NextOutput()));
  EXPECT_EQ(std::get<wire::PinAnswer>(std::get<EngineAnswer>(NextOutput()).answer), (wire::PinAnswer{10, 0, 0, 1}));
  ASSERT_TRUE(thread_.TryPost(OrderCommand{LinkId(4), wire::WantPrefixes{11, 5, wire::PrefixTokens::kOmit}}));
  EXPECT_TRUE(std::holds_alternative<StepReport>(NextOutput()));
  EXPECT_EQ(std::get<wire::Prefixes>(std::get<EngineAnswer>(NextOutput()).answer), (wire::Prefixes{11, {}}));
}

TEST_F(EngineThreadTest, AnEvictionIsAnsweredAfterTheReportOfItsLastStep) {
  thread_.Start();
  ASSERT_TRUE(thread_.TryPost(OrderCommand{LinkId(3), wire::Evict{wire::PromptToEvict{{1, 2}, {5, 6, 7}, {}}, 9}}));
  EXPECT_TRUE(std::holds_alternative<StepReport>(NextOutput()));
  const auto answer = std::get<EngineAnswer>(NextOutput());
  EXPECT_EQ(answer.link, LinkId(3));
  EXPECT_EQ(std::get<wire::EvictAnswer>(answer.answer), wire::EvictAnswer{.answer_id = 9});
}

TEST_F(EngineThreadTest, NeverWaitsForAReaderAndSaysWhatWasLost) {
  thread_.Start();
  // The engine has nothing more to report when the reader comes back.
  constexpr std::size_t kSteps = kOutboxCapacity + 100;
  ASSERT_TRUE(thread_.TryPost(Request(1, kSteps)));
  ASSERT_TRUE(WaitUntil([this] { return model_.forward_count == kSteps; }));
  for (std::size_t i = 0; i < kOutboxCapacity; ++i) {
    ASSERT_TRUE(std::holds_alternative<StepReport>(NextOutput())) << i;
  }
  EXPECT_TRUE(std::holds_alternative<OutputLost>(NextOutput()));
}

TEST_F(EngineThreadTest, FullInboxRefuses) {
  std::size_t taken = 0;
  while (thread_.HasRoomForRequest() && taken < kInboxCapacity) {
    ASSERT_TRUE(thread_.TryPost(Request(++taken, 1)));
  }
  EXPECT_EQ(taken, kInboxRequestLimit);
  // Cancels still fit.
  EXPECT_TRUE(thread_.TryPost(CancelLinkCommand{LinkId(1)}));
}

}  // namespace
}  // namespace roost::worker

// A request's output does not depend on what the engine does around it: the tokens, and the log probabilities that some
// requests want, are the same bit for bit when it runs cold, warm, batched, chunked, in another order, with other
// blocks, in a pool so small that requests are preempted, planned ahead or not. The suite works with any model: a test
// program includes this file and instantiates it with a factory. Where rounding depends on the batch, log probabilities
// are the same up to a tolerance, and greedy tokens are until one is not clear.
//
//   INSTANTIATE_TEST_SUITE_P(FakeModel, DeterminismTest, testing::Values(DeterminismSubject{…}), SubjectName());
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "tests/support/engine_harness.h"
#include "tests/support/local_source.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::testing_support {

struct BlockShape {
  std::uint32_t block_tokens = 16;
  std::uint32_t block_count = 0;
};

struct DeterminismSubject {
  std::string name;
  std::function<std::unique_ptr<worker::Model>(BlockShape)> make;
  std::uint32_t vocab_size = 0;     // vocabulary of the prompts
  std::size_t request_count = 200;  // fewer for a slow model
  std::uint32_t max_prompt_tokens = 200;
  std::uint32_t max_output_tokens = 24;
  bool check_invariants = false;  // and poisons blocks
  bool plan_ahead = false;
  std::optional<float> tolerance = std::nullopt;  // of log probabilities; none: bit for bit
  std::uint32_t fewest_block_tokens = 4;
};

inline void PrintTo(const DeterminismSubject& subject, std::ostream* out) { *out << subject.name; }

struct SubjectName {
  std::string operator()(const testing::TestParamInfo<DeterminismSubject>& info) const { return info.param.name; }
};

class DeterminismTest : public testing::TestWithParam<DeterminismSubject> {
 protected:
  struct Output {
    std::vector<TokenId> tokens;
    std::vector<wire::TokenLogprobs> logprobs;
    std::vector<wire::TokenLogprobs> prompt_logprobs;

    bool operator==(const Output&) const = default;
  };
  static Output OutputOf(const EngineHarness::Outcome& outcome) {
    return {outcome.tokens, outcome.logprobs, outcome.prompt_logprobs};
  }
  using Outputs = std::vector<Output>;

  // With a tolerance, tokens that come after one that was not clear are not compared.
  [[nodiscard]] testing::AssertionResult Agree(const Output& output, const Output& wanted) {
    if (!GetParam().tolerance) return output == wanted ? testing::AssertionSuccess() : testing::AssertionFailure();
    const float tolerance = *GetParam().tolerance;
    wanted_count_ += wanted.tokens.size();
    if (output.tokens.size() != wanted.tokens.size()) return testing::AssertionFailure() << "another length";
    for (std::size_t i = 0; i < wanted.prompt_logprobs.size(); ++i) {
      const float difference = std::abs(output.prompt_logprobs.at(i).logprob - wanted.prompt_logprobs[i].logprob);
      if (difference > tolerance)
        return testing::AssertionFailure() << difference << " at token " << i << " of the prompt";
    }
    for (std::size_t i = 0; i < wanted.tokens.size(); ++i, ++compared_count_) {
      const std::vector<wire::TokenLogprob>& likeliest = wanted.logprobs[i].top;
      const float lead = likeliest[0].logprob - likeliest[1].logprob;
      const float difference = std::abs(output.logprobs[i].logprob - wanted.logprobs[i].logprob);
      if (output.tokens[i] == wanted.tokens[i] && difference <= tolerance) continue;
      if (output.tokens[i] != wanted.tokens[i] && lead <= tolerance) break;
      return testing::AssertionFailure() << "token " << i << ", " << output.tokens[i] << " in place of "
                                         << wanted.tokens[i] << " with a lead of " << lead << ", differs by "
                                         << difference << ", tolerance " << tolerance;
    }
    return testing::AssertionSuccess();
  }
  void TearDown() override {
    if (GetParam().tolerance) {
      EXPECT_GT(compared_count_, wanted_count_ * 9 / 10) << "of " << wanted_count_ << " tokens";
    }
  }

  void SetUp() override {
    MakeRequests();
    // The reference: one request after another, each in its own scope, so that nothing is cached.
    worker::EngineOptions options = Wide();
    options.max_running_requests = 1;
    options.plan_ahead = false;
    std::vector<wire::Generate> alone = requests_;
    for (std::size_t i = 0; i < alone.size(); ++i) alone[i].root = BlockHash{77, i};
    reference_ = Run(options, {16, AmpleBlocks(16)}, alone).outputs;
    ASSERT_EQ(reference_.size(), requests_.size());
  }

  static worker::EngineOptions Wide() {
    return {.max_batch_tokens = 4096,
            .max_running_requests = 64,
            .max_waiting_requests = 4096,
            .check_invariants = GetParam().check_invariants,
            .plan_ahead = GetParam().plan_ahead};
  }

  [[nodiscard]] std::uint32_t max_tokens() const { return GetParam().max_prompt_tokens + GetParam().max_output_tokens; }
  // The fewest blocks that hold the longest request.
  [[nodiscard]] std::uint32_t FewestBlocks(std::uint32_t block_tokens) const {
    return (max_tokens() + block_tokens - 1) / block_tokens;
  }
  // Enough blocks to keep everything cached.
  [[nodiscard]] std::uint32_t AmpleBlocks(std::uint32_t block_tokens) const {
    return FewestBlocks(block_tokens) * static_cast<std::uint32_t>(requests_.size());
  }

  struct RunResult {
    Outputs outputs;
    worker::StepCounts totals;
  };

  // Runs the requests together. A step runs every few submissions, so that requests are in all phases at once.
  RunResult Run(worker::EngineOptions options, BlockShape shape, const std::vector<wire::Generate>& requests) {
    const ManualClock clock;
    const std::unique_ptr<worker::Model> model = GetParam().make(shape);
    EngineHarness harness(*model, clock, std::move(options));
    Rng rng(3);
    for (const wire::Generate& request : requests) {
      EXPECT_TRUE(harness.Submit(request).ok());
      if (rng.Below(3) == 0) harness.Step();
    }
    harness.Run();
    RunResult result{Outputs(requests.size()), harness.totals()};
    for (const auto& [key, outcome] : harness.outcomes()) {
      EXPECT_EQ(outcome.finish, wire::FinishReason::kLength);
      result.outputs[key.request.value()] = OutputOf(outcome);
    }
    return result;
  }

  worker::StepCounts ExpectSame(const worker::EngineOptions& options, BlockShape shape) {
    SCOPED_TRACE(testing::Message() << options.max_batch_tokens << " tokens, " << options.max_running_requests
                                    << " running, " << shape.block_count << " blocks of " << shape.block_tokens);
    RunResult result = Run(options, shape, requests_);
    for (std::size_t i = 0; i < requests_.size(); ++i)
      EXPECT_TRUE(Agree(result.outputs[i], reference_[i])) << "request " << i;
    return result.totals;
  }

  std::vector<wire::Generate> requests_;
  Outputs reference_;
  std::size_t wanted_count_ = 0;
  std::size_t compared_count_ = 0;

 private:
  // Prompts branch off each other, and a few are equal. Two thirds are greedy, the others draw. Some of each have
  // penalties. With a tolerance all are greedy without any.
  void MakeRequests() {
    const DeterminismSubject& subject = GetParam();
    Rng rng(2026);
    for (std::size_t i = 0; i < subject.request_count; ++i) {
      std::vector<TokenId> prompt;
      if (i > 0 && rng.Below(4) > 0) {
        prompt = requests_[rng.Below(i)].prompt;
        if (rng.Below(8) > 0) prompt.resize(1 + rng.Below(prompt.size()));
      }
      for (std::uint64_t more = rng.Below(subject.max_prompt_tokens - prompt.size() + 1); more > 0; --more) {
        prompt.push_back(static_cast<TokenId>(rng.Below(subject.vocab_size)));
      }
      if (prompt.empty()) prompt.push_back(0);
      const auto output_count = static_cast<std::uint32_t>(1 + rng.Below(subject.max_output_tokens));
      wire::Generate request = GreedyRequest(i, std::move(prompt), output_count);
      if (i % 3 == 2) request.sampling = {.temperature = 1, .top_p = 0.95F, .top_k = 40, .seed = i};
      if (i % 4 == 1) Penalize(request.sampling, subject.vocab_size, rng);
      if (i % 5 == 1) request.output_logprobs = static_cast<std::uint32_t>(i % 4);
      if (i % 7 == 2) request.prompt_logprobs = static_cast<std::uint32_t>(i % 3);
      if (subject.tolerance) {
        request.sampling = GreedyRequest(i, {}, 1).sampling;
        request.output_logprobs = 2;
      }
      requests_.push_back(std::move(request));
    }
  }

  static void Penalize(wire::Sampling& sampling, std::uint32_t vocab_size, Rng& rng) {
    sampling.min_p = 0.02F;
    sampling.repetition_penalty = 1.0F + static_cast<float>(rng.Uniform());
    sampling.presence_penalty = static_cast<float>(rng.Uniform());
    sampling.frequency_penalty = static_cast<float>(rng.Uniform());
    sampling.logit_bias = {{.token = static_cast<TokenId>(rng.Below(vocab_size)), .bias = 3}};
  }
};

TEST_P(DeterminismTest, OutputIsTheSameBatchedAndCached) {
  const worker::StepCounts totals = ExpectSame(Wide(), {16, AmpleBlocks(16)});
  EXPECT_GT(totals.cached_prompt_tokens, totals.prompt_tokens / 10);
}

TEST_P(DeterminismTest, OutputIsTheSameWarm) {
  const ManualClock clock;
  const std::unique_ptr<worker::Model> model = GetParam().make({16, AmpleBlocks(16)});
  EngineHarness harness(*model, clock, Wide());
  for (const std::uint64_t round : {std::uint64_t{0}, std::uint64_t{1'000'000}}) {
    for (wire::Generate request : requests_) {
      request.request_id = RequestId(request.request_id.value() + round);
      ASSERT_TRUE(harness.Submit(request).ok());
    }
    harness.Run();
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      EXPECT_TRUE(Agree(OutputOf(harness.outcome(i + round)), reference_[i])) << "request " << i;
      if (round == 0) continue;
      const std::size_t cached = requests_[i].prompt_logprobs ? 0 : requests_[i].prompt.size() - 1;
      EXPECT_EQ(harness.outcome(i + round).cached_token_count, cached);
    }
  }
}

TEST_P(DeterminismTest, OutputIsTheSameUnderAnyEvictionAndSchedule) {
  for (const std::string_view eviction : worker::kEvictionPolicyNames) {
    for (const auto policy : {worker::SchedulePolicy::kLongestPrefix, worker::SchedulePolicy::kShortestUncached}) {
      worker::EngineOptions options = Wide();
      options.max_batch_tokens = 128;
      options.eviction = std::string(eviction);
      options.schedule_policy = policy;
      ExpectSame(options, {16, 4 * FewestBlocks(16)});
    }
  }
}

TEST_P(DeterminismTest, EachChoiceIsWhatARequestOfItsOwnWouldGet) {
  const ManualClock clock;
  const std::unique_ptr<worker::Model> model = GetParam().make({16, AmpleBlocks(16)});
  EngineHarness harness(*model, clock, Wide());
  constexpr std::uint32_t kChoices = 3;
  const std::size_t count = std::min<std::size_t>(requests_.size(), 30);
  for (std::size_t i = 0; i < count; ++i) {
    wire::Generate together = requests_[i];
    together.request_id = RequestId(1000 * (i + 1));
    together.sample_count = kChoices;
    ASSERT_TRUE(harness.Submit(together).ok());
  }
  harness.Run();
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uint32_t choice = 0; choice < kChoices; ++choice) {
      wire::Generate alone = requests_[i];
      alone.request_id = RequestId(1000 * (i + 1) + 100 + choice);
      alone.sampling.seed += choice;
      const auto own = harness.Serve(alone);
      const auto& chosen = harness.choice(1000 * (i + 1), choice);
      EXPECT_TRUE(Agree({chosen.tokens, chosen.logprobs, {}}, {own.tokens, own.logprobs, {}})) << i << ", " << choice;
    }
  }
}

TEST_P(DeterminismTest, OutputIsTheSameInChunksOfAnySize) {
  for (const std::uint32_t max_batch_tokens : {16U, 17U, 33U, 64U, 256U}) {
    worker::EngineOptions options = Wide();
    options.max_batch_tokens = max_batch_tokens;
    ExpectSame(options, {16, AmpleBlocks(16)});
  }
}

TEST_P(DeterminismTest, OutputIsTheSameInAnyOrderOfArrival) {
  Rng rng(1);
  for (std::size_t i = requests_.size(); i > 1; --i) std::swap(requests_[i - 1], requests_[rng.Below(i)]);
  const RunResult result = Run(Wide(), {16, AmpleBlocks(16)}, requests_);
  for (std::size_t i = 0; i < requests_.size(); ++i) EXPECT_TRUE(Agree(result.outputs[i], reference_[i])) << i;
}

TEST_P(DeterminismTest, OutputIsTheSameAfterPreemptionDownToTheSmallestPool) {
  std::uint64_t preemptions = 0;
  for (const std::uint32_t max_batch_tokens : {20U, 512U}) {
    worker::EngineOptions options = Wide();
    options.max_batch_tokens = max_batch_tokens;
    const std::uint32_t fewest = FewestBlocks(16);
    for (const std::uint32_t block_count : {fewest, fewest + 1, fewest * 3 / 2, fewest * 3}) {
      preemptions += ExpectSame(options, {16, block_count}).preemptions;
    }
  }
  EXPECT_GT(preemptions, 0U);
}

// A model's engine that fetches blocks of another engine, some of them for each prompt: at random moments, in a pool of
// its own, with ends in mid chain.
class FetchingEngine {
 public:
  FetchingEngine(std::unique_ptr<worker::Model> model, worker::EngineOptions options, const worker::Model& source,
                 worker::ReadableBlocks& from)
      : model_(std::move(model)),
        readable_(model_->MakeBlockReader(), model_->block_count(), model_->block_tokens()),
        harness_(*model_, clock_, WithWays(std::move(options))) {
    source_.Connect(&from, kFrames, source.frame_staging(), model_->frame_staging());
  }

  void Submit(const wire::Generate& request) {
    if (rng_.Below(4) > 0) Hold(request);
    EXPECT_TRUE(harness_.Submit(request).ok());
    Disturb();
  }
  void Run() {
    while (source_.is_asked()) Disturb();
    harness_.Run();
    EXPECT_EQ(source_.used_frames(), 0U);
  }

  [[nodiscard]] const EngineHarness& harness() const { return harness_; }
  [[nodiscard]] std::uint64_t arrived_block_count() const { return arrived_block_count_; }

 private:
  static constexpr std::size_t kFrames = 5;

  worker::EngineOptions WithWays(worker::EngineOptions options) {
    options.readable = &readable_;
    options.arriving = &inbox_;
    options.source = &source_;
    return options;
  }

  void Hold(const wire::Generate& request) {
    wire::Hold hold{.answer_id = ++last_id_, .root = request.root, .parent = request.root};
    hold.hashes = HashBlocks(request.root, request.prompt, model_->block_tokens());
    hold.patience_ms = 60'000;
    if (hold.hashes.empty()) return;
    const worker::HoldReceipt receipt{worker::HoldId(last_id_), clock_.Now()};
    if (!harness_.engine().CarryOut(kLink, hold, receipt)) {
      source_.Ask({.id = receipt.id, .chain = worker::ChainOf(hold), .peer = {}});
    }
  }
  void Disturb() {
    for (std::uint64_t count = rng_.Below(8); count > 0; --count) (void)source_.Tell();
    if (rng_.Below(12) == 0) source_.End(wire::HoldOutcome::kBroken);
    if (rng_.Below(2) == 0) arrived_block_count_ += harness_.Step().counts.pulled.blocks;
  }

  Rng rng_{9};
  const ManualClock clock_;
  const std::unique_ptr<worker::Model> model_;
  worker::FrameInbox inbox_{[] {}};
  LocalSource source_{inbox_, clock_};
  worker::ReadableBlocks readable_;
  EngineHarness harness_;
  std::uint64_t last_id_ = 0;
  std::uint64_t arrived_block_count_ = 0;
};

TEST_P(DeterminismTest, OutputIsTheSameWithBlocksThatArriveAtRandom) {
  const ManualClock clock;
  const std::unique_ptr<worker::Model> model = GetParam().make({16, AmpleBlocks(16)});
  worker::ReadableBlocks served(model->MakeBlockReader(), model->block_count(), 16);
  worker::EngineOptions serving = Wide();
  serving.readable = &served;
  EngineHarness source(*model, clock, serving);
  for (const wire::Generate& request : requests_) ASSERT_TRUE(source.Submit(request).ok());
  source.Run();
  for (const std::uint32_t block_count : {AmpleBlocks(16), 2 * FewestBlocks(16)}) {
    worker::EngineOptions options = Wide();
    options.max_batch_tokens = 128;
    FetchingEngine fetching(GetParam().make({16, block_count}), options, *model, served);
    for (const wire::Generate& request : requests_) fetching.Submit(request);
    fetching.Run();
    for (const auto& [key, outcome] : fetching.harness().outcomes()) {
      EXPECT_TRUE(Agree(OutputOf(outcome), reference_[key.request.value()])) << "request " << key.request.value();
    }
    EXPECT_EQ(fetching.harness().outcomes().size(), requests_.size());
    EXPECT_GT(fetching.arrived_block_count(), 0U) << "nothing has travelled";
  }
}

TEST_P(DeterminismTest, OutputIsTheSameWithBlocksOfAnySize) {
  for (const std::uint32_t block_tokens : {4U, 64U, 256U}) {
    if (block_tokens < GetParam().fewest_block_tokens) continue;
    ExpectSame(Wide(), {block_tokens, FewestBlocks(block_tokens) * 4});
  }
}

}  // namespace roost::testing_support

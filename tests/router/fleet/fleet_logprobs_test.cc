// Log probabilities, min_output_tokens and stop tokens on their way to the observer, also when workers fail meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

class FleetLogprobsTest : public ::testing::Test {
 protected:
  static GenerateSpec Wishes(std::optional<std::uint32_t> output, std::optional<std::uint32_t> prompt,
                             std::uint32_t sample_count = 1) {
    GenerateSpec wishes;
    wishes.generate.output_logprobs = output;
    wishes.generate.prompt_logprobs = prompt;
    wishes.generate.sample_count = sample_count;
    return wishes;
  }

  static void ExpectWholeAnswer(const Request& request) {
    const RecordingObserver& seen = *request.observer;
    ASSERT_TRUE(seen.end.has_value());
    ASSERT_FALSE(seen.end->error.has_value()) << seen.end->error->ToString();
    for (std::uint32_t choice = 0; choice < request.sample_count; ++choice) {
      const auto tokens = ExpectedOutput(request.prompt, request.max_output_tokens, choice, request.min_output_tokens);
      std::vector<TokenId> text = request.prompt;
      text.insert(text.end(), tokens.begin(), tokens.end());
      const auto found = seen.choices.find(choice);
      EXPECT_EQ(found == seen.choices.end() ? std::vector<TokenId>() : found->second, tokens);
      if (!request.output_logprobs.has_value() || tokens.empty()) continue;
      EXPECT_TRUE(seen.logprobs.at(choice) == ExpectedLogprobs(text, request.prompt.size(), *request.output_logprobs));
    }
    ASSERT_EQ(seen.prompt_logprobs.has_value(), request.prompt_logprobs.has_value());
    if (!request.prompt_logprobs.has_value()) return;
    EXPECT_TRUE(*seen.prompt_logprobs == ExpectedLogprobs(request.prompt, 1, *request.prompt_logprobs));
  }

  // A prompt with a long answer.
  static std::vector<TokenId> TalkativePrompt() {
    TokenId seed = 1;
    while (ExpectedOutput(MakePrompt(seed, 20), 20).size() < 20) ++seed;
    return MakePrompt(seed, 20);
  }

  FakeWorker& ServerOf(const Request& request) { return *sim_.workers.at(request.observer->workers.back()); }

  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  FakeWorker& b_ = sim_.JoinWorker("b");
};

TEST_F(FleetLogprobsTest, TheObserverIsToldWhatItWants) {
  const std::vector<Request> requests = {sim_.Submit(MakePrompt(1, 50), 20, Wishes(5, std::nullopt)),
                                         sim_.Submit(MakePrompt(2, 50), 20, Wishes(0, 20)),
                                         sim_.Submit(MakePrompt(3, 1), 20, Wishes(std::nullopt, 2)),
                                         sim_.Submit(MakePrompt(4, 50), 20, Wishes(std::nullopt, std::nullopt)),
                                         sim_.Submit(MakePrompt(5, 50), 20, Wishes(1, 1, 3))};
  sim_.Run();
  for (const Request& request : requests) ExpectWholeAnswer(request);
  EXPECT_TRUE(requests[3].observer->logprobs[0].empty());
}

TEST_F(FleetLogprobsTest, AStreamThatMovesGoesOnWithLogprobs) {
  for (int steps = 0; steps < 12; ++steps) {
    FleetSim sim;
    sim.JoinWorker("a");
    sim.JoinWorker("b");
    GenerateSpec wishes = Wishes(2, 3, steps % 2 == 0 ? 1 : 2);
    wishes.generate.min_output_tokens = 25;
    const Request request = sim.Submit(MakePrompt(7, 60), 40, wishes);
    sim.DeliverAll();
    FakeWorker& server = *sim.workers.at(request.observer->workers.back());
    for (int step = 0; step < steps; ++step) server.Step();
    sim.DeliverAll();
    sim.Kill(server);
    sim.Advance(3s);
    sim.Run();
    ExpectWholeAnswer(request);
    EXPECT_EQ(request.observer->workers.size() > 1, true) << steps;
  }
}

// The prompt's log probabilities come once: a worker that continues the request is not asked for them again.
TEST_F(FleetLogprobsTest, AWorkerThatGoesOnIsNotAskedForWhatWasTold) {
  const Request request = sim_.Submit(MakePrompt(7, 60), 60, Wishes(1, 1));
  sim_.DeliverAll();
  FakeWorker& first = ServerOf(request);
  while (request.observer->tokens.empty()) {
    first.Step();
    sim_.DeliverAll();
  }
  sim_.Kill(first);
  sim_.Advance(3s);
  FakeWorker& second = &first == &a_ ? b_ : a_;
  ASSERT_EQ(second.received().size(), 1U);
  EXPECT_EQ(first.received()[0].prompt_logprobs, 1U);
  EXPECT_EQ(second.received()[0].prompt_logprobs, std::nullopt);
  EXPECT_EQ(second.received()[0].output_logprobs, 1U);
  sim_.Run();
  ExpectWholeAnswer(request);
}

TEST_F(FleetLogprobsTest, AWorkerThatTellsNothingFailsTheRequest) {
  a_.SetTellsNoLogprobs(true);
  b_.SetTellsNoLogprobs(true);
  for (const auto& wishes : {Wishes(1, std::nullopt), Wishes(std::nullopt, 1)}) {
    const Request request = sim_.Submit(TalkativePrompt(), 20, wishes);
    sim_.Run();
    ASSERT_TRUE(request.observer->end.has_value());
    ASSERT_TRUE(request.observer->end->error.has_value());
    EXPECT_EQ(request.observer->end->error->code, ErrorCode::kDataLoss);
    EXPECT_TRUE(request.observer->tokens.empty());
  }
}

TEST_F(FleetLogprobsTest, LeastOutputsReachTheWorker) {
  GenerateSpec wishes;
  wishes.generate.min_output_tokens = 120;
  const Request request = sim_.Submit(MakePrompt(1, 20), 130, wishes);
  sim_.Run();
  ExpectWholeAnswer(request);
  EXPECT_GE(request.observer->tokens.size(), 120U);
}

TEST_F(FleetLogprobsTest, TheStopTokenIsTold) {
  const auto stops = [](TokenId seed) { return ExpectedOutput(MakePrompt(seed, 20), 200).size() < 200; };
  TokenId seed = 1;
  while (!stops(seed)) ++seed;
  const Request stopped = sim_.Submit(MakePrompt(seed, 20), 200);
  const Request full = sim_.Submit(TalkativePrompt(), 1);
  GenerateSpec wishes;
  wishes.generate.sample_count = 4;
  const Request several = sim_.Submit(MakePrompt(2, 20), 100, wishes);
  sim_.Run();
  EXPECT_EQ(stopped.observer->end->stop_token, 0U);
  EXPECT_EQ(full.observer->end->stop_token, std::nullopt);
  for (const auto& [choice, reason] : several.observer->choice_ends) {
    const bool is_stop = reason == wire::FinishReason::kStop;
    EXPECT_EQ(several.observer->stop_tokens.at(choice).has_value(), is_stop);
  }
}

}  // namespace
}  // namespace roost::router

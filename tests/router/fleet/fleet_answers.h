// For tests over FleetSim: a fleet of two workers, a prompt with a long answer, and what is expected of a request's
// end.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {

inline constexpr std::uint32_t kOutput = 40;  // tokens of a long answer

inline std::vector<TokenId> Expected(const FleetSim::Request& request) {
  return ExpectedOutput(request.prompt, request.max_output_tokens);
}

// A prompt with a long answer, which leaves time for events in between.
inline std::vector<TokenId> TalkativePrompt(TokenId seed = 1) {
  std::vector<TokenId> prompt = MakePrompt(seed, 30);
  while (ExpectedOutput(prompt, kOutput).size() < kOutput) prompt = MakePrompt(++seed + 1000, 30);
  return prompt;
}

inline void ExpectWholeAnswer(const FleetSim::Request& request) {
  ASSERT_TRUE(request.observer->end.has_value());
  EXPECT_NE(request.observer->end->reason, wire::FinishReason::kError);
  EXPECT_FALSE(request.observer->end->error.has_value());
  EXPECT_EQ(request.observer->tokens, Expected(request));
}

inline void ExpectError(const FleetSim::Request& request, ErrorCode code) {
  ASSERT_TRUE(request.observer->end.has_value());
  ASSERT_TRUE(request.observer->end->error.has_value());
  EXPECT_EQ(request.observer->end->error->code, code);
}

inline void ExpectNothingCharged(FleetSim& sim) {
  for (const WorkerStatus& status : sim.core.Workers(sim.clock.Now())) EXPECT_EQ(status.in_flight_requests, 0U);
}

// The other one of `a` and `b`.
inline FakeWorker& Other(FakeWorker& one, FakeWorker& a, FakeWorker& b) { return &one == &a ? b : a; }

struct TwoWorkersTest : ::testing::Test {
  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");
  FakeWorker& b = sim.JoinWorker("b");

  FakeWorker& ServerOf(const FleetSim::Request& request) { return *sim.workers.at(request.observer->workers.back()); }
  // Both workers have computed requests, so that their rates are known: a token of a prompt takes 0.1 ms.
  void WarmUp() {
    for (TokenId seed = 100; seed < 110; ++seed) sim.Submit(MakePrompt(seed, 40), 8);
    sim.Run();
  }
};

}  // namespace roost::router

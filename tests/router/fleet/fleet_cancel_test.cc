// Requests whose clients leave.
#include <gtest/gtest.h>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kLongOutput = 40;

// A long answer leaves time for an event before it ends.
std::vector<TokenId> PromptOfALongAnswer() {
  TokenId seed = 1;
  std::vector<TokenId> prompt = MakePrompt(seed, 30);
  while (ExpectedOutput(prompt, kLongOutput).size() < kLongOutput) prompt = MakePrompt(++seed, 30);
  return prompt;
}

TEST(FleetCancelTest, CancelReachesTheWorkerAndEndsTheRequestOnce) {
  FleetSim sim;
  FakeWorker& worker = sim.JoinWorker("a");
  const FleetSim::Request request = sim.Submit(PromptOfALongAnswer(), kLongOutput);
  sim.DeliverAll();
  worker.Step();  // these tokens are under way when the client leaves
  sim.core.Cancel(*request.id);
  sim.core.Cancel(*request.id);
  sim.core.Cancel(RequestId(request.id->value() + 1));
  sim.DeliverAll();
  EXPECT_EQ(worker.running_count(), 0U);
  EXPECT_EQ(request.observer->end->reason, wire::FinishReason::kCancelled);
  EXPECT_TRUE(request.observer->tokens.empty());
  worker.Step();
  sim.DeliverAll();
  EXPECT_EQ(sim.StatusOf("a")->in_flight_requests, 0U);
}

TEST(FleetCancelTest, AWorkerThatDidNotHearOfACancelIsToldAgain) {
  FleetSim sim;
  FakeWorker& worker = sim.JoinWorker("a");
  const FleetSim::Request request = sim.Submit(PromptOfALongAnswer(), 1000);
  sim.DeliverAll();
  sim.core.Cancel(*request.id);
  EXPECT_FALSE(sim.core.TakeEffects().empty());  // the cancel is lost
  const auto step = [&] {
    sim.clock.Advance(300ms);
    worker.Step();
    sim.DeliverAll();
  };
  for (int i = 0; i < 3; ++i) step();  // these may have been under way
  EXPECT_TRUE(worker.cancelled().empty());
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(worker.cancelled().size(), 1U);
  EXPECT_EQ(worker.running_count(), 0U);
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(worker.cancelled().size(), 1U);
  EXPECT_TRUE(request.observer->tokens.empty());
  EXPECT_EQ(sim.StatusOf("a")->in_flight_requests, 0U);
}

}  // namespace
}  // namespace roost::router

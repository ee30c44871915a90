// Requests that follow a prefix while it is still being computed.
#include <gtest/gtest.h>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

constexpr std::uint32_t kOutput = 4;

// A long prompt whose last tokens are its own.
std::vector<TokenId> Sibling(TokenId name) {
  std::vector<TokenId> prompt = MakePrompt(1, 200);
  prompt.insert(prompt.end(), {name, name, name});
  return prompt;
}

struct FleetPendingTest : ::testing::Test {
  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");
  FakeWorker& b = sim.JoinWorker("b");
  const Request first = sim.Submit(Sibling(1), kOutput);

  FakeWorker& Serving() {
    sim.CarryOutEffects();
    return *sim.workers.at(first.observer->workers.back());
  }
  // What the decision for one more sibling says of the worker that has the first.
  Candidate CandidateForSibling(GenerateSpec wishes = {}) {
    sim.CarryOutEffects();
    const WorkerSlot serving = first.observer->decisions.back().slot;
    const Request request = sim.Submit(Sibling(2), kOutput, std::move(wishes));
    sim.CarryOutEffects();
    const Decision& decision = request.observer->decisions.front();
    for (const Candidate& candidate : decision.candidates) {
      if (candidate.slot == serving) return candidate;
    }
    ADD_FAILURE() << "the worker is no candidate";
    return {};
  }
};

TEST_F(FleetPendingTest, SiblingsOfABurstFollowTheFirst) {
  const Candidate candidate = CandidateForSibling();
  EXPECT_EQ(candidate.matched_tokens, 200U);
  EXPECT_EQ(candidate.pending_tokens, 200U);
}

TEST_F(FleetPendingTest, FirstTokenMakesItAMatchLikeAnyOther) {
  EXPECT_EQ(sim.core.pending_count(), 1U);
  sim.DeliverAll();
  Serving().Step();
  sim.DeliverAll();
  EXPECT_EQ(sim.core.pending_count(), 0U);
  const Candidate candidate = CandidateForSibling();
  EXPECT_EQ(candidate.matched_tokens, 200U);
  EXPECT_EQ(candidate.pending_tokens, 0U);
}

TEST_F(FleetPendingTest, CancelLeavesNothingToFollow) {
  static_cast<void>(Serving());
  sim.core.Cancel(*first.id);
  EXPECT_EQ(sim.core.pending_count(), 0U);
  EXPECT_EQ(CandidateForSibling().matched_tokens, 0U);
}

TEST_F(FleetPendingTest, LostWorkerLeavesNothingToFollow) {
  sim.core.OnUnreachable(Serving().id(), sim.clock.Now());
  EXPECT_EQ(sim.core.pending_count(), 1U);  // where it was sent again
  sim.core.OnUnreachable(Serving().id(), sim.clock.Now());
  EXPECT_EQ(sim.core.pending_count(), 0U);
}

TEST_F(FleetPendingTest, NobodyFollowsAComputationThatIsFarTooLate) {
  sim.Advance(120s);
  EXPECT_EQ(CandidateForSibling().matched_tokens, 0U);
}

TEST_F(FleetPendingTest, RequestsWithoutTheCacheNeitherFollowNorLead) {
  GenerateSpec wishes;
  wishes.cache_mode = wire::CacheMode::kOff;
  EXPECT_EQ(CandidateForSibling(std::move(wishes)).matched_tokens, 0U);
  EXPECT_EQ(sim.core.pending_count(), 1U);
}

}  // namespace
}  // namespace roost::router

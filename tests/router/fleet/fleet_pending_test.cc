// Requests that follow a prefix while it is still being computed.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

constexpr std::uint32_t kOutput = 4;

// A long prompt that differs from its siblings only in the last tokens.
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
  // The candidate, in the decision for one more sibling, that stands for the worker with the first.
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
  EXPECT_EQ(sim.core.pending_count(), 1U);  // at the worker to which it was sent again
  sim.core.OnUnreachable(Serving().id(), sim.clock.Now());
  EXPECT_EQ(sim.core.pending_count(), 0U);
}

TEST_F(FleetPendingTest, NobodyFollowsAComputationThatIsFarTooLate) {
  sim.Advance(120s);
  EXPECT_EQ(CandidateForSibling().matched_tokens, 0U);
}

TEST_F(FleetPendingTest, RequestsWithoutTheCacheNeitherFollowNorLead) {
  GenerateSpec wishes;
  wishes.generate.cache_mode = wire::CacheMode::kOff;
  EXPECT_EQ(CandidateForSibling(std::move(wishes)).matched_tokens, 0U);
  EXPECT_EQ(sim.core.pending_count(), 1U);
}

// ---- prompts that workers compute for other routers ----

struct FleetToldTest : ::testing::Test {
  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");
  FakeWorker& b = sim.JoinWorker("b");

  void Tell(FakeWorker& worker, std::vector<wire::OtherPrompt> prompts) {
    worker.SetOtherPrompts(std::move(prompts));
    worker.Heartbeat();
    sim.DeliverAll();
  }
  // The prompt tokens that a sibling finds pending at the worker to which it goes.
  std::uint32_t FollowedTokens() {
    const Request request = sim.Submit(Sibling(2), kOutput);
    sim.core.Cancel(*request.id);
    sim.CarryOutEffects();
    went_to = request.observer->workers.front();
    const Decision& decision = request.observer->decisions.front();
    const auto chosen = std::find_if(decision.candidates.begin(), decision.candidates.end(),
                                     [&](const Candidate& candidate) { return candidate.slot == decision.slot; });
    return chosen->pending_tokens;
  }
  std::string went_to;
  const wire::OtherPrompt told{203, 10, 1, BlocksOf(Sibling(1))};
  const wire::OtherPrompt again{100, 20, 1};
};

TEST_F(FleetToldTest, SiblingsFollowAPromptOfAnotherRouterWhileItIsListed) {
  Tell(b, {told});
  EXPECT_EQ(sim.core.pending_count(), 1U);
  EXPECT_EQ(FollowedTokens(), 200U);
  EXPECT_EQ(went_to, "b");
  Tell(b, {{40, 0, 2}, again});
  EXPECT_EQ(FollowedTokens(), 200U);
  Tell(b, {{40, 0, 2}});
  EXPECT_EQ(sim.core.pending_count(), 0U);
  EXPECT_EQ(FollowedTokens(), 0U);
}

TEST_F(FleetToldTest, ItHoldsForAsLongAsTheWorkerSaysSo) {
  Tell(b, {told});
  sim.Advance(300s);  // with heartbeats that list it
  EXPECT_EQ(FollowedTokens(), 200U);
}

TEST_F(FleetToldTest, LostWorkerLeavesNothingToFollow) {
  Tell(b, {told});
  sim.core.OnUnreachable("b", sim.clock.Now());
  EXPECT_EQ(sim.core.pending_count(), 0U);
  EXPECT_EQ(FollowedTokens(), 0U);
}

TEST_F(FleetToldTest, AWorkerThatComesBackTellsAnew) {
  Tell(b, {told});
  b.Restart();
  b.SayHello();
  sim.DeliverAll();
  EXPECT_EQ(sim.core.pending_count(), 0U);
  Tell(b, {again});  // its hashes were sent in the last life of the link
  EXPECT_EQ(sim.core.pending_count(), 0U);
  Tell(b, {});
  Tell(b, {told});
  EXPECT_EQ(FollowedTokens(), 200U);
}

TEST_F(FleetToldTest, NoMoreIsHeldThanAWorkerMayTell) {
  wire::OtherPrompt large{9, 9, 7, BlocksOf(MakePrompt(5, 4 * wire::kMaxOtherHashes))};
  Tell(b, {large});
  EXPECT_EQ(sim.core.pending_count(), 1U);
  Tell(b, {{9, 9, 7}, told});
  EXPECT_EQ(sim.core.pending_count(), 1U);
  Tell(b, {told});
  EXPECT_EQ(sim.core.pending_count(), 1U);
  EXPECT_EQ(FollowedTokens(), 200U);
}

}  // namespace
}  // namespace roost::router

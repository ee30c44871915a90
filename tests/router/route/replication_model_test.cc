// Replication against its rule, written down over a list of all that was ever waited for.
#include "router/route/replication.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "router/route/candidates.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kPromptTokens = 320;

// Four workers, some of which hold one of two prefixes of one of three prompts: few enough to be remembered exactly.
Situation Some(Rng& rng) {
  Situation situation;
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    WorkerView worker = Idle(slot);
    worker.queued_prefill_tokens = rng.Below(2) * rng.Below(400);
    worker.busy_share = rng.Uniform();
    worker.receives_copy = rng.Below(8) == 0;
    situation.fleet.Set(worker);
  }
  situation.prompt_token_count = kPromptTokens;
  situation.block_hashes = Chain(rng.Below(3), kPromptTokens / 16);
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    if (rng.Below(3) == 0) situation.matches.push_back(Holds(slot, rng.Below(2) == 0 ? 8 : 16));
  }
  std::stable_sort(situation.matches.begin(), situation.matches.end(),
                   [](const WorkerMatch& a, const WorkerMatch& b) { return a.block_count > b.block_count; });
  return situation;
}

class NaiveReplication {
 public:
  std::optional<WorkerSlot> Choose(const Situation& situation, WorkerSlot chosen, Instant now) {
    std::uint32_t deepest = 0;
    for (const WorkerMatch& match : situation.matches) deepest = std::max(deepest, match.block_count);
    if (deepest == 0) return std::nullopt;
    auto& waited = waited_[situation.block_hashes[deepest - 1]];
    if (situation.BlocksOn(chosen) < deepest) {
      waited.clear();
      return std::nullopt;
    }
    std::optional<WorkerSlot> other;
    for (const WorkerView& worker : situation.fleet.workers()) {
      if (situation.BlocksOn(worker.slot) == deepest || worker.receives_copy) continue;
      if (!other.has_value() || Cost(situation, worker.slot) < Cost(situation, *other)) other = worker.slot;
    }
    if (!other.has_value()) return std::nullopt;
    const double as_holder = Cost(situation, *other, deepest);
    double saved = 0;
    for (const auto& [when, seconds] : waited) saved += seconds * std::pow(0.5, ToSeconds(now - when) / 60);
    if (saved >= Cost(situation, *other) - as_holder) {
      waited.clear();
      return other;
    }
    waited.emplace_back(now, std::max(0.0, Cost(situation, chosen) - as_holder));
    return std::nullopt;
  }

 private:
  static double Cost(const Situation& situation, WorkerSlot slot, std::uint32_t blocks) {
    return PredictCost({kPromptTokens, blocks, 0}, *situation.fleet.Find(slot), situation.fleet.speed()).cost_seconds();
  }
  static double Cost(const Situation& situation, WorkerSlot slot) {
    return Cost(situation, slot, situation.BlocksOn(slot));
  }

  std::map<BlockHash, std::vector<std::pair<Instant, double>>> waited_;
};

TEST(ReplicationModelTest, CopiesWhenTheRuleSaysSo) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Replication replication(seed);
    NaiveReplication naive;
    Instant now{};
    int copies = 0;
    for (int i = 0; i < 2000; ++i) {
      now += FromSeconds(3 * rng.Uniform());
      const Situation situation = Some(rng);
      RouteQuery query = situation.query();
      query.now = now;
      const std::vector<Candidate> candidates = FindCandidates(query, situation.fleet);
      const Candidate& chosen = candidates[rng.Below(2)];
      const std::optional<PrefixCopy> copy = replication.Choose(query, situation.fleet, candidates, chosen);
      const std::optional<WorkerSlot> expected = naive.Choose(situation, chosen.slot, now);
      ASSERT_EQ(copy.has_value(), expected.has_value()) << "decision " << i;
      if (!copy.has_value()) continue;
      ASSERT_EQ(copy->worker, *expected) << "decision " << i;
      ASSERT_EQ(copy->held_block_count, situation.BlocksOn(*expected)) << "decision " << i;
      ASSERT_EQ(copy->block_count, situation.matches.front().block_count) << "decision " << i;
      ++copies;
    }
    EXPECT_GT(copies, 10);
  }
}

}  // namespace
}  // namespace roost::router

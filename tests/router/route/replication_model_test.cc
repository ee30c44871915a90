// Replication against its rule, applied to a list of all past waits.
#include "router/route/replication.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "router/route/candidates.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kPromptTokens = 320;

// Four workers, some of which hold one of two prefixes of one of three prompts: few enough to remember all exactly.
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
  struct Copy {
    WorkerSlot worker;
    std::uint32_t block_count = 0;
  };

  std::optional<Copy> Choose(const Situation& situation, WorkerSlot chosen, Instant now) {
    std::vector<WorkerMatch> matches = situation.matches;  // deepest first
    std::erase_if(matches, [&](const WorkerMatch& match) { return situation.fleet.Find(match.worker)->receives_copy; });
    if (matches.empty()) return std::nullopt;
    const std::optional<Copy> copy = Judge(matches[0].block_count, situation, chosen, now);
    const bool one_alone = matches.size() > 1 && matches[1].block_count < matches[0].block_count;
    if (copy.has_value() || !one_alone) return copy;
    return Judge(matches[1].block_count, situation, chosen, now);
  }

 private:
  using Sum = std::vector<std::pair<Instant, double>>;

  std::optional<Copy> Judge(std::uint32_t blocks, const Situation& situation, WorkerSlot chosen, Instant now) {
    auto& waited = waited_[situation.block_hashes[blocks - 1]];
    if (situation.BlocksOn(chosen) < blocks) {
      waited.clear();
      return std::nullopt;
    }
    std::optional<WorkerSlot> receiver;
    for (const WorkerView& worker : situation.fleet.workers()) {
      if (situation.BlocksOn(worker.slot) >= blocks || worker.receives_copy) continue;
      if (!receiver.has_value() ||
          CostOf(situation, worker.slot).cost_seconds() < CostOf(situation, *receiver).cost_seconds()) {
        receiver = worker.slot;
      }
    }
    if (!receiver.has_value()) return std::nullopt;
    const Candidate here = CostOf(situation, chosen);
    const Candidate there = CostOf(situation, *receiver, situation.BlocksOn(chosen));
    const double price = WorkCost(CostOf(situation, *receiver)) - WorkCost(CostOf(situation, *receiver, blocks));
    if (SumOf(waited, now) >= price) {
      waited.clear();
      return Copy{*receiver, blocks};
    }
    waited.emplace_back(now, std::max(0.0, here.cost_seconds() - there.cost_seconds()));
    return std::nullopt;
  }

  static double SumOf(const Sum& sum, Instant now) {
    double seconds = 0;
    for (const auto& [when, each] : sum) seconds += each * std::pow(0.5, ToSeconds(now - when) / 60);
    return seconds;
  }
  static Candidate CostOf(const Situation& situation, WorkerSlot slot, std::optional<std::uint32_t> blocks = {}) {
    return PredictCost({kPromptTokens, blocks.value_or(situation.BlocksOn(slot)), 0}, *situation.fleet.Find(slot),
                       situation.fleet.speed());
  }
  static double WorkCost(const Candidate& cost) {
    return cost.pace * cost.congestion * (cost.prefill_seconds + cost.decode_seconds);
  }

  std::map<BlockHash, Sum> waited_;  // by the last block of the prefix
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
      const std::optional<NaiveReplication::Copy> expected = naive.Choose(situation, chosen.slot, now);
      ASSERT_EQ(copy.has_value(), expected.has_value()) << "decision " << i;
      if (!copy.has_value()) continue;
      ASSERT_EQ(copy->worker, expected->worker) << "decision " << i;
      ASSERT_EQ(copy->held_block_count, situation.BlocksOn(expected->worker)) << "decision " << i;
      ASSERT_EQ(copy->block_count, expected->block_count) << "decision " << i;
      ++copies;
    }
    EXPECT_GT(copies, 10);
  }
}

}  // namespace
}  // namespace roost::router

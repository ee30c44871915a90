#include <fmt/format.h>

#include "common/base/check.h"
#include "deploy/roostctl/workload/replay.h"
#include "tests/bench/bench.h"
#include "tests/support/eviction_cells.h"
#include "tests/support/shared_data.h"
#include "worker/cache/eviction/class_aware_eviction.h"
#include "worker/cache/eviction/eviction_factory.h"

namespace roost::bench {
namespace {

using testing_support::EvictionCase;
using workload::ReplayResult;

// The share of the prompt tokens that hit, and the share of the time to compute the prompts that this saves.
void Shares(const EvictionCase& eviction_case, std::uint32_t kilotokens, std::string_view policy,
            const ReplayResult& result) {
  const std::string of = fmt::format("{}_{}k_{}", eviction_case.name, kilotokens, policy);
  Figure("eviction_hits_" + of, 100 * result.hit_ratio(), "%");
  Figure("eviction_time_" + of, 100 * result.saved_ratio(), "%");
}

// The default before it knows what blocks cost.
class EqualCosts final : public worker::EvictionPolicy {
 public:
  explicit EqualCosts(std::uint32_t block_count) : policy_(block_count) {}

  void Insert(BlockId block, const worker::BlockUse& use, worker::TreePlace place) override {
    policy_.Insert(block, use, place);
  }
  void BecomeLeaf(BlockId block) override { policy_.BecomeLeaf(block); }
  void Erase(BlockId block) override { policy_.Erase(block); }
  [[nodiscard]] std::optional<BlockId> Victim(worker::EvictionGroup group) override { return policy_.Victim(group); }
  void Evict(BlockId block) override { policy_.Evict(block); }

 private:
  worker::ClassAwareEviction policy_;
};

// Every policy at one pool size, and what foresight would reach.
void Compare(const EvictionCase& eviction_case, std::uint32_t kilotokens) {
  const std::uint32_t block_count = eviction_case.BlockCount(kilotokens);
  const worker::RecomputeCost cost = eviction_case.Cost();
  const auto play = [&](std::string_view name, std::unique_ptr<worker::EvictionPolicy> policy) {
    Shares(eviction_case, kilotokens, name, Replay(eviction_case.trace, block_count, std::move(policy), {}, cost));
  };
  for (const std::string_view name : worker::kEvictionPolicyNames) {
    auto policy = worker::MakeEvictionPolicy(name, block_count);
    ROOST_CHECK(policy.ok());
    play(name, std::move(policy).value());
  }
  play("equal-costs", std::make_unique<EqualCosts>(block_count));
  Shares(eviction_case, kilotokens, "foresight", ReplayWithForesight(eviction_case.trace, block_count, cost));
}

void CompareQuickly() {
  workload::MultiTurnChatOptions small;
  small.session_count = 50;
  Compare({"small_chat", workload::MultiTurnChat(small), {}}, 40);
}

}  // namespace

// The hits of the eviction policies and the time that they save, by trace and pool. Recorded traces are read from the
// shared folder.
void BenchEviction(Effort effort) {
  if (effort == Effort::kQuick) return CompareQuickly();
  std::vector<EvictionCase> cases = testing_support::GeneratedEvictionCases();
  auto recorded = testing_support::RecordedEvictionCases(testing_support::SharedDir() / "traces");
  if (recorded.ok()) {
    cases.insert(cases.begin(), std::make_move_iterator(recorded->begin()), std::make_move_iterator(recorded->end()));
  } else {
    fmt::print(stderr, "eviction: recorded traces are left out: {}\n", recorded.error().ToString());
  }
  for (const EvictionCase& eviction_case : cases) {
    for (const std::uint32_t kilotokens : eviction_case.pool_kilotokens) Compare(eviction_case, kilotokens);
  }
}

}  // namespace roost::bench

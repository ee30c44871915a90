#include <fmt/format.h>

#include "common/base/check.h"
#include "deploy/roostctl/workload/replay.h"
#include "tests/bench/bench.h"
#include "tests/support/eviction_cells.h"
#include "tests/support/shared_data.h"
#include "worker/cache/eviction/eviction_factory.h"

namespace roost::bench {
namespace {

using testing_support::EvictionCase;
using workload::ReplayResult;

void Hits(const EvictionCase& eviction_case, std::uint32_t kilotokens, std::string_view policy,
          const ReplayResult& result) {
  Figure(fmt::format("eviction_{}_{}k_{}", eviction_case.name, kilotokens, policy), 100 * result.hit_ratio(), "%");
}

// Every policy at one pool size, and what foresight would reach.
void Compare(const EvictionCase& eviction_case, std::uint32_t kilotokens) {
  const std::uint32_t block_count = eviction_case.BlockCount(kilotokens);
  for (const std::string_view name : worker::kEvictionPolicyNames) {
    auto policy = worker::MakeEvictionPolicy(name, block_count);
    ROOST_CHECK(policy.ok());
    Hits(eviction_case, kilotokens, name, Replay(eviction_case.trace, block_count, std::move(policy).value()));
  }
  Hits(eviction_case, kilotokens, "foresight", ReplayWithForesight(eviction_case.trace, block_count));
}

void CompareQuickly() {
  workload::MultiTurnChatOptions small;
  small.session_count = 50;
  Compare({"small_chat", workload::MultiTurnChat(small), {}}, 40);
}

}  // namespace

// The token hit rates of the eviction policies, by trace and pool. Recorded traces are read from the shared folder.
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

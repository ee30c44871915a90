#include "router/route/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "router/route/baselines/baselines.h"
#include "router/route/cache_aware.h"

namespace roost::router {

namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)(std::uint64_t seed);
};

constexpr std::array kPolicies{
    Entry{"cache-aware", &MakeCacheAware},
    Entry{"round-robin", [](std::uint64_t) { return MakeRoundRobin(); }},
    Entry{"random", &MakeRandom},
    Entry{"least-requests", &MakeLeastRequests},
    Entry{"least-tokens", &MakeLeastTokens},
    Entry{"power-of-two", &MakePowerOfTwo},
    Entry{"consistent-hash", &MakeConsistentHash},
    Entry{"session", &MakeSession},
    Entry{"sglang", &MakeSglang},
    Entry{"dynamo", &MakeDynamo},
    Entry{"llm-d", &MakeLlmD},
    Entry{"lmetric", &MakeLmetric},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kPolicies.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kPolicies[i].name;
  return names;
}();

}  // namespace

bool MayTake(const RouteQuery& query, const WorkerView& worker) {
  if (worker.max_sample_count < query.sample_count || worker.waiting_requests >= query.waiting_bound) return false;
  if (query.needs_full_sampling && !worker.full_sampling) return false;
  return std::find(query.excluded.begin(), query.excluded.end(), worker.slot) == query.excluded.end();
}

PromptOnWorker PromptOn(const RouteQuery& query, const WorkerMatch& match) {
  return {query.prompt_token_count, match.block_count, match.pending_block_count};
}

PromptOnWorker PromptOn(const RouteQuery& query, WorkerSlot slot) {
  const auto found = std::find_if(query.matches.begin(), query.matches.end(),
                                  [slot](const WorkerMatch& match) { return match.worker == slot; });
  return PromptOn(query, found == query.matches.end() ? WorkerMatch() : *found);
}

std::string_view NameOf(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kDeepestMatch: return "deepest_match";
    case DecisionReason::kLeastLoad: return "least_load";
    case DecisionReason::kNearTie: return "near_tie";
    case DecisionReason::kOnlyWorker: return "only_worker";
    case DecisionReason::kReplicate: return "replicate";
    case DecisionReason::kWarmUp: return "warm_up";
    case DecisionReason::kLeastCost: return "least_cost";
    case DecisionReason::kRotation: return "rotation";
    case DecisionReason::kRandom: return "random";
    case DecisionReason::kHash: return "hash";
    case DecisionReason::kSession: return "session";
    case DecisionReason::kOverBound: return "over_bound";
    case DecisionReason::kHistory: return "history";
    case DecisionReason::kImbalance: return "imbalance";
    case DecisionReason::kSticky: return "sticky";
    case DecisionReason::kUnsticky: return "unsticky";
  }
  ROOST_CHECK(false, "reason {}", static_cast<int>(reason));
  return {};
}

std::span<const std::string_view> PolicyNames() { return kNames; }

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, std::uint64_t seed) {
  const auto found =
      std::find_if(kPolicies.begin(), kPolicies.end(), [name](const Entry& entry) { return entry.name == name; });
  if (found != kPolicies.end()) return found->make(seed);
  return InvalidArgument("policy", "\"{}\" is none of {}", name, fmt::join(kNames, ", "));
}

}  // namespace roost::router

#include "router/route/warm_up.h"

#include <algorithm>

#include "router/route/faded_sum.h"

namespace roost::router {

namespace {

bool IsMiss(const RouteQuery& query, const std::vector<Candidate>& candidates) {
  return std::none_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return std::uint64_t{candidate.matched_tokens} * WarmUp::kLeastUsefulPart >= query.prompt_token_count;
  });
}

bool IsWarming(const WorkerView& worker, const FleetView& fleet, Instant now) {
  return now - worker.joined_at < kRecentTime && 2.0 * worker.cached_block_count < fleet.mean_cached_block_count();
}

}  // namespace

WarmUp::Share& WarmUp::ShareOf(const WorkerView& worker, std::uint64_t misses) {
  Share& share = shares_[worker.slot.value()];
  if (share.joined_at != worker.joined_at) share = {.joined_at = worker.joined_at, .misses_before = misses};
  return share;
}

const Candidate* WarmUp::Choose(const RouteQuery& query, const FleetView& fleet,
                                const std::vector<Candidate>& candidates, const Candidate& chosen) {
  // Prompts without full blocks, and requests that do not use the cache, warm no worker.
  if (query.block_hashes.empty() || !IsMiss(query, candidates)) return nullptr;
  const std::uint64_t misses = misses_[fleet.number()]++;
  const double most_seconds = chosen.first_token_cost_seconds() / (1 - 1.0 / kLeastUsefulPart);
  const Candidate* warmed = nullptr;
  for (const Candidate& candidate : candidates) {
    const WorkerView& worker = *fleet.Find(candidate.slot);
    if (!IsWarming(worker, fleet, *query.now)) continue;
    Share& share = ShareOf(worker, misses);
    const bool is_due = (share.taken + 1) * fleet.size() <= misses + 1 - share.misses_before;
    if (is_due && candidate.first_token_cost_seconds() <= most_seconds) {
      warmed = &candidate;
      break;
    }
  }
  const Candidate& taker = warmed == nullptr ? chosen : *warmed;
  const WorkerView& worker = *fleet.Find(taker.slot);
  if (IsWarming(worker, fleet, *query.now)) ++ShareOf(worker, misses).taken;
  return warmed == nullptr || warmed->slot == chosen.slot ? nullptr : warmed;
}

}  // namespace roost::router

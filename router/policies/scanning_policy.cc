#include "router/policies/scanning_policy.h"

#include "router/route/candidates.h"

namespace roost::router {

std::optional<Decision> ScanningPolicy::Choose(const RouteQuery& query, const FleetView& fleet) {
  Gather(query, fleet);
  if (prospects_.empty()) return std::nullopt;
  const Pick pick = PickFrom(query, prospects_, fleet);
  return Decide(query, fleet, prospects_[pick.index].worker->slot, pick.reason);
}

void ScanningPolicy::Gather(const RouteQuery& query, const FleetView& fleet) {
  for (const WorkerMatch& match : query.matches) {
    if (matched_by_slot_.size() <= match.worker.value()) matched_by_slot_.resize(match.worker.value() + std::size_t{1});
    matched_by_slot_[match.worker.value()] = match.block_count;
  }
  prospects_.clear();
  for (const WorkerView& worker : fleet.workers()) {
    if (!MayTake(query, worker)) continue;
    const std::size_t slot = worker.slot.value();
    const std::uint32_t blocks = slot < matched_by_slot_.size() ? matched_by_slot_[slot] : 0;
    const std::uint32_t tokens = CachedTokens(
        {.prompt_token_count = query.prompt_token_count, .matched_block_count = blocks}, worker.hit_ends());
    prospects_.push_back({&worker, blocks, tokens, query.prompt_token_count - tokens});
  }
  for (const WorkerMatch& match : query.matches) matched_by_slot_[match.worker.value()] = 0;
}

std::size_t ScanningPolicy::LeastInFlight(std::span<const Prospect> prospects) {
  return Least(prospects, [](const Prospect& prospect) { return prospect.worker->in_flight_requests; });
}

}  // namespace roost::router

#include "router/route/replication.h"

#include <algorithm>
#include <optional>

namespace roost::router {

namespace {

// Prompt tokens that the deepest holder among the candidates need not compute.
std::uint32_t DeepestMatch(const std::vector<Candidate>& candidates) {
  std::uint32_t deepest = 0;
  for (const Candidate& candidate : candidates) deepest = std::max(deepest, candidate.matched_tokens);
  return deepest;
}

std::size_t HolderCount(const RouteQuery& query, std::uint32_t block_count) {
  return static_cast<std::size_t>(
      std::count_if(query.matches.begin(), query.matches.end(),
                    [&](const WorkerMatch& match) { return match.block_count >= block_count; }));
}

// The cost at `other` as it would be if it held the first `block_count` blocks.
double CostAsHolder(const RouteQuery& query, const FleetView& fleet, const Candidate& other,
                    std::uint32_t block_count) {
  const PromptOnWorker prompt{.prompt_token_count = query.prompt_token_count, .matched_block_count = block_count};
  return PredictCost(prompt, *fleet.Find(other.slot), fleet.speed(), query.now).cost_seconds();
}

}  // namespace

std::optional<PrefixCopy> Replication::Choose(const RouteQuery& query, const FleetView& fleet,
                                              const std::vector<Candidate>& candidates, const Candidate& chosen) {
  const std::uint32_t deepest = DeepestMatch(candidates);
  const std::uint32_t block_tokens = fleet.Find(chosen.slot)->block_tokens;
  const std::uint32_t block_count = deepest / block_tokens;
  if (block_count == 0 || block_count > query.block_hashes.size() || !fleet.speed().is_known()) return std::nullopt;
  const BlockHash prefix = query.block_hashes[block_count - 1];
  // Its own interest makes the copy.
  if (chosen.matched_tokens < deepest) {
    waited_.Clear(prefix);
    return std::nullopt;
  }
  const auto other = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& each) {
    return each.matched_tokens < deepest && !fleet.Find(each.slot)->receives_copy;
  });
  if (other == candidates.end() || HolderCount(query, block_count) >= kMaxCopies) return std::nullopt;
  const double as_holder = CostAsHolder(query, fleet, *other, block_count);
  const double price = other->cost_seconds() - as_holder;
  if (waited_.Seconds(prefix, *query.now) < price) {
    waited_.Add(prefix, chosen.cost_seconds() - as_holder, *query.now);
    return std::nullopt;
  }
  waited_.Clear(prefix);
  return PrefixCopy{
      .worker = other->slot, .held_block_count = other->matched_tokens / block_tokens, .block_count = block_count};
}

}  // namespace roost::router

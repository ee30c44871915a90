#include "router/route/decision_audit.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::router {

namespace {

// The deepest match of a worker that may take the request.
std::uint32_t MostCachedTokens(const RouteQuery& query, const FleetView& fleet) {
  for (const WorkerMatch& match : query.matches) {
    const WorkerView* const worker = fleet.Find(match.worker);
    if (worker == nullptr || !MayTake(query, *worker)) continue;
    return CachedTokens(PromptOn(query, match), worker->hit_ends());
  }
  return 0;
}

// The least value among the candidates, the chosen one's being `least`.
template <typename Value>
double LeastOf(const Decision& decision, double least, Value value) {
  for (const Candidate& candidate : decision.candidates) least = std::min(least, value(candidate));
  return least;
}

// For blocks that come, behind the queue: they come while that is computed.
double WaitOf(const CostTerms& terms) { return std::max(0.0, terms.transfer_seconds - terms.queue_seconds); }

}  // namespace

DecisionAudit DecisionAuditor::Audit(const RouteQuery& query, const FleetView& fleet, const Decision& decision) {
  const WorkerView* const turn = rotation_.Next(query, fleet);
  ROOST_CHECK(turn != nullptr, "a decision for slot {} of a fleet without workers", decision.slot.value());
  const FleetSpeed speed = fleet.speed();
  const Candidate rotated = PredictCost(PromptOn(query, turn->slot), *turn, speed, query.now);
  const std::uint32_t most = MostCachedTokens(query, fleet);
  const double ttft = decision.predicted_ttft_seconds;
  const double whole = decision.predicted_whole_seconds;
  const double tokens = query.answer.own;
  return {.most_matched_tokens = most,
          .regret_tokens = most - std::min(most, decision.matched_tokens),
          .regret_seconds = ttft - LeastOf(decision, ttft, [](const auto& each) { return each.ttft_seconds(); }),
          .regret_whole_seconds =
              whole - LeastOf(decision, whole, [tokens](const auto& each) { return each.whole_seconds(tokens); }),
          .rotation_matched_tokens = rotated.matched_tokens,
          .rotation_ttft_seconds = rotated.ttft_seconds(),
          .rotation_whole_seconds = rotated.whole_seconds(tokens),
          .rotation_token_seconds = PrefillTokenSeconds(*turn, speed),
          .rotation_wait_seconds = decision.in_seconds ? WaitOf(rotated) : 0};
}

CacheWorth WorthOf(const FleetView& fleet, const Decision& decision, const DecisionAudit& audit) {
  const WorkerView* const chosen = fleet.Find(decision.slot);
  ROOST_CHECK(chosen != nullptr, "slot {} is not of this fleet", decision.slot.value());
  const auto priced = std::find_if(decision.candidates.begin(), decision.candidates.end(),
                                   [&decision](const Candidate& each) { return each.slot == decision.slot; });
  const bool waits = decision.in_seconds && priced != decision.candidates.end();
  return {.token_seconds = PrefillTokenSeconds(*chosen, fleet.speed()),
          .rotation_token_seconds = audit.rotation_token_seconds,
          .matched_tokens = decision.matched_tokens,
          .arriving_tokens = decision.arriving_tokens,
          .wait_seconds = waits ? WaitOf(*priced) : 0,
          .rotation_wait_seconds = audit.rotation_wait_seconds,
          .rotation_matched_tokens = audit.rotation_matched_tokens,
          .best_matched_tokens = audit.most_matched_tokens};
}

}  // namespace roost::router

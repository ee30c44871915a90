#include "router/route/candidates.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace roost::router {

namespace {

bool IsCheaper(const Candidate& a, const Candidate& b) { return a.cost_seconds() < b.cost_seconds(); }

bool Contains(const std::vector<Candidate>& candidates, WorkerSlot slot) {
  return std::any_of(candidates.begin(), candidates.end(),
                     [slot](const Candidate& candidate) { return candidate.slot == slot; });
}

std::vector<Candidate> CheapestHolders(const RouteQuery& query, const FleetView& fleet, const FleetSpeed& speed) {
  std::vector<Candidate> holders;
  holders.reserve(std::min(query.matches.size(), kMaxHolders) + kLeastLoadedCount + 1);
  for (const WorkerMatch& match : query.matches) {
    if (holders.size() == kMaxHolders) break;
    const WorkerView* const worker = fleet.Find(match.worker);
    if (worker == nullptr || !MayTake(query, *worker)) continue;
    holders.push_back(PredictCost(PromptOn(query, match), *worker, speed, query.now));
  }
  if (holders.size() <= kKeptHolders) return holders;
  std::nth_element(holders.begin(), holders.begin() + kKeptHolders, holders.end(), &IsCheaper);
  holders.resize(kKeptHolders);
  return holders;
}

Candidate CandidateFor(const RouteQuery& query, const WorkerView& worker, const FleetSpeed& speed) {
  return PredictCost(PromptOn(query, worker.slot), worker, speed, query.now);
}

}  // namespace

std::vector<Candidate> FindCandidates(const RouteQuery& query, const FleetView& fleet) {
  const FleetSpeed speed = fleet.speed();
  std::vector<Candidate> candidates = CheapestHolders(query, fleet, speed);
  std::size_t seen = 0;
  fleet.VisitLeastLoaded([&](const WorkerView& worker) {
    if (!MayTake(query, worker)) return true;
    if (!Contains(candidates, worker.slot)) candidates.push_back(CandidateFor(query, worker, speed));
    return ++seen < kLeastLoadedCount;
  });
  std::sort(candidates.begin(), candidates.end(), &IsCheaper);
  return candidates;
}

Decision Decide(const RouteQuery& query, const FleetView& fleet, WorkerSlot slot, DecisionReason reason) {
  std::vector<Candidate> candidates = FindCandidates(query, fleet);
  if (!Contains(candidates, slot)) {
    const WorkerView* const worker = fleet.Find(slot);
    ROOST_CHECK(worker != nullptr, "slot {}", slot.value());
    const Candidate chosen = CandidateFor(query, *worker, fleet.speed());
    candidates.insert(std::upper_bound(candidates.begin(), candidates.end(), chosen, &IsCheaper), chosen);
  }
  const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                   [slot](const Candidate& candidate) { return candidate.slot == slot; });
  Decision decision{.slot = slot,
                    .reason = candidates.size() == 1 ? DecisionReason::kOnlyWorker : reason,
                    .matched_tokens = chosen->matched_tokens,
                    .predicted_ttft_seconds = chosen->ttft_seconds(),
                    .in_seconds = fleet.speed().is_known()};
  decision.candidates = std::move(candidates);
  return decision;
}

}  // namespace roost::router

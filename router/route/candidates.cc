#include "router/route/candidates.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "router/route/pulls.h"

namespace roost::router {

namespace {

bool IsCheaper(const Candidate& a, const Candidate& b) { return a.cost_seconds() < b.cost_seconds(); }

bool Contains(const std::vector<Candidate>& candidates, WorkerSlot slot) {
  return std::any_of(candidates.begin(), candidates.end(),
                     [slot](const Candidate& candidate) { return candidate.slot == slot; });
}

// Candidates that are added to the cheapest holders.
constexpr std::size_t kAddedCount = kLeastLoadedCount + kDiskCount + 1;

// A candidate's place in a list and its cost, computed once. Candidates are large, so these are sorted instead.
struct Priced {
  double cost_seconds = 0;
  std::uint32_t place = 0;

  bool operator<(const Priced& other) const { return cost_seconds < other.cost_seconds; }
};

// The cheapest candidates, at most `count`. Sorted only if none is left out.
std::vector<Candidate> Cheapest(const std::vector<Candidate>& candidates, std::size_t count) {
  std::vector<Priced> priced;
  priced.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    priced.push_back({candidate.cost_seconds(), static_cast<std::uint32_t>(priced.size())});
  }
  if (count < priced.size()) {
    std::nth_element(priced.begin(), priced.begin() + static_cast<std::ptrdiff_t>(count), priced.end());
    priced.resize(count);
  } else {
    std::sort(priced.begin(), priced.end());
  }
  std::vector<Candidate> cheapest;
  cheapest.reserve(count + kAddedCount);
  for (const Priced& each : priced) cheapest.push_back(candidates[each.place]);
  return cheapest;
}

std::vector<Candidate> CheapestHolders(const RouteQuery& query, const FleetView& fleet, const FleetSpeed& speed) {
  std::vector<Candidate> holders;
  holders.reserve(std::min(query.matches.size(), kMaxHolders) + kAddedCount);
  for (const WorkerMatch& match : query.matches) {
    if (holders.size() == kMaxHolders) break;
    const WorkerView* const worker = fleet.Find(match.worker);
    if (worker == nullptr || !MayTake(query, *worker)) continue;
    holders.push_back(PredictCost(PromptOn(query, match), *worker, speed, query.now));
  }
  if (holders.size() <= kKeptHolders) return holders;
  return Cheapest(holders, kKeptHolders);
}

Candidate CandidateFor(const RouteQuery& query, const WorkerView& worker, const FleetSpeed& speed) {
  return PredictCost(PromptOn(query, worker.slot), worker, speed, query.now);
}

void AddDisks(const RouteQuery& query, const FleetView& fleet, const FleetSpeed& speed,
              std::vector<Candidate>& candidates) {
  std::size_t seen = 0;
  for (const WorkerMatch& match : query.matches) {
    if (!IsDisk(match.worker)) continue;
    const WorkerView* const worker = fleet.Find(WorkerOfDisk(match.worker));
    if (worker == nullptr || !MayTake(query, *worker)) continue;
    if (!Contains(candidates, worker->slot)) candidates.push_back(CandidateFor(query, *worker, speed));
    if (++seen == kDiskCount) break;
  }
}

}  // namespace

std::vector<Candidate> FindCandidates(const RouteQuery& query, const FleetView& fleet) {
  const FleetSpeed speed = fleet.speed();
  std::vector<Candidate> candidates = CheapestHolders(query, fleet, speed);
  if (fleet.has_disks()) AddDisks(query, fleet, speed, candidates);
  std::size_t seen = 0;
  fleet.VisitLeastLoaded([&](const WorkerView& worker) {
    if (!MayTake(query, worker)) return true;
    if (!Contains(candidates, worker.slot)) candidates.push_back(CandidateFor(query, worker, speed));
    return ++seen < kLeastLoadedCount;
  });
  Pulls pulls(query, fleet);
  if (!pulls.empty()) pulls.Improve(candidates);
  if (fleet.has_disks()) {
    for (Candidate& each : candidates) ConsiderRestore(query, *fleet.Find(each.slot), speed, each);
  }
  return Cheapest(candidates, candidates.size());
}

Decision DecisionFor(const Candidate& chosen, DecisionReason reason, const RouteQuery& query, const FleetView& fleet) {
  return {.slot = chosen.slot,
          .reason = reason,
          .matched_tokens = chosen.matched_tokens,
          .arriving_tokens = chosen.arriving_tokens(),
          .predicted_ttft_seconds = chosen.ttft_seconds(),
          .predicted_itl_seconds = chosen.token_seconds,
          .predicted_whole_seconds = chosen.whole_seconds(query.answer.own),
          .in_seconds = fleet.speed().is_known(),
          .pull = chosen.pull};
}

Decision Decide(const RouteQuery& asked, const FleetView& fleet, WorkerSlot slot, DecisionReason reason) {
  RouteQuery query = asked;
  query.transfers = nullptr;
  std::vector<Candidate> candidates = FindCandidates(query, fleet);
  if (!Contains(candidates, slot)) {
    const WorkerView* const worker = fleet.Find(slot);
    ROOST_CHECK(worker != nullptr, "slot {}", slot.value());
    Candidate chosen = CandidateFor(query, *worker, fleet.speed());
    ConsiderRestore(query, *worker, fleet.speed(), chosen);
    candidates.insert(std::upper_bound(candidates.begin(), candidates.end(), chosen, &IsCheaper), chosen);
  }
  const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                   [slot](const Candidate& candidate) { return candidate.slot == slot; });
  const DecisionReason why = candidates.size() == 1 ? DecisionReason::kOnlyWorker : reason;
  Decision decision = DecisionFor(*chosen, why, query, fleet);
  decision.candidates = std::move(candidates);
  return decision;
}

}  // namespace roost::router

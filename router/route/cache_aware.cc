#include "router/route/cache_aware.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "router/route/candidates.h"
#include "router/route/replication.h"

namespace roost::router {

namespace {

// The candidates within a tie of the first, which is the cheapest.
std::span<const Candidate> NearBest(const std::vector<Candidate>& candidates) {
  const double cheapest = candidates.front().cost_seconds();
  const double bound = cheapest + std::min(kTieSeconds, kTieShare * cheapest);
  const auto end = std::find_if(candidates.begin(), candidates.end(),
                                [bound](const Candidate& candidate) { return candidate.cost_seconds() > bound; });
  return {candidates.begin(), end};
}

// `tied` must not be empty.
const Candidate& FirstOf(std::span<const Candidate> tied, const FleetView& fleet) {
  const auto goes_before = [&fleet](const Candidate& a, const Candidate& b) {
    if (a.held_tokens() != b.held_tokens()) return a.held_tokens() > b.held_tokens();
    if (a.queue_seconds != b.queue_seconds) return a.queue_seconds < b.queue_seconds;
    return fleet.Find(a.slot)->last_sent < fleet.Find(b.slot)->last_sent;
  };
  return *std::min_element(tied.begin(), tied.end(), goes_before);
}

DecisionReason ReasonFor(const Candidate& chosen, std::span<const Candidate> tied,
                         const std::vector<Candidate>& candidates) {
  const auto holds_as_much = [&](const Candidate& other) { return other.held_tokens() >= chosen.held_tokens(); };
  const auto holds_more = [&](const Candidate& other) { return other.held_tokens() > chosen.held_tokens(); };
  if (candidates.size() == 1) return DecisionReason::kOnlyWorker;
  if (chosen.way() == Way::kPull) return DecisionReason::kPull;
  if (chosen.way() == Way::kRestore) return DecisionReason::kRestore;
  if (std::count_if(tied.begin(), tied.end(), holds_as_much) > 1) return DecisionReason::kNearTie;
  if (chosen.matched_tokens > 0 && std::none_of(candidates.begin(), candidates.end(), holds_more)) {
    return DecisionReason::kDeepestMatch;
  }
  return DecisionReason::kMinLoad;
}

class CacheAwarePolicy final : public Policy {
 public:
  explicit CacheAwarePolicy(std::uint64_t seed) : replication_(seed) {}

  [[nodiscard]] std::string_view name() const override { return "cache-aware"; }

  [[nodiscard]] std::optional<Decision> Choose(const RouteQuery& query, const FleetView& fleet) override {
    std::vector<Candidate> candidates = FindCandidates(query, fleet);
    if (candidates.empty()) return std::nullopt;
    const std::span<const Candidate> tied = NearBest(candidates);
    const Candidate& cheapest = FirstOf(tied, fleet);
    const auto [chosen, reason, copy] =
        LookAhead(query, fleet, candidates, {cheapest, ReasonFor(cheapest, tied, candidates)});
    Decision decision = DecisionFor(chosen, reason, query, fleet);
    decision.candidates = std::move(candidates);
    decision.copy = copy;
    return decision;
  }

 private:
  struct Choice {
    const Candidate& candidate;
    DecisionReason reason;
    std::optional<PrefixCopy> copy = {};
  };

  // Returns `choice`, perhaps with a copy for later requests.
  [[nodiscard]] Choice LookAhead(const RouteQuery& query, const FleetView& fleet,
                                 const std::vector<Candidate>& candidates, Choice choice) {
    if (!query.now.has_value()) return choice;
    const auto copy = replication_.Choose(query, fleet, candidates, choice.candidate);
    return copy.has_value() ? Choice{choice.candidate, DecisionReason::kReplicate, copy} : choice;
  }

  Replication replication_;
};

}  // namespace

std::unique_ptr<Policy> MakeCacheAware(std::uint64_t seed) { return std::make_unique<CacheAwarePolicy>(seed); }

}  // namespace roost::router

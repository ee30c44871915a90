#include "router/route/cache_aware.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "router/route/candidates.h"
#include "router/route/replication.h"
#include "router/route/warm_up.h"

namespace roost::router {

namespace {

// Costs are equal that are no further apart than the larger of these: a part of the first one's TTFT, since a weight on
// the work does not make the prediction of a wait any worse.
constexpr double kTieMargin = 0.05;
constexpr double kTieSeconds = 0.01;

// Those within the margin of the first, which is the cheapest.
std::span<const Candidate> NearBest(const std::vector<Candidate>& candidates) {
  const Candidate& best = candidates.front();
  const double bound = best.cost_seconds() + std::max(best.ttft_seconds() * kTieMargin, kTieSeconds);
  const auto end = std::find_if(candidates.begin(), candidates.end(),
                                [bound](const Candidate& candidate) { return candidate.cost_seconds() > bound; });
  return {candidates.begin(), end};
}

// The deeper match, then the shorter wait, then whose turn it is. `tied` is not empty.
const Candidate& PickTied(std::span<const Candidate> tied, const FleetView& fleet) {
  const auto is_preferred = [&](const Candidate& a, const Candidate& b) {
    return std::make_tuple(b.matched_tokens, a.wait_seconds(), fleet.Find(a.slot)->last_sent) <
           std::make_tuple(a.matched_tokens, b.wait_seconds(), fleet.Find(b.slot)->last_sent);
  };
  return *std::min_element(tied.begin(), tied.end(), is_preferred);
}

DecisionReason ReasonFor(const Candidate& chosen, std::span<const Candidate> tied,
                         const std::vector<Candidate>& candidates) {
  const auto holds_as_much = [&](const Candidate& other) { return other.matched_tokens >= chosen.matched_tokens; };
  const auto holds_more = [&](const Candidate& other) { return other.matched_tokens > chosen.matched_tokens; };
  if (candidates.size() == 1) return DecisionReason::kOnlyWorker;
  if (std::count_if(tied.begin(), tied.end(), holds_as_much) > 1) return DecisionReason::kNearTie;
  if (chosen.matched_tokens > 0 && std::none_of(candidates.begin(), candidates.end(), holds_more)) {
    return DecisionReason::kDeepestMatch;
  }
  return DecisionReason::kLeastLoad;
}

class CacheAwarePolicy final : public Policy {
 public:
  explicit CacheAwarePolicy(std::uint64_t seed) : replication_(seed) {}

  [[nodiscard]] std::string_view name() const override { return "cache-aware"; }

  [[nodiscard]] std::optional<Decision> Choose(const RouteQuery& query, const FleetView& fleet) override {
    std::vector<Candidate> candidates = FindCandidates(query, fleet);
    if (candidates.empty()) return std::nullopt;
    const std::span<const Candidate> tied = NearBest(candidates);
    const Candidate& cheapest = PickTied(tied, fleet);
    const auto [chosen, reason] =
        LookAhead(query, fleet, candidates, {cheapest, ReasonFor(cheapest, tied, candidates)});
    Decision decision{.slot = chosen.slot,
                      .reason = reason,
                      .matched_tokens = chosen.matched_tokens,
                      .predicted_ttft_seconds = chosen.ttft_seconds(),
                      .in_seconds = fleet.speed().is_known()};
    decision.candidates = std::move(candidates);
    return decision;
  }

 private:
  struct Choice {
    const Candidate& candidate;
    DecisionReason reason;
  };

  // `choice`, or what serves those better who come after.
  [[nodiscard]] Choice LookAhead(const RouteQuery& query, const FleetView& fleet,
                                 const std::vector<Candidate>& candidates, Choice choice) {
    if (!query.now.has_value()) return choice;
    const Candidate* const warmed = warm_up_.Choose(query, fleet, candidates, choice.candidate);
    if (warmed != nullptr) return {*warmed, DecisionReason::kWarmUp};
    const Candidate* const copier = replication_.Choose(query, fleet, candidates, choice.candidate);
    return copier == nullptr ? choice : Choice{*copier, DecisionReason::kReplicate};
  }

  Replication replication_;
  WarmUp warm_up_;
};

}  // namespace

std::unique_ptr<Policy> MakeCacheAware(std::uint64_t seed) { return std::make_unique<CacheAwarePolicy>(seed); }

}  // namespace roost::router

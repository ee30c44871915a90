#include "router/route/cache_aware.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "router/route/candidates.h"
#include "router/route/replication.h"
#include "router/route/warm_up.h"

namespace roost::router {

namespace {

// Costs are equal that are no further apart than the larger of these.
constexpr double kTieMargin = 0.05;
constexpr double kTieSeconds = 0.01;

// Those within the margin of the first, which is the cheapest.
std::span<const Candidate> NearBest(const std::vector<Candidate>& candidates) {
  const double best = candidates.front().cost_seconds();
  const double bound = best + std::max(best * kTieMargin, kTieSeconds);
  const auto end = std::find_if(candidates.begin(), candidates.end(),
                                [bound](const Candidate& candidate) { return candidate.cost_seconds() > bound; });
  return {candidates.begin(), end};
}

bool IsPreferred(const Candidate& a, const Candidate& b) {
  return std::make_tuple(b.matched_tokens, a.wait_seconds()) < std::make_tuple(a.matched_tokens, b.wait_seconds());
}

// Any of those that no other is preferred to. `tied` is not empty.
const Candidate& PickTied(std::span<const Candidate> tied, Rng& rng) {
  const Candidate* picked = &tied.front();
  std::uint64_t equals = 0;
  for (const Candidate& candidate : tied) {
    if (IsPreferred(candidate, *picked)) equals = 0;
    if (IsPreferred(*picked, candidate)) continue;
    if (rng.Below(++equals) == 0) picked = &candidate;
  }
  return *picked;
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
  explicit CacheAwarePolicy(std::uint64_t seed) : rng_(seed), replication_(rng_()) {}

  [[nodiscard]] std::string_view name() const override { return "cache-aware"; }

  [[nodiscard]] std::optional<Decision> Choose(const RouteQuery& query, const FleetView& fleet) override {
    std::vector<Candidate> candidates = FindCandidates(query, fleet);
    if (candidates.empty()) return std::nullopt;
    const std::span<const Candidate> tied = NearBest(candidates);
    const Candidate& cheapest = PickTied(tied, rng_);
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

  Rng rng_;
  Replication replication_;
  WarmUp warm_up_;
};

}  // namespace

std::unique_ptr<Policy> MakeCacheAware(std::uint64_t seed) { return std::make_unique<CacheAwarePolicy>(seed); }

}  // namespace roost::router

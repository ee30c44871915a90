#include "router/route/cache_aware.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "router/route/candidates.h"
#include "router/route/replication.h"
#include "router/route/warm_up.h"

namespace roost::router {

namespace {

// Between equal costs: what a place in a full batch weighs against one in an empty one, the difference between waits
// that says nothing, and what a second of more says, since a wait is a guess where a match is none.
constexpr double kPlaceSeconds = 0.005;
constexpr double kWaitNoiseSeconds = 0.01;
constexpr double kWaitWeight = 0.3;
// What a second of prefill that a worker was given lately weighs, for each second of this prompt's own.
constexpr double kEvenWeight = 0.03;
constexpr double kLongPrefillSeconds = 1;  // a longer one says no more

// Those within the margin of the first, which is the cheapest.
std::span<const Candidate> NearBest(const std::vector<Candidate>& candidates) {
  const Candidate& best = candidates.front();
  const double bound = best.cost_seconds() + std::max(best.ttft_seconds() * kTieMargin, kTieSeconds);
  const auto end = std::find_if(candidates.begin(), candidates.end(),
                                [bound](const Candidate& candidate) { return candidate.cost_seconds() > bound; });
  return {candidates.begin(), end};
}

// The part of its batch that is taken.
double Fullness(const WorkerView& worker) {
  const double requests = static_cast<double>(worker.running_requests) + static_cast<double>(worker.waiting_requests);
  return requests / std::max(1.0, static_cast<double>(worker.max_running_requests));
}

// Who has the deepest match, but for what an emptier batch, a shorter wait and less work lately are worth; then the
// shorter wait, then whose turn it is (FirstOf). Were the match alone to decide, whoever is some tokens ahead in a
// prompt that all share would get all who come, and a request keeps its place in the batch long after its prefill. A
// prefill times the work before it is what the sum of squares of all workers' work grows by, which is least when they
// are even; so what is long goes to who had least, and what is short to who holds it. One for each of `tied`.
std::vector<TieScore> ScoresOf(std::span<const Candidate> tied, const FleetView& fleet) {
  double least_wait = std::numeric_limits<double>::infinity();
  for (const Candidate& each : tied) least_wait = std::min(least_wait, each.wait_seconds());
  const FleetSpeed speed = fleet.speed();  // by their own, who seem a little faster would get all that nobody holds
  std::vector<TieScore> scores;
  scores.reserve(tied.size());
  for (const Candidate& each : tied) {
    const WorkerView& worker = *fleet.Find(each.slot);
    const double lately = speed.SecondsFor(worker.given_tokens_lately);
    const double later = std::max(0.0, each.wait_seconds() - least_wait - kWaitNoiseSeconds);
    const double saved = speed.SecondsFor(each.matched_tokens);
    const double uneven = std::min(each.prefill_seconds, kLongPrefillSeconds) * lately;
    const double score = kWaitWeight * later + kPlaceSeconds * Fullness(worker) + kEvenWeight * uneven - saved;
    scores.push_back({.slot = each.slot, .lately_seconds = lately, .score_seconds = score});
  }
  return scores;
}

// `tied` is not empty, and has these scores.
const Candidate& FirstOf(std::span<const Candidate> tied, std::span<const TieScore> scores, const FleetView& fleet) {
  const auto key = [&](const TieScore& score) {
    const Candidate& candidate = tied[static_cast<std::size_t>(&score - scores.data())];
    return std::make_tuple(score.score_seconds, candidate.wait_seconds(), fleet.Find(score.slot)->last_sent);
  };
  const auto first = std::min_element(scores.begin(), scores.end(),
                                      [&key](const TieScore& a, const TieScore& b) { return key(a) < key(b); });
  return tied[static_cast<std::size_t>(first - scores.begin())];
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
    std::vector<TieScore> scores;
    if (tied.size() > 1) scores = ScoresOf(tied, fleet);
    const Candidate& cheapest = scores.empty() ? tied.front() : FirstOf(tied, scores, fleet);
    const auto [chosen, reason, copy] =
        LookAhead(query, fleet, candidates, {cheapest, ReasonFor(cheapest, tied, candidates)});
    Decision decision{.slot = chosen.slot,
                      .reason = reason,
                      .matched_tokens = chosen.matched_tokens,
                      .predicted_ttft_seconds = chosen.ttft_seconds(),
                      .in_seconds = fleet.speed().is_known()};
    decision.candidates = std::move(candidates);
    decision.copy = copy;
    decision.tie = std::move(scores);
    return decision;
  }

 private:
  struct Choice {
    const Candidate& candidate;
    DecisionReason reason;
    std::optional<PrefixCopy> copy = {};
  };

  // `choice`, or what serves those better who come after; perhaps with a copy for them.
  [[nodiscard]] Choice LookAhead(const RouteQuery& query, const FleetView& fleet,
                                 const std::vector<Candidate>& candidates, Choice choice) {
    if (!query.now.has_value()) return choice;
    const Candidate* const warmed = warm_up_.Choose(query, fleet, candidates, choice.candidate);
    if (warmed != nullptr) return {*warmed, DecisionReason::kWarmUp};
    const auto copy = replication_.Choose(query, fleet, candidates, choice.candidate);
    return copy.has_value() ? Choice{choice.candidate, DecisionReason::kReplicate, copy} : choice;
  }

  Replication replication_;
  WarmUp warm_up_;
};

}  // namespace

std::unique_ptr<Policy> MakeCacheAware(std::uint64_t seed) { return std::make_unique<CacheAwarePolicy>(seed); }

}  // namespace roost::router

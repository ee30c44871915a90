#include "router/route/policy.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "router/route/cost.h"

namespace roost::router {

namespace {

// Predictions closer than this are equal: the fit and the reports are no better.
constexpr double kTieMargin = 0.05;

// Orders workers by what they have to do; equal loads are equivalent.
auto LoadOf(const WorkerView& worker) {
  return std::make_tuple(std::uint64_t{worker.running_requests} + worker.waiting_requests,
                         worker.queued_prefill_tokens);
}

struct Pick {
  std::size_t index;
  DecisionReason reason;
};

// What all policies report about the worker at `index`, whether or not they asked for it.
Decision Explain(Pick pick, std::vector<Candidate> candidates) {
  const Candidate& chosen = candidates[pick.index];
  Decision decision{.slot = chosen.slot,
                    .reason = candidates.size() == 1 ? DecisionReason::kOnlyWorker : pick.reason,
                    .matched_tokens = chosen.matched_tokens,
                    .predicted_ttft_seconds = chosen.ttft_seconds(),
                    .candidates = {}};
  decision.candidates = std::move(candidates);
  return decision;
}

// Of `indices` (not empty), one at random among those that no other is less than.
template <typename Less>
std::size_t RandomLeast(const std::vector<std::size_t>& indices, Rng& rng, Less less) {
  const std::size_t least = *std::min_element(indices.begin(), indices.end(), less);
  std::vector<std::size_t> equals;
  std::copy_if(indices.begin(), indices.end(), std::back_inserter(equals),
               [&](std::size_t index) { return !less(least, index); });
  return equals[rng.Below(equals.size())];
}

class CacheAwarePolicy final : public Policy {
 public:
  explicit CacheAwarePolicy(std::uint64_t seed) : rng_(seed) {}

  [[nodiscard]] std::string_view name() const override { return "cache-aware"; }

  [[nodiscard]] Decision Choose(const RouteQuery& query, std::span<const WorkerView> workers) override {
    ROOST_CHECK(!workers.empty());
    std::vector<Candidate> candidates = PredictCosts(query, workers);
    const std::vector<std::size_t> tied = NearBest(candidates);
    const std::size_t chosen = RandomLeast(tied, rng_, [&](std::size_t a, std::size_t b) {
      if (candidates[a].matched_tokens != candidates[b].matched_tokens) {
        return candidates[a].matched_tokens > candidates[b].matched_tokens;
      }
      return LoadOf(workers[a]) < LoadOf(workers[b]);
    });
    const Pick pick{chosen, ReasonFor(chosen, tied, candidates)};
    return Explain(pick, std::move(candidates));
  }

 private:
  static std::vector<std::size_t> NearBest(const std::vector<Candidate>& candidates) {
    double best = candidates.front().ttft_seconds();
    for (const Candidate& candidate : candidates) best = std::min(best, candidate.ttft_seconds());
    std::vector<std::size_t> near;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].ttft_seconds() <= best * (1 + kTieMargin)) near.push_back(i);
    }
    return near;
  }

  static DecisionReason ReasonFor(std::size_t chosen, const std::vector<std::size_t>& tied,
                                  const std::vector<Candidate>& candidates) {
    const std::uint32_t matched = candidates[chosen].matched_tokens;
    const auto as_deep = [&](std::size_t index) { return candidates[index].matched_tokens >= matched; };
    if (std::count_if(tied.begin(), tied.end(), as_deep) > 1) return DecisionReason::kNearTie;
    const bool deepest = std::all_of(candidates.begin(), candidates.end(),
                                     [&](const Candidate& other) { return other.matched_tokens <= matched; });
    return matched > 0 && deepest ? DecisionReason::kDeepestMatch : DecisionReason::kLeastLoad;
  }

  Rng rng_;
};

class LeastLoadedPolicy final : public Policy {
 public:
  explicit LeastLoadedPolicy(std::uint64_t seed) : rng_(seed) {}

  [[nodiscard]] std::string_view name() const override { return "least-loaded"; }

  [[nodiscard]] Decision Choose(const RouteQuery& query, std::span<const WorkerView> workers) override {
    ROOST_CHECK(!workers.empty());
    std::vector<std::size_t> all(workers.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const std::size_t chosen =
        RandomLeast(all, rng_, [&](std::size_t a, std::size_t b) { return LoadOf(workers[a]) < LoadOf(workers[b]); });
    return Explain({chosen, DecisionReason::kLeastLoad}, PredictCosts(query, workers));
  }

 private:
  Rng rng_;
};

// Turns by slot, not by place in the list: workers that come and go do not upset the others' turns.
class RoundRobinPolicy final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "round-robin"; }

  [[nodiscard]] Decision Choose(const RouteQuery& query, std::span<const WorkerView> workers) override {
    ROOST_CHECK(!workers.empty());
    const auto turn = [&](std::size_t index) {  // those after the last one first, each group by slot
      const WorkerSlot slot = workers[index].slot;
      return std::make_pair(last_.has_value() && slot <= *last_, slot);
    };
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < workers.size(); ++i) {
      if (turn(i) < turn(chosen)) chosen = i;
    }
    last_ = workers[chosen].slot;
    return Explain({chosen, DecisionReason::kRotation}, PredictCosts(query, workers));
  }

 private:
  std::optional<WorkerSlot> last_;
};

class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(std::uint64_t seed) : rng_(seed) {}

  [[nodiscard]] std::string_view name() const override { return "random"; }

  [[nodiscard]] Decision Choose(const RouteQuery& query, std::span<const WorkerView> workers) override {
    ROOST_CHECK(!workers.empty());
    return Explain({rng_.Below(workers.size()), DecisionReason::kRandom}, PredictCosts(query, workers));
  }

 private:
  Rng rng_;
};

}  // namespace

std::string_view NameOf(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kDeepestMatch: return "deepest_match";
    case DecisionReason::kLeastLoad: return "least_load";
    case DecisionReason::kNearTie: return "near_tie";
    case DecisionReason::kOnlyWorker: return "only_worker";
    case DecisionReason::kRotation: return "rotation";
    case DecisionReason::kRandom: return "random";
  }
  ROOST_CHECK(false, "reason {}", static_cast<int>(reason));
  return {};
}

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, std::uint64_t seed) {
  if (name == "cache-aware") return std::unique_ptr<Policy>(std::make_unique<CacheAwarePolicy>(seed));
  if (name == "round-robin") return std::unique_ptr<Policy>(std::make_unique<RoundRobinPolicy>());
  if (name == "random") return std::unique_ptr<Policy>(std::make_unique<RandomPolicy>(seed));
  if (name == "least-loaded") return std::unique_ptr<Policy>(std::make_unique<LeastLoadedPolicy>(seed));
  return InvalidArgument("policy", "\"{}\" is none of cache-aware, round-robin, random, least-loaded", name);
}

}  // namespace roost::router

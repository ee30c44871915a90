#include "worker/sample/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace roost::worker {
namespace {

using Candidate = SamplerScratch::Candidate;

Error BrokenLogits(const char* what) {
  return Error{ErrorCode::kInternal, fmt::format("the model's logits are {}", what), ""};
}

// A total order: no two candidates are equal, so that nothing depends on how a library sorts.
bool IsLikelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}
bool IsLessLikely(const Candidate& a, const Candidate& b) { return IsLikelier(b, a); }

// The likeliest token of a row that is sound.
Result<Candidate> FindBest(std::span<const float> logits) {
  Candidate best{-std::numeric_limits<float>::infinity(), 0};
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (std::isnan(logits[token])) return BrokenLogits("not a number");
    if (logits[token] > best.logit) best = {logits[token], static_cast<TokenId>(token)};
  }
  if (std::isinf(best.logit)) return BrokenLogits(best.logit > 0 ? "infinite" : "all minus infinity");
  return best;
}

// The token at which the running sum of the weights passes `uniform` of their total. The weights' own rounding can
// leave the sum short of it: then it is the last token that can be drawn.
template <typename TokenAt>
TokenId Draw(std::span<const double> weights, double uniform, const TokenAt& token_at) {
  double total = 0;
  for (const double weight : weights) total += weight;
  const double target = uniform * total;
  double sum = 0;
  std::size_t last_possible = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    sum += weights[i];
    last_possible = i;
    if (sum > target) break;
  }
  return token_at(last_possible);
}

double Weight(float logit, float best_logit, double temperature) {
  return std::exp((static_cast<double>(logit) - static_cast<double>(best_logit)) / temperature);
}

// Leaves the candidates that top-k keeps, in no order.
void KeepTopK(std::uint32_t top_k, std::vector<Candidate>& candidates) {
  if (top_k == 0 || top_k >= candidates.size()) return;
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(top_k);
  std::nth_element(candidates.begin(), end, candidates.end(), IsLikelier);
  candidates.erase(end, candidates.end());
}

// Leaves the candidates that top-p keeps, likeliest first, with their weights. A heap, because top-p keeps few of many.
void KeepTopP(const wire::Sampling& sampling, float best_logit, SamplerScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  double total = 0;
  for (const Candidate& candidate : candidates) total += Weight(candidate.logit, best_logit, sampling.temperature);
  const double wanted = static_cast<double>(sampling.top_p) * total;

  std::make_heap(candidates.begin(), candidates.end(), IsLessLikely);
  auto heap_end = candidates.end();
  double sum = 0;
  scratch.weights.clear();
  while (heap_end != candidates.begin() && (scratch.weights.empty() || sampling.top_p == 1.0F || sum < wanted)) {
    std::pop_heap(candidates.begin(), heap_end, IsLessLikely);
    --heap_end;
    scratch.weights.push_back(Weight(heap_end->logit, best_logit, sampling.temperature));
    sum += scratch.weights.back();
  }
  // The heap fills its end with the likeliest, the likeliest last.
  std::reverse(candidates.begin(), candidates.end());
  candidates.resize(scratch.weights.size());
}

}  // namespace

Result<void> ValidateSampling(const wire::Sampling& sampling) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return InvalidArgument("temperature", "{} is not a number from 0", sampling.temperature);
  }
  if (!(sampling.top_p >= 0 && sampling.top_p <= 1)) {
    return InvalidArgument("top_p", "{} is not between 0 and 1", sampling.top_p);
  }
  return {};
}

Result<TokenId> SampleToken(std::span<const float> logits, const wire::Sampling& sampling, std::uint64_t output_index,
                            SamplerScratch& scratch) {
  ROOST_CHECK(!logits.empty());
  ROOST_ASSIGN_OR_RETURN(const Candidate best, FindBest(logits));
  if (sampling.temperature == 0) return best.token;

  const double uniform = CounterUniform(sampling.seed, output_index);
  if (sampling.top_k == 0 && sampling.top_p == 1.0F) {
    scratch.weights.resize(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      scratch.weights[i] = Weight(logits[i], best.logit, sampling.temperature);
    }
    return Draw(scratch.weights, uniform, [](std::size_t i) { return static_cast<TokenId>(i); });
  }
  scratch.candidates.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) scratch.candidates[i] = {logits[i], static_cast<TokenId>(i)};
  KeepTopK(sampling.top_k, scratch.candidates);
  KeepTopP(sampling, best.logit, scratch);
  return Draw(scratch.weights, uniform, [&scratch](std::size_t i) { return scratch.candidates[i].token; });
}

}  // namespace roost::worker

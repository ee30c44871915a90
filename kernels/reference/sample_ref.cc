// The definition: sums in f64, and likelihood by sorting.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/sample.h"

namespace roost::kernels {
namespace {

struct Candidate {
  float logit;
  TokenId token;
};

// The candidates of a draw, and their weights.
struct Candidates {
  std::vector<Candidate> candidates;
  std::vector<double> weights;
};

// A total order: no two candidates are equal, so the result does not depend on the library's sort.
bool IsLikelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}
bool IsLessLikely(const Candidate& a, const Candidate& b) { return IsLikelier(b, a); }

// The likeliest token of a row, or why the row has none.
struct Best {
  Candidate candidate{-std::numeric_limits<float>::infinity(), 0};
  SampleStatus status = SampleStatus::kSampled;
};

Best FindBest(std::span<const float> logits) {
  Best best;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (std::isnan(logits[token])) return {.status = SampleStatus::kNotANumber};
    if (logits[token] > best.candidate.logit) best.candidate = {logits[token], static_cast<TokenId>(token)};
  }
  if (std::isinf(best.candidate.logit)) {
    best.status = best.candidate.logit > 0 ? SampleStatus::kInfinite : SampleStatus::kAllMinusInfinity;
  }
  return best;
}

// The token at which the running sum of the weights exceeds `uniform` times their total. Rounding can keep the sum
// below it: then it is the last token that can be drawn.
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

// 1 for the best token; 0 for tokens that min-p drops.
double Weight(float logit, float best_logit, const SampleRow& draw) {
  const double distance = static_cast<double>(logit) - static_cast<double>(best_logit);
  const double weight = std::exp(distance / static_cast<double>(draw.temperature));
  return weight < static_cast<double>(draw.min_p) ? 0 : weight;
}

// Keeps the candidates of top-k, in no order.
void KeepTopK(std::uint32_t top_k, std::vector<Candidate>& candidates) {
  if (top_k == 0 || top_k >= candidates.size()) return;
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(top_k);
  std::nth_element(candidates.begin(), end, candidates.end(), IsLikelier);
  candidates.erase(end, candidates.end());
}

// Keeps the candidates of top-p, likeliest first, with their weights. Uses a heap, because top-p keeps few of many.
void KeepTopP(const SampleRow& draw, float best_logit, Candidates& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  double total = 0;
  for (const Candidate& candidate : candidates) total += Weight(candidate.logit, best_logit, draw);
  const double wanted = static_cast<double>(draw.top_p) * total;

  std::make_heap(candidates.begin(), candidates.end(), IsLessLikely);
  auto heap_end = candidates.end();
  double sum = 0;
  scratch.weights.clear();
  while (heap_end != candidates.begin() && (scratch.weights.empty() || draw.top_p == 1.0F || sum < wanted)) {
    std::pop_heap(candidates.begin(), heap_end, IsLessLikely);
    --heap_end;
    scratch.weights.push_back(Weight(heap_end->logit, best_logit, draw));
    sum += scratch.weights.back();
  }
  // The heap puts the likeliest at its end, the very likeliest last.
  std::reverse(candidates.begin(), candidates.end());
  candidates.resize(scratch.weights.size());
}

TokenId DrawToken(std::span<const float> logits, const SampleRow& draw, float best_logit) {
  Candidates scratch;
  const double uniform = CounterUniform(draw.seed, draw.output_index);
  if (draw.top_k == 0 && draw.top_p == 1.0F) {
    scratch.weights.resize(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) scratch.weights[i] = Weight(logits[i], best_logit, draw);
    return Draw(scratch.weights, uniform, [](std::size_t i) { return static_cast<TokenId>(i); });
  }
  scratch.candidates.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) scratch.candidates[i] = {logits[i], static_cast<TokenId>(i)};
  KeepTopK(draw.top_k, scratch.candidates);
  KeepTopP(draw, best_logit, scratch);
  return Draw(scratch.weights, uniform, [&scratch](std::size_t i) { return scratch.candidates[i].token; });
}

}  // namespace

SampledToken SampleInDouble(std::span<const float> logits, const SampleRow& draw) {
  ROOST_CHECK(!logits.empty());
  const Best best = FindBest(logits);
  if (best.status != SampleStatus::kSampled) return {.token = 0, .status = best.status};
  if (draw.temperature == 0) return {.token = best.candidate.token, .status = best.status};
  return {.token = DrawToken(logits, draw, best.candidate.logit), .status = best.status};
}

void SampleRef(Device& /*device*/, const SampleArgs& args) {
  for (std::uint32_t i = 0; i < args.row_count; ++i) {
    const SampleRow& draw = args.rows[i];
    args.out[i] = SampleInDouble(LogitsOf(args, draw), draw);
  }
}

}  // namespace roost::kernels

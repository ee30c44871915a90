// Four passes over a row, which is in the core's own cache after the first: the largest logit, the sum of exponentials,
// the rank, the likeliest tokens. Few tokens enter the list of the likeliest, so the last pass is mostly vector
// comparisons.
#include "kernels/logprobs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/logprobs_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "kernels/cpu/cpu_parallel.h"
#include "kernels/cpu/sample_weights_cpu.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace roost::kernels::HWY_NAMESPACE {

// The number of logits above `logit`, plus the number of the first `before` logits that are equal to it.
std::size_t CountLikelierTokens(std::span<const float> logits, std::size_t before, float logit) {
  std::size_t count = 0;
  ForLanes(before, [&](auto d, std::size_t i) HWY_ATTR {
    count += hn::CountTrue(d, hn::Ge(hn::LoadU(d, logits.data() + i), hn::Set(d, logit)));
  });
  const std::span<const float> behind = logits.subspan(before);
  ForLanes(behind.size(), [&](auto d, std::size_t i) HWY_ATTR {
    count += hn::CountTrue(d, hn::Gt(hn::LoadU(d, behind.data() + i), hn::Set(d, logit)));
  });
  return count;
}

// Inserts a token into the ordered `top`, and drops its last one. The token's id is above all of theirs.
HWY_INLINE void Insert(TopToken token, std::span<TopToken> top) {
  std::size_t place = top.size() - 1;
  for (; place > 0 && token.logprob > top[place - 1].logprob; --place) top[place] = top[place - 1];
  top[place] = token;
}

// Writes logits where log probabilities will be.
void FindLikeliest(std::span<const float> logits, std::span<TopToken> top) {
  if (top.empty()) return;
  for (std::size_t i = 0; i < top.size(); ++i) {
    Insert({.token = static_cast<TokenId>(i), .logprob = logits[i]}, top.first(i + 1));
  }
  const std::span<const float> rest = logits.subspan(top.size());
  ForLanes(rest.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const auto logit = hn::LoadU(d, rest.data() + i);
    if (hn::AllFalse(d, hn::Gt(logit, hn::Set(d, top.back().logprob)))) return;
    for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
      const TopToken token{.token = static_cast<TokenId>(top.size() + i + lane), .logprob = rest[i + lane]};
      if (token.logprob > top.back().logprob) Insert(token, top);
    }
  });
}

}  // namespace roost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roost::kernels {
namespace {
HWY_EXPORT(CountLikelierTokens);
HWY_EXPORT(FindLikeliest);

// For a row whose largest logit is `best`.
double LogSumOfExponentials(std::span<const float> logits, float best, std::vector<std::uint64_t>& tile_weights) {
  constexpr double kWeightUnit = 0x1p-44;
  if (!std::isfinite(best)) return 0;
  tile_weights.resize((logits.size() + kTileTokens - 1) / kTileTokens);
  SumTiles({.logits = logits, .best = best}, tile_weights);
  std::uint64_t sum = 0;
  for (const std::uint64_t weight : tile_weights) sum += weight;
  return static_cast<double>(best) + std::log(static_cast<double>(sum) * kWeightUnit);
}

float LogprobOf(float logit, double log_sum) {
  return static_cast<float>(std::min(static_cast<double>(logit) - log_sum, 0.0));
}

}  // namespace

ScoredToken ScoreOnCpu(std::span<const float> logits, TokenId token, std::span<TopToken> top,
                       std::vector<std::uint64_t>& tile_weights) {
  ROOST_CHECK(token < logits.size() && top.size() <= logits.size() && logits.size() <= kMaxSampledVocab);
  const double log_sum = LogSumOfExponentials(logits, FindExtremes(logits).best, tile_weights);
  const std::size_t likelier = HWY_DYNAMIC_DISPATCH(CountLikelierTokens)(logits, token, logits[token]);
  HWY_DYNAMIC_DISPATCH(FindLikeliest)(logits, top);
  for (TopToken& each : top) each.logprob = LogprobOf(each.logprob, log_sum);
  return {.logprob = LogprobOf(logits[token], log_sum), .rank = static_cast<std::uint32_t>(likelier) + 1};
}

void LogprobsCpu(Device& device, const LogprobsArgs& args) {
  constexpr std::uint64_t kOperationsPerLogit = 8;
  CpuDevice& cpu = CpuDevice::Of(device);
  std::vector<std::vector<std::uint64_t>> tile_weights(cpu.thread_count());
  const Cost cost{kOperationsPerLogit * args.row_count * args.vocab_size};
  ParallelFor(cpu, args.row_count, cost, [&](std::size_t i, std::uint32_t thread) {
    const LogprobsRow& row = args.rows[i];
    const std::span<const float> logits(args.logits + std::size_t{row.row} * args.vocab_size, args.vocab_size);
    args.out[i] =
        ScoreOnCpu(logits, TokenOf(row, args.sampled), {args.top + row.first_top, row.top_count}, tile_weights[thread]);
  });
}

}  // namespace roost::kernels
#endif  // HWY_ONCE

// The definition: sums in f64, and ranks by sorting.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/logprobs.h"

namespace roost::kernels {
namespace {

double LogSumExp(std::span<const float> logits) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - best);
  return best + std::log(sum);
}

std::vector<TokenId> ByLikelihood(std::span<const float> logits) {
  std::vector<TokenId> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(), [logits](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  return tokens;
}

}  // namespace

void LogprobsRef(Device& /*device*/, const LogprobsArgs& args) {
  for (std::uint32_t i = 0; i < args.row_count; ++i) {
    const LogprobsRow& row = args.rows[i];
    const std::span<const float> logits(args.logits + std::size_t{row.row} * args.vocab_size, args.vocab_size);
    const TokenId token = TokenOf(row, args.sampled);
    const double sum = LogSumExp(logits);
    const auto logprob = [&](TokenId of) {
      return static_cast<float>(std::min(static_cast<double>(logits[of]) - sum, 0.0));
    };
    const std::vector<TokenId> tokens = ByLikelihood(logits);
    const auto place = std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
    args.out[i] = {.logprob = logprob(token), .rank = static_cast<std::uint32_t>(place) + 1};
    for (std::uint32_t k = 0; k < row.top_count; ++k) {
      args.top[row.first_top + k] = {.token = tokens[k], .logprob = logprob(tokens[k])};
    }
  }
}

}  // namespace roost::kernels

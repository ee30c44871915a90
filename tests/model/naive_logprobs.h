// Log probabilities by their definition, in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "common/base/ids.h"

namespace roost::testing_support {

struct NaiveLogprobs {
  double logprob = 0;
  std::uint32_t rank = 1;
  std::vector<TokenId> top;
  std::vector<double> top_logprobs;
};

inline NaiveLogprobs NaiveLogprobsOf(std::span<const float> logits, TokenId token, std::size_t top_count) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [logits](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  const auto logprob = [&](TokenId of) { return static_cast<double>(logits[of]) - std::log(sum); };
  NaiveLogprobs result{
      .logprob = logprob(token),
      .rank = static_cast<std::uint32_t>(std::find(order.begin(), order.end(), token) - order.begin()) + 1,
      .top = {},
      .top_logprobs = {}};
  for (std::size_t i = 0; i < std::min(top_count, order.size()); ++i) {
    result.top.push_back(order[i]);
    result.top_logprobs.push_back(logprob(order[i]));
  }
  return result;
}

}  // namespace roost::testing_support

#include "worker/sample/logit_adjuster.h"

#include <algorithm>

namespace roost::worker {

using kernels::LogitAdjustment;

LogitAdjuster::LogitAdjuster(const wire::Sampling& sampling, std::span<const TokenId> prompt,
                             std::uint64_t output_count)
    : penalties_{.repetition = sampling.repetition_penalty,
                 .presence = sampling.presence_penalty,
                 .frequency = sampling.frequency_penalty} {
  const std::size_t split = prompt.size() - std::min<std::uint64_t>(output_count, prompt.size());
  AddPrompt(prompt.first(split));
  for (const wire::LogitBias& bias : sampling.logit_bias) adjustments_[EntryOf(bias.token)].bias = bias.bias;
  for (const TokenId token : prompt.subspan(split)) Append(token);
}

// Sorted first: one token after another would move the later entries each time.
void LogitAdjuster::AddPrompt(std::span<const TokenId> prompt) {
  if (penalties_.repetition == 1) return;
  std::vector<TokenId> tokens(prompt.begin(), prompt.end());
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (const TokenId token : tokens) adjustments_.push_back({.token = token, .repetition = penalties_.repetition});
}

void LogitAdjuster::Append(TokenId token) {
  if (!penalizes_output()) return;
  LogitAdjustment& adjustment = adjustments_[EntryOf(token)];
  adjustment = kernels::WithOneMore(adjustment, penalties_);
}

void LogitAdjuster::Reserve(std::size_t token_count) {
  if (!penalizes_output()) return;
  adjustments_.reserve(adjustments_.size() + token_count);
}

// The place of the token's entry, which is made if there is none.
std::size_t LogitAdjuster::EntryOf(TokenId token) {
  const auto place =
      std::lower_bound(adjustments_.begin(), adjustments_.end(), token,
                       [](const LogitAdjustment& entry, TokenId wanted) { return entry.token < wanted; });
  const auto entry = static_cast<std::size_t>(place - adjustments_.begin());
  if (place == adjustments_.end() || place->token != token) {
    adjustments_.insert(place, {.token = token});
  }
  return entry;
}

}  // namespace roost::worker

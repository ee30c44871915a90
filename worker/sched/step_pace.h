// The time of this worker's steps: fitted to recent ones, to plan the next, and to thousands of them, for how much
// longer a token takes the more come before it.
//
// A plain value; not thread-safe. O(1).
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/rate_estimator.h"

namespace roost::worker {

// For each of these tokens of a prompt the tokens before it, added up: what attention reads.
[[nodiscard]] constexpr std::uint64_t TokensBefore(std::uint32_t first_position, std::uint32_t token_count) {
  const std::uint64_t count = token_count;
  return count * first_position + count * (count - 1) / 2;
}

class StepPace {
 public:
  // `full_step`: the most tokens of a step.
  explicit StepPace(std::uint32_t full_step) : full_step_(full_step) {}

  // The step took this long; `tokens_before` are the TokensBefore of its slices that are not decodes, added up. Returns
  // by what part of a first token's time each token before it lengthens a token's, once that is known and if the step
  // had prefill.
  std::optional<double> Note(const StepSample& step, std::uint64_t tokens_before);

  [[nodiscard]] const RateEstimator& rates() const { return rates_; }
  // The mean time of a token in recent steps with prefill, and of so many; zero until there was one.
  [[nodiscard]] double mean_token_seconds() const { return tokens_ > 0 ? seconds_ / tokens_ : 0; }
  [[nodiscard]] double MeanSeconds(std::uint64_t tokens) const {
    return tokens_ > 0 ? static_cast<double>(tokens) * seconds_ / tokens_ : 0;
  }
  // The time that these prompt tokens take alone, behind those before them; without that growth until it is known. Zero
  // until there is a fit.
  [[nodiscard]] double PromptSeconds(std::uint32_t first_position, std::uint32_t token_count) const;
  // The time of a prompt token in full steps with so many, beside those that decode. Not the mean of recent steps:
  // those that compute the last token of a hit take long for a token. Zero until it is known.
  [[nodiscard]] double PromptTokenSeconds(std::uint32_t prompt_tokens) const;

 private:
  [[nodiscard]] std::optional<double> NoteDepth(const StepSample& step, std::uint64_t tokens_before);

  const std::uint32_t full_step_;
  double seconds_ = 0;  // time of steps with prefill; older steps weigh less
  double tokens_ = 0;   // tokens of these steps
  RateEstimator rates_;
  RateEstimator depth_rates_;  // of steps with prefill; its context tokens are their tokens before
  double depth_seconds_ = 0;   // time of these steps; older ones weigh less
  double depth_tokens_ = 0;    // prompt tokens of these steps
  std::uint64_t prefill_steps_ = 0;
  // The time of a token that none comes before, and how much more it takes for each that does.
  struct Depth {
    double first_seconds = 0;
    double seconds_per_token_before = 0;
  };
  std::optional<Depth> depth_;
};

}  // namespace roost::worker

// A worker's speed, fitted online from its steps:
//
//   step_seconds ≈ base + prefill_tokens · per_prefill_token + decode_tokens · per_decode_token
//                  + context_tokens · per_context_token
//
// with one base for steps that carry prefill and one for those that do not. A step of decodes alone takes the time to
// read the weights, and the first tokens of a prefill may be hidden behind that. With a single base short prefills
// would seem free.
//
// Least squares with exponential forgetting (by default a step counts half after about 70 more), with coefficients that
// are not negative. With five coefficients, the constrained optimum is found by trying each subset as the non-zero ones
// (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23, by enumeration), that of the fit before first.
// Small penalties decide what the data leave open: if all steps look alike except for noise, the tokens get the time,
// and the bases are equal until steps of both kinds were seen.
//
// A plain value; not thread-safe. Constant time per step.
#pragma once

#include <array>
#include <cstdint>

namespace roost {

struct StepSample {
  std::uint32_t prefill_tokens = 0;
  std::uint32_t decode_tokens = 0;
  double seconds = 0;
  std::uint64_t context_tokens = 0;  // of the requests that decode, all that they attend to
};

// The time of a step that only decodes: base + per_request · requests + per_context_token · their context tokens.
struct DecodeCost {
  double base_seconds = 0;
  double per_request_seconds = 0;
  double per_context_token_seconds = 0;

  [[nodiscard]] double StepSeconds(double requests, double context_tokens) const {
    return base_seconds + per_request_seconds * requests + per_context_token_seconds * context_tokens;
  }
};

class RateEstimator {
 public:
  // The share of the sums that a new step keeps.
  static constexpr double kForgetting = 0.99;

  // Ignores samples that are not a step: no tokens, or a time that is not positive and finite.
  void Observe(const StepSample& step, double forgetting = kForgetting);

  // Zero until kMinPrefillSteps steps with prefill were seen; positive from then on.
  [[nodiscard]] double prefill_tokens_per_second() const;

  // Seconds that so many prefill tokens take, without a step's base. Until steps of different lengths have shown that
  // base several times, all time of prefills counts as their tokens': a first short step that takes as long as the full
  // ones before it may be slow by chance. Zero as long as the rate above.
  [[nodiscard]] double prefill_seconds(std::uint32_t token_count) const;

  // Seconds of a step with prefill. Takes all time of prefills for their tokens' as long as the function above. Zero as
  // long as the rate above.
  [[nodiscard]] double prefill_step_seconds(const StepSample& step) const;

  // The cost of steps without prefill; all zero until kMinDecodeSteps steps with decodes were seen.
  [[nodiscard]] DecodeCost decode_cost() const;
  // The same for so many decodes.
  [[nodiscard]] double decode_step_seconds(std::uint32_t decode_tokens, std::uint64_t context_tokens = 0) const;

  // Seconds that a step with prefill and `decode_tokens` decodes takes beside its prefill tokens; zero until a step was
  // seen.
  [[nodiscard]] double seconds_beside_prefill(std::uint32_t decode_tokens, std::uint64_t context_tokens = 0) const;

  static constexpr std::uint64_t kMinPrefillSteps = 2;
  static constexpr std::uint64_t kMinDecodeSteps = 2;

 private:
  static constexpr std::size_t kTerms = 5;  // both bases, prefill, decode, context
  using Vector = std::array<double, kTerms>;

  using Matrix = std::array<Vector, kTerms>;

  [[nodiscard]] Matrix PenalizedProducts() const;
  // `seconds_per_token` of prefill, or the least that a token is taken to cost.
  [[nodiscard]] double AtLeastAShare(double seconds_per_token) const;

  // Decaying sums over the steps of x·xᵀ and x·y, with x = (with prefill, without, prefill, decode, context), y =
  // seconds.
  Matrix products_{};
  Vector targets_{};
  Vector coefficients_{};  // the fit to those sums
  Vector prefill_fit_{};   // the same, without a base of steps with prefill as long as that is not known
  std::uint64_t prefill_steps_ = 0;
  std::uint64_t decode_steps_ = 0;
  bool knows_base_ = false;  // of steps with prefill
};

}  // namespace roost

#include "common/base/rate_estimator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace roost {

namespace {

constexpr std::size_t kTerms = 5;
constexpr std::size_t kBase = 0;        // of steps with prefill
constexpr std::size_t kDecodeBase = 1;  // of steps without
constexpr std::size_t kPrefill = 2;
constexpr std::size_t kDecode = 3;
constexpr std::size_t kContext = 4;

// While only decodes come, the weight of the prefill data stops decaying below this value: nothing newer is known about
// prefills.
constexpr double kMinPrefillWeight = 1e-6;
// The weight of an imaginary step with a prefill of 0 tokens that took no time. Without it, the noise of a few prefills
// of about the same length would be fitted as a base, and all tokens would seem free.
constexpr double kEmptySteps = 0.1;
// Penalties, relative to the weight of the data: on the square of the base without prefill, and of the bases'
// difference.
constexpr double kBasePenalty = 1e-4;
constexpr double kApartPenalty = 1e-4;
// Relative too: on the squares of what decodes and their contexts take, so that a prompt's tokens get the time of
// prefills that all look alike.
constexpr double kDecodePenalty = 1e-6;
// Limits the second penalty to this share of the prefills' weight: the prefill data must outlast many decodes.
constexpr double kMaxApart = 0.01;
// A prefill token costs at least this share of (the seconds of all prefill steps / their prefill tokens).
constexpr double kMinShare = 0.01;
constexpr double kSingular = 1e-9;  // pivots below this share of their diagonal are noise
constexpr unsigned kSubsets = 1U << kTerms;
constexpr unsigned kAllTerms = kSubsets - 1;
// From this evidence on, the base of steps with prefill is known: a few odd steps are not taken for one.
constexpr double kSureEvidence = 4;

using Vector = std::array<double, kTerms>;
using Matrix = std::array<Vector, kTerms>;

// Gaussian elimination over the rows and columns in `subset`; the other coefficients are zero. The matrix is positive
// semidefinite, so pivots need no search; nothing when one vanishes.
std::optional<Vector> SolveSubset(Matrix matrix, Vector right, unsigned subset) {
  const Matrix original = matrix;
  Vector solution{};
  for (std::size_t pivot = 0; pivot < kTerms; ++pivot) {
    if ((subset >> pivot & 1U) == 0) continue;
    if (matrix[pivot][pivot] <= kSingular * original[pivot][pivot]) return std::nullopt;
    for (std::size_t row = pivot + 1; row < kTerms; ++row) {
      if ((subset >> row & 1U) == 0) continue;
      const double factor = matrix[row][pivot] / matrix[pivot][pivot];
      for (std::size_t column = pivot; column < kTerms; ++column) matrix[row][column] -= factor * matrix[pivot][column];
      right[row] -= factor * right[pivot];
    }
  }
  for (std::size_t row = kTerms; row-- > 0;) {
    if ((subset >> row & 1U) == 0) continue;
    double rest = right[row];
    for (std::size_t column = row + 1; column < kTerms; ++column) rest -= matrix[row][column] * solution[column];
    solution[row] = rest / matrix[row][row];
  }
  return solution;
}

// The squared error of `solution`, less the constant Σy².
double Objective(const Matrix& matrix, const Vector& right, const Vector& solution) {
  double value = 0;
  for (std::size_t row = 0; row < kTerms; ++row) {
    value -= 2 * right[row] * solution[row];
    for (std::size_t column = 0; column < kTerms; ++column) {
      value += solution[row] * matrix[row][column] * solution[column];
    }
  }
  return value;
}

bool NonNegative(const Vector& vector) {
  for (const double value : vector) {
    if (!(value >= 0)) return false;
  }
  return true;
}

unsigned TermsOf(const Vector& solution) {
  unsigned terms = 0;
  for (std::size_t term = 0; term < kTerms; ++term) {
    if (solution[term] > 0) terms |= 1U << term;
  }
  return terms;
}

// True if none of `terms` that is zero would lower the error if it rose (Karush, Kuhn and Tucker's condition).
bool IsBest(const Matrix& matrix, const Vector& right, const Vector& solution, unsigned terms) {
  for (std::size_t row = 0; row < kTerms; ++row) {
    if ((terms >> row & 1U) == 0 || solution[row] > 0) continue;
    double slope = -right[row];
    for (std::size_t column = 0; column < kTerms; ++column) slope += matrix[row][column] * solution[column];
    if (slope < 0) return false;
  }
  return true;
}

// The best coefficients of which only those of `terms` are not zero. Mostly they are the terms of the fit `before`.
Vector LeastSquares(const Matrix& matrix, const Vector& right, unsigned terms, const Vector& before) {
  if (const unsigned likely = TermsOf(before) & terms; likely != 0) {
    const std::optional<Vector> solution = SolveSubset(matrix, right, likely);
    if (solution.has_value() && NonNegative(*solution) && IsBest(matrix, right, *solution, terms)) return *solution;
  }
  Vector found{};
  double best = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < kSubsets; ++subset) {
    if ((subset & ~terms) != 0) continue;
    const std::optional<Vector> solution = SolveSubset(matrix, right, subset);
    if (!solution.has_value() || !NonNegative(*solution)) continue;
    const double objective = Objective(matrix, right, *solution);
    if (objective >= best) continue;
    best = objective;
    found = *solution;
  }
  return found;
}

// The weight of the evidence on their base in the steps with prefill: 0 if all have the same number of tokens, as much
// as one step without tokens for each that has few beside others that have many. (The Schur complement of the base.)
double BaseEvidence(const Matrix& products) {
  const double tokens = products[kBase][kPrefill];
  return products[kBase][kBase] - tokens * tokens / products[kPrefill][kPrefill];
}

}  // namespace

void RateEstimator::Observe(const StepSample& step, double forgetting) {
  if (step.prefill_tokens == 0 && step.decode_tokens == 0) return;
  if (!std::isfinite(step.seconds) || step.seconds <= 0) return;
  if (step.prefill_tokens > 0) ++prefill_steps_;
  if (step.decode_tokens > 0) ++decode_steps_;
  const bool with_prefill = step.prefill_tokens > 0;
  const Vector x{with_prefill ? 1.0 : 0.0, with_prefill ? 0.0 : 1.0, static_cast<double>(step.prefill_tokens),
                 static_cast<double>(step.decode_tokens), static_cast<double>(step.context_tokens)};
  const bool keeps_prefills = !with_prefill && products_[kBase][kBase] < kMinPrefillWeight;
  const auto kept = [&](std::size_t term) {
    return keeps_prefills && (term == kBase || term == kPrefill) ? 1 : forgetting;
  };
  for (std::size_t row = 0; row < kTerms; ++row) {
    for (std::size_t column = 0; column < kTerms; ++column) {
      const double rest = std::max(kept(row), kept(column)) * products_[row][column];
      products_[row][column] = rest + x[row] * x[column];
    }
    targets_[row] = kept(row) * targets_[row] + x[row] * step.seconds;
  }
  coefficients_ = LeastSquares(PenalizedProducts(), targets_, kAllTerms, coefficients_);
  if (with_prefill && BaseEvidence(products_) >= kSureEvidence) knows_base_ = true;
  constexpr unsigned kWithoutBase = kAllTerms & ~(1U << kBase);
  prefill_fit_ = knows_base_ ? coefficients_ : LeastSquares(PenalizedProducts(), targets_, kWithoutBase, prefill_fit_);
}

RateEstimator::Matrix RateEstimator::PenalizedProducts() const {
  Matrix matrix = products_;
  const double with_prefill = matrix[kBase][kBase];
  const double without = matrix[kDecodeBase][kDecodeBase];
  const double most_apart = with_prefill > 0 ? kMaxApart * with_prefill : std::numeric_limits<double>::infinity();
  const double apart = std::min(kApartPenalty * (with_prefill + without), most_apart);
  matrix[kBase][kBase] += kEmptySteps * std::min(1.0, with_prefill) + apart;
  matrix[kDecodeBase][kDecodeBase] += kBasePenalty * without + apart;
  matrix[kBase][kDecodeBase] -= apart;
  matrix[kDecodeBase][kBase] -= apart;
  matrix[kDecode][kDecode] *= 1 + kDecodePenalty;
  matrix[kContext][kContext] *= 1 + kDecodePenalty;
  return matrix;
}

double RateEstimator::AtLeastAShare(double seconds_per_token) const {
  const double all_seconds_per_token = targets_[kBase] / products_[kBase][kPrefill];
  return std::max(seconds_per_token, kMinShare * all_seconds_per_token);
}

double RateEstimator::prefill_tokens_per_second() const {
  return prefill_steps_ < kMinPrefillSteps ? 0 : 1 / AtLeastAShare(coefficients_[kPrefill]);
}

double RateEstimator::prefill_seconds(std::uint32_t token_count) const {
  if (prefill_steps_ < kMinPrefillSteps) return 0;
  return token_count * AtLeastAShare(prefill_fit_[kPrefill]);
}

double RateEstimator::prefill_step_seconds(const StepSample& step) const {
  if (prefill_steps_ < kMinPrefillSteps) return 0;
  return prefill_fit_[kBase] + prefill_seconds(step.prefill_tokens) + prefill_fit_[kDecode] * step.decode_tokens +
         prefill_fit_[kContext] * static_cast<double>(step.context_tokens);
}

DecodeCost RateEstimator::decode_cost() const {
  if (decode_steps_ < kMinDecodeSteps) return {};
  return {coefficients_[kDecodeBase], coefficients_[kDecode], coefficients_[kContext]};
}

double RateEstimator::decode_step_seconds(std::uint32_t decode_tokens, std::uint64_t context_tokens) const {
  return decode_cost().StepSeconds(decode_tokens, static_cast<double>(context_tokens));
}

double RateEstimator::seconds_beside_prefill(std::uint32_t decode_tokens, std::uint64_t context_tokens) const {
  return coefficients_[kBase] + coefficients_[kDecode] * static_cast<double>(decode_tokens) +
         coefficients_[kContext] * static_cast<double>(context_tokens);
}

}  // namespace roost

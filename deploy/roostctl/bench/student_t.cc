#include "deploy/roostctl/bench/student_t.h"

#include <cmath>

#include "common/base/check.h"

namespace roost::roostctl {
namespace {

constexpr int kMostTerms = 300;
constexpr double kPrecise = 1e-14;

double NotZero(double value) {
  constexpr double kTiny = 1e-300;
  return std::abs(value) < kTiny ? kTiny : value;
}

// The continued fraction of the incomplete beta function, by Lentz's method (Press et al., Numerical Recipes, 6.4).
double BetaFraction(double a, double b, double x) {
  double c = 1;
  double d = 1 / NotZero(1 - (a + b) * x / (a + 1));
  double h = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / NotZero(1 + even * d);
    c = NotZero(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / NotZero(1 + odd * d);
    c = NotZero(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) < kPrecise) break;
  }
  return h;
}

// The regularised incomplete beta function.
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  // The fraction converges quickly on this side only.
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

}  // namespace

double StudentShareBelow(double t, double freedom) {
  ROOST_CHECK(freedom > 0);
  const double tail = IncompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
  return t < 0 ? tail : 1 - tail;
}

double StudentQuantile(double share, double freedom) {
  ROOST_CHECK(share > 0 && share < 1);
  double low = -1;
  double high = 1;
  while (StudentShareBelow(low, freedom) > share) low *= 2;
  while (StudentShareBelow(high, freedom) < share) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (StudentShareBelow(middle, freedom) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace roost::roostctl

#include "deploy/roostctl/bench/compare.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

namespace {

enum class Wish : std::uint8_t { kLess, kMore };

struct Figure {
  std::string_view name;
  std::string_view unit;
  double scale;
  Wish wish;
  double (*of)(const BenchSummary& summary);
  bool (*is_measured)(const BenchSummary& summary);
};
constexpr double kMillisecondsEach = 1e3;
bool HasAnswers(const BenchSummary& s) { return s.request_count > s.failed_count; }
bool HasGaps(const BenchSummary& s) { return s.itl_seconds.mean > 0; }
bool TellsCached(const BenchSummary& s) { return s.tells_cached(); }
constexpr Figure kCompared[] = {
    {"ttft mean", "ms", kMillisecondsEach, Wish::kLess, [](const BenchSummary& s) { return s.ttft_seconds.mean; },
     &HasAnswers},
    {"ttft p50", "ms", kMillisecondsEach, Wish::kLess, [](const BenchSummary& s) { return s.ttft_seconds.p50; },
     &HasAnswers},
    {"ttft p90", "ms", kMillisecondsEach, Wish::kLess, [](const BenchSummary& s) { return s.ttft_seconds.p90; },
     &HasAnswers},
    {"between tokens mean", "ms", kMillisecondsEach, Wish::kLess,
     [](const BenchSummary& s) { return s.itl_seconds.mean; }, &HasGaps},
    {"whole answer mean", "ms", kMillisecondsEach, Wish::kLess,
     [](const BenchSummary& s) { return s.total_seconds.mean; }, &HasAnswers},
    {"output tokens", "/s", 1, Wish::kMore, [](const BenchSummary& s) { return s.output_tokens_per_second(); },
     &HasAnswers},
    {"good requests", "/s", 1, Wish::kMore, [](const BenchSummary& s) { return s.good_per_second(); }, &HasAnswers},
    {"cached", "%", 100, Wish::kMore, [](const BenchSummary& s) { return s.cached_ratio(); }, &TellsCached},
};
constexpr double kConfidence = 1 - 0.05 / std::size(kCompared);

Verdict VerdictOf(const Interval& log_ratio, Wish wish) {
  if (log_ratio.low <= 0 && log_ratio.high >= 0) return Verdict::kNoise;
  return (log_ratio.low > 0) == (wish == Wish::kMore) ? Verdict::kBetter : Verdict::kWorse;
}

}  // namespace

std::string_view NameOf(Verdict verdict) {
  constexpr std::string_view kNames[] = {"noise", "better", "worse", "unknown"};
  return kNames[static_cast<std::size_t>(verdict)];
}

std::optional<Interval> MeanInterval(std::span<const double> values, double confidence) {
  if (values.size() < 2) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / (count - 1) / count);
  const double reach = error * StudentQuantile((1 + confidence) / 2, count - 1);
  return Interval{mean, mean - reach, mean + reach};
}

std::vector<Difference> Compare(const BenchSummary& a, const BenchSummary& b, std::span<const BlockPair> blocks) {
  std::vector<Difference> differences;
  for (const Figure& figure : kCompared) {
    if (!figure.is_measured(a) || !figure.is_measured(b)) continue;
    Difference& difference = differences.emplace_back();
    difference.figure = figure.name;
    difference.unit = figure.unit;
    difference.a = figure.scale * figure.of(a);
    difference.b = figure.scale * figure.of(b);
    std::vector<double> log_ratios;
    for (const BlockPair& block : blocks) {
      const double in_a = figure.of(block.a);
      const double in_b = figure.of(block.b);
      if (in_a > 0 && in_b > 0) log_ratios.push_back(std::log(in_b / in_a));
    }
    difference.block_count = log_ratios.size();
    if (log_ratios.size() < kFewestBlocks) continue;
    const Interval interval = *MeanInterval(log_ratios, kConfidence);
    difference.ratio = std::exp(interval.mean);
    difference.low = std::exp(interval.low);
    difference.high = std::exp(interval.high);
    difference.verdict = VerdictOf(interval, figure.wish);
  }
  return differences;
}

}  // namespace roost::roostctl

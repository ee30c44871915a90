#include "deploy/roostctl/bench/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace roost::roostctl {
namespace {

double Ratio(double numerator, double denominator) { return denominator > 0 ? numerator / denominator : 0; }
double Ratio(std::uint64_t numerator, std::uint64_t denominator) {
  return Ratio(static_cast<double>(numerator), static_cast<double>(denominator));
}

double AtRank(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

// The values of requests whose whole answer came.
struct Values {
  std::vector<double> ttft;
  std::vector<double> gaps;
  std::vector<double> itls;
  std::vector<double> totals;
  std::vector<double> rates;
  std::vector<double> lags;
};

void AddWhole(const BenchSample& sample, BenchSummary& summary, Values& values) {
  summary.prompt_tokens += sample.prompt_tokens;
  if (sample.cached_tokens) {
    summary.cached_tokens += *sample.cached_tokens;
    summary.cached_of_tokens += sample.prompt_tokens;
  }
  summary.output_tokens += sample.output_tokens;
  summary.answers_hash += sample.answer_hash;
  summary.share_by_worker[sample.worker] += 1;
  values.ttft.push_back(sample.ttft_seconds);
  values.totals.push_back(sample.total_seconds);
  values.gaps.insert(values.gaps.end(), sample.gap_seconds.begin(), sample.gap_seconds.end());
  if (sample.SecondsPerToken() > 0) {
    values.itls.push_back(sample.SecondsPerToken());
    values.rates.push_back(1 / sample.SecondsPerToken());
  }
}

}  // namespace

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return AtRank(values, share);
}

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          .p50 = AtRank(values, 0.5),
          .p90 = AtRank(values, 0.9),
          .p99 = AtRank(values, 0.99),
          .max = values.back(),
          .count = values.size()};
}

bool IsGood(const BenchSample& sample, const ServiceLimits& limits) {
  constexpr double kNoLimit = INFINITY;
  return sample.error.empty() && sample.ttft_seconds <= limits.ttft_seconds.value_or(kNoLimit) &&
         sample.SecondsPerToken() <= limits.itl_seconds.value_or(kNoLimit) &&
         sample.total_seconds <= limits.total_seconds.value_or(kNoLimit);
}

double BenchSummary::cached_ratio() const { return Ratio(cached_tokens, cached_of_tokens); }
double BenchSummary::output_tokens_per_second() const { return Ratio(static_cast<double>(output_tokens), seconds); }
double BenchSummary::good_share() const { return Ratio(good_count, request_count); }
double BenchSummary::good_per_second() const { return Ratio(static_cast<double>(good_count), seconds); }

BenchSummary Summarise(std::span<const BenchSample> samples, double seconds, const ServiceLimits& limits) {
  BenchSummary summary;
  summary.seconds = seconds;
  Values values;
  for (const BenchSample& sample : samples) {
    ++summary.request_count;
    values.lags.push_back(sample.lag_seconds);
    if (sample.error.empty()) {
      AddWhole(sample, summary, values);
    } else {
      if (summary.failed_count++ == 0) summary.first_error = sample.error;
      ++summary.failed_by_kind[sample.error_kind];
    }
    if (IsGood(sample, limits)) ++summary.good_count;
  }
  for (auto& [worker, share] : summary.share_by_worker) share /= static_cast<double>(values.ttft.size());
  summary.ttft_seconds = SpreadOf(std::move(values.ttft));
  summary.gap_seconds = SpreadOf(std::move(values.gaps));
  summary.itl_seconds = SpreadOf(std::move(values.itls));
  summary.total_seconds = SpreadOf(std::move(values.totals));
  summary.tokens_per_second = SpreadOf(std::move(values.rates));
  summary.lag_p99_seconds = Percentile(std::move(values.lags), 0.99);
  return summary;
}

CacheGain GainOf(const BenchSummary& without, const BenchSummary& with) {
  return {.ttft_p50 = Ratio(without.ttft_seconds.p50, with.ttft_seconds.p50),
          .ttft_p99 = Ratio(without.ttft_seconds.p99, with.ttft_seconds.p99),
          .output_tokens_per_second = Ratio(with.output_tokens_per_second(), without.output_tokens_per_second())};
}

}  // namespace roost::roostctl

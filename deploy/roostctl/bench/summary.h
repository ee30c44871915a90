// Figures of a benchmark's requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deploy/roostctl/bench/request_sample.h"

namespace roost::roostctl {

inline constexpr double kMsPerSecond = 1e3;

// The value below which `share` of the values lie (nearest rank); 0 for no values.
[[nodiscard]] double Percentile(std::vector<double> values, double share);

// All 0 for no values.
struct Spread {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
  std::size_t count = 0;  // of the values
};
[[nodiscard]] Spread SpreadOf(std::vector<double> values);

// The limits that a request must keep to be good; absent limits are kept by all. A failed request is never good.
struct ServiceLimits {
  std::optional<double> ttft_seconds = {};
  std::optional<double> itl_seconds = {};  // mean of the answer's tokens after the first
  std::optional<double> total_seconds = {};

  [[nodiscard]] bool IsAny() const { return ttft_seconds || itl_seconds || total_seconds; }
};
[[nodiscard]] bool IsGood(const BenchSample& sample, const ServiceLimits& limits);

struct BenchSummary {
  std::uint64_t request_count = 0;
  std::uint64_t failed_count = 0;
  std::map<std::string, std::uint64_t> failed_by_kind;
  std::string first_error;
  std::uint64_t good_count = 0;

  // Totals of requests whose whole answer came.
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;     // of the answers that tell them, which have
  std::uint64_t cached_of_tokens = 0;  // this many prompt tokens
  std::uint64_t output_tokens = 0;
  Spread ttft_seconds;
  Spread gap_seconds;  // between pieces, of all answers together
  Spread itl_seconds;  // mean time between the tokens of each answer that has two or more
  Spread total_seconds;
  Spread tokens_per_second;                       // of single answers, after their first token
  std::map<std::string, double> share_by_worker;  // share of the requests
  // The same for the same answers in any order.
  std::uint64_t answers_hash = 0;

  double seconds = 0;          // of the load
  double lag_p99_seconds = 0;  // by which this program sent requests late

  [[nodiscard]] bool tells_cached() const { return cached_of_tokens > 0; }
  [[nodiscard]] double cached_ratio() const;
  [[nodiscard]] double output_tokens_per_second() const;
  [[nodiscard]] double good_per_second() const;
  [[nodiscard]] double good_share() const;
};
[[nodiscard]] BenchSummary Summarise(std::span<const BenchSample> samples, double seconds, const ServiceLimits& limits);

// The gain of the cache: each time without it divided by the time with it; for tokens per second, with it divided by
// without. So above 1 is a gain. 0 where the divisor is 0.
struct CacheGain {
  double ttft_p50 = 0;
  double ttft_p99 = 0;
  double output_tokens_per_second = 0;
};
[[nodiscard]] CacheGain GainOf(const BenchSummary& without, const BenchSummary& with);

}  // namespace roost::roostctl

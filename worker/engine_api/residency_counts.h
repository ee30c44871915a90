// Counts of how long blocks stay in a cache (worker/cache/observe/residency.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/clock.h"

namespace roost::worker {

// Upper bounds of the buckets, inclusive; the same as vLLM's metrics of this kind.
inline constexpr std::array kResidencySeconds{0.001, 0.002, 0.005, 0.01, 0.02, 0.05,  0.1,   0.2,   0.5,    1.0,   2.0,
                                              5.0,   10.0,  20.0,  30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0};

[[nodiscard]] inline std::size_t ResidencyBucketOf(double seconds) {
  const auto bucket = std::lower_bound(kResidencySeconds.begin(), kResidencySeconds.end(), seconds);
  return static_cast<std::size_t>(bucket - kResidencySeconds.begin());
}

// Counts of durations. buckets[i] counts the times in (bound i-1, bound i]; the last bucket counts those over all
// bounds.
struct DurationCounts {
  std::array<std::uint64_t, kResidencySeconds.size() + 1> buckets{};
  double sum_seconds = 0;

  void Add(Duration duration) {
    ++buckets[ResidencyBucketOf(ToSeconds(duration))];
    sum_seconds += ToSeconds(duration);
  }
  bool operator==(const DurationCounts&) const = default;
};

struct ResidencyCounts {
  DurationCounts age_at_eviction;
  DurationCounts idle_before_eviction;
  DurationCounts reuse_gap;

  bool operator==(const ResidencyCounts&) const = default;
};

}  // namespace roost::worker

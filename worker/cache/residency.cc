#include "worker/cache/residency.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

namespace roost::worker {

void DurationCounts::Add(Duration duration) {
  const double seconds = ToSeconds(duration);
  const auto bucket = std::lower_bound(kResidencySeconds.begin(), kResidencySeconds.end(), seconds);
  ++buckets[static_cast<std::size_t>(bucket - kResidencySeconds.begin())];
  sum_seconds += seconds;
}

Residency::Residency(std::uint32_t block_count) : times_(block_count) {}

Residency::Millis Residency::MillisOf(Instant instant) {
  const auto since_epoch = std::chrono::duration_cast<std::chrono::milliseconds>(instant.time_since_epoch());
  return static_cast<Millis>(since_epoch.count());
}

void Residency::OnStored(BlockId block, Instant now) { times_[block.value()] = {MillisOf(now), MillisOf(now)}; }

void Residency::OnFound(BlockId block, Instant now) {
  Times& times = times_[block.value()];
  counts_.reuse_gap.Add(std::chrono::milliseconds(MillisOf(now) - times.used));
  times.used = MillisOf(now);
}

void Residency::OnLetGo(BlockId block, Instant now) { times_[block.value()].used = MillisOf(now); }

void Residency::OnEvicted(BlockId block, Instant now) {
  const Times& times = times_[block.value()];
  counts_.age_at_eviction.Add(std::chrono::milliseconds(MillisOf(now) - times.stored));
  counts_.idle_before_eviction.Add(std::chrono::milliseconds(MillisOf(now) - times.used));
}

ResidencyCounts Residency::Take() { return std::exchange(counts_, {}); }

}  // namespace roost::worker

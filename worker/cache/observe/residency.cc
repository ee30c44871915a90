#include "worker/cache/observe/residency.h"

#include <chrono>
#include <utility>

namespace roost::worker {

void Residency::Recorder::Add(DurationCounts& counts, Millis millis) {
  const double seconds = millis * 1e-3;
  if (millis != millis_) {
    millis_ = millis;
    bucket_ = ResidencyBucketOf(seconds);
  }
  ++counts.buckets[bucket_];
  counts.sum_seconds += seconds;
}

Residency::Residency(std::uint32_t block_count) : times_(block_count) {}

Residency::Millis Residency::MillisOf(Instant instant) {
  const auto since_epoch = std::chrono::duration_cast<std::chrono::milliseconds>(instant.time_since_epoch());
  return static_cast<Millis>(since_epoch.count());
}

void Residency::OnStored(BlockId block, Instant now) { times_[block.value()] = {MillisOf(now), MillisOf(now)}; }

void Residency::OnFound(BlockId block, Instant now) {
  Times& times = times_[block.value()];
  gaps_.Add(counts_.reuse_gap, MillisOf(now) - times.used);
  times.used = MillisOf(now);
}

void Residency::OnLetGo(BlockId block, Instant now) { times_[block.value()].used = MillisOf(now); }

void Residency::OnEvicted(BlockId block, Instant now) {
  const Times& times = times_[block.value()];
  ages_.Add(counts_.age_at_eviction, MillisOf(now) - times.stored);
  idle_times_.Add(counts_.idle_before_eviction, MillisOf(now) - times.used);
}

Duration Residency::AgeOf(BlockId block, Instant now) const {
  return std::chrono::milliseconds(static_cast<Millis>(MillisOf(now) - times_[block.value()].stored));
}

ResidencyCounts Residency::Take() { return std::exchange(counts_, {}); }

}  // namespace roost::worker

// How fast a disk reads, learned from what is read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/base/clock.h"

namespace roost::worker {

// Before anything was read.
inline constexpr double kFirstDiskRate = 500e6;  // bytes/s

// Unknown before the first read, and again when the last one is long ago: what was slow once is tried again.
//
// One thread learns, any thread asks. O(1).
class ReadRate {
 public:
  void Learn(std::uint64_t bytes, double seconds, Instant now) {
    seconds_ = seconds_ * kForgetting + seconds;
    bytes_ = bytes_ * kForgetting + static_cast<double>(bytes);
    if (seconds_ <= 0) return;
    bytes_per_second_ = bytes_ / seconds_;
    known_until_ = (now + kKnownFor).time_since_epoch().count();
  }
  // The latest one.
  [[nodiscard]] double bytes_per_second() const { return bytes_per_second_.load(); }
  // The time to read so much behind `ahead` bytes that are asked for. While it is unknown, one read at a time is free:
  // it is the measurement, and who waits for it waits no longer than its blocks keep the pace of computing.
  [[nodiscard]] double SecondsFor(std::uint64_t bytes, std::uint64_t ahead, Instant now) const {
    const bool is_known = now.time_since_epoch().count() < known_until_.load();
    if (!is_known && ahead == 0) return 0;
    return static_cast<double>(ahead + bytes) / bytes_per_second();
  }

 private:
  static constexpr double kForgetting = 0.95;  // with each read
  static constexpr std::chrono::minutes kKnownFor{10};

  double seconds_ = 0;  // of recent reads, as the next
  double bytes_ = 0;
  std::atomic<double> bytes_per_second_ = kFirstDiskRate;
  std::atomic<Instant::rep> known_until_ = Instant::min().time_since_epoch().count();
};

}  // namespace roost::worker

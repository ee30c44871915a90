// The compute threads in use, told to the log and to the metrics. The number changes where --threads 0 leaves it to
// what the machine has room for (kernels/cpu/work_pool.h).
//
// Threads: OnChange on the thread that computes, Export before that thread serves.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/metrics/registry.h"

namespace roost::worker {

class ComputeThreads {
 public:
  // The log says at most once in this time that there are fewer.
  static constexpr Duration kQuietTime = std::chrono::minutes(10);

  explicit ComputeThreads(std::uint32_t most) : most_(most), in_use_(most) {}

  // `gauge` outlives the computing.
  void Export(prometheus::Gauge& gauge);
  void OnChange(std::uint32_t in_use, Instant now);

  enum class News : std::uint8_t { kNone, kFewer, kAllAgain };
  // The log line for this change. kAllAgain follows kFewer alone.
  [[nodiscard]] News Note(std::uint32_t in_use, Instant now);

 private:
  const std::uint32_t most_;
  std::uint32_t in_use_;
  bool told_fewer_ = false;
  std::optional<Instant> last_told_;
  prometheus::Gauge* gauge_ = nullptr;
};

}  // namespace roost::worker

// A daemon's work in some seconds, for a line in its log. Router and worker log the same keys.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/clock.h"

namespace roost {

// Between two lines, while there is something to tell.
inline constexpr Duration kThroughputInterval = std::chrono::seconds(10);

struct Throughput {
  std::uint64_t ended = 0;   // requests
  std::uint64_t failed = 0;  // of those, with an error
  std::uint64_t active = 0;  // requests now
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompts' tokens
  std::uint64_t output_tokens = 0;

  bool operator==(const Throughput&) const = default;
};

// Logs the rates of what happened within `time`, unless nothing did.
void LogThroughput(const Throughput& throughput, Duration time);

}  // namespace roost

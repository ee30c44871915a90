// Workers that fetch blocks from each other, for tests of decisions.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/clock.h"
#include "router/route/transfers.h"

namespace roost::router {

inline constexpr Instant kNow{std::chrono::hours(1)};
inline constexpr std::uint64_t kBlockBytes = 100'000;

inline TransferPlace Place(std::uint64_t layout = 7) {
  return {.fetches = true,
          .serves = true,
          .is_loopback = false,
          .tells_bytes = true,
          .layout = layout,
          .numerics = 0,
          .host = 0};
}

inline WorkerPair Pair(std::uint32_t from, std::uint32_t to) {
  return {.from = WorkerSlot(from), .to = WorkerSlot(to)};
}

// The pair gives so many bytes a second, at once.
inline void Teach(Transfers& transfers, WorkerPair ends, double bytes_per_second) {
  const auto block_us = static_cast<std::uint64_t>(1e6 * kBlockBytes / bytes_per_second);
  transfers.Send(1, ends, 10, kNow);
  transfers.End(1,
                wire::HoldAnswer{.arrived_block_count = 10,
                                 .bytes = 10 * kBlockBytes,
                                 .first_frame_microseconds = block_us,
                                 .microseconds = 10 * block_us,
                                 .outcome = wire::HoldOutcome::kComplete},
                kNow);
}

}  // namespace roost::router

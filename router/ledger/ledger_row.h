// The counts of a ledger, and its lines on disk: what one tenant, key and model used in one hour, and what the cache
// saved of it.
//
//   {"hour":"2026-11-29T06:00:00Z","tenant":"acme","key":"chat-app","model":"demo","requests":12,"prompt_tokens":9000,
//    "cached_tokens":7200,"best_worker_tokens":7400,"round_robin_tokens":3600,"written_tokens":1800,"output_tokens":800,
//    "saved_seconds":3.6,"round_robin_saved_seconds":1.8}
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/json/json_read.h"

namespace roost::router {

inline constexpr std::int64_t kHourSeconds = 3600;

struct LedgerCounts {
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;       // of these, and so the next three
  std::uint64_t best_worker_tokens = 0;  // that the worker which held most would have found
  std::uint64_t round_robin_tokens = 0;  // that a round robin over the same caches would have found
  std::uint64_t written_tokens = 0;
  std::uint64_t output_tokens = 0;
  double saved_seconds = 0;              // of prefill, by cached_tokens
  double round_robin_saved_seconds = 0;  // by round_robin_tokens

  LedgerCounts& operator+=(const LedgerCounts& other);
  bool operator==(const LedgerCounts&) const = default;
};

struct LedgerRow {
  std::int64_t hour = 0;  // since 1970
  std::string tenant;     // this and the next are empty where requests need no key
  std::string key;
  std::string model;
  LedgerCounts counts;

  bool operator==(const LedgerRow&) const = default;
};

// Without the line feed.
[[nodiscard]] std::string LineOf(const LedgerRow& row);
// Nothing if it is no such object.
[[nodiscard]] std::optional<LedgerRow> LedgerRowIn(json::Element object);

// "2026-11-29T06:00:00Z"
[[nodiscard]] std::string HourText(std::int64_t hour);

}  // namespace roost::router

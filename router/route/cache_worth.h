// The seconds that a cache saved one request, and how many of them are due to the router: a round robin in its place
// would have found something too. They are the prefill of what was found, less the wait for what came from another
// worker or from disk, as predicted. Pure.
//
//   decision ─► CacheWorth ─┐
//                           ├─► CacheSavings
//   found by the worker ────┘
#pragma once

#include <algorithm>
#include <cstdint>

namespace roost::router {

// As known when a prompt is routed.
struct CacheWorth {
  double token_seconds = 0;           // of prefill at the chosen worker; 0 while no worker's speed is known
  double rotation_token_seconds = 0;  // at the worker of round robin's turn
  std::uint32_t matched_tokens = 0;   // that the chosen worker should find
  std::uint32_t arriving_tokens = 0;  // the last of these, which come from elsewhere
  double wait_seconds = 0;            // for them, behind the worker's queue
  double rotation_wait_seconds = 0;   // the same at the worker of round robin's turn
  std::uint32_t rotation_matched_tokens = 0;
  std::uint32_t best_matched_tokens = 0;  // of the worker that holds most and may take it
};

struct CacheSavings {
  double seconds = 0;
  double rotation_seconds = 0;        // that round robin would have saved
  std::uint64_t rotation_tokens = 0;  // that it would have found
  std::uint64_t best_tokens = 0;      // that the best worker would have found

  CacheSavings& operator+=(const CacheSavings& other) {
    seconds += other.seconds;
    rotation_seconds += other.rotation_seconds;
    rotation_tokens += other.rotation_tokens;
    best_tokens += other.best_tokens;
    return *this;
  }
};

// A worker that holds as much as the chosen one would have found what that one found: part of a block more, or less
// than promised.
[[nodiscard]] inline CacheSavings SavingsOf(const CacheWorth& worth, std::uint32_t found_tokens) {
  const bool is_equal = worth.rotation_matched_tokens == worth.matched_tokens;
  const std::uint32_t rotation_tokens = is_equal ? found_tokens : worth.rotation_matched_tokens;
  const bool has_waited = found_tokens + worth.arriving_tokens > worth.matched_tokens;
  const double wait = has_waited ? worth.wait_seconds : 0;
  const double rotation_wait = rotation_tokens > 0 ? worth.rotation_wait_seconds : 0;
  const bool is_best = worth.best_matched_tokens <= worth.matched_tokens;
  return {.seconds = std::max(0.0, worth.token_seconds * found_tokens - wait),
          .rotation_seconds = std::max(0.0, worth.rotation_token_seconds * rotation_tokens - rotation_wait),
          .rotation_tokens = rotation_tokens,
          .best_tokens = is_best ? found_tokens : std::max(found_tokens, worth.best_matched_tokens)};
}

}  // namespace roost::router

// The result of each request of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "router/route/cache_worth.h"

namespace roost::simulate {

struct RequestRecord {
  Instant arrival{};
  std::optional<Instant> first_token = std::nullopt;
  std::optional<Instant> end = std::nullopt;  // of its answer, or the time of its refusal
  std::uint32_t prompt_token_count = 0;
  std::uint32_t cached_token_count = 0;
  double saved_seconds = 0;     // of its prefill, by what was cached, less the wait for blocks from elsewhere
  double computed_seconds = 0;  // the rest of its prefill, alone
  std::uint32_t output_token_count = 0;
  std::uint32_t worker = 0;  // that computed its first token; a pool counts as one
  std::uint32_t dispatch_count = 0;
  router::CacheWorth worth = {};  // of the last dispatch
  bool refused = false;
};

// The blocks that came from other workers in a run, for requests and for copies.
struct PullCounts {
  std::uint64_t pull_count = 0;  // Holds that brought any
  std::uint64_t token_count = 0;
};

// The blocks that came from workers' own disks in a run.
struct RestoreCounts {
  std::uint64_t restore_count = 0;  // that brought any
  std::uint64_t token_count = 0;
  std::uint64_t written_token_count = 0;
};

// Checks that every request arrives once, has at most one first token after that, and ends or is refused once. A worker
// may go on with a request until it hears that its router has moved it: of two first tokens the later one counts, of
// two ends the first.
class RequestLog {
 public:
  // `on_end` is called for every end and refusal.
  RequestLog(std::size_t request_count, std::function<void(std::uint32_t number)> on_end)
      : records_(request_count), on_end_(std::move(on_end)) {}

  void OnArrival(std::uint32_t number, std::uint32_t prompt_token_count, Instant now);
  void OnDispatched(std::uint32_t number, const router::CacheWorth& worth) {
    ++records_[number].dispatch_count;
    records_[number].worth = worth;
  }
  struct FirstToken {
    std::uint32_t worker = 0;
    std::uint32_t cached_token_count = 0;
    double saved_seconds = 0;  // see RequestRecord
    double computed_seconds = 0;
  };
  void OnFirstToken(std::uint32_t number, const FirstToken& first, Instant now);
  void OnEnd(std::uint32_t number, std::uint32_t output_token_count, Instant now);
  void OnRefused(std::uint32_t number, Instant now);

  [[nodiscard]] const std::vector<RequestRecord>& records() const { return records_; }
  [[nodiscard]] std::size_t ended_count() const { return ended_count_; }
  [[nodiscard]] bool all_ended() const { return ended_count_ == records_.size(); }

 private:
  void End(std::uint32_t number, Instant now);

  std::vector<RequestRecord> records_;
  std::function<void(std::uint32_t number)> on_end_;
  std::size_t ended_count_ = 0;
};

}  // namespace roost::simulate

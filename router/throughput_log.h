// A line in the log about what the router does, every few seconds while it does something. It passes on what it
// observes.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "common/base/clock.h"
#include "router/api/api_observer.h"

namespace roost::router {

// Thread-safe.
class ThroughputLog final : public ApiObserver {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(10);

  // What happened since the last line. Tokens count when their generation ends.
  struct Interval {
    std::uint64_t ended = 0;
    std::uint64_t failed = 0;  // of those, with an error
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;
    std::uint64_t output_tokens = 0;
    std::uint64_t active = 0;  // now
  };

  // Both outlive it.
  ThroughputLog(ApiObserver& next, const Clock& clock) : next_(next), clock_(clock), since_(clock.Now()) {}

  // Logs a line, unless nothing happened. One thread only.
  void Tell();
  // The numbers of the next line; begins a new interval.
  [[nodiscard]] Interval Take();

  void OnAnswer(std::string_view route, int status) override { next_.OnAnswer(route, status); }
  void OnUnknownFields(std::uint32_t count) override { next_.OnUnknownFields(count); }
  void OnGenerationStart(std::string_view model) override;
  void OnGenerationEnd(const GenerationSummary& summary) override;
  void OnFirstToken(std::string_view model, double seconds) override { next_.OnFirstToken(model, seconds); }
  void OnLaterTokens(std::string_view model, std::uint32_t token_count, double seconds) override {
    next_.OnLaterTokens(model, token_count, seconds);
  }

 private:
  ApiObserver& next_;
  const Clock& clock_;

  std::mutex mutex_;
  Interval interval_;  // guarded by mutex_

  Instant since_;  // of the thread that tells
};

}  // namespace roost::router

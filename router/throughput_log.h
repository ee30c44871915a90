// A line in the log about what the router does, every few seconds while it does something. It passes on what it
// observes.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/throughput.h"
#include "router/api/answers/api_observer.h"

namespace roost::router {

// Thread-safe.
class ThroughputLog final : public PassingApiObserver {
 public:
  // Both outlive it.
  ThroughputLog(ApiObserver& next, const Clock& clock) : PassingApiObserver(next), clock_(clock), since_(clock.Now()) {}

  // Logs a line, unless nothing happened. One thread only.
  void Tell();
  // The numbers of the next line; begins a new interval. Tokens count when their generation ends.
  [[nodiscard]] Throughput Take();

  void OnGenerationStart(std::string_view model) override;
  void OnGenerationEnd(const GenerationSummary& summary) override;
  void OnForwardStart() override;
  void OnForwardEnd(const ForwardSummary& summary) override;

 private:
  const Clock& clock_;

  std::mutex mutex_;
  Throughput interval_;  // guarded by mutex_

  Instant since_;  // of the thread that tells
};

}  // namespace roost::router

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
class ThroughputLog final : public ApiObserver {
 public:
  // Both outlive it.
  ThroughputLog(ApiObserver& next, const Clock& clock) : next_(next), clock_(clock), since_(clock.Now()) {}

  // Logs a line, unless nothing happened. One thread only.
  void Tell();
  // The numbers of the next line; begins a new interval. Tokens count when their generation ends.
  [[nodiscard]] Throughput Take();

  void OnAnswer(std::string_view route, int status) override { next_.OnAnswer(route, status); }
  void OnUnknownFields(std::uint32_t count) override { next_.OnUnknownFields(count); }
  void OnDroppedReasoning(std::uint32_t count) override { next_.OnDroppedReasoning(count); }
  void OnGenerationStart(std::string_view model) override;
  void OnGenerationEnd(const GenerationSummary& summary) override;
  void OnUnserved(const UnservedGeneration& unserved) override { next_.OnUnserved(unserved); }
  void OnForwardStart() override;
  void OnForwardEnd(const ForwardSummary& summary) override;
  void OnFirstToken(std::string_view model, double seconds) override { next_.OnFirstToken(model, seconds); }
  void OnLaterTokens(std::string_view model, std::uint32_t token_count, double seconds) override {
    next_.OnLaterTokens(model, token_count, seconds);
  }

 private:
  ApiObserver& next_;
  const Clock& clock_;

  std::mutex mutex_;
  Throughput interval_;  // guarded by mutex_

  Instant since_;  // of the thread that tells
};

}  // namespace roost::router

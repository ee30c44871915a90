// The last hour of a router's traffic, in steps of ten seconds, for the console. It passes on what it observes.
//
// Bounded: kPoints points for each of kMaxModels models; further models count together as `other`. Tokens count when
// their generation ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "router/api/answers/api_observer.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// Thread-safe.
class TrafficHistory final : public PassingApiObserver {
 public:
  static constexpr std::int64_t kStepSeconds = 10;
  static constexpr std::size_t kPoints = 360;
  static constexpr std::size_t kMaxModels = 32;

  // `next` outlives it. `unix_seconds` is the wall time.
  TrafficHistory(ApiObserver& next, std::function<std::int64_t()> unix_seconds)
      : PassingApiObserver(next), unix_seconds_(std::move(unix_seconds)) {}

  // The workers and queues now. Call it once in each step.
  void OnWorkers(const FleetStanding& standing, std::span<const QueueStatus> queues);

  // {"step_seconds":10,"models":[{"id":"demo","points":[{"unix_seconds":…,"ready_workers":2,…},…]}]}, the oldest point
  // first, without points before anything was known.
  [[nodiscard]] std::string Json() const;

  void OnGenerationEnd(const GenerationSummary& summary) override;
  void OnUnserved(const UnservedGeneration& unserved) override;
  void OnFirstToken(std::string_view model, double seconds) override;

 private:
  // Times to first token by powers of the square root of two from one millisecond on: to within 20 %.
  static constexpr std::size_t kBuckets = 40;

  struct Point {
    std::int64_t step = 0;  // Unix time over kStepSeconds
    std::uint32_t ready_workers = 0;
    std::uint32_t workers = 0;
    std::uint32_t waiting_requests = 0;
    std::uint64_t ended = 0;   // generations, refused ones too
    std::uint64_t failed = 0;  // of these: by the server
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;
    std::uint64_t output_tokens = 0;
    std::array<std::uint32_t, kBuckets> ttft{};
  };

  // Needs mutex_. The point of this step, which begins with the last one's workers.
  [[nodiscard]] Point& Now(std::string_view model);
  [[nodiscard]] static double TtftQuantile(const Point& point, double share);

  const std::function<std::int64_t()> unix_seconds_;

  mutable std::mutex mutex_;
  std::map<std::string, std::deque<Point>, std::less<>> models_;  // guarded by mutex_
};

}  // namespace roost::router

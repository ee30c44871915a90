// One line that says how a router stands, which `roostctl status`, `roostctl top` and the console show on top, and the
// body of /admin/v1/workers, which it begins. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/fleet/dispatcher.h"

namespace roost::router {

struct FleetNow {
  std::span<const WorkerStatus> workers;
  std::span<const QueueStatus> queues;
  const FleetStanding& standing;
  std::int64_t unix_seconds = 0;
};

enum class VerdictLevel : std::uint8_t {
  kOk,
  kDegraded,  // fewer workers than there could be, or requests that wait
  kDown,      // some model has no worker that takes requests
};
[[nodiscard]] std::string_view NameOf(VerdictLevel level);

struct ModelVerdict {
  std::string model;
  VerdictLevel level = VerdictLevel::kOk;
  std::string text;  // "2 of 3 workers take requests; worker-a lost 6 s ago (silent), 3 requests continue elsewhere"
  std::uint32_t ready_workers = 0;
  std::uint32_t workers = 0;
  double seconds = 0;  // since when it has ready workers, or has none
};

struct Verdict {
  VerdictLevel level = VerdictLevel::kOk;
  // The worst models, each with its name: "demo-model: no worker takes requests since 09:24 UTC; worker-a, worker-b
  // lost 6 s ago (silent)". If all is well, all of them in short.
  std::string text;
  std::vector<ModelVerdict> models;  // the worst first
};

[[nodiscard]] Verdict VerdictOn(const FleetNow& now);

// {"verdict":{…},"models":[…],"workers":[…],"lost":[…],"events":[…]}: the last ten events.
[[nodiscard]] std::string WorkersBody(const FleetNow& now);

}  // namespace roost::router

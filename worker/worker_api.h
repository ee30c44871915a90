// The worker's answers over HTTP. No socket: requests and responses are plain values of common/http.
//
//   GET /health           200: the process answers
//   GET /livez            200: its threads make progress; 503 and which of them hangs
//   GET /ready, /readyz   200: a router has accepted the worker; 503 and why not: connecting, refused, draining,
//                         engine_away
//   GET /metrics          Prometheus
//   GET /version
//
// Everyone may ask for the first three. HEAD is answered as GET, OPTIONS with Allow, all else with a JSON error.
//
// Thread-safe if its sources are.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/http/http_message.h"
#include "worker/link/link_status.h"

namespace roost::worker {

// The default is what routers grant a step whose time they can not predict, so that no worker is killed for a long step
// that a router still waits for.
inline constexpr Duration kDefaultStallTimeout = std::chrono::seconds(120);

// A thread, and how long its present step takes; zero while it waits for work.
struct ThreadProgress {
  std::string thread;  // "engine"
  Duration step_time{};
};

class WorkerApi {
 public:
  struct Sources {
    std::function<std::vector<ThreadProgress>()> threads;
    std::function<bool()> is_draining;
    std::function<std::string()> engine_absence;  // the reason why the engine takes no requests; empty if it takes them
    std::function<std::vector<RouterStatus>()> routers;
    std::function<std::string()> metrics_text;
  };
  struct Options {
    Duration stall_timeout = kDefaultStallTimeout;  // a longer step counts as hung
    std::string version;
  };

  WorkerApi(Sources sources, Options options);

  [[nodiscard]] HttpResponse Answer(const HttpRequest& request) const;

 private:
  struct Route;

  [[nodiscard]] HttpResponse Health() const;
  [[nodiscard]] HttpResponse Live() const;
  [[nodiscard]] HttpResponse Ready() const;
  [[nodiscard]] HttpResponse Metrics() const;
  [[nodiscard]] HttpResponse Version() const;

  const Sources sources_;
  const Options options_;
};

}  // namespace roost::worker

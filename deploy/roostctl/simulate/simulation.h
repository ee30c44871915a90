// A cluster on virtual time: routers, workers and clients on one Timeline, one thread, no clock. The same trace,
// options and seed give the same outcome.
//
//   Arrivals ─▶ SimRouter (one at random) ─ Generate, at once ─▶ SimWorker
//                    ▲                                             │
//                    └────────── Step, after the event delay ──────┘
//
// Beside the policies, two reference lines estimate what routing can reach: see SimulatePool.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/simulate/outcome.h"
#include "deploy/roostctl/simulate/sim_worker.h"
#include "deploy/roostctl/simulate/trace_text.h"
#include "router/fleet/requests/decider.h"

namespace roost::simulate {

struct SimulationOptions {
  std::vector<WorkerSpec> workers;
  WorkerOptions worker;  // common to all workers
  std::uint32_t router_count = 1;
  Duration event_delay = std::chrono::milliseconds(1);  // of messages from workers to routers
  std::uint64_t seed = 1;
  double speed = 1;  // of arrivals: the trace's times are divided by it
  ServiceLimits limits;
  router::RoutingWishes routing;
};

// Called periodically with the number of requests that have ended.
using Progress = std::function<void(std::size_t ended_count)>;

// Runs the trace of `text` under this policy (see MakePolicy). kInvalidArgument for an unknown policy. Checks that at
// the end, with any options, every request has ended or is refused, and every charge is taken back.
[[nodiscard]] Result<Outcome> Simulate(const TraceText& text, std::string_view policy, const SimulationOptions& options,
                                       const Progress& progress);

// Simulates all workers as one: one cache that every worker reads at no cost, and one queue. No router can choose
// wrongly there, so it estimates what routing can reach with such a queue. (It is not a strict bound: a shortest-first
// queue is good for the mean, but not the best for every figure.)
//
//   one queue, least uncached tokens first ─▶ N servers, each with one prefill at a time at its worker's speed
//                                               │ blocks become visible at the end of the prefill
//                                               ▼
//                                    decoding, as on a worker, at most N · max_running_requests at once
//
// The cache is the workers' real one, with N times the capacity, or unlimited. The uncached tokens of waiting requests
// are always up to date. Only full blocks count; no request waits for a prefix that another one is computing.
enum class PoolSize : std::uint8_t {
  kOfWorkers,  // reported as "pooled"
  kUnbounded,  // reported as "infinite": nothing is ever evicted
};

[[nodiscard]] Outcome SimulatePool(const TraceText& text, PoolSize size, const SimulationOptions& options,
                                   const Progress& progress);

}  // namespace roost::simulate

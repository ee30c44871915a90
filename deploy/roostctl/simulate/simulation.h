// A cluster on virtual time: routers, workers and clients on one Timeline, one thread, no clock. Same trace, options
// and seed, same outcome.
//
//   Arrivals ─▶ SimRouter (one at random) ─ Generate, at once ─▶ SimWorker
//                    ▲                                             │
//                    └────────── Step, after the event delay ──────┘
//
// Two lines beside the policies estimate what routing can reach: see SimulatePool.
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

namespace roost::simulate {

struct SimulationOptions {
  std::vector<WorkerSpec> workers;
  WorkerOptions worker;  // what all of them have in common
  std::uint32_t router_count = 1;
  Duration event_delay = std::chrono::milliseconds(1);  // of a message from a worker to a router
  std::uint64_t seed = 1;
};

// Called now and then with the number of requests that have ended.
using Progress = std::function<void(std::size_t ended_count)>;

// The trace of `text` under the policy of this name (see MakePolicy). kInvalidArgument for a policy that there is not.
// Whatever the options, every request has ended or is refused at the end, and every charge is taken back: checked.
[[nodiscard]] Result<Outcome> Simulate(const TraceText& text, std::string_view policy, const SimulationOptions& options,
                                       const Progress& progress);

}  // namespace roost::simulate

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
#pragma once

#include <cstdint>

#include "deploy/roostctl/simulate/outcome.h"
#include "deploy/roostctl/simulate/simulation.h"

namespace roost::simulate {

enum class PoolSize : std::uint8_t {
  kOfWorkers,  // reported as "pooled"
  kUnbounded,  // reported as "infinite": nothing is ever evicted
};

[[nodiscard]] Outcome SimulatePool(const TraceText& text, PoolSize size, const SimulationOptions& options,
                                   const Progress& progress);

}  // namespace roost::simulate

// What all workers together could do if they were one: their caches one cache that each of them reads at no cost, their
// queues one queue. No router can choose wrongly there, so this bounds what routing can reach with a queue like it (not
// strictly: a shortest-first queue is good for the mean and no law).
//
//   one queue, least uncached tokens first ─▶ N servers, each with one prefill at a time at its worker's speed
//                                               │ blocks become visible at the end of the prefill
//                                               ▼
//                                    decoding, as on a worker, at most N · max_running_requests at once
//
// The cache is the workers' real one, with N times their capacity, or unbounded. The uncached tokens of those that wait
// are always up to date. Full blocks only; nobody waits for a prefix that another request is computing.
#pragma once

#include <cstdint>

#include "deploy/roostctl/simulate/outcome.h"
#include "deploy/roostctl/simulate/simulation.h"

namespace roost::simulate {

enum class PoolSize : std::uint8_t {
  kOfWorkers,  // the line "pooled"
  kUnbounded,  // the line "infinite": nothing is ever evicted
};

[[nodiscard]] Outcome SimulatePool(const TraceText& text, PoolSize size, const SimulationOptions& options,
                                   const Progress& progress);

}  // namespace roost::simulate

// Measures what the cache is worth: why prompt tokens were computed, how many hits another pool size would have given,
// how long blocks stay. It feeds the estimators and turns the cache's totals into increments for reports.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "worker/cache/observe/reuse_distance.h"
#include "worker/cache/observe/salt_watch.h"
#include "worker/cache/prefix_cache.h"
#include "worker/engine/engine.h"
#include "worker/engine/request_table.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {

class CacheWatch {
 public:
  // Both outlive it.
  CacheWatch(PrefixCache& cache, const Scheduler& scheduler);

  void OnSubmitted(Request& request, const Sequence& sequence);
  // Call it right before the request's first tokens are computed.
  void OnStarted(const Request& request, const Sequence& sequence);
  // Call it when the sequence ends.
  void OnEnd(const Sequence& sequence);

  // Adds the increments since the last call.
  void Fill(Instant now, StepReport& report);

 private:
  void FillReasons(StepCounts& counts);

  PrefixCache& cache_;
  const Scheduler& scheduler_;
  ReuseDistance reuse_;
  SaltWatch salts_;
  CacheCounters reported_cache_;
  SchedulerCounters reported_scheduler_;
  bool prompts_came_ = false;
  Instant next_curve_;
};

}  // namespace roost::worker

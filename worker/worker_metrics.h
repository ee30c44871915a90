// What the link thread hears, as the worker's metrics. Labels are resolved once, at construction.
//
// Threads: constructed anywhere, then called from the link thread alone; prometheus-cpp reads from its own threads.
#pragma once

#include <array>
#include <functional>

#include "common/metrics/registry.h"
#include "worker/link/link_thread.h"

namespace roost::worker {

class WorkerMetrics final : public LinkObserver {
 public:
  // `registry` outlives it.
  explicit WorkerMetrics(metrics::Registry& registry);

  void OnStep(const StepReport& report) override;
  void OnRound(const LinkCounts& counts, Links links) override;

 private:
  using CounterRef = std::reference_wrapper<prometheus::Counter>;

  std::array<CounterRef, 4> finished_requests_;  // by wire::FinishReason
  prometheus::Gauge& running_;
  prometheus::Gauge& waiting_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& cached_tokens_;
  prometheus::Counter& output_tokens_;
  prometheus::Gauge& free_blocks_;
  prometheus::Gauge& referenced_blocks_;
  prometheus::Gauge& idle_blocks_;
  prometheus::Counter& evicted_blocks_;
  prometheus::Counter& preemptions_;
  prometheus::Counter& verification_misses_;
  prometheus::Histogram& ttft_;
  prometheus::Histogram& inter_token_;
  prometheus::Histogram& queue_wait_;
  prometheus::Histogram& step_seconds_;
  prometheus::Gauge& links_up_;
  prometheus::Gauge& links_down_;
  std::array<CounterRef, kResyncReasonNames.size()> resyncs_;
  prometheus::Counter& malformed_messages_;

  LinkCounts counted_;  // what the counters have of the link's counts
};

}  // namespace roost::worker

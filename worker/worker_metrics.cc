#include "worker/worker_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <string>

namespace roost::worker {
namespace {

template <std::size_t... kIndex>
auto ResyncCounters(metrics::Registry& registry, std::index_sequence<kIndex...>) {
  return std::array{std::ref(registry.Counter(metrics::kWorkerResyncs, {std::string(kResyncReasonNames[kIndex])}))...};
}

void Add(prometheus::Counter& counter, std::uint64_t count) {
  if (count > 0) counter.Increment(static_cast<double>(count));
}

void ObserveAll(prometheus::Histogram& histogram, const std::vector<double>& values) {
  for (const double value : values) histogram.Observe(value);
}

}  // namespace

WorkerMetrics::WorkerMetrics(metrics::Registry& registry)
    : finished_requests_{registry.Counter(metrics::kWorkerRequests, {"stop"}),
                         registry.Counter(metrics::kWorkerRequests, {"length"}),
                         registry.Counter(metrics::kWorkerRequests, {"cancelled"}),
                         registry.Counter(metrics::kWorkerRequests, {"error"})},
      running_(registry.Gauge(metrics::kWorkerRunning)),
      waiting_(registry.Gauge(metrics::kWorkerWaiting)),
      prompt_tokens_(registry.Counter(metrics::kWorkerPromptTokens)),
      cached_tokens_(registry.Counter(metrics::kWorkerCachedTokens)),
      output_tokens_(registry.Counter(metrics::kWorkerOutputTokens)),
      free_blocks_(registry.Gauge(metrics::kWorkerBlocks, {"free"})),
      referenced_blocks_(registry.Gauge(metrics::kWorkerBlocks, {"referenced"})),
      idle_blocks_(registry.Gauge(metrics::kWorkerBlocks, {"idle"})),
      evicted_blocks_(registry.Counter(metrics::kWorkerEvictedBlocks)),
      preemptions_(registry.Counter(metrics::kWorkerPreemptions)),
      verification_misses_(registry.Counter(metrics::kWorkerVerificationMisses)),
      ttft_(registry.Histogram(metrics::kWorkerTtft)),
      inter_token_(registry.Histogram(metrics::kWorkerInterToken)),
      queue_wait_(registry.Histogram(metrics::kWorkerQueueWait)),
      step_seconds_(registry.Histogram(metrics::kWorkerStepSeconds)),
      links_up_(registry.Gauge(metrics::kWorkerLinks, {"up"})),
      links_down_(registry.Gauge(metrics::kWorkerLinks, {"down"})),
      resyncs_(ResyncCounters(registry, std::make_index_sequence<kResyncReasonNames.size()>())),
      malformed_messages_(registry.Counter(metrics::kWorkerMalformedMessages)) {}

void WorkerMetrics::OnStep(const StepReport& report) {
  running_.Set(report.load.running_requests);
  waiting_.Set(report.load.waiting_requests);
  Add(prompt_tokens_, report.counts.prompt_tokens);
  Add(cached_tokens_, report.counts.cached_prompt_tokens);
  Add(output_tokens_, report.counts.output_tokens);
  free_blocks_.Set(report.free_blocks);
  referenced_blocks_.Set(report.referenced_blocks);
  idle_blocks_.Set(report.idle_blocks);
  Add(evicted_blocks_, report.counts.evicted_blocks);
  Add(preemptions_, report.counts.preemptions);
  Add(verification_misses_, report.counts.verification_misses);
  ObserveAll(ttft_, report.counts.ttft_seconds);
  ObserveAll(inter_token_, report.counts.inter_token_seconds);
  ObserveAll(queue_wait_, report.counts.queue_wait_seconds);
  // A report without a step has no time to tell.
  if (report.load.step_seconds > 0) step_seconds_.Observe(report.load.step_seconds);
}

void WorkerMetrics::OnRound(const LinkCounts& counts, Links links) {
  links_up_.Set(static_cast<double>(links.up));
  links_down_.Set(static_cast<double>(links.down));
  for (std::size_t i = 0; i < finished_requests_.size(); ++i) {
    Add(finished_requests_[i], counts.finished_requests[i] - counted_.finished_requests[i]);
  }
  for (std::size_t i = 0; i < resyncs_.size(); ++i) Add(resyncs_[i], counts.resyncs[i] - counted_.resyncs[i]);
  Add(malformed_messages_, counts.malformed_messages - counted_.malformed_messages);
  counted_ = counts;
}

}  // namespace roost::worker

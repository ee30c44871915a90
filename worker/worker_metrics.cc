#include "worker/worker_metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace roost::worker {
namespace {

static_assert(metrics::kBlockSeconds == kResidencySeconds);

constexpr std::array<std::string_view, kRefusalReasonCount> RefusalReasons() {
  std::array<std::string_view, kRefusalReasonCount> reasons;
  for (std::size_t i = 0; i < kHandshakeRefusal; ++i) reasons[i] = wire::kRefusalCauseNames[i];
  reasons[kHandshakeRefusal] = "handshake";
  return reasons;
}
constexpr std::array kRefusalReasons = RefusalReasons();

template <std::size_t kCount, std::size_t... kIndex>
auto CountersOf(metrics::Registry& registry, const metrics::Metric& metric,
                const std::array<std::string_view, kCount>& names, std::index_sequence<kIndex...>) {
  return std::array{std::ref(registry.Counter(metric, {std::string(names[kIndex])}))...};
}

// One counter for each value of the metric's label.
template <std::size_t kCount>
auto CountersOf(metrics::Registry& registry, const metrics::Metric& metric,
                const std::array<std::string_view, kCount>& names) {
  return CountersOf(registry, metric, names, std::make_index_sequence<kCount>());
}

// "0.5x", "1x" …
template <std::size_t... kIndex>
auto HitRatioGauges(metrics::Registry& registry, std::index_sequence<kIndex...>) {
  return std::array{
      std::ref(registry.Gauge(metrics::kWorkerEstimatedHitRatio, {fmt::format("{:g}x", kPoolMultiples[kIndex])}))...};
}

void Add(prometheus::Counter& counter, std::uint64_t count) {
  if (count > 0) counter.Increment(static_cast<double>(count));
}

void ObserveAll(prometheus::Histogram& histogram, const std::vector<double>& values) {
  for (const double value : values) histogram.Observe(value);
}

void ObserveAll(prometheus::Histogram& histogram, const DurationCounts& counts) {
  if (counts == DurationCounts{}) return;
  histogram.ObserveMultiple({counts.buckets.begin(), counts.buckets.end()}, counts.sum_seconds);
}

template <typename Counters, std::size_t kCount>
void AddAll(const Counters& counters, const std::array<std::uint64_t, kCount>& counts) {
  static_assert(std::tuple_size_v<Counters> == kCount);
  for (std::size_t i = 0; i < kCount; ++i) Add(counters[i], counts[i]);
}

// Adds what `counters` have not counted yet.
template <typename Counters, std::size_t kCount>
void AddNew(const Counters& counters, std::array<std::uint64_t, kCount> counts,
            const std::array<std::uint64_t, kCount>& counted) {
  for (std::size_t i = 0; i < kCount; ++i) counts[i] -= counted[i];
  AddAll(counters, counts);
}

}  // namespace

WorkerMetrics::WorkerMetrics(metrics::Registry& registry)
    : registry_(registry),
      finished_requests_{registry.Counter(metrics::kWorkerRequests, {"stop"}),
                         registry.Counter(metrics::kWorkerRequests, {"length"}),
                         registry.Counter(metrics::kWorkerRequests, {"cancelled"}),
                         registry.Counter(metrics::kWorkerRequests, {"error"})},
      running_(registry.Gauge(metrics::kWorkerRunning)),
      waiting_(registry.Gauge(metrics::kWorkerWaiting)),
      prompt_tokens_(registry.Counter(metrics::kWorkerPromptTokens)),
      cached_tokens_(registry.Counter(metrics::kWorkerCachedTokens)),
      tail_cached_tokens_(registry.Counter(metrics::kWorkerTailCachedTokens)),
      computed_prompt_tokens_(CountersOf(registry, metrics::kWorkerComputedPromptTokens, kMissReasonNames)),
      saved_prefill_seconds_(registry.Counter(metrics::kWorkerSavedPrefillSeconds)),
      uncached_requests_(registry.Counter(metrics::kWorkerUncachedRequests)),
      output_tokens_(registry.Counter(metrics::kWorkerOutputTokens)),
      free_blocks_(registry.Gauge(metrics::kWorkerBlocks, {"free"})),
      referenced_blocks_(registry.Gauge(metrics::kWorkerBlocks, {"referenced"})),
      idle_blocks_(registry.Gauge(metrics::kWorkerBlocks, {"idle"})),
      kv_usage_(registry.Gauge(metrics::kWorkerKvUsage)),
      pinned_blocks_(registry.Gauge(metrics::kWorkerPinnedBlocks)),
      refused_pins_(registry.Counter(metrics::kWorkerRefusedPins)),
      refused_retentions_(registry.Counter(metrics::kWorkerRefusedRetentions)),
      shortened_retentions_(registry.Counter(metrics::kWorkerShortenedRetentions)),
      dropped_pins_(registry.Counter(metrics::kWorkerDroppedPins)),
      returned_sessions_(registry.Counter(metrics::kWorkerReturnedSessions)),
      evicted_blocks_(registry.Counter(metrics::kWorkerEvictedBlocks)),
      block_age_(registry.Histogram(metrics::kWorkerBlockAge)),
      block_idle_(registry.Histogram(metrics::kWorkerBlockIdle)),
      block_reuse_gap_(registry.Histogram(metrics::kWorkerBlockReuseGap)),
      estimated_hit_ratios_(HitRatioGauges(registry, std::make_index_sequence<kPoolMultiples.size()>())),
      preemptions_(registry.Counter(metrics::kWorkerPreemptions)),
      verification_misses_(registry.Counter(metrics::kWorkerVerificationMisses)),
      verified_hits_(registry.Counter(metrics::kWorkerVerifiedHits)),
      wrong_hits_(registry.Counter(metrics::kWorkerWrongHits)),
      ttft_(registry.Histogram(metrics::kWorkerTtft)),
      inter_token_(registry.Histogram(metrics::kWorkerInterToken)),
      queue_wait_(registry.Histogram(metrics::kWorkerQueueWait)),
      prefill_seconds_(registry.Histogram(metrics::kWorkerPrefillSeconds)),
      decode_seconds_(registry.Histogram(metrics::kWorkerDecodeSeconds)),
      step_seconds_(registry.Histogram(metrics::kWorkerStepSeconds)),
      gpu_memory_{GpuMemoryOf(0)},
      links_up_(registry.Gauge(metrics::kWorkerLinks, {"up"})),
      links_down_(registry.Gauge(metrics::kWorkerLinks, {"down"})),
      refusals_(CountersOf(registry, metrics::kWorkerRefusals, kRefusalReasons)),
      certificate_expiry_(registry.Gauge(metrics::kWorkerTlsCertificateExpiry)),
      resyncs_(CountersOf(registry, metrics::kWorkerResyncs, kResyncReasonNames)),
      mirror_losses_(CountersOf(registry, metrics::kWorkerMirrorLosses, kMirrorLossNames)),
      malformed_messages_(registry.Counter(metrics::kWorkerMalformedMessages)),
      unknown_messages_(registry.Counter(metrics::kWorkerUnknownMessages)),
      engine_available_(registry.Gauge(metrics::kWorkerEngineAvailable)),
      engine_absences_(registry.Counter(metrics::kWorkerEngineAbsences)),
      event_trouble_(CountersOf(registry, metrics::kWorkerEngineEventTrouble, kEventTroubleNames)),
      left_out_(CountersOf(registry, metrics::kWorkerEngineLeftOutBlocks, kLeftOutNames)) {
  engine_available_.Set(1);
}

WorkerMetrics::GpuMemory WorkerMetrics::GpuMemoryOf(std::size_t gpu) {
  const std::string number = std::to_string(gpu);
  return {registry_.Gauge(metrics::kWorkerGpuMemory, {number, "used"}),
          registry_.Gauge(metrics::kWorkerGpuMemory, {number, "free"})};
}

void WorkerMetrics::OnGpuMemory(std::span<const kernels::MemoryUse> gpus) {
  while (gpu_memory_.size() < gpus.size()) gpu_memory_.push_back(GpuMemoryOf(gpu_memory_.size()));
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    gpu_memory_[gpu].used.Set(static_cast<double>(gpus[gpu].total_bytes - gpus[gpu].free_bytes));
    gpu_memory_[gpu].free.Set(static_cast<double>(gpus[gpu].free_bytes));
  }
}

void WorkerMetrics::OnStep(const StepReport& report) {
  running_.Set(report.load.running_requests);
  waiting_.Set(report.load.waiting_requests);
  CountTokens(report.counts);
  CountCache(report);
  Add(preemptions_, report.counts.preemptions);
  ObserveAll(ttft_, report.counts.ttft_seconds);
  ObserveAll(inter_token_, report.counts.inter_token_seconds);
  ObserveAll(queue_wait_, report.counts.queue_wait_seconds);
  ObserveAll(prefill_seconds_, report.counts.prefill_seconds);
  ObserveAll(decode_seconds_, report.counts.decode_seconds);
  if (report.device_memory) OnGpuMemory(*report.device_memory);
  // A report without a step has no step time.
  if (report.load.step_seconds > 0) step_seconds_.Observe(report.load.step_seconds);
}

void WorkerMetrics::CountTokens(const StepCounts& counts) {
  Add(prompt_tokens_, counts.prompt_tokens);
  Add(cached_tokens_, counts.cached_prompt_tokens);
  Add(tail_cached_tokens_, counts.tail_cached_tokens);
  AddAll(computed_prompt_tokens_, counts.computed_prompt_tokens);
  saved_prefill_seconds_.Increment(counts.saved_prefill_seconds);
  Add(output_tokens_, counts.output_tokens);
}

void WorkerMetrics::CountCache(const StepReport& report) {
  free_blocks_.Set(report.free_blocks);
  referenced_blocks_.Set(report.referenced_blocks);
  idle_blocks_.Set(report.idle_blocks);
  const std::uint32_t pool = report.free_blocks + report.referenced_blocks + report.idle_blocks;
  kv_usage_.Set(pool == 0 ? 0 : static_cast<double>(report.referenced_blocks) / pool);
  pinned_blocks_.Set(report.pinned_blocks);
  const StepCounts& counts = report.counts;
  Add(uncached_requests_, counts.uncached_requests);
  Add(refused_pins_, counts.refused_pins);
  Add(refused_retentions_, counts.refused_retentions);
  Add(shortened_retentions_, counts.shortened_retentions);
  Add(dropped_pins_, counts.dropped_pins);
  Add(returned_sessions_, counts.returned_sessions);
  Add(evicted_blocks_, counts.evicted_blocks);
  Add(verification_misses_, counts.verification_misses);
  Add(verified_hits_, counts.verified_hits);
  Add(wrong_hits_, counts.wrong_hits);
  ObserveAll(block_age_, counts.residency.age_at_eviction);
  ObserveAll(block_idle_, counts.residency.idle_before_eviction);
  ObserveAll(block_reuse_gap_, counts.residency.reuse_gap);
  if (!report.hit_rates) return;
  for (std::size_t i = 0; i < kPoolMultiples.size(); ++i) estimated_hit_ratios_[i].get().Set((*report.hit_rates)[i]);
}

void WorkerMetrics::OnRound(const LinkCounts& counts, Links links) {
  links_up_.Set(static_cast<double>(links.up));
  links_down_.Set(static_cast<double>(links.down));
  AddNew(finished_requests_, counts.finished_requests, counted_.finished_requests);
  AddNew(refusals_, counts.refusals, counted_.refusals);
  AddNew(resyncs_, counts.resyncs, counted_.resyncs);
  AddNew(mirror_losses_, counts.mirror_losses, counted_.mirror_losses);
  Add(malformed_messages_, counts.malformed_messages - counted_.malformed_messages);
  Add(unknown_messages_, counts.unknown_messages - counted_.unknown_messages);
  engine_available_.Set(links.engine_is_away ? 0 : 1);
  Add(engine_absences_, counts.engine_absences - counted_.engine_absences);
  counted_ = counts;
}

void WorkerMetrics::OnViewCounts(const CacheViewCounts& counts) {
  AddNew(event_trouble_, counts.trouble, counted_view_.trouble);
  AddNew(left_out_, counts.left_out, counted_view_.left_out);
  counted_view_ = counts;
}

void WorkerMetrics::OnCertificate(const TlsValidity& validity) {
  certificate_expiry_.Set(static_cast<double>(validity.until_seconds));
}

}  // namespace roost::worker

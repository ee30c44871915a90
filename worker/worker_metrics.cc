#include "worker/worker_metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// Where blocks came from: the label `source`.
constexpr const char* kPeerSource = "peer";
constexpr const char* kDiskSourceName = "disk";

template <std::size_t... kIndex>
auto ArrivalCounters(metrics::Registry& registry, const char* source, std::index_sequence<kIndex...>) {
  return std::array{
      std::ref(registry.Counter(metrics::kWorkerArrivals, {source, std::string(wire::kHoldOutcomeNames[kIndex])}))...};
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

// ---- what steps report: a row for each metric ----

struct StepCounter {
  const metrics::Metric& metric;
  double (*count)(const StepCounts&);
  std::string_view label = {};  // empty: the metric has none
};
template <auto kField>
double CountOf(const StepCounts& counts) {
  return static_cast<double>(counts.*kField);
}
template <auto kArrivals, auto kField>
double ArrivedOf(const StepCounts& counts) {
  return static_cast<double>(counts.*kArrivals.*kField);
}
constexpr StepCounter kStepCounters[] = {
    {metrics::kWorkerPromptTokens, &CountOf<&StepCounts::prompt_tokens>},
    {metrics::kWorkerCachedTokens, &CountOf<&StepCounts::cached_prompt_tokens>},
    {metrics::kWorkerTailCachedTokens, &CountOf<&StepCounts::tail_cached_tokens>},
    {metrics::kWorkerTierCachedTokens, &CountOf<&StepCounts::tier_cached_tokens>},
    {metrics::kWorkerSavedPrefillSeconds, &CountOf<&StepCounts::saved_prefill_seconds>},
    {metrics::kWorkerComputedPrefillSeconds, &CountOf<&StepCounts::computed_prefill_seconds>},
    {metrics::kWorkerUncachedRequests, &CountOf<&StepCounts::uncached_requests>},
    {metrics::kWorkerOutputTokens, &CountOf<&StepCounts::output_tokens>},
    {metrics::kWorkerRefusedPins, &CountOf<&StepCounts::refused_pins>},
    {metrics::kWorkerRefusedRetentions, &CountOf<&StepCounts::refused_retentions>},
    {metrics::kWorkerShortenedRetentions, &CountOf<&StepCounts::shortened_retentions>},
    {metrics::kWorkerDroppedPins, &CountOf<&StepCounts::dropped_pins>},
    {metrics::kWorkerReturnedSessions, &CountOf<&StepCounts::returned_sessions>},
    {metrics::kWorkerEvictedBlocks, &CountOf<&StepCounts::evicted_blocks>},
    {metrics::kWorkerPreemptions, &CountOf<&StepCounts::preemptions>},
    {metrics::kWorkerVerificationMisses, &CountOf<&StepCounts::verification_misses>},
    {metrics::kWorkerVerifiedHits, &CountOf<&StepCounts::verified_hits>},
    {metrics::kWorkerWrongHits, &CountOf<&StepCounts::wrong_hits>},
    {metrics::kWorkerDistrustedBlocks, &CountOf<&StepCounts::distrusted_blocks>},
    {metrics::kWorkerArrivedBytes, &ArrivedOf<&StepCounts::pulled, &ArrivalCounts::bytes>, kPeerSource},
    {metrics::kWorkerArrivedBytes, &ArrivedOf<&StepCounts::restored, &ArrivalCounts::bytes>, kDiskSourceName},
    {metrics::kWorkerArrivedBlocks, &ArrivedOf<&StepCounts::pulled, &ArrivalCounts::blocks>, kPeerSource},
    {metrics::kWorkerArrivedBlocks, &ArrivedOf<&StepCounts::restored, &ArrivalCounts::blocks>, kDiskSourceName},
    {metrics::kWorkerArrivedPrefillSeconds, &ArrivedOf<&StepCounts::pulled, &ArrivalCounts::prefill_seconds>,
     kPeerSource},
    {metrics::kWorkerArrivedPrefillSeconds, &ArrivedOf<&StepCounts::restored, &ArrivalCounts::prefill_seconds>,
     kDiskSourceName},
};

struct StepGauge {
  const metrics::Metric& metric;
  double (*value)(const StepReport&);
  std::string_view label = {};  // empty: the metric has none
};
template <auto kField>
double LoadOf(const StepReport& report) {
  return static_cast<double>(report.load.*kField);
}
template <auto kField>
double BlocksOf(const StepReport& report) {
  return static_cast<double>(report.*kField);
}
constexpr StepGauge kStepGauges[] = {
    {metrics::kWorkerRunning, &LoadOf<&wire::Load::running_requests>},
    {metrics::kWorkerWaiting, &LoadOf<&wire::Load::waiting_requests>},
    {metrics::kWorkerBlocks, &BlocksOf<&StepReport::free_blocks>, "free"},
    {metrics::kWorkerBlocks, &BlocksOf<&StepReport::referenced_blocks>, "referenced"},
    {metrics::kWorkerBlocks, &BlocksOf<&StepReport::idle_blocks>, "idle"},
    {metrics::kWorkerPinnedBlocks, &LoadOf<&wire::Load::pinned_block_count>},
};

struct StepTimes {
  const metrics::Metric& metric;
  const std::vector<double>& (*times)(const StepCounts&);
  std::string_view label = {};  // empty: the metric has none
};
template <auto kField>
const std::vector<double>& TimesOf(const StepCounts& counts) {
  return counts.*kField;
}
template <auto kArrivals, auto kField>
const std::vector<double>& ArrivalTimesOf(const StepCounts& counts) {
  return counts.*kArrivals.*kField;
}
constexpr StepTimes kStepTimes[] = {
    {metrics::kWorkerTtft, &TimesOf<&StepCounts::ttft_seconds>},
    {metrics::kWorkerInterToken, &TimesOf<&StepCounts::inter_token_seconds>},
    {metrics::kWorkerQueueWait, &TimesOf<&StepCounts::queue_wait_seconds>},
    {metrics::kWorkerPrefillSeconds, &TimesOf<&StepCounts::prefill_seconds>},
    {metrics::kWorkerDecodeSeconds, &TimesOf<&StepCounts::decode_seconds>},
    {metrics::kWorkerArrivalSeconds, &ArrivalTimesOf<&StepCounts::pulled, &ArrivalCounts::seconds>, kPeerSource},
    {metrics::kWorkerArrivalSeconds, &ArrivalTimesOf<&StepCounts::restored, &ArrivalCounts::seconds>, kDiskSourceName},
    {metrics::kWorkerArrivalFirstFrameSeconds,
     &ArrivalTimesOf<&StepCounts::pulled, &ArrivalCounts::first_frame_seconds>, kPeerSource},
    {metrics::kWorkerArrivalFirstFrameSeconds,
     &ArrivalTimesOf<&StepCounts::restored, &ArrivalCounts::first_frame_seconds>, kDiskSourceName},
};

template <typename Row>
std::vector<std::string> LabelsOf(const Row& row) {
  return row.label.empty() ? std::vector<std::string>() : std::vector{std::string(row.label)};
}

// The results of `make` for each row.
template <typename Row, std::size_t kCount, typename Make>
auto MetricsOf(const Row (&rows)[kCount], Make make) {
  std::vector<decltype(make(rows[0]))> made;
  made.reserve(kCount);
  for (const Row& row : rows) made.push_back(make(row));
  return made;
}

}  // namespace

WorkerMetrics::WorkerMetrics(metrics::Registry& registry)
    : registry_(registry),
      step_counters_(MetricsOf(kStepCounters,
                               [&](const auto& row) { return std::ref(registry.Counter(row.metric, LabelsOf(row))); })),
      step_gauges_(
          MetricsOf(kStepGauges, [&](const auto& row) { return std::ref(registry.Gauge(row.metric, LabelsOf(row))); })),
      step_histograms_(MetricsOf(
          kStepTimes, [&](const auto& row) { return std::ref(registry.Histogram(row.metric, LabelsOf(row))); })),
      finished_requests_{registry.Counter(metrics::kWorkerRequests, {"stop"}),
                         registry.Counter(metrics::kWorkerRequests, {"length"}),
                         registry.Counter(metrics::kWorkerRequests, {"cancelled"}),
                         registry.Counter(metrics::kWorkerRequests, {"error"})},
      computed_prompt_tokens_(CountersOf(registry, metrics::kWorkerComputedPromptTokens, kMissReasonNames)),
      kv_usage_(registry.Gauge(metrics::kWorkerKvUsage)),
      block_age_(registry.Histogram(metrics::kWorkerBlockAge)),
      block_idle_(registry.Histogram(metrics::kWorkerBlockIdle)),
      block_reuse_gap_(registry.Histogram(metrics::kWorkerBlockReuseGap)),
      estimated_hit_ratios_(HitRatioGauges(registry, std::make_index_sequence<kPoolMultiples.size()>())),
      step_seconds_(registry.Histogram(metrics::kWorkerStepSeconds)),
      gpu_memory_{GpuMemoryOf(0)},
      pulls_(ArrivalCounters(registry, kPeerSource, std::make_index_sequence<wire::kHoldOutcomeNames.size()>())),
      restores_(ArrivalCounters(registry, kDiskSourceName, std::make_index_sequence<wire::kHoldOutcomeNames.size()>())),
      served_bytes_(registry.Counter(metrics::kWorkerServedBytes)),
      transfer_readers_(registry.Gauge(metrics::kWorkerTransferReaders)),
      transfer_memory_(registry.Gauge(metrics::kWorkerTransferMemory)),
      transfer_refused_(CountersOf(registry, metrics::kWorkerTransferRefused, wire::kFetchRefusalNames)),
      disk_bytes_(registry.Gauge(metrics::kWorkerDiskBytes)),
      disk_blocks_(registry.Gauge(metrics::kWorkerDiskBlocks)),
      disk_available_(registry.Gauge(metrics::kWorkerDiskAvailable)),
      disk_written_(registry.Counter(metrics::kWorkerDiskWrittenBytes)),
      disk_dropped_(CountersOf(registry, metrics::kWorkerDiskDroppedBlocks, kDiskDropNames)),
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
  for (std::size_t i = 0; i < step_counters_.size(); ++i) {
    if (const double count = kStepCounters[i].count(report.counts); count > 0) step_counters_[i].get().Increment(count);
  }
  for (std::size_t i = 0; i < step_gauges_.size(); ++i) step_gauges_[i].get().Set(kStepGauges[i].value(report));
  for (std::size_t i = 0; i < step_histograms_.size(); ++i) {
    ObserveAll(step_histograms_[i], kStepTimes[i].times(report.counts));
  }
  AddAll(computed_prompt_tokens_, report.counts.computed_prompt_tokens);
  AddAll(pulls_, report.counts.pulled.ends);
  AddAll(restores_, report.counts.restored.ends);
  CountCache(report);
  if (report.device_memory) OnGpuMemory(*report.device_memory);
  // A report without a step has no step time.
  if (report.load.step_seconds > 0) step_seconds_.Observe(report.load.step_seconds);
}

void WorkerMetrics::CountCache(const StepReport& report) {
  const std::uint32_t pool = report.free_blocks + report.referenced_blocks + report.idle_blocks;
  kv_usage_.Set(pool == 0 ? 0 : static_cast<double>(report.referenced_blocks) / pool);
  const ResidencyCounts& residency = report.counts.residency;
  ObserveAll(block_age_, residency.age_at_eviction);
  ObserveAll(block_idle_, residency.idle_before_eviction);
  ObserveAll(block_reuse_gap_, residency.reuse_gap);
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
  if (transfer_) CountTransfer(transfer_());
  if (disk_) CountDisk(disk_());
}

void WorkerMetrics::CountDisk(const DiskCounts& counts) {
  disk_bytes_.Set(static_cast<double>(counts.used_bytes));
  disk_blocks_.Set(static_cast<double>(counts.blocks));
  disk_available_.Set(counts.is_available ? 1 : 0);
  Add(disk_written_, counts.written_bytes - counted_disk_.written_bytes);
  AddNew(disk_dropped_, counts.dropped, counted_disk_.dropped);
  counted_disk_ = counts;
}

void WorkerMetrics::CountTransfer(const TransferCounts& counts) {
  Add(served_bytes_, counts.served.served_bytes - counted_transfer_.served.served_bytes);
  transfer_readers_.Set(static_cast<double>(counts.served.readers));
  transfer_memory_.Set(static_cast<double>(counts.waiting_bytes));
  AddNew(transfer_refused_, counts.served.refused, counted_transfer_.served.refused);
  counted_transfer_ = counts;
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

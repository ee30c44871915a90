// Turns what the link thread hears into the worker's metrics. Labels are resolved once, at construction.
//
// Threads: constructed anywhere, then called from the link thread alone, but for OnCertificate and OnViewCounts; any
// thread reads.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/http/tls_context.h"
#include "common/metrics/registry.h"
#include "kernels/memory_use.h"
#include "worker/disk/disk_cache.h"
#include "worker/engine_api/cache_view_counts.h"
#include "worker/link/link_thread.h"
#include "worker/transfer/block_transfer.h"

namespace roost::worker {

class WorkerMetrics final : public LinkObserver {
 public:
  // `registry` outlives it.
  explicit WorkerMetrics(metrics::Registry& registry);

  // The memory of each GPU, in order; none on the CPU.
  void OnGpuMemory(std::span<const kernels::MemoryUse> gpus);

  void OnStep(const StepReport& report) override;
  void OnRound(const LinkCounts& counts, Links links) override;
  // Before the first round: from now on each round asks for what other workers have fetched.
  void SetTransfer(std::function<TransferCounts()> transfer) { transfer_ = std::move(transfer); }
  // The same of the disk.
  void SetDisk(std::function<DiskCounts()> disk) { disk_ = std::move(disk); }
  // The totals of an engine's events. From one thread, any.
  void OnViewCounts(const CacheViewCounts& counts);
  // From any thread.
  void OnCertificate(const TlsValidity& validity);

 private:
  using CounterRef = std::reference_wrapper<prometheus::Counter>;
  struct GpuMemory {
    prometheus::Gauge& used;
    prometheus::Gauge& free;
  };
  using GaugeRef = std::reference_wrapper<prometheus::Gauge>;
  using HistogramRef = std::reference_wrapper<prometheus::Histogram>;

  GpuMemory GpuMemoryOf(std::size_t gpu);
  void CountCache(const StepReport& report);
  void CountTransfer(const TransferCounts& counts);
  void CountDisk(const DiskCounts& counts);

  metrics::Registry& registry_;
  // One for each row of the tables of what steps report: StepCounts, StepReport and its load.
  std::vector<CounterRef> step_counters_;
  std::vector<GaugeRef> step_gauges_;
  std::vector<HistogramRef> step_histograms_;
  std::array<CounterRef, 4> finished_requests_;  // by wire::FinishReason
  std::array<CounterRef, kMissReasonNames.size()> computed_prompt_tokens_;
  prometheus::Gauge& kv_usage_;
  prometheus::Histogram& block_age_;
  prometheus::Histogram& block_idle_;
  prometheus::Histogram& block_reuse_gap_;
  std::array<GaugeRef, kPoolMultiples.size()> estimated_hit_ratios_;
  prometheus::Histogram& step_seconds_;
  std::vector<GpuMemory> gpu_memory_;  // of each GPU; the first is always there
  std::array<CounterRef, wire::kHoldOutcomeNames.size()> pulls_;
  std::array<CounterRef, wire::kHoldOutcomeNames.size()> restores_;
  prometheus::Counter& served_bytes_;
  prometheus::Gauge& transfer_readers_;
  prometheus::Gauge& transfer_memory_;
  std::array<CounterRef, wire::kFetchRefusalNames.size()> transfer_refused_;
  prometheus::Gauge& disk_bytes_;
  prometheus::Gauge& disk_blocks_;
  prometheus::Gauge& disk_available_;
  prometheus::Counter& disk_written_;
  std::array<CounterRef, kDiskDropNames.size()> disk_dropped_;
  prometheus::Gauge& links_up_;
  prometheus::Gauge& links_down_;
  std::array<CounterRef, kRefusalReasonCount> refusals_;
  prometheus::Gauge& certificate_expiry_;
  std::array<CounterRef, kResyncReasonNames.size()> resyncs_;
  std::array<CounterRef, kMirrorLossNames.size()> mirror_losses_;
  prometheus::Counter& malformed_messages_;
  prometheus::Counter& unknown_messages_;

  prometheus::Gauge& engine_available_;
  prometheus::Counter& engine_absences_;
  std::array<CounterRef, kEventTroubleNames.size()> event_trouble_;
  std::array<CounterRef, kLeftOutNames.size()> left_out_;

  CacheViewCounts counted_view_;  // as below, of OnViewCounts
  std::function<TransferCounts()> transfer_;
  TransferCounts counted_transfer_;  // as below, of transfer_
  std::function<DiskCounts()> disk_;
  DiskCounts counted_disk_;  // as below, of disk_
  LinkCounts counted_;       // the link's counts that the counters include already
};

}  // namespace roost::worker

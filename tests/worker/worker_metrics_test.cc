#include "worker/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace roost::worker {
namespace {

using testing::HasSubstr;

class WorkerMetricsTest : public ::testing::Test {
 protected:
  metrics::Registry registry_;
  WorkerMetrics metrics_{registry_};
};

// Dashboards and rates need a zero before the first event.
TEST_F(WorkerMetricsTest, AllSeriesAreThereFromTheStart) {
  const std::string text = registry_.Text();
  for (const std::string_view reason : kMissReasonNames) {
    EXPECT_THAT(text, HasSubstr("roost_worker_computed_prompt_tokens_total{reason=\"" + std::string(reason) + "\"} 0"));
  }
  for (const char* pool : {"0.5x", "1x", "2x", "4x"}) {
    EXPECT_THAT(text, HasSubstr("roost_worker_estimated_hit_ratio{pool=\"" + std::string(pool) + "\"} 0"));
  }
  for (const char* name : {"tail_cached_tokens_total", "uncached_requests_total", "refused_pins_total",
                           "verified_hits_total", "wrong_hits_total", "distrusted_blocks_total", "pinned_blocks",
                           "block_age_at_eviction_seconds_count", "block_idle_before_eviction_seconds_count",
                           "block_reuse_gap_seconds_count", "mirror_losses_total{reason=\"digest\"}",
                           "resyncs_total{reason=\"unsent\"}", "refusals_total{reason=\"name_taken\"}",
                           "refusals_total{reason=\"handshake\"}", "tls_certificate_expiry_timestamp_seconds"}) {
    EXPECT_THAT(text, HasSubstr("\nroost_worker_" + std::string(name) + " 0\n"));
  }
}

TEST_F(WorkerMetricsTest, CountsOfStepsAddUp) {
  StepReport report;
  report.counts.computed_prompt_tokens[IndexOf(MissReason::kEvicted)] = 5;
  report.counts.tail_cached_tokens = 3;
  report.counts.uncached_requests = 2;
  report.counts.refused_pins = 4;
  report.counts.verified_hits = 6;
  report.counts.wrong_hits = 1;
  report.counts.distrusted_blocks = 7;
  report.load.pinned_block_count = 9;
  metrics_.OnStep(report);
  metrics_.OnStep(report);
  const std::string text = registry_.Text();
  for (const char* line :
       {"computed_prompt_tokens_total{reason=\"evicted\"} 10", "computed_prompt_tokens_total{reason=\"cold\"} 0",
        "tail_cached_tokens_total 6", "uncached_requests_total 4", "refused_pins_total 8", "verified_hits_total 12",
        "wrong_hits_total 2", "distrusted_blocks_total 14", "pinned_blocks 9"}) {
    EXPECT_THAT(text, HasSubstr("\nroost_worker_" + std::string(line) + "\n"));
  }
}

TEST_F(WorkerMetricsTest, BlocksThatCameAndWereServedAddUp) {
  StepReport report;
  report.counts.pulled.ends[static_cast<std::size_t>(wire::HoldOutcome::kNoRoom)] = 2;
  report.counts.pulled.blocks = 3;
  report.counts.pulled.bytes = 400;
  report.counts.pulled.prefill_seconds = 0.5;
  report.counts.pulled.seconds = {0.25, 1};
  report.counts.pulled.first_frame_seconds = {0.125};
  metrics_.OnStep(report);
  metrics_.OnStep(report);
  TransferCounts counts;
  metrics_.SetTransfer([&counts] { return counts; });
  for (int round = 0; round < 2; ++round) {
    counts.served.served_bytes += 1000;
    counts.served.readers = 2;
    counts.served.refused[static_cast<std::size_t>(wire::FetchRefusal::kNumerics)] += 1;
    counts.waiting_bytes = 70;
    metrics_.OnRound({}, {});
  }
  const std::string text = registry_.Text();
  for (const char* line :
       {"arrivals_total{outcome=\"no_room\",source=\"peer\"} 4",
        "arrivals_total{outcome=\"complete\",source=\"peer\"} 0", "arrived_blocks_total{source=\"peer\"} 6",
        "arrived_bytes_total{source=\"peer\"} 800", "arrived_prefill_seconds_total{source=\"peer\"} 1",
        "arrival_seconds_sum{source=\"peer\"} 2.5", "arrival_first_frame_seconds_count{source=\"peer\"} 2",
        "served_bytes_total 2000", "transfer_readers 2", "transfer_memory_bytes 70",
        "transfer_refused_total{reason=\"numerics\"} 2", "transfer_refused_total{reason=\"busy\"} 0"}) {
    EXPECT_THAT(text, HasSubstr("\nroost_worker_" + std::string(line) + "\n"));
  }
}

TEST_F(WorkerMetricsTest, ResidencyKeepsItsBuckets) {
  StepReport report;
  report.counts.residency.age_at_eviction.Add(std::chrono::milliseconds(5));  // a bound is inclusive
  report.counts.residency.age_at_eviction.Add(std::chrono::seconds(4));
  report.counts.residency.age_at_eviction.Add(std::chrono::hours(1));
  report.counts.residency.reuse_gap.Add(std::chrono::seconds(15));
  metrics_.OnStep(report);
  const std::string text = registry_.Text();
  for (const char* line :
       {"age_at_eviction_seconds_bucket{le=\"0.002\"} 0", "age_at_eviction_seconds_bucket{le=\"0.005\"} 1",
        "age_at_eviction_seconds_bucket{le=\"5\"} 2", "age_at_eviction_seconds_bucket{le=\"1800\"} 2",
        "age_at_eviction_seconds_bucket{le=\"+Inf\"} 3", "age_at_eviction_seconds_sum 3604.005",
        "idle_before_eviction_seconds_count 0", "reuse_gap_seconds_count 1"}) {
    EXPECT_THAT(text, HasSubstr("\nroost_worker_block_" + std::string(line) + "\n"));
  }
}

TEST_F(WorkerMetricsTest, BlocksThatRequestsUseAreAShareOfThePool) {
  StepReport report;
  report.free_blocks = 10;
  report.referenced_blocks = 30;
  report.idle_blocks = 60;
  metrics_.OnStep(report);
  EXPECT_THAT(registry_.Text(), HasSubstr("\nroost_worker_kv_usage_ratio 0.3\n"));
}

TEST_F(WorkerMetricsTest, TimesOfARequestAndWhatTheCacheSavedAddUp) {
  StepReport report;
  report.counts.prefill_seconds = {0.5, 1};
  report.counts.decode_seconds = {2};
  report.counts.saved_prefill_seconds = 0.25;
  report.counts.computed_prefill_seconds = 0.5;
  metrics_.OnStep(report);
  metrics_.OnStep(report);
  const std::string text = registry_.Text();
  EXPECT_THAT(text, HasSubstr("\nroost_worker_prefill_seconds_sum 3\n"));
  EXPECT_THAT(text, HasSubstr("\nroost_worker_decode_seconds_sum 4\n"));
  EXPECT_THAT(text, HasSubstr("\nroost_worker_saved_prefill_seconds_total 0.5\n"));
  EXPECT_THAT(text, HasSubstr("\nroost_worker_computed_prefill_seconds_total 1\n"));
}

TEST_F(WorkerMetricsTest, GpuMemoryIsThereWithoutAGpuAndForEach) {
  EXPECT_THAT(registry_.Text(), HasSubstr("roost_worker_gpu_memory_bytes{gpu=\"0\",state=\"used\"} 0\n"));
  StepReport report;
  report.device_memory = {{.free_bytes = 30, .total_bytes = 80}, {.free_bytes = 20, .total_bytes = 80}};
  metrics_.OnStep(report);
  metrics_.OnStep(StepReport());  // without news
  const std::string text = registry_.Text();
  for (const char* line : {"{gpu=\"0\",state=\"used\"} 50", "{gpu=\"0\",state=\"free\"} 30",
                           "{gpu=\"1\",state=\"used\"} 60", "{gpu=\"1\",state=\"free\"} 20"}) {
    EXPECT_THAT(text, HasSubstr("\nroost_worker_gpu_memory_bytes" + std::string(line) + "\n"));
  }
}

TEST_F(WorkerMetricsTest, HitRatiosStayUntilTheNextEstimate) {
  StepReport report;
  report.hit_rates = HitRateCurve{0.25, 0.5, 0.625, 0.75};
  metrics_.OnStep(report);
  metrics_.OnStep(StepReport());
  const std::string text = registry_.Text();
  EXPECT_THAT(text, HasSubstr("roost_worker_estimated_hit_ratio{pool=\"0.5x\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("roost_worker_estimated_hit_ratio{pool=\"4x\"} 0.75\n"));
}

TEST_F(WorkerMetricsTest, CountsOfTheLinksAreNotCountedTwice) {
  LinkCounts counts;
  counts.resyncs[static_cast<std::size_t>(ResyncReason::kUnsent)] = 2;
  counts.mirror_losses[static_cast<std::size_t>(MirrorLoss::kOverflow)] = 1;
  counts.refusals[IndexOf(wire::RefusalCause::kNameTaken)] = 3;
  metrics_.OnRound(counts, {.up = 1, .down = 0});
  metrics_.OnRound(counts, {.up = 1, .down = 0});
  const std::string text = registry_.Text();
  EXPECT_THAT(text, HasSubstr("roost_worker_resyncs_total{reason=\"unsent\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("roost_worker_mirror_losses_total{reason=\"overflow\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roost_worker_refusals_total{reason=\"name_taken\"} 3\n"));
}

}  // namespace
}  // namespace roost::worker

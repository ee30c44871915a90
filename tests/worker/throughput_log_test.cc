#include "worker/throughput_log.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

class CountingObserver final : public LinkObserver {
 public:
  void OnStep(const StepReport&) override { ++steps; }
  void OnRound(const LinkCounts&, Links) override { ++rounds; }

  int steps = 0;
  int rounds = 0;
};

StepReport ReportOf(std::uint32_t running, std::uint32_t waiting, std::uint64_t output_tokens) {
  StepReport report;
  report.load.running_requests = running;
  report.load.waiting_requests = waiting;
  report.counts.prompt_tokens = 100;
  report.counts.cached_prompt_tokens = 60;
  report.counts.output_tokens = output_tokens;
  return report;
}

TEST(WorkerThroughputLogTest, CountsWhatEndedAndWhatRunsUntilItsLine) {
  ManualClock clock;
  CountingObserver next;
  ThroughputLog log(next, clock);
  log.OnStep(ReportOf(3, 2, 4));
  log.OnStep(ReportOf(1, 1, 5));
  LinkCounts counts;
  counts.finished_requests[static_cast<std::size_t>(wire::FinishReason::kStop)] = 2;
  counts.finished_requests[static_cast<std::size_t>(wire::FinishReason::kError)] = 1;
  clock.Advance(kThroughputInterval - std::chrono::nanoseconds(1));
  log.OnRound(counts, {});
  const Throughput busy{
      .ended = 3, .failed = 1, .active = 2, .prompt_tokens = 200, .cached_tokens = 120, .output_tokens = 9};
  EXPECT_EQ(log.interval(), busy);

  clock.Advance(std::chrono::nanoseconds(1));
  log.OnRound(counts, {});  // the line
  EXPECT_EQ(log.interval(), Throughput{.active = 2});
  counts.finished_requests[static_cast<std::size_t>(wire::FinishReason::kLength)] = 1;
  log.OnRound(counts, {});
  EXPECT_EQ(log.interval().ended, 1U);
  EXPECT_EQ(log.interval().failed, 0U);
  EXPECT_EQ(next.steps, 2);
  EXPECT_EQ(next.rounds, 3);
}

}  // namespace
}  // namespace roost::worker

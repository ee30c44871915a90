#include "worker/throughput_log.h"

#include <numeric>
#include <utility>

namespace roost::worker {

void ThroughputLog::OnStep(const StepReport& report) {
  next_.OnStep(report);
  interval_.active = report.load.running_requests + report.load.waiting_requests;
  interval_.prompt_tokens += report.counts.prompt_tokens;
  interval_.cached_tokens += report.counts.cached_prompt_tokens;
  interval_.output_tokens += report.counts.output_tokens;
}

void ThroughputLog::OnRound(const LinkCounts& counts, Links links) {
  next_.OnRound(counts, links);
  CountEnds(counts);
  const Instant now = clock_.Now();
  if (now < since_ + kThroughputInterval) return;
  const Duration time = now - std::exchange(since_, now);
  LogThroughput(std::exchange(interval_, Throughput{.active = interval_.active}), time);
}

void ThroughputLog::CountEnds(const LinkCounts& counts) {
  const auto& finished = counts.finished_requests;
  const std::uint64_t ended = std::accumulate(finished.begin(), finished.end(), std::uint64_t{0});
  const std::uint64_t failed = finished[static_cast<std::size_t>(wire::FinishReason::kError)];
  interval_.ended += ended - std::exchange(ended_, ended);
  interval_.failed += failed - std::exchange(failed_, failed);
}

}  // namespace roost::worker

#include "router/throughput_log.h"

#include <utility>

namespace roost::router {

void ThroughputLog::OnGenerationStart(std::string_view model) {
  {
    const std::lock_guard lock(mutex_);
    ++interval_.active;
  }
  PassingApiObserver::OnGenerationStart(model);
}

void ThroughputLog::OnGenerationEnd(const GenerationSummary& summary) {
  {
    const std::lock_guard lock(mutex_);
    --interval_.active;
    ++interval_.ended;
    if (summary.outcome == GenerationSummary::Outcome::kError) ++interval_.failed;
    // A generation without a first token used nothing.
    if (summary.cached_tokens) interval_.prompt_tokens += summary.prompt_tokens;
    interval_.cached_tokens += summary.cached_tokens.value_or(0);
    interval_.output_tokens += summary.completion_tokens;
  }
  PassingApiObserver::OnGenerationEnd(summary);
}

void ThroughputLog::OnForwardStart() {
  {
    const std::lock_guard lock(mutex_);
    ++interval_.active;
  }
  PassingApiObserver::OnForwardStart();
}

void ThroughputLog::OnForwardEnd(const ForwardSummary& summary) {
  {
    const std::lock_guard lock(mutex_);
    --interval_.active;
    ++interval_.ended;
    if (summary.is_failed) ++interval_.failed;
    interval_.prompt_tokens += summary.prompt_tokens;
    interval_.cached_tokens += summary.cached_tokens;
    interval_.output_tokens += summary.output_tokens;
  }
  PassingApiObserver::OnForwardEnd(summary);
}

Throughput ThroughputLog::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(interval_, Throughput{.active = interval_.active});
}

void ThroughputLog::Tell() {
  const Instant now = clock_.Now();
  const Duration time = now - std::exchange(since_, now);
  LogThroughput(Take(), time);
}

}  // namespace roost::router

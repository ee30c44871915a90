#include "router/throughput_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace roost::router {

void ThroughputLog::OnGenerationStart(std::string_view model) {
  {
    const std::lock_guard lock(mutex_);
    ++interval_.active;
  }
  next_.OnGenerationStart(model);
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
  next_.OnGenerationEnd(summary);
}

ThroughputLog::Interval ThroughputLog::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(interval_, Interval{.active = interval_.active});
}

void ThroughputLog::Tell() {
  const Instant now = clock_.Now();
  const double seconds = std::max(ToSeconds(now - std::exchange(since_, now)), 1e-3);
  const Interval interval = Take();
  if (interval.ended == 0 && interval.active == 0) return;
  const auto rate = [seconds](std::uint64_t count) {
    return fmt::format("{:.1f}", static_cast<double>(count) / seconds);
  };
  const double hits = static_cast<double>(interval.cached_tokens) /
                      static_cast<double>(std::max<std::uint64_t>(interval.prompt_tokens, 1));
  LogInfo("throughput", {{"requests_per_second", rate(interval.ended)},
                         {"failed", fmt::to_string(interval.failed)},
                         {"active", fmt::to_string(interval.active)},
                         {"prompt_tokens_per_second", rate(interval.prompt_tokens)},
                         {"cached_percent", fmt::format("{:.1f}", 100 * hits)},
                         {"output_tokens_per_second", rate(interval.output_tokens)}});
}

}  // namespace roost::router

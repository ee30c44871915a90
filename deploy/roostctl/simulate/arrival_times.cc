#include "deploy/roostctl/simulate/arrival_times.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/base/check.h"

namespace roost::simulate {

using workload::Trace;
using workload::TraceRequest;

namespace {

// The seconds of an answer's tokens, at speed 1.
double AnswerSeconds(const TraceRequest& request, const ServiceModel& service, std::uint32_t full_batch) {
  if (service.batching == Batching::kSeparate) return 0;
  const double tokens = request.output_token_count;
  const double context = request.input_token_count + tokens / 2;
  return tokens * service.DecodeStepSeconds(full_batch, full_batch * context) / full_batch;
}

// The seconds of all requests, at speed 1.
double WorkSeconds(const Trace& trace, const ServiceModel& service, std::uint32_t full_batch) {
  std::unordered_set<workload::ContentId> seen;
  double seconds = 0;
  for (const TraceRequest& request : trace.requests) {
    const std::uint32_t blocks = workload::PromptBlockCount(trace, request);
    std::uint32_t cached = 0;
    while (cached < blocks && seen.contains(request.blocks[cached])) ++cached;
    const std::uint32_t first = cached * trace.block_tokens;
    if (first < request.input_token_count) seconds += service.ChunkSeconds(first, request.input_token_count - first);
    seconds += AnswerSeconds(request, service, full_batch);
    seen.insert(request.blocks.begin(), request.blocks.end());
  }
  return seconds;
}

}  // namespace

void ScaleToUtilisation(Trace& trace, double utilisation, const ServiceModel& service, const FleetSize& fleet) {
  ROOST_CHECK(utilisation > 0 && fleet.speed > 0);
  if (trace.requests.empty()) return;
  const double span = trace.requests.back().arrival_seconds;
  if (span <= 0) return;
  const double factor = WorkSeconds(trace, service, fleet.full_batch) / (utilisation * fleet.speed) / span;
  for (TraceRequest& request : trace.requests) request.arrival_seconds *= factor;
}

void ScaleToRate(Trace& trace, double requests_per_second) {
  ROOST_CHECK(requests_per_second > 0);
  if (trace.requests.empty() || trace.requests.back().arrival_seconds <= 0) return;
  const double span = static_cast<double>(trace.requests.size()) / requests_per_second;
  const double factor = span / trace.requests.back().arrival_seconds;
  for (TraceRequest& request : trace.requests) request.arrival_seconds *= factor;
}

Arrivals::Arrivals(const Trace& trace, double speed, Timeline& timeline,
                   std::function<void(std::uint32_t number)> arrive)
    : trace_(trace),
      speed_(speed),
      timeline_(timeline),
      arrive_(std::move(arrive)),
      next_turns_(trace.requests.size()),
      waits_(trace.requests.size()),
      arrivals_(trace.requests.size()) {
  if (trace.pacing != workload::Pacing::kTurnByTurn) return;
  std::unordered_map<std::uint64_t, std::uint32_t> latest;  // the latest turn of each session
  for (std::uint32_t number = 0; number < trace.requests.size(); ++number) {
    const std::uint64_t session = trace.requests[number].session;
    if (session == 0) continue;
    const auto [before, is_first] = latest.try_emplace(session, number);
    if (is_first) continue;
    next_turns_[before->second] = number;
    waits_[number] = true;
    before->second = number;
  }
}

void Arrivals::Begin(Instant start) {
  for (std::uint32_t number = 0; number < trace_.requests.size(); ++number) {
    if (!waits_[number]) Plan(number, start + FromSeconds(trace_.requests[number].arrival_seconds / speed_));
  }
}

void Arrivals::Plan(std::uint32_t number, Instant when) {
  arrivals_[number] = when;
  timeline_.At(when, [this, number] { arrive_(number); });
}

void Arrivals::OnEnd(std::uint32_t number) {
  const std::optional<std::uint32_t> next = next_turns_[number];
  if (!next) return;
  const double gap = (trace_.requests[*next].arrival_seconds - trace_.requests[number].arrival_seconds) / speed_;
  Plan(*next, std::max(timeline_.Now(), arrivals_[number] + FromSeconds(gap)));
}

}  // namespace roost::simulate

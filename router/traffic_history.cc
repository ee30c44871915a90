#include "router/traffic_history.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/json_writer.h"
#include "common/metrics/catalog.h"

namespace roost::router {
namespace {

constexpr double kFirstBound = 0.001;

std::size_t BucketOf(double seconds, std::size_t buckets) {
  if (seconds <= kFirstBound) return 0;
  const auto bucket = static_cast<std::size_t>(std::ceil(2 * std::log2(seconds / kFirstBound)));
  return std::min(bucket, buckets - 1);
}

double BoundOf(std::size_t bucket) { return kFirstBound * std::exp2(static_cast<double>(bucket) / 2); }

// The errors that a client can not help: the same as the recording rules of dashboards/rules.
bool IsServersFault(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kInternal || code == ErrorCode::kDataLoss ||
         code == ErrorCode::kDeadlineExceeded;
}

}  // namespace

TrafficHistory::Point& TrafficHistory::Now(std::string_view model) {
  const bool is_known = models_.find(model) != models_.end();
  std::deque<Point>& points =
      models_[is_known || models_.size() < kMaxModels ? std::string(model) : std::string(metrics::kOtherValue)];
  const std::int64_t step = unix_seconds_() / kStepSeconds;
  if (!points.empty() && points.back().step >= step) return points.back();  // a clock may go back
  Point point{.step = step};
  if (!points.empty()) {
    point.ready_workers = points.back().ready_workers;
    point.workers = points.back().workers;
  }
  points.push_back(point);
  while (points.size() > kPoints || points.front().step <= step - static_cast<std::int64_t>(kPoints))
    points.pop_front();
  return points.back();
}

void TrafficHistory::OnWorkers(const FleetStanding& standing, std::span<const QueueStatus> queues) {
  const std::lock_guard lock(mutex_);
  for (const ModelStanding& model : standing.models) {
    Point& point = Now(model.model);
    point.ready_workers = model.workers.ready();
    point.workers = model.workers.all();
  }
  for (const QueueStatus& queue : queues) {
    Point& point = Now(queue.model);
    point.waiting_requests = std::max(point.waiting_requests, queue.waiting_requests);
  }
}

void TrafficHistory::OnGenerationEnd(const GenerationSummary& summary) {
  {
    const std::lock_guard lock(mutex_);
    Point& point = Now(summary.model);
    ++point.ended;
    const bool is_error = summary.outcome == GenerationSummary::Outcome::kError;
    if (is_error && IsServersFault(summary.error.value_or(ErrorCode::kInternal))) ++point.failed;
    if (summary.cached_tokens) point.prompt_tokens += summary.prompt_tokens;
    point.cached_tokens += summary.cached_tokens.value_or(0);
    point.output_tokens += summary.completion_tokens;
  }
  PassingApiObserver::OnGenerationEnd(summary);
}

// Names that clients made up make no history of their own.
void TrafficHistory::OnUnserved(const UnservedGeneration& unserved) {
  {
    const std::lock_guard lock(mutex_);
    Point& point = Now(unserved.is_known ? unserved.model : metrics::kOtherValue);
    ++point.ended;
    if (IsServersFault(unserved.error)) ++point.failed;
  }
  PassingApiObserver::OnUnserved(unserved);
}

void TrafficHistory::OnFirstToken(std::string_view model, double seconds) {
  {
    const std::lock_guard lock(mutex_);
    ++Now(model).ttft.at(BucketOf(seconds, kBuckets));
  }
  PassingApiObserver::OnFirstToken(model, seconds);
}

double TrafficHistory::TtftQuantile(const Point& point, double share) {
  const auto count = std::accumulate(point.ttft.begin(), point.ttft.end(), std::uint64_t{0});
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += point.ttft.at(bucket);
    if (static_cast<double>(seen) >= share * static_cast<double>(count)) return BoundOf(bucket);
  }
  return BoundOf(kBuckets - 1);
}

std::string TrafficHistory::Json() const {
  constexpr double kP50 = 0.5;
  constexpr double kP99 = 0.99;
  const std::lock_guard lock(mutex_);
  JsonWriter json;
  json.BeginObject().Key("step_seconds").Number(kStepSeconds).Key("models").BeginArray();
  for (const auto& [model, points] : models_) {
    json.BeginObject().Key("id").String(model).Key("points").BeginArray();
    for (const Point& point : points) {
      json.BeginObject().Key("unix_seconds").Number(point.step * kStepSeconds);
      json.Key("ready_workers").Number(point.ready_workers).Key("workers").Number(point.workers);
      json.Key("waiting_requests").Number(point.waiting_requests);
      json.Key("ended").Number(point.ended).Key("failed").Number(point.failed);
      json.Key("prompt_tokens").Number(point.prompt_tokens).Key("cached_tokens").Number(point.cached_tokens);
      json.Key("output_tokens").Number(point.output_tokens);
      const bool has_ttft = std::any_of(point.ttft.begin(), point.ttft.end(), [](std::uint32_t n) { return n > 0; });
      if (has_ttft) {
        json.Key("ttft_p50_seconds").Number(TtftQuantile(point, kP50));
        json.Key("ttft_p99_seconds").Number(TtftQuantile(point, kP99));
      }
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace roost::router

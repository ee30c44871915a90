#include "router/fleet/waiting_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace roost::router {
namespace {

Error QueueFull(std::size_t waiting_requests) {
  return {ErrorCode::kOverloaded, fmt::format("{} requests are already waiting for a worker", waiting_requests), ""};
}

}  // namespace

std::size_t WaitingRoom::size(const Line& line) const {
  const auto found = queues_.find(line);
  return found == queues_.end() ? 0 : found->second.requests.size();
}

std::size_t WaitingRoom::size() const {
  std::size_t count = 0;
  for (const auto& [line, queue] : queues_) count += queue.requests.size();
  return count;
}

const std::string& WaitingRoom::NameOf(const Line& line) const {
  return line.adapter.empty() ? queues_.at(line).model : line.adapter;
}

std::vector<WaitingRoom::Line> WaitingRoom::Lines() const {
  std::vector<Line> lines;
  for (const auto& [line, queue] : queues_) {
    if (queue.requests.size() > 0) lines.push_back(line);
  }
  return lines;
}

std::optional<WaitingRoom::Line> WaitingRoom::NextFor(const std::string& revision, const AdapterNames& adapters) const {
  auto next = queues_.end();
  for (auto at = queues_.lower_bound({revision, ""}); at != queues_.end() && at->first.revision == revision; ++at) {
    const auto& [line, queue] = *at;
    if (queue.requests.size() == 0 || (!line.adapter.empty() && !adapters.contains(line.adapter))) continue;
    const auto place = [](const Queue& of) { return std::pair(-std::int64_t{of.requests.top_priority()}, of.turn); };
    if (next == queues_.end() || place(queue) < place(next->second)) next = at;
  }
  return next == queues_.end() ? std::nullopt : std::optional(next->first);
}

WaitingRoom::Queue& WaitingRoom::QueueOf(const ServedModel& model, Instant now) {
  Queue fresh{model.model_name(), RequestQueue(options_.max_queue), DrainRate(now)};
  return queues_.try_emplace(LineOf(model), std::move(fresh)).first->second;
}

std::map<WaitingRoom::Line, Error> WaitingRoom::FullLines() const {
  std::map<Line, Error> full;
  for (const auto& [line, queue] : queues_) {
    const std::size_t waiting_requests = queue.requests.size();
    if (waiting_requests > 0 && waiting_requests >= options_.max_queue) full.emplace(line, QueueFull(waiting_requests));
  }
  return full;
}

Result<void> WaitingRoom::Push(const ServedModel& model, QueuedRequest request, Instant now) {
  RequestQueue& requests = QueueOf(model, now).requests;
  if (requests.Push(std::move(request))) return {};
  metrics_.OnQueueRefused(model.model_name(), QueueRefusal::kFull);
  return QueueFull(requests.size());
}

void WaitingRoom::PushFront(const ServedModel& model, QueuedRequest request, Instant now) {
  QueueOf(model, now).requests.PushFront(std::move(request));
}

std::optional<QueuedRequest> WaitingRoom::Pop(const Line& line) {
  const auto found = queues_.find(line);
  if (found == queues_.end()) return std::nullopt;
  found->second.turn = ++turns_;
  return found->second.requests.Pop();
}

void WaitingRoom::Remove(const Line& line, RequestId id) {
  const auto found = queues_.find(line);
  ROOST_CHECK(found != queues_.end() && found->second.requests.Remove(id), "request {} does not wait for {}",
              id.value(), line.revision);
}

std::vector<RequestId> WaitingRoom::TakeExpired(Instant now) {
  std::vector<RequestId> expired;
  for (auto& [line, queue] : queues_) {
    for (const QueuedRequest& request : queue.requests.TakeExpired(now)) expired.push_back(request.id);
  }
  return expired;
}

void WaitingRoom::NoteDeparture(const Line& line, const QueuedRequest& request, Instant now) {
  const auto found = queues_.find(line);
  ROOST_CHECK(found != queues_.end(), "no request waited for {}", line.revision);
  found->second.drain.OnDeparture(now);
  metrics_.OnQueueWait(found->second.model, ToSeconds(now - request.queued_at));
}

std::vector<QueueStatus> WaitingRoom::Statuses(Instant now) const {
  std::map<std::string, QueueStatus> by_model;
  for (const auto& [line, queue] : queues_) {
    const RequestQueue& requests = queue.requests;
    if (requests.size() == 0) continue;
    const Duration drain = std::min(queue.drain.TimeFor(requests.size(), now), options_.max_wait);
    QueueStatus& status = by_model[queue.model];
    status.model = queue.model;
    status.waiting_requests += static_cast<std::uint32_t>(requests.size());
    status.oldest_wait_seconds = std::max(status.oldest_wait_seconds, ToSeconds(now - requests.oldest().value_or(now)));
    status.drain_seconds = std::max(status.drain_seconds, ToSeconds(drain));
  }
  std::vector<QueueStatus> statuses;
  statuses.reserve(by_model.size());
  for (auto& [model, status] : by_model) statuses.push_back(std::move(status));
  return statuses;
}

void WaitingRoom::Publish() {
  std::map<std::string, std::uint32_t> counts;
  for (const auto& [line, queue] : queues_) {
    counts[queue.model] += static_cast<std::uint32_t>(queue.requests.size());
  }
  for (const auto& [model, count] : counts) metrics_.SetQueued(model, count);
  std::erase_if(queues_, [](const auto& entry) { return entry.second.requests.size() == 0; });
}

}  // namespace roost::router

// Requests that wait at the router: who must, and what becomes of them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "router/fleet/request_book.h"

namespace roost::router {

bool RequestBook::HasRoom(const Worker& worker) const {
  return worker.load.waiting_requests + worker.ledger->uncovered_requests() < options_.worker_queue_bound;
}

std::optional<Placement> RequestBook::FindPlace(PlacementQuery query, Admission admission, Instant now) {
  query.waiting_bound = options_.worker_queue_bound;
  std::optional<Placement> with_room = decider_.Decide(query, now);
  if (with_room.has_value() || admission == Admission::kWithRoom) return with_room;
  query.waiting_bound = kNoBound;
  return decider_.Decide(query, now);
}

bool RequestBook::MayBeTaken(const Request& request) {
  const std::vector<Worker*> workers = roster_.Serving(*request.spec.model);
  return std::any_of(workers.begin(), workers.end(), [&](const Worker* worker) {
    return worker->hello.max_sample_count >= request.spec.sample_count &&
           (worker->hello.full_sampling || !wire::NeedsFullSampling(request.spec.sampling)) &&
           !request.refused_by.contains(worker->hello.worker_id);
  });
}

bool RequestBook::AnyHasRoom(const ServedModel& model) {
  const std::vector<Worker*> workers = roster_.Serving(model);
  return std::any_of(workers.begin(), workers.end(), [&](const Worker* worker) { return HasRoom(*worker); });
}

bool RequestBook::HasQueue(const ServedModel& model) const {
  const auto waiting = waiting_.find(model.name);
  return waiting != waiting_.end() && waiting->second.queue.size() > 0;
}

Result<void> RequestBook::Enqueue(Request& request, Instant now) {
  Waiting fresh{RequestQueue(options_.max_queue), DrainRate(now)};
  RequestQueue& queue = waiting_.try_emplace(request.spec.model->name, std::move(fresh)).first->second.queue;
  request.waits = queue.Push({.id = request.id,
                              .tenant = request.spec.tenant,
                              .priority = request.spec.priority,
                              .token_count = static_cast<std::uint32_t>(request.spec.prompt.size()),
                              .queued_at = now,
                              .deadline = now + options_.max_queue_wait});
  if (request.waits) return {};
  metrics_.OnQueueRefused(QueueRefusal::kFull);
  return Error{ErrorCode::kOverloaded, fmt::format("{} requests wait for a worker already", queue.size()), ""};
}

void RequestBook::DispatchWaiting(Instant now) {
  for (auto& [name, waiting] : waiting_) {
    while (waiting.queue.size() > 0) {
      const std::shared_ptr<const ServedModel> model = roster_.FindModel(name);
      if (model == nullptr || !AnyHasRoom(*model)) break;
      DispatchNext(waiting, now);
    }
  }
}

void RequestBook::DispatchWaitingTo(const Worker& worker, Instant now) {
  const auto found = waiting_.find(worker.hello.model);
  if (found == waiting_.end()) return;
  const std::shared_ptr<const ServedModel> model = roster_.FindModel(worker.hello.model);
  const FleetView* const fleet = model == nullptr ? nullptr : roster_.FleetOf(*model);
  if (fleet == nullptr || fleet->Find(worker.slot) == nullptr) return;  // it takes no new requests
  while (found->second.queue.size() > 0 && HasRoom(worker)) DispatchNext(found->second, now);
}

void RequestBook::DispatchNext(Waiting& waiting, Instant now) {
  const QueuedRequest next = *waiting.queue.Pop();
  waiting.drain.OnDeparture(now);
  Request& request = *requests_.at(next.id);
  request.waits = false;
  metrics_.OnQueueWait(request.spec.model->name, ToSeconds(now - next.queued_at));
  const std::vector<WorkerMatch> matches = MatchNow(request.spec.model->name, request.spec.block_hashes);
  if (Dispatch(FirstAttempt(request), Admission::kAnyway, matches, now) == Sending::kSent) return;
  End(request, {.reason = wire::FinishReason::kError, .error = NobodyServes(*request.spec.model)});
}

void RequestBook::ExpireWaiting(Instant now) {
  for (auto& [name, waiting] : waiting_) {
    const std::shared_ptr<const ServedModel> model = roster_.FindModel(name);
    for (const QueuedRequest& expired : waiting.queue.TakeExpired(now)) {
      Request& request = *requests_.at(expired.id);
      request.waits = false;
      metrics_.OnQueueRefused(QueueRefusal::kDeadline);
      Error error{ErrorCode::kOverloaded,
                  fmt::format("no worker had room within {} s", ToSeconds(options_.max_queue_wait)), ""};
      if (model == nullptr) error = NobodyServes(*request.spec.model);
      End(request, {.reason = wire::FinishReason::kError, .error = std::move(error)});
    }
  }
}

void RequestBook::PublishQueues() {
  for (const auto& [name, waiting] : waiting_) {
    metrics_.SetQueued(name, static_cast<std::uint32_t>(waiting.queue.size()));
  }
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.queue.size() == 0; });
}

std::vector<QueueStatus> RequestBook::Queues(Instant now) const {
  std::vector<QueueStatus> statuses;
  for (const auto& [name, waiting] : waiting_) {
    const RequestQueue& queue = waiting.queue;
    if (queue.size() == 0) continue;
    const Duration drain = std::min(waiting.drain.TimeFor(queue.size(), now), options_.max_queue_wait);
    statuses.push_back({.model = name,
                        .waiting_requests = static_cast<std::uint32_t>(queue.size()),
                        .oldest_wait_seconds = ToSeconds(now - queue.oldest().value_or(now)),
                        .drain_seconds = ToSeconds(drain)});
  }
  return statuses;
}

std::size_t RequestBook::waiting_count() const {
  std::size_t count = 0;
  for (const auto& [name, waiting] : waiting_) count += waiting.queue.size();
  return count;
}

}  // namespace roost::router

// Requests that wait at the router: who must, and what becomes of them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "router/fleet/request_book.h"

namespace roost::router {
namespace {

Error QueueFull(std::size_t waiting_requests) {
  return {ErrorCode::kOverloaded, fmt::format("{} requests wait for a worker already", waiting_requests), ""};
}

}  // namespace

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
  const std::vector<Worker*> workers = roster_.Serving(request.spec.model->revision);
  return std::any_of(workers.begin(), workers.end(), [&](const Worker* worker) {
    return worker->hello.max_sample_count >= request.spec.sample_count &&
           (worker->hello.full_sampling || !wire::NeedsFullSampling(request.spec.sampling));
  });
}

bool RequestBook::AnyHasRoom(std::string_view revision) {
  const std::vector<Worker*> workers = roster_.Serving(revision);
  return std::any_of(workers.begin(), workers.end(),
                     [&](const Worker* worker) { return roster_.TakesRequests(*worker) && HasRoom(*worker); });
}

bool RequestBook::HasQueue(const ServedModel& model) const {
  const auto waiting = waiting_.find(model.revision);
  return waiting != waiting_.end() && waiting->second.queue.size() > 0;
}

Result<void> RequestBook::CheckRoom(const ServedModel& model) const {
  if (requests_.size() >= options_.max_requests) return TooManyInFlight();
  const auto waiting = waiting_.find(model.revision);
  const std::size_t waiting_requests = waiting == waiting_.end() ? 0 : waiting->second.queue.size();
  // While nobody waits, a worker may have room.
  if (waiting_requests == 0 || waiting_requests < options_.max_queue) return {};
  metrics_.OnQueueRefused(QueueRefusal::kFull);
  return QueueFull(waiting_requests);
}

Error RequestBook::TooManyInFlight() const {
  return {ErrorCode::kOverloaded, fmt::format("{} requests are in flight already", requests_.size()), ""};
}

RequestBook::Waiting& RequestBook::WaitingFor(const ServedModel& model, Instant now) {
  Waiting fresh{model.name, RequestQueue(options_.max_queue), DrainRate(now)};
  return waiting_.try_emplace(model.revision, std::move(fresh)).first->second;
}

QueuedRequest RequestBook::PlaceInQueue(Request& request, Instant now) const {
  if (!request.wait_deadline.has_value()) request.wait_deadline = now + options_.max_queue_wait;
  return {.id = request.id,
          .tenant = request.spec.tenant,
          .priority = request.spec.priority,
          .token_count = static_cast<std::uint32_t>(request.spec.prompt.size()),
          .queued_at = *request.wait_deadline - options_.max_queue_wait,
          .deadline = *request.wait_deadline};
}

Result<void> RequestBook::Enqueue(Request& request, Instant now) {
  RequestQueue& queue = WaitingFor(*request.spec.model, now).queue;
  request.waits = queue.Push(PlaceInQueue(request, now));
  if (request.waits) return {};
  metrics_.OnQueueRefused(QueueRefusal::kFull);
  return QueueFull(queue.size());
}

void RequestBook::EnqueueFirst(Request& request, Instant now) {
  WaitingFor(*request.spec.model, now).queue.PushFront(PlaceInQueue(request, now));
  request.waits = true;
}

void RequestBook::LeaveQueue(Request& request) {
  if (std::exchange(request.waits, false)) waiting_.at(request.spec.model->revision).queue.Remove(request.id);
}

void RequestBook::DispatchWaiting(Instant now) {
  for (auto& [revision, waiting] : waiting_) {
    if (waiting.queue.size() > 0 && roster_.Serving(revision).empty()) MoveWaiting(revision, waiting, now);
    while (waiting.queue.size() > 0 && AnyHasRoom(revision)) {
      if (!DispatchNext(waiting, now)) break;
    }
  }
}

void RequestBook::MoveWaiting(const std::string& revision, Waiting& waiting, Instant now) {
  const std::shared_ptr<const ServedModel> main = roster_.revisions().Main(waiting.model);
  if (main == nullptr || main->revision == revision) return;
  std::vector<Request*> waiting_on;  // in whichever queue
  while (const std::optional<QueuedRequest> next = waiting.queue.Pop()) {
    Request& request = *requests_.at(next->id);
    request.waits = false;
    const bool is_sent =
        MoveToOtherRevision(request) && SendParts(request, Admission::kWithRoom, now) == Sending::kSent;
    if (!is_sent) waiting_on.push_back(&request);
  }
  for (auto request = waiting_on.rbegin(); request != waiting_on.rend(); ++request) EnqueueFirst(**request, now);
}

void RequestBook::DispatchWaitingTo(const Worker& worker, Instant now) {
  const auto found = waiting_.find(worker.revision);
  if (found == waiting_.end()) return;
  while (found->second.queue.size() > 0 && roster_.TakesRequests(worker) && HasRoom(worker)) {
    if (!DispatchNext(found->second, now)) return;
  }
}

bool RequestBook::DispatchNext(Waiting& waiting, Instant now) {
  const QueuedRequest next = *waiting.queue.Pop();
  Request& request = *requests_.at(next.id);
  request.waits = false;
  const Sending sending = SendParts(request, Admission::kAnyway, now);
  if (sending == Sending::kNoRoom) {
    EnqueueFirst(request, now);
    return false;
  }
  waiting.drain.OnDeparture(now);
  metrics_.OnQueueWait(request.spec.model->name, ToSeconds(now - next.queued_at));
  if (sending == Sending::kNoWorker) {
    End(request, {.reason = wire::FinishReason::kError, .error = NobodyServes(*request.spec.model)});
  }
  return true;
}

void RequestBook::Expire(Instant now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Request& request = *requests_.at(deadlines_.begin()->second);
    End(request, {.reason = wire::FinishReason::kError,
                  .error = Error{ErrorCode::kDeadlineExceeded, "the request's time is over", ""}});
  }
  ExpireWaiting(now);
}

void RequestBook::ExpireWaiting(Instant now) {
  for (auto& [revision, waiting] : waiting_) {
    for (const QueuedRequest& expired : waiting.queue.TakeExpired(now)) {
      Request& request = *requests_.at(expired.id);
      request.waits = false;
      EndWait(request);
    }
  }
}

void RequestBook::EndWait(Request& request) {
  metrics_.OnQueueRefused(QueueRefusal::kDeadline);
  Error error{ErrorCode::kOverloaded, fmt::format("no worker had room within {} s", ToSeconds(options_.max_queue_wait)),
              ""};
  const bool is_served = roster_.revisions().Find(request.spec.model->revision) != nullptr;
  if (!is_served) error = NobodyServes(*request.spec.model);
  End(request, {.reason = wire::FinishReason::kError, .error = std::move(error)});
}

void RequestBook::PublishQueues() {
  std::map<std::string, std::uint32_t> counts;
  for (const auto& [revision, waiting] : waiting_) {
    counts[waiting.model] += static_cast<std::uint32_t>(waiting.queue.size());
  }
  for (const auto& [model, count] : counts) metrics_.SetQueued(model, count);
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.queue.size() == 0; });
}

std::vector<QueueStatus> RequestBook::Queues(Instant now) const {
  std::map<std::string, QueueStatus> by_model;
  for (const auto& [revision, waiting] : waiting_) {
    const RequestQueue& queue = waiting.queue;
    if (queue.size() == 0) continue;
    const Duration drain = std::min(waiting.drain.TimeFor(queue.size(), now), options_.max_queue_wait);
    QueueStatus& status = by_model[waiting.model];
    status.model = waiting.model;
    status.waiting_requests += static_cast<std::uint32_t>(queue.size());
    status.oldest_wait_seconds = std::max(status.oldest_wait_seconds, ToSeconds(now - queue.oldest().value_or(now)));
    status.drain_seconds = std::max(status.drain_seconds, ToSeconds(drain));
  }
  std::vector<QueueStatus> statuses;
  statuses.reserve(by_model.size());
  for (auto& [model, status] : by_model) statuses.push_back(std::move(status));
  return statuses;
}

std::size_t RequestBook::waiting_count() const {
  std::size_t count = 0;
  for (const auto& [revision, waiting] : waiting_) count += waiting.queue.size();
  return count;
}

}  // namespace roost::router

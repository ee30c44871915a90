// The part of the request book that queues requests at the router, and sends them when a worker has room.
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
  const RouteQuery query{.sample_count = request.spec.sample_count,
                         .needs_full_sampling = wire::NeedsFullSampling(request.spec.sampling),
                         .needs_logprobs = WantsLogprobs(request.spec),
                         .needs_min_output_tokens = request.spec.min_output_tokens > 0,
                         .is_constrained = request.spec.constraint.has_value(),
                         .adapter = request.spec.model->adapter()};
  const std::vector<Worker*> workers = roster_.Serving(request.spec.model->revision);
  return std::any_of(workers.begin(), workers.end(),
                     [&](const Worker* worker) { return MayTake(query, ViewOf(*worker)); });
}

bool RequestBook::AnyHasRoom(std::string_view revision) {
  const std::vector<Worker*> workers = roster_.Serving(revision);
  return std::any_of(workers.begin(), workers.end(),
                     [&](const Worker* worker) { return roster_.TakesRequests(*worker) && HasRoom(*worker); });
}

Result<void> RequestBook::CheckRoom(const ServedModel& model) const {
  if (requests_.size() >= options_.max_requests) return TooManyInFlight();
  return waiting_.CheckRoom(model.revision);
}

Error RequestBook::TooManyInFlight() const {
  return {ErrorCode::kOverloaded, fmt::format("{} requests are already in flight", requests_.size()), ""};
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
  Result<void> pushed = waiting_.Push(*request.spec.model, PlaceInQueue(request, now), now);
  request.waits = pushed.ok();
  return pushed;
}

void RequestBook::EnqueueFirst(Request& request, Instant now) {
  waiting_.PushFront(*request.spec.model, PlaceInQueue(request, now), now);
  request.waits = true;
}

void RequestBook::LeaveQueue(Request& request) {
  if (std::exchange(request.waits, false)) waiting_.Remove(request.spec.model->revision, request.id);
}

void RequestBook::DispatchWaiting(Instant now) {
  for (const WaitingRoom::Revision& revision : waiting_.Revisions()) {
    if (roster_.Serving(revision.name).empty()) MoveWaiting(revision, now);
    while (AnyHasRoom(revision.name)) {
      if (!DispatchNext(revision.name, now)) break;
    }
  }
}

void RequestBook::DispatchWaitingTo(const Worker& worker, Instant now) {
  while (roster_.TakesRequests(worker) && HasRoom(worker)) {
    if (!DispatchNext(worker.revision, now)) return;
  }
}

void RequestBook::MoveWaiting(const WaitingRoom::Revision& revision, Instant now) {
  const std::shared_ptr<const ServedModel> main = roster_.revisions().Main(revision.model);
  if (main == nullptr || main->revision == revision.name) return;
  std::vector<Request*> waiting_on;  // in the queue of their old or new revision
  while (const std::optional<QueuedRequest> next = waiting_.Pop(revision.name)) {
    Request& request = *requests_.at(next->id);
    request.waits = false;
    const bool is_sent =
        MoveToOtherRevision(request) && SendParts(request, Admission::kWithRoom, now) == Sending::kSent;
    if (!is_sent) waiting_on.push_back(&request);
  }
  for (auto request = waiting_on.rbegin(); request != waiting_on.rend(); ++request) EnqueueFirst(**request, now);
}

bool RequestBook::DispatchNext(const std::string& revision, Instant now) {
  const std::optional<QueuedRequest> next = waiting_.Pop(revision);
  if (!next.has_value()) return false;
  Request& request = *requests_.at(next->id);
  request.waits = false;
  const Sending sending = SendParts(request, Admission::kAnyway, now);
  if (sending == Sending::kNoRoom) {
    EnqueueFirst(request, now);
    return false;
  }
  waiting_.NoteDeparture(revision, *next, now);
  if (sending == Sending::kNoWorker) {
    End(request, {.reason = wire::FinishReason::kError, .error = NobodyServes(*request.spec.model)});
  }
  return true;
}

void RequestBook::Expire(Instant now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Request& request = *requests_.at(deadlines_.begin()->second);
    End(request, {.reason = wire::FinishReason::kError,
                  .error = Error{ErrorCode::kDeadlineExceeded, "the request's deadline has passed", ""}});
  }
  for (const RequestId id : waiting_.TakeExpired(now)) {
    Request& request = *requests_.at(id);
    request.waits = false;
    EndWait(request);
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

}  // namespace roost::router

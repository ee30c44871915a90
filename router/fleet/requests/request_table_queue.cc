// The part of the request table that queues requests at the router, and sends them when a worker has room.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "router/fleet/requests/request_table.h"

namespace roost::router {

bool RequestTable::HasRoom(const Worker& worker) const {
  return worker.load.waiting_requests + worker.ledger->uncovered_requests() < options_.worker_queue_bound;
}

std::optional<Placement> RequestTable::FindPlace(PlacementQuery query, Admission admission, Instant now) {
  query.waiting_bound = options_.worker_queue_bound;
  std::optional<Placement> with_room = decider_.Decide(query, now);
  if (with_room.has_value() || admission == Admission::kWithRoom) return with_room;
  const std::uint32_t reserve = options_.worker_queue_bound / RequestTableOptions::kReservePart;
  query.waiting_bound = admission == Admission::kInReserve ? options_.worker_queue_bound + reserve : kNoBound;
  return decider_.Decide(query, now);
}

// A tenant's own requests go in order.
bool RequestTable::MayUseReserve(const GenerateSpec& spec) const {
  const std::string& tenant = spec.generate.tenant;
  return tenant_shares_.HasShareLeft(tenant) && !waiting_.HasAnyOf(tenant, AdmissionQueues::QueueNameOf(*spec.model));
}

RouteQuery RequestTable::WishesOf(const GenerateSpec& spec) {
  return {.sample_count = spec.generate.sample_count,
          .needs = wire::NeedsOf(spec.generate),
          .adapter = spec.model->adapter()};
}

bool RequestTable::MayBeTaken(const Request& request) {
  const RouteQuery query = WishesOf(request.spec);
  const std::vector<Worker*> workers = worker_registry_.Serving(request.spec.model->revision);
  return std::any_of(workers.begin(), workers.end(),
                     [&](const Worker* worker) { return MayTake(query, ViewOf(*worker)); });
}

std::vector<Worker*> RequestTable::ServingQueue(const AdmissionQueues::QueueName& name) {
  std::vector<Worker*> workers = worker_registry_.Serving(name.revision);
  const auto lacks = [&name](const Worker* worker) { return !worker->adapters.contains(name.adapter); };
  if (!name.adapter.empty()) std::erase_if(workers, lacks);
  return workers;
}

bool RequestTable::AnyHasRoom(const AdmissionQueues::QueueName& name) {
  const std::vector<Worker*> workers = ServingQueue(name);
  return std::any_of(workers.begin(), workers.end(),
                     [&](const Worker* worker) { return worker_registry_.TakesRequests(*worker) && HasRoom(*worker); });
}

std::optional<Error> RequestTable::Refusal() const {
  return requests_.size() >= options_.max_requests ? std::optional(TooManyInFlight()) : std::nullopt;
}

Error RequestTable::TooManyInFlight() const {
  return {ErrorCode::kOverloaded, fmt::format("{} requests are already in flight", requests_.size()), ""};
}

QueuedRequest RequestTable::PlaceInQueue(Request& request, Instant now) const {
  if (!request.wait_deadline.has_value()) request.wait_deadline = now + options_.max_queue_wait;
  return {.id = request.id,
          .tenant = request.spec.generate.tenant,
          .priority = request.spec.generate.priority,
          .token_count = static_cast<std::uint32_t>(request.spec.generate.prompt.size()),
          .queued_at = *request.wait_deadline - options_.max_queue_wait,
          .deadline = *request.wait_deadline};
}

Result<void> RequestTable::Enqueue(Request& request, Instant now) {
  Result<void> pushed = waiting_.Push(*request.spec.model, PlaceInQueue(request, now), now);
  request.waits = pushed.ok();
  return pushed;
}

void RequestTable::EnqueueFirst(Request& request, Instant now) {
  waiting_.PushFront(*request.spec.model, PlaceInQueue(request, now), now);
  request.waits = true;
}

void RequestTable::LeaveQueue(Request& request) {
  if (std::exchange(request.waits, false))
    waiting_.Remove(AdmissionQueues::QueueNameOf(*request.spec.model), request.id);
}

// The queues take turns, so that none takes all the room.
void RequestTable::DispatchWaiting(Instant now) {
  std::vector<AdmissionQueues::QueueName> names = waiting_.QueueNames();
  for (const AdmissionQueues::QueueName& name : names) {
    if (ServingQueue(name).empty()) MoveWaiting(name, now);
  }
  while (!names.empty()) {
    std::erase_if(
        names, [&](const AdmissionQueues::QueueName& name) { return !AnyHasRoom(name) || !DispatchNext(name, now); });
  }
}

void RequestTable::DispatchWaitingTo(const Worker& worker, Instant now) {
  while (worker_registry_.TakesRequests(worker) && HasRoom(worker)) {
    const std::optional<AdmissionQueues::QueueName> name = waiting_.NextFor(worker.revision, worker.adapters);
    if (!name.has_value() || !DispatchNext(*name, now)) return;
  }
}

void RequestTable::MoveWaiting(const AdmissionQueues::QueueName& name, Instant now) {
  const std::shared_ptr<const ServedModel> main = worker_registry_.revisions().directory()->Main(waiting_.NameOf(name));
  if (main == nullptr || main->revision == name.revision) return;
  std::vector<Request*> waiting_on;  // in the queue of their old or new revision
  while (const std::optional<QueuedRequest> next = waiting_.Pop(name)) {
    Request& request = *requests_.at(next->id);
    request.waits = false;
    const bool is_sent =
        MoveToOtherRevision(request) && SendParts(request, Admission::kWithRoom, now) == Sending::kSent;
    if (!is_sent) waiting_on.push_back(&request);
  }
  for (auto request = waiting_on.rbegin(); request != waiting_on.rend(); ++request) EnqueueFirst(**request, now);
}

bool RequestTable::DispatchNext(const AdmissionQueues::QueueName& name, Instant now) {
  const std::optional<QueuedRequest> next = waiting_.Pop(name);
  if (!next.has_value()) return false;
  Request& request = *requests_.at(next->id);
  request.waits = false;
  const Sending sending = SendParts(request, Admission::kAnyway, now);
  if (sending == Sending::kNoRoom) {
    EnqueueFirst(request, now);
    return false;
  }
  waiting_.NoteDeparture(name, *next, now);
  if (sending == Sending::kNoWorker) {
    End(request, {.reason = wire::FinishReason::kError, .error = NobodyServes(*request.spec.model)});
  }
  return true;
}

void RequestTable::Expire(Instant now) {
  holds_.Expire(now);
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

void RequestTable::EndWait(Request& request) {
  metrics_.OnQueueRefused(request.spec.model->model_name(), QueueRefusal::kDeadline);
  Error error{ErrorCode::kOverloaded, fmt::format("no worker had room within {} s", ToSeconds(options_.max_queue_wait)),
              ""};
  const ServedModel& model = *request.spec.model;
  const bool has_adapter = !model.is_adapter() || !worker_registry_.Serving(model).empty();
  const bool is_served = has_adapter && worker_registry_.revisions().Find(model.revision) != nullptr;
  if (!is_served) error = NobodyServes(model);
  End(request, {.reason = wire::FinishReason::kError, .error = std::move(error)});
}

}  // namespace roost::router

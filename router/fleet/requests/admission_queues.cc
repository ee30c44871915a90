#include "router/fleet/requests/admission_queues.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace roost::router {

namespace {

Error QueueFull(std::size_t waiting_requests) {
  return {ErrorCode::kOverloaded, fmt::format("{} requests are already waiting for a worker", waiting_requests), ""};
}

}  // namespace

std::size_t AdmissionQueues::size(const QueueName& name) const {
  const auto found = queues_.find(name);
  return found == queues_.end() ? 0 : found->second.requests.size();
}

bool AdmissionQueues::HasAnyOf(const std::string& tenant, const QueueName& name) const {
  const auto found = queues_.find(name);
  return found != queues_.end() && found->second.requests.HasAnyOf(tenant);
}

std::size_t AdmissionQueues::size() const {
  std::size_t count = 0;
  for (const auto& [name, queue] : queues_) count += queue.requests.size();
  return count;
}

const std::string& AdmissionQueues::NameOf(const QueueName& name) const {
  return name.adapter.empty() ? queues_.at(name).model : name.adapter;
}

std::vector<AdmissionQueues::QueueName> AdmissionQueues::QueueNames() const {
  std::vector<QueueName> names;
  for (const auto& [name, queue] : queues_) {
    if (queue.requests.size() > 0) names.push_back(name);
  }
  return names;
}

std::optional<AdmissionQueues::QueueName> AdmissionQueues::NextFor(const std::string& revision,
                                                                   const AdapterNames& adapters) const {
  auto next = queues_.end();
  for (auto at = queues_.lower_bound({revision, ""}); at != queues_.end() && at->first.revision == revision; ++at) {
    const auto& [name, queue] = *at;
    if (queue.requests.size() == 0 || (!name.adapter.empty() && !adapters.contains(name.adapter))) continue;
    const auto place = [](const Queue& of) { return std::pair(-std::int64_t{of.requests.top_priority()}, of.turn); };
    if (next == queues_.end() || place(queue) < place(next->second)) next = at;
  }
  return next == queues_.end() ? std::nullopt : std::optional(next->first);
}

AdmissionQueues::Queue& AdmissionQueues::QueueOf(const ServedModel& model, Instant now) {
  Queue fresh{model.model_name(), RequestQueue(options_.max_queue), DrainRate(now)};
  return queues_.try_emplace(QueueNameOf(model), std::move(fresh)).first->second;
}

std::map<AdmissionQueues::QueueName, Error> AdmissionQueues::FullQueues() const {
  std::map<QueueName, Error> full;
  for (const auto& [name, queue] : queues_) {
    const std::size_t waiting_requests = queue.requests.size();
    if (waiting_requests > 0 && waiting_requests >= options_.max_queue) full.emplace(name, QueueFull(waiting_requests));
  }
  return full;
}

Result<void> AdmissionQueues::Push(const ServedModel& model, QueuedRequest request, Instant now) {
  RequestQueue& requests = QueueOf(model, now).requests;
  if (requests.Push(std::move(request))) return {};
  metrics_.OnQueueRefused(model.model_name(), QueueRefusal::kFull);
  return QueueFull(requests.size());
}

void AdmissionQueues::PushFront(const ServedModel& model, QueuedRequest request, Instant now) {
  QueueOf(model, now).requests.PushFront(std::move(request));
}

std::optional<QueuedRequest> AdmissionQueues::Pop(const QueueName& name) {
  const auto found = queues_.find(name);
  if (found == queues_.end()) return std::nullopt;
  found->second.turn = ++turns_;
  return found->second.requests.Pop();
}

void AdmissionQueues::Remove(const QueueName& name, RequestId id) {
  const auto found = queues_.find(name);
  ROOST_CHECK(found != queues_.end() && found->second.requests.Remove(id), "request {} does not wait for {}",
              id.value(), name.revision);
}

std::vector<RequestId> AdmissionQueues::TakeExpired(Instant now) {
  std::vector<RequestId> expired;
  for (auto& [name, queue] : queues_) {
    for (const QueuedRequest& request : queue.requests.TakeExpired(now)) expired.push_back(request.id);
  }
  return expired;
}

void AdmissionQueues::NoteDeparture(const QueueName& name, const QueuedRequest& request, Instant now) {
  const auto found = queues_.find(name);
  ROOST_CHECK(found != queues_.end(), "no request waited for {}", name.revision);
  found->second.drain.OnDeparture(now);
  metrics_.OnQueueWait(found->second.model, ToSeconds(now - request.queued_at));
}

std::vector<QueueStatus> AdmissionQueues::Statuses(Instant now) const {
  std::map<std::string, QueueStatus> by_model;
  for (const auto& [name, queue] : queues_) {
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

void AdmissionQueues::Publish() {
  std::map<std::string, std::uint32_t> counts;
  for (const auto& [name, queue] : queues_) {
    counts[queue.model] += static_cast<std::uint32_t>(queue.requests.size());
  }
  for (const auto& [model, count] : counts) metrics_.SetQueued(model, count);
  std::erase_if(queues_, [](const auto& entry) { return entry.second.requests.size() == 0; });
}

bool RequestQueue::Push(QueuedRequest request) {
  if (size() >= max_requests_) return false;
  if (!request.tenant.empty()) {
    const auto own = counts_.find(request.tenant);
    if (own != counts_.end() && 2 * own->second >= max_requests_) return false;
  }
  const auto round = rounds_.try_emplace(request.priority).first;
  const auto tenant = TenantOf(round->second, request.tenant);
  Insert(round, tenant, tenant->requests.end(), std::move(request));
  return true;
}

void RequestQueue::PushFront(QueuedRequest request) {
  const auto round = rounds_.try_emplace(request.priority).first;
  Tenants& tenants = round->second.tenants;
  const auto tenant = TenantOf(round->second, request.tenant);
  tenants.splice(tenants.begin(), tenants, tenant);
  tenant->earned += request.token_count;
  round->second.turn_is_paid = true;
  Insert(round, tenant, tenant->requests.begin(), std::move(request));
}

RequestQueue::Tenants::iterator RequestQueue::TenantOf(Round& round, const std::string& name) {
  const auto [named, is_new] = round.by_name.try_emplace(name);
  if (is_new) named->second = round.tenants.insert(round.tenants.end(), {.name = name, .requests = {}});
  return named->second;
}

void RequestQueue::Insert(Rounds::iterator round, Tenants::iterator tenant, Requests::iterator before,
                          QueuedRequest request) {
  ROOST_CHECK(!places_.contains(request.id), "request {} is already waiting", request.id.value());
  deadlines_.emplace(request.deadline, request.id);
  ++counts_[request.tenant];
  const RequestId id = request.id;
  places_.emplace(id, Place{round, tenant, tenant->requests.insert(before, std::move(request))});
}

std::optional<QueuedRequest> RequestQueue::Pop() {
  if (rounds_.empty()) return std::nullopt;
  const Rounds::iterator first = rounds_.begin();
  GoRound(first->second);
  Tenant& tenant = first->second.tenants.front();
  tenant.earned -= tenant.requests.front().token_count;
  return TakeOut(places_.at(tenant.requests.front().id));
}

void RequestQueue::GoRound(Round& round) {
  for (std::size_t turns = 0;; ++turns) {
    if (turns == round.tenants.size()) SkipTurnsOfNoUse(round);
    Tenant& tenant = round.tenants.front();
    if (!std::exchange(round.turn_is_paid, true)) tenant.earned += kQuantum;
    if (tenant.requests.front().token_count <= tenant.earned) return;
    EndTurn(round);
  }
}

void RequestQueue::EndTurn(Round& round) {
  round.tenants.splice(round.tenants.end(), round.tenants, round.tenants.begin());
  round.turn_is_paid = false;
}

// Called when no tenant could send in a whole round. Computes how many rounds it takes until one can, and gives all
// tenants the tokens of those rounds except the last.
void RequestQueue::SkipTurnsOfNoUse(Round& round) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Tenant& tenant : round.tenants) {
    const std::uint64_t missing = tenant.requests.front().token_count - tenant.earned;
    least = std::min(least, (missing + kQuantum - 1) / kQuantum);
  }
  for (Tenant& tenant : round.tenants) tenant.earned += (least - 1) * kQuantum;
}

QueuedRequest RequestQueue::TakeOut(Place place) {
  const auto [round, tenant, at] = place;
  QueuedRequest request = std::move(*at);
  tenant->requests.erase(at);
  deadlines_.erase({request.deadline, request.id});
  places_.erase(request.id);
  if (const auto own = counts_.find(request.tenant); --own->second == 0) counts_.erase(own);
  if (!tenant->requests.empty()) return request;
  if (tenant == round->second.tenants.begin()) round->second.turn_is_paid = false;
  round->second.by_name.erase(tenant->name);
  round->second.tenants.erase(tenant);
  if (round->second.tenants.empty()) rounds_.erase(round);
  return request;
}

std::vector<QueuedRequest> RequestQueue::TakeExpired(Instant now) {
  std::vector<QueuedRequest> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first < now) {
    expired.push_back(TakeOut(places_.at(deadlines_.begin()->second)));
  }
  return expired;
}

bool RequestQueue::Remove(RequestId id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return false;
  TakeOut(found->second);
  return true;
}

std::optional<Instant> RequestQueue::oldest() const {
  std::optional<Instant> oldest;
  for (const auto& [id, place] : places_) oldest = std::min(oldest.value_or(Instant::max()), place.request->queued_at);
  return oldest;
}

}  // namespace roost::router

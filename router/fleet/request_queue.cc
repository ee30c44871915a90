#include "router/fleet/request_queue.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace roost::router {

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

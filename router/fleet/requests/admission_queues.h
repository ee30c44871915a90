// The queues of requests that wait for a worker with room: RequestQueue decides which request of one queue is next,
// DrainRate estimates how long a queue takes to drain, and AdmissionQueues holds one queue for each revision of a
// model, and one for each of its adapters, since only some of its workers serve it.
//
// Not thread-safe, no clock.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_metrics.h"
#include "router/route/worker_view.h"

namespace roost::router {

// The queue of one model's or adapter's requests at the router, used while no worker has room. It decides which request
// is next.
//
//   priority 90   tenant a: a1 a2 ─┐ take turns, counted in tokens
//                 tenant b: b1    ─┘
//   priority 50   tenant a: a3
//
// A higher priority always goes first; a lower one can wait until its deadline. Within one priority tenants take turns
// by deficit round robin (Shreedhar and Varghese, Efficient Fair Queuing using Deficit Round Robin, SIGCOMM 1995): each
// turn gives a tenant kQuantum tokens, and it sends requests while its tokens pay for their prompts. So waiting tenants
// get equal shares of the prompt tokens, to within a quantum and a prompt, regardless of the number and length of their
// requests, and no tenant waits forever behind others of its priority. A tenant's own requests go in order of arrival.
// A tenant with nothing left to send loses its unused tokens.
//
// Push, Remove and expiry are O(log requests); Pop is O(tenants) at worst, regardless of the
// length of prompts.
struct QueuedRequest {
  RequestId id;
  std::string tenant;
  std::uint32_t priority = 0;
  std::uint32_t token_count = 0;  // of its prompt
  Instant queued_at;
  Instant deadline;
};

class RequestQueue {
 public:
  static constexpr std::uint64_t kQuantum = 4096;

  explicit RequestQueue(std::size_t max_requests) : max_requests_(max_requests) {}

  // False when the queue is full, or half full of requests of this tenant, so that no tenant keeps all others out; then
  // nothing changes. Requests without a tenant may fill it. An id that is queued already is a bug.
  [[nodiscard]] bool Push(QueuedRequest request);

  // Puts back a request that was popped or sent. It becomes the next of its priority, even when the queue is full.
  void PushFront(QueuedRequest request);

  // Takes out the next request; empty when none waits.
  std::optional<QueuedRequest> Pop();

  // Takes out the requests whose deadline has passed, the earliest first.
  std::vector<QueuedRequest> TakeExpired(Instant now);

  // False when `id` is not in the queue.
  bool Remove(RequestId id);

  [[nodiscard]] std::size_t size() const { return places_.size(); }
  // True while a request of this tenant waits in any queue.
  [[nodiscard]] bool HasAnyOf(const std::string& tenant) const { return counts_.contains(tenant); }
  // The priority of the next request; the queue is not empty.
  [[nodiscard]] std::uint32_t top_priority() const { return rounds_.begin()->first; }
  // The time when the oldest waiting request was queued; empty when none waits. O(requests).
  [[nodiscard]] std::optional<Instant> oldest() const;

 private:
  using Requests = std::list<QueuedRequest>;
  struct Tenant {
    std::string name;
    Requests requests;         // never empty between calls
    std::uint64_t earned = 0;  // unused tokens
  };
  using Tenants = std::list<Tenant>;
  // The tenants of one priority.
  struct Round {
    Tenants tenants;  // it is the first one's turn
    std::unordered_map<std::string, Tenants::iterator> by_name;
    bool turn_is_paid = false;  // the first tenant has received this turn's quantum
  };
  using Rounds = std::map<std::uint32_t, Round, std::greater<>>;
  struct Place {
    Rounds::iterator round;
    Tenants::iterator tenant;
    Requests::iterator request;
  };

  // The tenant's place in the round; a new tenant is added at the end.
  [[nodiscard]] static Tenants::iterator TenantOf(Round& round, const std::string& name);
  void Insert(Rounds::iterator round, Tenants::iterator tenant, Requests::iterator before, QueuedRequest request);
  static void EndTurn(Round& round);
  // Passes turns on until the tokens of the first tenant pay for its first request.
  static void GoRound(Round& round);
  static void SkipTurnsOfNoUse(Round& round);
  QueuedRequest TakeOut(Place place);

  const std::size_t max_requests_;
  Rounds rounds_;
  std::unordered_map<RequestId, Place> places_;
  std::set<std::pair<Instant, RequestId>> deadlines_;
  std::unordered_map<std::string, std::size_t> counts_;  // of requests, by tenant
};

// Estimates how long a queue takes to drain, from its last departures, or from the time since it began.
// Constant memory and time.
class DrainRate {
 public:
  // Requests began to wait.
  explicit DrainRate(Instant start) : instants_{start} {}

  // A waiting request was sent to a worker. `now` never goes back.
  void OnDeparture(Instant now) {
    instants_.push_back(now);
    if (instants_.size() > kMaxInstants) instants_.pop_front();
  }

  // The time until `count` requests have left. It counts as if one more request left now, so there is an estimate from
  // the start, and the estimate grows while no request leaves.
  [[nodiscard]] Duration TimeFor(std::size_t count, Instant now) const {
    const auto departures = static_cast<double>(instants_.size());
    return FromSeconds(ToSeconds(now - instants_.front()) * static_cast<double>(count) / departures);
  }

 private:
  static constexpr std::size_t kMaxInstants = 64;

  std::deque<Instant> instants_;  // the start of the observation, then the departures
};

// All queues, by revision and adapter. It holds queue entries, not requests; the request table decides which requests
// wait. A queue exists from the first waiting request until Publish finds it empty. The constructor's arguments outlive
// it.
class AdmissionQueues {
 public:
  struct Options {
    std::uint32_t max_queue = 1024;  // requests that may wait in one queue
    Duration max_wait = std::chrono::seconds(30);
  };
  AdmissionQueues(Options options, RequestMetrics& metrics) : options_(options), metrics_(metrics) {}

  // Names a queue.
  struct QueueName {
    std::string revision;
    std::string adapter;  // empty: of the model itself
    auto operator<=>(const QueueName&) const = default;
  };
  [[nodiscard]] static QueueName QueueNameOf(const ServedModel& model) {
    return {model.revision, std::string(model.adapter())};
  }

  // The number of requests that wait in the queue.
  [[nodiscard]] std::size_t size(const QueueName& name) const;
  // True while one waits in this queue.
  [[nodiscard]] bool HasAnyOf(const std::string& tenant, const QueueName& name) const;
  // The number of all waiting requests.
  [[nodiscard]] std::size_t size() const;
  // The name of the model or adapter that its clients ask for.
  [[nodiscard]] const std::string& NameOf(const QueueName& name) const;
  // The queues with waiting requests, in order.
  [[nodiscard]] std::vector<QueueName> QueueNames() const;
  // The queue whose turn it is among those from which a worker of this revision with these adapters takes requests: of
  // those with the highest priority, the one that was popped longest ago. Empty when none waits.
  [[nodiscard]] std::optional<QueueName> NextFor(const std::string& revision, const AdapterNames& adapters) const;

  // The queues in which no more request may wait, with the error that it would get. An empty queue is never among them,
  // because a worker may have room.
  [[nodiscard]] std::map<QueueName, Error> FullQueues() const;
  // Adds a request at the end of its priority. kOverloaded, and counted, when the queue is full.
  [[nodiscard]] Result<void> Push(const ServedModel& model, QueuedRequest request, Instant now);
  // Adds a request before all others of its priority, even when the queue is full.
  void PushFront(const ServedModel& model, QueuedRequest request, Instant now);
  // The next request; empty when none waits.
  [[nodiscard]] std::optional<QueuedRequest> Pop(const QueueName& name);
  void Remove(const QueueName& name, RequestId id);
  // Takes out the requests that have waited for too long.
  [[nodiscard]] std::vector<RequestId> TakeExpired(Instant now);

  // A popped request is at a worker, or has ended, and no longer waits.
  void NoteDeparture(const QueueName& name, const QueuedRequest& request, Instant now);

  // A status for each model with waiting requests.
  [[nodiscard]] std::vector<QueueStatus> Statuses(Instant now) const;
  // Sets the gauges, and drops queues that are empty.
  void Publish();

 private:
  struct Queue {
    std::string model;
    RequestQueue requests;
    DrainRate drain;
    std::uint64_t turn = 0;  // that the last Pop took
  };

  [[nodiscard]] Queue& QueueOf(const ServedModel& model, Instant now);

  const Options options_;
  RequestMetrics& metrics_;
  std::map<QueueName, Queue> queues_;
  std::uint64_t turns_ = 0;
};

}  // namespace roost::router

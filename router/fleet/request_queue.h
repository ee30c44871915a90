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
// Not thread-safe, no clock. Push, Remove and expiry are O(log requests); Pop is O(tenants) at worst, regardless of the
// length of prompts.
#pragma once

#include <cstddef>
#include <cstdint>
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

namespace roost::router {

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

}  // namespace roost::router

// Where requests wait for a worker with room: a queue for each revision of a model, and how fast it drains.
//
// It holds places, no requests; who must wait and who is next to be sent is the request book's to say. A queue is there
// from when somebody waits until Publish finds nobody.
//
// Not thread-safe. What is given to the constructor outlives it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/drain_rate.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/request_queue.h"

namespace roost::router {

class WaitingRoom {
 public:
  struct Options {
    std::uint32_t max_queue = 1024;  // requests that may wait for one revision
    Duration max_wait = std::chrono::seconds(30);
  };
  WaitingRoom(Options options, FleetMetrics& metrics) : options_(options), metrics_(metrics) {}

  // Requests that wait for this revision.
  [[nodiscard]] std::size_t size(std::string_view revision) const;
  // For any.
  [[nodiscard]] std::size_t size() const;
  struct Revision {
    std::string name;
    std::string model;
  };
  // Those for which requests wait, in order of their names.
  [[nodiscard]] std::vector<Revision> Revisions() const;

  // May one more wait? Nobody is refused while nobody waits, since a worker may have room. Counts a refusal.
  [[nodiscard]] Result<void> CheckRoom(std::string_view revision) const;
  // At the end of its priority's turn. kOverloaded, counted, when the queue is full.
  [[nodiscard]] Result<void> Push(const ServedModel& model, QueuedRequest request, Instant now);
  // Before all others of its priority, also when the queue is full.
  void PushFront(const ServedModel& model, QueuedRequest request, Instant now);
  // Whose turn it is; nothing when nobody waits.
  [[nodiscard]] std::optional<QueuedRequest> Pop(std::string_view revision);
  void Remove(std::string_view revision, RequestId id);
  // Takes out those who have waited for too long.
  [[nodiscard]] std::vector<RequestId> TakeExpired(Instant now);

  // One that was popped is at a worker, or has ended, and waits no more.
  void NoteDeparture(std::string_view revision, const QueuedRequest& request, Instant now);

  // A line for each model for which requests wait.
  [[nodiscard]] std::vector<QueueStatus> Statuses(Instant now) const;
  // Sets the gauges, and drops queues that are empty.
  void Publish();

 private:
  struct Queue {
    std::string model;
    RequestQueue requests;
    DrainRate drain;
  };

  [[nodiscard]] Queue& QueueOf(const ServedModel& model, Instant now);

  const Options options_;
  FleetMetrics& metrics_;
  std::map<std::string, Queue, std::less<>> queues_;  // by revision
};

}  // namespace roost::router

// The queues of requests that wait for a worker with room: one for each revision of a model, with its drain rate.
//
// It holds queue entries, not requests; the request book decides which requests wait. A queue exists from the first
// waiting request until Publish finds it empty.
//
// Not thread-safe. The constructor's arguments outlive it.
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

  // The number of requests that wait for this revision.
  [[nodiscard]] std::size_t size(std::string_view revision) const;
  // The number of all waiting requests.
  [[nodiscard]] std::size_t size() const;
  struct Revision {
    std::string name;
    std::string model;
  };
  // The revisions with waiting requests, ordered by name.
  [[nodiscard]] std::vector<Revision> Revisions() const;

  // An error, which is counted, when no more request may wait. While none waits there is no error, because a worker may
  // have room.
  [[nodiscard]] Result<void> CheckRoom(std::string_view revision) const;
  // Adds a request at the end of its priority. kOverloaded, and counted, when the queue is full.
  [[nodiscard]] Result<void> Push(const ServedModel& model, QueuedRequest request, Instant now);
  // Adds a request before all others of its priority, even when the queue is full.
  void PushFront(const ServedModel& model, QueuedRequest request, Instant now);
  // The next request; empty when none waits.
  [[nodiscard]] std::optional<QueuedRequest> Pop(std::string_view revision);
  void Remove(std::string_view revision, RequestId id);
  // Takes out the requests that have waited for too long.
  [[nodiscard]] std::vector<RequestId> TakeExpired(Instant now);

  // A popped request is at a worker, or has ended, and no longer waits.
  void NoteDeparture(std::string_view revision, const QueuedRequest& request, Instant now);

  // A status for each model with waiting requests.
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

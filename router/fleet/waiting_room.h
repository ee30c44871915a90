// The queues of requests that wait for a worker with room: one for each revision of a model, and one for each of its
// adapters, since only some of its workers serve it. Each has a drain rate.
//
// It holds queue entries, not requests; the request book decides which requests wait. A queue exists from the first
// waiting request until Publish finds it empty.
//
// Not thread-safe. The constructor's arguments outlive it.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/drain_rate.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/request_queue.h"
#include "router/route/worker_view.h"

namespace roost::router {

class WaitingRoom {
 public:
  struct Options {
    std::uint32_t max_queue = 1024;  // requests that may wait in one queue
    Duration max_wait = std::chrono::seconds(30);
  };
  WaitingRoom(Options options, FleetMetrics& metrics) : options_(options), metrics_(metrics) {}

  // Names a queue.
  struct Line {
    std::string revision;
    std::string adapter;  // empty: of the model itself
    auto operator<=>(const Line&) const = default;
  };
  [[nodiscard]] static Line LineOf(const ServedModel& model) { return {model.revision, std::string(model.adapter())}; }

  // The number of requests that wait in the queue.
  [[nodiscard]] std::size_t size(const Line& line) const;
  // The number of all waiting requests.
  [[nodiscard]] std::size_t size() const;
  // The name of the model or adapter that its clients ask for.
  [[nodiscard]] const std::string& NameOf(const Line& line) const;
  // The queues with waiting requests, in order.
  [[nodiscard]] std::vector<Line> Lines() const;
  // The queue whose turn it is among those from which a worker of this revision with these adapters takes requests: of
  // those with the highest priority, the one that was popped longest ago. Empty when none waits.
  [[nodiscard]] std::optional<Line> NextFor(const std::string& revision, const AdapterNames& adapters) const;

  // The queues in which no more request may wait, with the error that it would get. An empty queue is never among them,
  // because a worker may have room.
  [[nodiscard]] std::map<Line, Error> FullLines() const;
  // Adds a request at the end of its priority. kOverloaded, and counted, when the queue is full.
  [[nodiscard]] Result<void> Push(const ServedModel& model, QueuedRequest request, Instant now);
  // Adds a request before all others of its priority, even when the queue is full.
  void PushFront(const ServedModel& model, QueuedRequest request, Instant now);
  // The next request; empty when none waits.
  [[nodiscard]] std::optional<QueuedRequest> Pop(const Line& line);
  void Remove(const Line& line, RequestId id);
  // Takes out the requests that have waited for too long.
  [[nodiscard]] std::vector<RequestId> TakeExpired(Instant now);

  // A popped request is at a worker, or has ended, and no longer waits.
  void NoteDeparture(const Line& line, const QueuedRequest& request, Instant now);

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
  FleetMetrics& metrics_;
  std::map<Line, Queue> queues_;
  std::uint64_t turns_ = 0;
};

}  // namespace roost::router

// The state of a router's models, and the recent losses of its workers: what operators are told first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roost::router {

// The state of a worker, which decides whether it gets requests.
enum class WorkerState : std::uint8_t {
  kStarting,  // its tokenizer is not read yet
  kCordoned,  // an operator wants no new requests there
  kAway,      // the engine that it stands beside can not be reached
  kDraining,  // it is about to leave
  kStalled,   // its engine hung, and has made no progress since
  kEjected,   // it failed requests one after the other
  kReady,
};
inline constexpr std::array kWorkerStates{WorkerState::kStarting, WorkerState::kCordoned, WorkerState::kAway,
                                          WorkerState::kDraining, WorkerState::kStalled,  WorkerState::kEjected,
                                          WorkerState::kReady};
[[nodiscard]] constexpr std::string_view NameOf(WorkerState state) {
  constexpr std::string_view kNames[] = {"starting", "cordoned", "away", "draining", "stalled", "ejected", "ready"};
  return kNames[static_cast<std::size_t>(state)];
}

// Workers by state: each counts once.
struct WorkerCounts {
  std::array<std::uint32_t, kWorkerStates.size()> by_state{};

  [[nodiscard]] std::uint32_t of(WorkerState state) const { return by_state.at(static_cast<std::size_t>(state)); }
  [[nodiscard]] std::uint32_t ready() const { return of(WorkerState::kReady); }
  [[nodiscard]] std::uint32_t all() const {
    std::uint32_t sum = 0;
    for (const std::uint32_t count : by_state) sum += count;
    return sum;
  }
  void Add(WorkerState state) { ++by_state.at(static_cast<std::size_t>(state)); }

  bool operator==(const WorkerCounts&) const = default;
};

// A model that a worker brought, whether one serves it now or not.
struct ModelStanding {
  std::string model;
  WorkerCounts workers;
  double seconds = 0;            // since when it has ready workers, or since when it has none
  bool left_on_its_own = false;  // its last worker
};

// The requests that were at a worker when it was lost.
struct Aftermath {
  std::uint32_t moved = 0;    // continue at other workers
  std::uint32_t waiting = 0;  // wait at the router for another worker
  std::uint32_t failed = 0;   // ended with an error

  bool operator==(const Aftermath&) const = default;
};

struct LostWorker {
  std::string worker_id;
  std::string model;
  std::string_view reason;  // see LostReason
  double seconds_ago = 0;
  Aftermath requests;
  bool is_back = false;  // a worker of that name is connected again
};

struct FleetEvent {
  double seconds_ago = 0;
  std::string model;
  std::string worker_id;  // empty: it is about the model
  std::string what;       // "lost (silent): 3 requests continue elsewhere"
};

struct FleetStanding {
  double up_seconds = 0;              // since the router began
  std::vector<ModelStanding> models;  // by name
  std::vector<LostWorker> lost;       // those of the last ten minutes, the latest first
  std::vector<FleetEvent> events;     // the latest first
};

}  // namespace roost::router

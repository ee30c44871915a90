// Remembers the recent losses of workers and changes of models, and since when each model is served or is not. It
// watches: it decides nothing.
//
// Bounded: the losses of ten minutes, at most kMaxLost; the last kMaxEvents events; kMaxModels models. A model whose
// last worker left on its own (it said so) is forgotten ten minutes later: it was taken away. One whose workers were
// lost stays, however long they are away.
//
// Not thread-safe, no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "router/fleet/fleet_reasons.h"
#include "router/fleet/fleet_standing.h"

namespace roost::router {

class FleetJournal {
 public:
  static constexpr Duration kMemory = std::chrono::minutes(10);
  static constexpr std::size_t kMaxLost = 256;
  static constexpr std::size_t kMaxEvents = 64;
  static constexpr std::size_t kMaxModels = 1024;

  void OnJoined(const std::string& worker_id, const std::string& model, Instant now);
  void OnLeft(const std::string& worker_id, const std::string& model, Instant now);
  void OnLost(const std::string& worker_id, const std::string& model, LostReason reason, const Aftermath& requests,
              Instant now);

  struct Observed {
    std::string worker_id;
    std::string model;
    WorkerState state = WorkerState::kStarting;
    std::string absence = {};  // of its engine: why, with kAway
  };
  // All workers there are now. Call it several times a second. Returns the models that are forgotten with this call.
  std::vector<std::string> Observe(const std::vector<Observed>& workers, Instant now);

  // The models' workers at the last call of Observe.
  [[nodiscard]] std::map<std::string, WorkerCounts> Counts() const;
  [[nodiscard]] FleetStanding StandingAt(Instant now) const;

 private:
  struct Lost {
    Instant at;
    LostWorker worker;
  };
  struct Event {
    Instant at;
    FleetEvent event;
  };
  struct Model {
    WorkerCounts workers;
    Instant since;                 // ready workers are there, or are not
    bool left_on_its_own = false;  // its last worker
  };

  void Tell(const std::string& worker_id, const std::string& model, std::string what, Instant now);
  // Null when there are too many.
  [[nodiscard]] Model* ModelOf(const std::string& name, Instant now);
  void Count(const std::string& name, Model& model, const WorkerCounts& counts, Instant now);

  std::optional<Instant> began_;
  std::deque<Lost> lost_;                      // the latest last
  std::deque<Event> events_;                   // the latest last
  std::map<std::string, WorkerState> states_;  // by worker, at the last Observe
  std::map<std::string, Model> models_;
};

}  // namespace roost::router

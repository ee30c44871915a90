// The fleet at one instant, for the threads that serve clients and operators: the models, the workers, what waits.
//
// The link thread makes snapshots and swaps them in (fleet.h says how old one can be); readers take the last one
// without waiting. All is constant once made, apart from the counts by which ModelDirectory::Choose shares requests:
// these are atomic, and snapshots share them. So any thread may call any function.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/fleet_standing.h"

namespace roost::router {

// The models and LoRA adapters that workers serve, by the names that clients ask for; and the names that workers may
// bring (back). Each function is O(log names) but for the copies that it returns.
struct ModelDirectory {
  // The time for which a model without workers is remembered: its workers may be restarting.
  static constexpr Duration kMemoryOfModels = std::chrono::minutes(10);

  // A revision that serves a name.
  struct Offer {
    std::shared_ptr<const ServedModel> served;
    std::uint32_t capacity = 0;  // its workers that take requests
    // Requests that it got since the revisions of its model or their capacities changed.
    std::shared_ptr<std::atomic<std::uint64_t>> chosen_count = std::make_shared<std::atomic<std::uint64_t>>(0);
  };

  std::map<std::string, std::vector<Offer>, std::less<>> offers;  // by name; each has at least one
  // The main revision of each model, each followed by its adapters and its other names.
  std::vector<std::shared_ptr<const ServedModel>> models;
  std::set<std::string, std::less<>> joined;              // models of connected workers, ready or not
  std::map<std::string, Instant, std::less<>> gone;       // models and adapters: when the last worker left
  std::map<std::string, std::string, std::less<>> known;  // by name that a worker has served since the start: the model
  bool has_begun = false;                                 // a worker has joined

  // The revision for one more request of a model or adapter: the one that is furthest behind its share. Counts the
  // request. Null when no worker serves it.
  [[nodiscard]] std::shared_ptr<const ServedModel> Choose(std::string_view name) const;
  // The revision with the most workers that take requests. Null when no worker serves the model or adapter.
  [[nodiscard]] std::shared_ptr<const ServedModel> Main(std::string_view name) const;
  // All revisions of the model or adapter that are served.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> AllOf(std::string_view name) const;
  // True if a worker serves the model or adapter now, will soon, or did recently. Before the first worker came, true
  // for any name.
  [[nodiscard]] bool IsExpected(std::string_view name, Instant now) const;
  // The model of a name that a worker has served since the start: the name itself, or an adapter's model.
  [[nodiscard]] std::optional<std::string> KnownModel(std::string_view name) const;
};

// Blocks that travel, or travelled, from one worker to another.
struct TransferPair {
  std::string from;  // worker
  std::string to;    // worker
  std::string model;
  std::optional<double> start_seconds;     // learned; empty: nothing came yet
  std::optional<double> bytes_per_second;  // learned
  std::uint32_t in_flight_count = 0;       // Holds of this router
  std::uint64_t done_count = 0;
  std::uint64_t failed_count = 0;
  std::string_view last_outcome;  // of the last Hold that ended, a literal; empty: none has ended
  std::string_view last_cause;    // the same; empty: there is no more to tell
  double paused_seconds = 0;      // for which no request's Hold is sent; 0: it is not paused
};

struct FleetSnapshot {
  Instant at{};  // all times below are as of this one
  std::shared_ptr<const ModelDirectory> models = std::make_shared<const ModelDirectory>();  // not null
  // Names that workers are about to bring: their tokenizers are being read. While the router has just begun, its
  // workers come back, so that any name may be among them.
  std::set<std::string, std::less<>> starting;
  bool is_settling = false;
  std::vector<WorkerStatus> workers;
  std::vector<QueueStatus> queues;  // those with waiting requests
  // The last pairs over which blocks travelled, at most PairRates::kMaxPairs, the latest first; not null. Remade once a
  // second, if anything has changed.
  std::shared_ptr<const std::vector<TransferPair>> transfers = std::make_shared<const std::vector<TransferPair>>();
  bool requests_pull = true;  // workers may fetch blocks for requests
  FleetStanding standing;     // the state of the models, and the recent losses of workers
  // Live routers that these workers serve, this one included, as most workers tell. At least 1.
  std::uint32_t router_count = 1;

  std::optional<Error> refusal;  // with which Submit refuses every request
  // By revision and adapter: queues that are full, and with what error Submit refuses a request that would wait there.
  std::map<std::pair<std::string, std::string>, Error> full_queues;
  FleetMetrics* metrics = nullptr;  // counts what CheckRoom refuses; null: nothing counts

  // True if a worker may serve the model soon: one is about to, or did recently, or no worker has come since the start.
  [[nodiscard]] bool IsExpected(std::string_view name) const { return models->IsExpected(name, at); }
  // True if a worker is about to bring the model, which none serves.
  [[nodiscard]] bool IsArriving(std::string_view name) const;
  // The error with which Submit would refuse every request for the model now, so that such requests are not tokenized.
  [[nodiscard]] Result<void> CheckRoom(const ServedModel& model) const;
};

}  // namespace roost::router

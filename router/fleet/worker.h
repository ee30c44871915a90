// One worker as the router knows it: what it said of itself, what it reported, what it was sent.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"
#include "common/wire/messages.h"
#include "router/fleet/cache_view.h"
#include "router/fleet/ejection.h"
#include "router/fleet/engine_watch.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/in_flight.h"
#include "router/fleet/told_prefixes.h"
#include "router/index/pending_prefixes.h"
#include "router/index/prefix_index.h"
#include "router/route/busy_share.h"
#include "router/route/faded_sum.h"

namespace roost::router {

// One life of a worker: from an accepted hello to its end or its next hello.
struct Worker {
  struct Options {
    ModeOptions modes;
    Duration stall_timeout = std::chrono::seconds(10);
  };
  // `turn` is its first last_sent. `pending` outlives it.
  Worker(wire::Hello its_hello, WorkerSlot its_slot, std::shared_ptr<PrefixIndex> its_index, PendingPrefixes& pending,
         const Options& options, std::uint64_t turn, Instant now);

  // Takes a load report that arrived at `now`: load, rates, charges, and what it computes for other routers.
  void Report(wire::Load report, Instant now);

  // It has work and makes no progress, for longer than a step can take.
  [[nodiscard]] bool IsStalled(Instant now) const;

  const wire::Hello hello;
  const std::string revision;  // see RevisionKey
  const WorkerSlot slot;
  const std::shared_ptr<PrefixIndex> index;  // its revision's
  std::string identity;                      // of its connection
  CacheView view;
  RateEstimator rates;
  BusyShare busy;
  wire::Load load;  // without other_prompts, which are in `ledger` and `told`
  ToldPrefixes told;
  const std::shared_ptr<InFlightLedger> ledger = std::make_shared<InFlightLedger>();
  const Instant joined_at;
  Instant last_heard;
  std::uint64_t requests_total = 0;
  std::uint64_t generate_digest = 0;  // of what it was sent; see wire::Ping
  FadedSum computed_tokens;           // by half less each kGivenHalfLife
  std::uint64_t last_sent;            // see WorkerView
  bool receives_copy = false;         // of a prefix
  EngineWatch engine;
  // It was lost because its engine hung, and has shown no progress beyond this since.
  std::optional<std::uint64_t> stalled_at;
  Ejection ejection;
  std::optional<Instant> full_until;  // it refused a request because it was full
  bool is_leaving = false;            // it refused one because it leaves; its next report says whether that is so
  bool was_serving = false;           // when the roster looked last
};

// Counts and logs that the worker's part of the index has another source now.
void TellModeChange(const Worker& worker, ModeTracker::Change change, FleetMetrics& metrics);

}  // namespace roost::router

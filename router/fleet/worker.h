// One worker as the router knows it: its hello, its reports, and what it was sent.
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

  // Takes a load report that arrived at `now`: load, rates, charges, and the prompts that it computes for other
  // routers.
  void Report(wire::Load report, Instant now);

  // The engine has work and has made no progress for longer than a step can take.
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
  std::uint64_t last_sent;            // see WorkerView
  bool receives_copy = false;         // it is computing a copy of a prefix
  EngineWatch engine;
  // Set if it was lost because its engine hung, and has made no progress beyond this value since.
  std::optional<std::uint64_t> stalled_at;
  Ejection ejection;
  std::optional<Instant> full_until;  // it refused a request because it was full
  bool is_leaving = false;  // it refused a request because it is leaving; its next report says whether that is still so
  bool was_serving = false;  // when the roster looked last
};

// Counts and logs that the worker's part of the index has a new source.
void TellModeChange(const Worker& worker, ModeTracker::Change change, FleetMetrics& metrics);

}  // namespace roost::router

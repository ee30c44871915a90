// The router's knowledge of one worker: its hello, its reports, and what it was sent.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/workers/cache_view.h"
#include "router/fleet/workers/in_flight.h"
#include "router/fleet/workers/peer_prompts.h"
#include "router/fleet/workers/step_costs.h"
#include "router/fleet/workers/worker_health.h"
#include "router/index/pending_prefixes.h"
#include "router/index/prefix_index.h"
#include "router/route/busy_share.h"
#include "router/route/faded_sum.h"
#include "router/route/transfers.h"

namespace roost::router {

// The ways of blocks to and from the worker of this hello.
[[nodiscard]] TransferPlace PlaceOf(const wire::Hello& hello);

// The time scale of Worker::CacheValue.
inline constexpr Duration kCacheValueTime = std::chrono::minutes(10);

// One epoch of a worker: from an accepted hello to its end or its next hello.
struct Worker {
  struct Options {
    ModeOptions modes;
    Duration stall_timeout = std::chrono::seconds(10);
    Duration link_timeout = std::chrono::seconds(2);
  };
  // `turn` is the first value of last_sent. `pending` outlives the worker.
  Worker(wire::Hello its_hello, WorkerSlot its_slot, std::shared_ptr<PrefixIndex> its_index,
         std::shared_ptr<StepCosts> its_step_costs, PendingPrefixes& pending, const Options& options,
         std::uint64_t turn, Instant now);

  // Applies a load report that arrived at `now`: load, speed, charges, and the prompts that it computes for other
  // routers.
  void Report(wire::Load report, Instant now);

  // The cost of a step of decodes there; all zero while that is unknown.
  [[nodiscard]] DecodeCost decode_cost() const;
  // Zero while it is unknown.
  [[nodiscard]] double prefill_tokens_per_second() const {
    return step_costs->prefill_tokens_per_second() / prefill_pace.slowness();
  }

  // The present time of its steps: that of the last one, or of the one under way as far as its parts show. Its mean
  // follows too slowly when a machine gets another load.
  [[nodiscard]] double present_step_seconds() const { return std::max(last_step_seconds, load.step_under_way_seconds); }

  // The time that a step of its decodes should take, or takes now if that is longer. 0 while nothing is known.
  [[nodiscard]] double decode_step_seconds() const;

  // A request found so many tokens in its cache that it would have found in no other one.
  void NoteOnlyHere(std::uint32_t tokens, Instant now);
  // The seconds of prefill in an hour that its cache saves and no other could, by the last kCacheValueTime or so.
  [[nodiscard]] double CacheValue(Instant now) const;

  // True if the engine has work and has made no progress for longer than a step can take.
  [[nodiscard]] bool IsStalled(Instant now) const;

  const wire::Hello hello;
  const std::string revision;  // see RevisionKey
  AdapterNames adapters;       // that it serves now
  const WorkerSlot slot;
  const Instant came_at;
  const std::shared_ptr<PrefixIndex> index;  // its revision's
  std::string identity;                      // of its connection
  CacheView view;
  const std::shared_ptr<StepCosts> step_costs;  // its revision's
  StepPace prefill_pace;                        // of steps with prefill
  StepPace decode_pace;
  BusyShare busy;
  wire::Load load;  // without other_prompts, which are in `ledger` and `told`
  PeerPrompts told;
  const std::shared_ptr<InFlightLedger> ledger = std::make_shared<InFlightLedger>();
  LinkSilence link;
  std::uint32_t forward_count = 0;           // of this router, open there
  std::uint32_t reported_forward_count = 0;  // the same when its last report came
  std::uint64_t requests_total = 0;
  WorkerTotals totals;
  std::uint64_t generate_digest = 0;                // of the requests that it was sent; see wire::Ping
  std::uint64_t last_sent;                          // see WorkerView
  bool receives_copy = false;                       // it is computing a copy of a prefix
  FadedSum saved_only_here;                         // seconds of prefill
  std::uint32_t coming_answers = 0;                 // of prompts that are computed apart, whose blocks go there
  double handover_seconds = kUsualHandoverSeconds;  // see WorkerView
  EngineWatch engine;
  FirstTokens first_tokens;
  LaterTokens later_tokens;
  double last_step_seconds = 0;  // of its last step that has ended
  // Set when a request of it went elsewhere because its first token stayed away: the progress counter then. Until the
  // engine makes progress it counts as having work.
  std::optional<std::uint64_t> owed_at;
  // Set if it was lost because its engine hung: the progress counter then. Cleared once the engine makes progress.
  std::optional<std::uint64_t> stalled_at;
  Ejection ejection;
  std::optional<Instant> full_until;  // it refused a request because it was full
  // Its connection is gone, and it has some time to come back on another one: until then it gets no requests, and they
  // wait where no other worker takes them.
  bool is_unreachable = false;
  bool is_leaving = false;            // it refused a request because it is leaving; valid until its next report
  bool was_serving = false;           // at the registry's last Refresh
  bool is_drained = false;            // it is cordoned by an operator's drain at this router
  bool was_offered_prefixes = false;  // once it served and its cache was known: see Handovers

 private:
  // The step of `load`, which has just come.
  void ObserveStep(Instant now);
};

// The worker will hold all of `chain`; see PendingPrefixes. Where a hit may not end behind any block, the engine can go
// on behind the last whole one of its own.
[[nodiscard]] PendingPrefixes::Guard Expect(PendingPrefixes& pending, const Worker& worker,
                                            std::span<const BlockHash> chain, Instant deadline,
                                            PendingPrefixes::Coming coming = {});

// Counts and logs that the mode of a worker's view has changed.
void TellModeChange(const Worker& worker, ModeTracker::Change change, WorkerMetrics& metrics);

}  // namespace roost::router

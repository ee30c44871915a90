// Moves prefixes so that the fleet's cache outlives its workers: those of a worker that leaves to the workers that
// stay, and the most used ones to a worker that joins. Each is a Hold (blocks/hold_book.h); no client waits for it.
//
//   leaves   it drains (see below)    ──► wantPrefixes ──► for the most valuable one first: a Hold to its heir … ──►
//   handedOver joins    its cache is empty ──► wantPrefixes to others ──► the fleet's kJoinPrefixes most used ──►
//   Holds, two at a time
//
// The heir of a prefix is the worker where a request for it would go now; of equal ones the one that has the most room
// left with it, so that they share what comes. What it holds already is not sent.
//
// Value: the seconds of prefill that a prefix saves in an hour. They grow with its blocks, as the space for it does, so
// what counts is how often it is found: hits per hour. A prefix is cut where its heir has no more room for it. A worker
// gets at most kPoolShare of its pool, from all that leave at the same time, and as much when it joins. One that gives
// up a Hold gets no more.
//
// A worker that leaves decides how long it stays: what is not sent by then is computed. It is told when there is
// nothing more to send, at once where no other worker can fetch from it. Without that it waits for its
// --handover-seconds.
//
// A worker leaves when it drains and no cordon is the reason, or when an operator's drain is. A cordon alone leaves a
// cache where it is.
//
// Each router does this by itself, for the requests that it would send. Two Holds for the same blocks are one fetch.
//
// Not thread-safe. The constructor's arguments outlive it. Bounds: kMostLeaving workers at a time, and others after
// them; wire::kMaxUsedHashes for each; kLooked prefixes in one call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/fleet/blocks/hold_book.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/fleet_reasons.h"
#include "router/fleet/requests/request_table.h"
#include "router/fleet/workers/worker_registry.h"
#include "router/index/pending_prefixes.h"
#include "router/route/cost.h"

namespace roost::router {

class Handovers {
 public:
  static constexpr double kPoolShare = 0.25;
  static constexpr std::size_t kMostLeaving = 8;
  static constexpr std::size_t kOpenHolds = 8;  // of a worker that leaves
  static constexpr std::size_t kJoinPrefixes = 16;
  static constexpr std::size_t kJoinSources = 2;  // at a time, one Hold from each
  static constexpr std::size_t kMostAsked = 16;   // for one that joins: those that were sent the most requests
  static constexpr std::size_t kLooked = 64;
  static constexpr std::uint32_t kTries = 2;                            // of one prefix
  static constexpr std::uint32_t kHeirTries = 3;                        // failures of the way to an heir
  static constexpr Duration kAnswerPatience = std::chrono::seconds(5);  // a step may be under way
  static constexpr Duration kHoldPatience = std::chrono::seconds(30);
  // A younger prefix counts as found in an hour as often as it was found so far.
  static constexpr Duration kLeastAge = std::chrono::hours(1);
  // A worker that joins with more of its pool in use has a cache.
  static constexpr double kEmptyShare = 1.0 / 16;

  // Ids of questions count up from `first_id`, which is random; no id is 0.
  Handovers(std::uint64_t first_id, WorkerRegistry& registry, RequestTable& requests, EffectQueue& effects,
            FleetMetrics& metrics)
      : next_id_(first_id), worker_registry_(registry), requests_(requests), effects_(effects), metrics_(metrics) {}

  // The worker has reported, or it has become ready or its cache known, and all of that is applied.
  void OnReport(Worker& worker, Instant now);
  // False when it answers none of the questions.
  [[nodiscard]] bool OnPrefixes(const std::string& worker_id, wire::Prefixes& answer, Instant now);
  // The worker was removed from the registry, and its Holds are forgotten.
  void OnWorkerLost(const std::string& worker_id, Instant now);
  // Prefixes that the order names are not sent any more. Call it before the order goes out.
  void Evict(const EvictOrder& order);
  // Call it several times a second.
  void Expire(Instant now);
  void EndAll() { plans_.clear(); }

  // Those that are under way.
  [[nodiscard]] std::size_t size() const;

 private:
  struct Prefix {
    wire::UsedPrefix used;
    double hits_per_hour = 0;        // of all who hold it
    std::uint32_t holder_count = 1;  // that told of it
    std::uint32_t tries = 0;
  };
  // A Hold that is not answered yet.
  struct Move {
    std::string heir;
    WorkerSlot source;
    Prefix prefix;
    PendingPrefixes::Guard coming;  // of the prefix's hashes
  };
  enum class Stage : std::uint8_t { kWaits, kAsks, kMoves, kOver };
  struct Plan {
    HandoverKind kind = HandoverKind::kLeave;
    std::string model = {};
    Stage stage = Stage::kWaits;
    std::uint64_t question = 0;        // 0: it has to be asked, again
    std::set<std::string> asked = {};  // those that have not answered
    Instant answers_by{};
    std::deque<Prefix> left = {};  // the most valuable first
    std::map<std::uint64_t, Move> open = {};
    std::map<std::string, std::uint32_t> got = {};       // blocks, by heir
    std::set<std::string> full = {};                     // heirs that take no more
    std::map<std::string, std::uint32_t> failures = {};  // of the way to each heir
    std::uint64_t moved_block_count = 0;
    bool knows_pace = false;   // some blocks have come, so it is known how long others take
    bool leaves_some = false;  // not all of it found room, or came
  };
  using Plans = std::map<std::string, Plan>;  // by the worker that leaves or joins
  struct Way {
    Worker* heir = nullptr;
    PrefixPull pull;
  };
  enum class Turn : std::uint8_t { kNext, kWait };

  void BeginWaiting(Instant now);
  void Ask(const std::string& name, Plan& plan, Instant now);
  [[nodiscard]] bool CanHandOver(const Worker& leaver, Instant now);
  [[nodiscard]] std::vector<const Worker*> ToAskFor(const Worker& joiner);
  void Take(Plan& plan, wire::Prefixes& answer) const;
  void BeginMoves(Plans::iterator plan, Instant now);
  // Sends what may be sent now; ends the plan if nothing is left. The plan may be gone afterwards.
  void GoOn(Plans::iterator plan, Instant now);
  [[nodiscard]] Turn MoveFromLeaver(const std::string& name, Plan& plan, Instant now);
  [[nodiscard]] Turn MoveToJoiner(const std::string& name, Plan& plan, Instant now);
  // Nothing: the worker that gets its requests has it, or no worker has room.
  [[nodiscard]] std::optional<Way> WayFrom(const Worker& leaver, Plan& plan, const Prefix& prefix, Instant now);
  // The best source, or an equal one where that is in use. Nothing: there is none.
  [[nodiscard]] std::optional<PrefixPull> PullTo(const Worker& joiner, const Plan& plan, const Prefix& prefix,
                                                 Instant now);
  [[nodiscard]] bool Start(const std::string& name, Plan& plan, const Way& way, Prefix& prefix, Instant now);
  // Blocks that the heir may still get from this worker.
  [[nodiscard]] std::uint32_t RoomAt(const Worker& heir, const Plan& plan) const;
  [[nodiscard]] static bool IsUsed(const Plan& plan, WorkerSlot source);
  void OnHoldEnd(const std::string& name, const HoldEnd& end, Instant now);
  void Retry(Plan& plan, Prefix prefix);
  void End(Plans::iterator plan);
  void Tell(const std::string& name, const Plan& plan);

  std::uint64_t next_id_;
  WorkerRegistry& worker_registry_;
  RequestTable& requests_;
  EffectQueue& effects_;
  FleetMetrics& metrics_;
  Plans plans_;
};

}  // namespace roost::router

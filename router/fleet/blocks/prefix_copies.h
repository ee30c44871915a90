// Makes workers hold prefixes that only other workers hold, for later requests. No client waits for a copy.
//
//   Start ──► pull ──► piece 1 ──► piece 2 ──► … ──► the whole prefix
//
// First the worker fetches blocks from one that holds them (hold_book.h), if it can. Then it computes what did not
// come.
//
// A piece is a request for the prefix so far and one output token, which is dropped. So a request that comes to the
// worker meanwhile waits for at most one piece. A piece has as many tokens as the worker computes in kPieceSeconds, or
// in the round trip to it if that is longer, between kMinPieceTokens and kMaxPieceTokens. Each piece repeats the whole
// prefix before it, so a prefix is cut into at most kMaxPieces.
//
// A worker makes one copy at a time. A copy that a worker refuses, gives up or loses is not tried again, because no
// client depends on it.
//
// Not thread-safe. The constructor's arguments outlive it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/fleet/blocks/hold_book.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/workers/in_flight.h"
#include "router/fleet/workers/worker_registry.h"
#include "router/index/pending_prefixes.h"
#include "router/route/policy.h"

namespace roost::router {

// The end of a copy, for the caller that started it.
struct CopyEnd {
  std::uint32_t done_block_count = 0;  // including those that the worker held before
  std::uint64_t computed_tokens = 0;
  std::optional<Pull> pull = {};    // empty: there was none
  std::optional<Error> error = {};  // of the piece that failed; the rest of the copy was not made
};
using CopyDone = std::function<void(const CopyEnd&)>;

class PrefixCopies {
 public:
  static constexpr std::uint32_t kMinPieceTokens = 64;
  static constexpr std::uint32_t kMaxPieceTokens = 256;
  static constexpr double kPieceSeconds = 0.005;
  static constexpr std::uint32_t kMaxPieces = 64;
  static constexpr Duration kPullPatience = std::chrono::seconds(30);

  // The ids of pieces count up from `first_id`.
  PrefixCopies(std::uint64_t first_id, WorkerRegistry& registry, EffectQueue& effects, FleetMetrics& metrics,
               HoldBook& holds)
      : next_id_(first_id), worker_registry_(registry), effects_(effects), metrics_(metrics), holds_(holds) {}

  struct Wishes {
    std::string source = {};  // the worker to fetch from; empty: the best holder
    Duration pull_patience = kPullPatience;
    CopyDone done = {};
  };
  // Copies the prompt of `spec`. Returns false and does nothing while the worker makes another copy or takes no
  // requests. `done` is called at the end of the copy, but not when its worker is lost.
  bool Start(const GenerateSpec& spec, const PrefixCopy& copy, Instant now) { return Start(spec, copy, now, Wishes()); }
  bool Start(const GenerateSpec& spec, const PrefixCopy& copy, Instant now, Wishes wishes);

  // An event of a piece. False if the event belongs to no open copy.
  [[nodiscard]] bool OnEvent(const std::string& worker_id, const wire::TokenEvent& event, Instant now);
  // The answer to a Hold of a copy.
  void OnHoldAnswer(const std::string& worker_id, const wire::HoldAnswer& answer, Instant now) {
    holds_.OnAnswer(worker_id, answer, now);
  }
  // The worker was removed from the registry.
  void OnWorkerLost(const std::string& worker_id);
  // Ends the copies of what the order names.
  void Evict(const EvictOrder& order);
  void EndAll();

  [[nodiscard]] std::size_t size() const { return copies_.size(); }
  // Holds that are not answered yet.
  [[nodiscard]] const HoldBook& holds() const { return holds_; }

 private:
  struct Copy {
    std::optional<std::uint64_t> hold;  // while it fetches: the Hold's id
    RequestId id;                       // otherwise: of the current piece
    GenerateSpec spec;
    std::uint32_t done_block_count = 0;
    std::uint32_t piece_block_count = 0;  // including those that are done
    Instant sent_at{};
    std::optional<double> way_seconds;  // the round trip: the shortest time of a piece, minus its prefill
    InFlightLedger::Charge charge;
    PendingPrefixes::Guard pending;
    std::uint64_t computed_tokens = 0;
    std::optional<Pull> pull;
    CopyDone done;  // may be empty
  };

  // Has the worker fetch what another one holds. False when there is nothing to fetch.
  [[nodiscard]] bool StartPull(const Worker& worker, Copy& copy, const Wishes& wishes, Instant now);
  void Expect(const Worker& worker, Copy& copy, const PrefixPull& pull, Instant now);
  void OnPulled(const std::string& worker_id, const HoldEnd& end, Instant now);
  // Ends what the worker does for the copy.
  void Stop(const Worker& worker, const Copy& copy);
  // The next piece, or the end.
  void GoOn(Worker& worker, Copy& copy, Instant now);
  void SendNext(Worker& worker, Copy& copy, Instant now);
  [[nodiscard]] static std::uint32_t NextPieceBlocks(const Worker& worker, const Copy& copy);
  void OnPieceDone(Worker& worker, Copy& copy, std::optional<std::uint32_t> cached_tokens, Instant now);
  // Ends the copy; with `error` it is incomplete.
  void Drop(Worker& worker, std::optional<Error> error);

  std::uint64_t next_id_;
  WorkerRegistry& worker_registry_;
  EffectQueue& effects_;
  FleetMetrics& metrics_;
  HoldBook& holds_;
  std::map<std::string, Copy> copies_;  // by worker
};

}  // namespace roost::router

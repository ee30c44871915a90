// Has workers compute prefixes of which others hold the only copies, for those who come after. No client waits for it.
//
//   Start ──► piece 1 ──► piece 2 ──► … ──► the whole prefix
//
// A piece is a request for the prefix so far, and one token that is dropped. So who comes to the worker meanwhile waits
// for no more than one of them: what the worker computes in kPieceSeconds, or in what it takes to get there and back,
// but not less than kMinPieceTokens nor more than kMaxPieceTokens. Each piece carries what came before, so a long
// prefix is cut into kMaxPieces and no more.
//
// At most one copy for a worker at a time. What a worker refuses or gives up, or loses with its life, is not tried
// again: nobody misses it.
//
// Not thread-safe. What is given to the constructor outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/in_flight.h"
#include "router/fleet/roster.h"
#include "router/index/pending_prefixes.h"
#include "router/route/policy.h"

namespace roost::router {

// How a copy ended that somebody asked for.
struct CopyEnd {
  std::uint32_t done_block_count = 0;  // with those that the worker held before
  std::uint64_t computed_tokens = 0;
  std::optional<Error> error = {};  // of a piece that came to nothing; the rest of the copy was not made
};
using CopyDone = std::function<void(const CopyEnd&)>;

class PrefixCopies {
 public:
  static constexpr std::uint32_t kMinPieceTokens = 64;
  static constexpr std::uint32_t kMaxPieceTokens = 256;
  static constexpr double kPieceSeconds = 0.005;
  static constexpr std::uint32_t kMaxPieces = 64;

  // The ids of pieces begin with `first_id`.
  PrefixCopies(std::uint64_t first_id, Roster& roster, EffectQueue& effects, FleetMetrics& metrics)
      : next_id_(first_id), roster_(roster), effects_(effects), metrics_(metrics) {}

  // Of the prompt of `spec`. False, and nothing, while the worker receives another one or takes no requests. `done` is
  // called at the end of the copy, but not when its worker is lost.
  bool Start(const GenerateSpec& spec, const PrefixCopy& copy, Instant now, CopyDone done = {});

  // What a worker says about a piece. False if it is none of a copy that goes on.
  [[nodiscard]] bool OnEvent(const std::string& worker_id, const wire::TokenEvent& event, Instant now);
  // The worker is out of the roster.
  void OnWorkerLost(const std::string& worker_id) { copies_.erase(worker_id); }
  void EndAll();

  [[nodiscard]] std::size_t size() const { return copies_.size(); }

 private:
  struct Copy {
    RequestId id;  // of the piece that is under way
    GenerateSpec spec;
    std::uint32_t done_block_count = 0;
    std::uint32_t piece_block_count = 0;  // with those that are done
    Instant sent_at{};
    std::optional<double> way_seconds;  // the least that a piece took beside its prefill
    InFlightLedger::Charge charge;
    PendingPrefixes::Guard pending;
    std::uint64_t computed_tokens = 0;
    CopyDone done;  // may be empty
  };

  void SendNext(Worker& worker, Copy& copy, Instant now);
  [[nodiscard]] static std::uint32_t NextPieceBlocks(const Worker& worker, const Copy& copy);
  void OnPieceDone(Worker& worker, Copy& copy, std::optional<std::uint32_t> cached_tokens, Instant now);
  // The copy is over; with `error` it is not whole.
  void Drop(Worker& worker, std::optional<Error> error);

  std::uint64_t next_id_;
  Roster& roster_;
  EffectQueue& effects_;
  FleetMetrics& metrics_;
  std::map<std::string, Copy> copies_;  // by worker
};

}  // namespace roost::router

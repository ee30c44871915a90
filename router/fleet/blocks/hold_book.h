// Holds: orders to workers to fetch blocks from other workers. The one place that sends them, awaits their answers,
// ends them in time and forgets them.
//
//   Start ──► Hold ──► the worker's HoldAnswer ────────────────────────► done, with what came
//              ├─ none until kAnswerPatience after the Hold's patience ──► done, unanswered
//              └─ the worker is lost, or all who wait have left ───────► nothing
//
// Requests, copies and warm-ups wait for Holds; several may wait for one. What a Hold teaches of its pair goes to
// route/transfers.h.
//
// A worker can fetch from another one that serves its blocks, with the same layout and numerics, at an address that it
// reaches. The Hold has a ticket for that source, if the source's hello has a secret. A worker that takes no Holds, or
// finds no such source, computes. The source needs no place here: if it is lost, the worker that fetches from it says
// so.
//
// Not thread-safe. The constructor's arguments outlive it. `done` is called within OnAnswer and Expire.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/workers/worker_registry.h"
#include "router/route/cost.h"

namespace roost::router {

// The end of a Hold.
struct HoldEnd {
  std::uint64_t id = 0;
  Pull pull;
  std::uint32_t block_count = 0;  // leading blocks of the Hold that the worker has now
};
// Called even if the one who started the Hold has left and others wait for it.
using HoldDone = std::function<void(const HoldEnd&, Instant now)>;

class HoldBook {
 public:
  // In the fleet at one time. More are not sent.
  static constexpr std::size_t kMaxOpen = 1024;
  // For the way, and for the engine's step that is under way when the patience ends.
  static constexpr Duration kAnswerPatience = std::chrono::seconds(5);
  // Pairs of workers whose last failure is remembered.
  static constexpr std::size_t kMaxLastEnds = 4096;
  // Failures of one pair are logged so often at most, and when the cause is another one.
  static constexpr Duration kLogPause = std::chrono::minutes(1);

  // Ids of Holds count up from `first_id`, which is random, so that a late answer to an earlier router process matches
  // none; no id is 0.
  HoldBook(std::uint64_t first_id, WorkerRegistry& registry, EffectQueue& effects, FleetMetrics& metrics,
           std::size_t max_open = kMaxOpen)
      : max_open_(max_open), next_id_(first_id), worker_registry_(registry), effects_(effects), metrics_(metrics) {}

  // The pull with which the worker has all of `hashes` (front to back) the soonest: fetched, and the rest computed.
  // With `name`, from that worker alone. Workers that take no requests are sources too. Empty when none holds more than
  // the worker itself. O(matches).
  [[nodiscard]] std::optional<PrefixPull> BestSource(const Worker& worker, std::span<const BlockHash> hashes,
                                                     std::string_view name, Instant now);

  // True if as many are open as may be, so that none is sent.
  [[nodiscard]] bool is_full() const { return open_.size() >= max_open_; }

  struct Wishes {
    wire::HoldPurpose purpose = wire::HoldPurpose::kCopy;
    Duration patience{};     // cut to what a Hold can say
    std::uint32_t hits = 0;  // see wire::Hold
    bool follows = false;    // the source is still computing the blocks
  };
  // Has `worker` hold the blocks of the pull's source among `hashes`, which are in the scope of `spec`, front to back.
  // The Hold names all of them: the worker fetches only what it lacks, and what it held may have been evicted. Returns
  // the Hold's id; empty when it was not sent.
  [[nodiscard]] std::optional<std::uint64_t> Start(const Worker& worker, const PrefixPull& pull,
                                                   const GenerateSpec& spec, std::span<const BlockHash> hashes,
                                                   const Wishes& wishes, Instant now, HoldDone done);
  // Waits too for a Hold that brings the last of `hashes` to the worker. Returns its id; empty when there is none.
  // O(Holds).
  [[nodiscard]] std::optional<std::uint64_t> Join(const Worker& worker, std::span<const BlockHash> hashes);

  // Ignores an answer to a Hold that has ended, and one of another worker.
  void OnAnswer(const std::string& worker_id, const wire::HoldAnswer& answer, Instant now);
  // The worker was removed from the registry.
  void OnWorkerLost(const std::string& worker_id);
  // One of those who wait for it has left; with the last one it is forgotten. The worker ends its own part.
  void Leave(std::uint64_t id);
  // Ends the Holds that are overdue.
  void Expire(Instant now);

  // Why the last Hold from `source` to `worker` that was answered ended as it did, as far as the worker tells more than
  // the outcome; while the worker leaves the source alone, why it does.
  [[nodiscard]] wire::HoldCause LastCause(const std::string& source, const std::string& worker) const;

  [[nodiscard]] bool IsOpen(std::uint64_t id) const { return open_.contains(id); }
  [[nodiscard]] std::size_t size() const { return open_.size(); }

 private:
  struct Open {
    std::string worker_id;
    std::string source;
    std::string model;
    std::vector<BlockHash> hashes;
    std::shared_ptr<const void> memory;  // of the request, which counts the hashes
    std::uint32_t block_tokens = 0;
    std::uint32_t waiter_count = 1;
    Instant deadline;
    HoldDone done;
  };
  using OpenHolds = std::map<std::uint64_t, Open>;

  // Workers, by name.
  struct Ends {
    std::string source;
    std::string worker;

    auto operator<=>(const Ends&) const = default;
  };
  struct LastEnd {
    wire::HoldCause cause = wire::HoldCause::kNone;
    std::optional<Instant> told_at;  // in the log
  };

  [[nodiscard]] std::string TicketFor(const Worker& worker, const Worker& source);
  void NoteCause(const Open& ended, const wire::HoldAnswer& answer, Instant now);
  void End(OpenHolds::iterator hold, const std::optional<wire::HoldAnswer>& answer, Instant now);

  std::size_t max_open_;
  std::uint64_t next_id_;
  WorkerRegistry& worker_registry_;
  EffectQueue& effects_;
  FleetMetrics& metrics_;
  OpenHolds open_;
  std::map<Ends, LastEnd> last_ends_;  // of pairs of which a Hold has failed, at most kMaxLastEnds
};

}  // namespace roost::router

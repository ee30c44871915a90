// The workers that this router knows and the models that they serve: who they are, what they reported, what they may be
// sent. Requests are none of its business (request_book.h).
//
// Not thread-safe. Pointers to workers stay valid until that worker is removed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"
#include "common/base/result.h"
#include "common/base/rng.h"
#include "common/wire/messages.h"
#include "router/fleet/cache_view.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/in_flight.h"
#include "router/fleet/model_fleets.h"
#include "router/fleet/told_prefixes.h"
#include "router/index/pending_prefixes.h"
#include "router/route/busy_share.h"
#include "router/route/faded_sum.h"

namespace roost::router {

// A tokenizer bundle, read.
struct TextBundle {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null when the model brings none
  std::string bos_token;
  std::string eos_token;
};

// One life of a worker: from an accepted hello to its end or its next hello.
struct Worker {
  // `turn` is its first last_sent. `pending` outlives it.
  Worker(wire::Hello its_hello, WorkerSlot its_slot, std::shared_ptr<PrefixIndex> its_index, PendingPrefixes& pending,
         ModeOptions modes, std::uint64_t turn, Instant now);

  // Takes a load report that arrived at `now`: load, rates, charges, and what it computes for other routers.
  void Report(wire::Load report, Instant now);

  const wire::Hello hello;
  const WorkerSlot slot;
  const std::shared_ptr<PrefixIndex> index;  // its model's
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
};

// Counts and logs that the worker's part of the index has another source now.
void TellModeChange(const Worker& worker, ModeTracker::Change change, FleetMetrics& metrics);

class Roster {
 public:
  // More are refused: the index and the decision are made for so many.
  static constexpr std::size_t kMaxWorkers = 1024;

  // All indexes together have so much memory. `unix_seconds` tells when a model appeared. `seed` differs in every
  // process.
  Roster(ModeOptions modes, std::uint64_t index_memory_bytes, std::function<std::int64_t()> unix_seconds,
         std::uint64_t seed);

  // Null when unknown.
  [[nodiscard]] Worker* Find(std::string_view worker_id);

  // Takes in a worker that is not there. kInvalidArgument (naming the field) when it can not belong: another protocol
  // version, a name that is not its identity, a model that the others of that name do not serve, one worker too many.
  [[nodiscard]] Result<Worker*> Add(std::string_view identity, const wire::Hello& hello, Instant now);

  // Forgets it, its blocks and its slot.
  void Remove(std::string_view worker_id);

  // The tokenizer bundles. A worker is ready, and its model served, once the bundle of its digest was read.
  // True if nobody was asked for the bundle of this worker's digest, or the one that was asked is gone or does not
  // answer; then `worker` counts as asked.
  [[nodiscard]] bool ShouldAskForBundle(const Worker& worker, Instant now);
  // Is this the answer that was asked of `worker`? Then it counts as given, and is not asked for again.
  [[nodiscard]] bool TakeBundleAnswer(const Worker& worker, std::string_view digest);
  void SetBundle(const std::string& digest, Result<TextBundle> bundle);
  [[nodiscard]] bool IsReady(const Worker& worker) const;

  [[nodiscard]] std::shared_ptr<const ServedModel> FindModel(std::string_view name) const;
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> Models() const;

  // Prefixes that workers are computing now: what this router sent and what workers tell of others.
  [[nodiscard]] PendingPrefixes& pending() { return pending_; }
  [[nodiscard]] const PendingPrefixes& pending() const { return pending_; }

  // Frees some of what lost workers left in the indexes.
  void SweepIndexes();
  [[nodiscard]] IndexUse IndexesNow() const;
  // Distinct blocks in the indexes of all models.
  [[nodiscard]] std::uint64_t indexed_block_count() const;

  // Ready workers of exactly this model that take new requests.
  [[nodiscard]] std::vector<Worker*> Serving(const ServedModel& model);

  // The same as decisions look at them; null when the model is not served, or is another one by now under its name.
  [[nodiscard]] const FleetView* FleetOf(const ServedModel& model) const;
  // The worker in a slot of a fleet.
  [[nodiscard]] Worker& At(WorkerSlot slot) const { return fleets_.At(slot); }
  // To be called with each attempt, and piece of a copy, that goes to the worker.
  void NoteSent(Worker& worker, RequestId id);
  // To be called whenever a worker's load or charges changed: decisions look at what it was like then.
  void Refresh(Worker& worker);

  template <typename Visit>
  void ForEach(Visit visit) {
    for (auto& [id, worker] : workers_) visit(*worker);
  }
  [[nodiscard]] WorkerStatus StatusOf(const Worker& worker, Instant now) const;

 private:
  // Asked for, then read or found to be unreadable.
  struct Bundle {
    std::string asked_worker_id;
    std::uint64_t asked_epoch = 0;
    Instant ask_again;      // unless it has come by then
    bool answered = false;  // and is being read
    std::shared_ptr<const TextBundle> text;
    std::optional<Error> unreadable;

    [[nodiscard]] bool is_open() const { return text == nullptr && !unreadable.has_value(); }
  };

  [[nodiscard]] bool WasAsked(const Bundle& bundle, const Worker& worker) const;
  void LogUnreadable(const Worker& worker, const Error& error) const;

  [[nodiscard]] Result<void> Admit(std::string_view identity, const wire::Hello& hello) const;
  [[nodiscard]] WorkerSlot FreeSlot() const;
  // The model's index, made for its first worker and dropped with its last.
  [[nodiscard]] std::shared_ptr<PrefixIndex> IndexFor(const std::string& model);
  void DropUnusedIndex(const std::string& model);
  // Makes models_ follow the ready workers.
  void RefreshModel(const std::string& name);
  void DropUnusedBundles();

  // What is sent to workers is numbered from here on, for Worker::last_sent.
  static constexpr std::uint64_t kFirstSent = std::uint64_t{1} << 32U;

  const ModeOptions modes_;
  const std::function<std::int64_t()> unix_seconds_;
  Rng rng_;
  std::uint64_t sent_number_ = kFirstSent;  // of the last
  PendingPrefixes pending_;                 // of the workers and the requests at them, which go first
  std::map<std::string, std::unique_ptr<Worker>, std::less<>> workers_;
  std::map<std::string, Bundle, std::less<>> bundles_;  // by digest
  const std::shared_ptr<IndexBudget> index_budget_;
  std::uint64_t shed_before_ = 0;                                             // blocks, by indexes that are gone
  std::map<std::string, std::shared_ptr<PrefixIndex>, std::less<>> indexes_;  // by model
  std::map<std::string, std::shared_ptr<const ServedModel>, std::less<>> models_;
  ModelFleets fleets_;
};

}  // namespace roost::router

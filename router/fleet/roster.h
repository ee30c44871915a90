// The workers that this router knows and the models that they serve: who they are, what they reported, what they may be
// sent. Requests are none of its business (request_book.h).
//
// A worker is a process that said hello under its name. Its connection has an identity, which changes when it connects
// anew; messages come and go by that. One name is one process at a time.
//
//   joined ── its tokenizer is read ──► ready ── not draining, engine makes progress ──► serving
//                                                 serving, not full, not ejected:         takes requests
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
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/rng.h"
#include "common/wire/messages.h"
#include "router/fleet/bundle_store.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/model_fleets.h"
#include "router/fleet/revisions.h"
#include "router/fleet/worker.h"
#include "router/index/pending_prefixes.h"

namespace roost::router {

class Roster {
 public:
  // More are refused: the index and the decision are made for so many.
  static constexpr std::size_t kMaxWorkers = 1024;

  struct Options {
    Worker::Options worker;
    std::uint64_t index_memory_bytes = std::uint64_t{1} << 30U;  // of all indexes together
    std::function<std::int64_t()> unix_seconds;                  // tells when a model appeared
    std::uint64_t seed = 0;                                      // differs in every process
  };
  explicit Roster(Options options);

  // Null when unknown.
  [[nodiscard]] Worker* Find(std::string_view worker_id);
  // The one of a connection.
  [[nodiscard]] Worker* FindByIdentity(const std::string& identity);

  // Takes in a worker whose name is not there. kInvalidArgument (naming the field) when it can not belong: another
  // protocol version, no process, one worker too many.
  [[nodiscard]] Result<Worker*> Add(const std::string& identity, const wire::Hello& hello, Instant now);
  // The worker goes on over another connection.
  void Reconnect(Worker& worker, const std::string& identity);

  // Forgets it, its blocks and its slot.
  void Remove(std::string_view worker_id, Instant now);
  // The worker is about to be removed because its engine hangs: when it comes back, it gets nothing before it has made
  // progress.
  void RememberStall(const Worker& worker);

  // The tokenizer bundles. A worker is ready, and its revision served, once the bundle of its digest was read.
  // True if `worker` is to be asked for its bundle now; then it counts as asked.
  [[nodiscard]] bool ShouldAskForBundle(const Worker& worker, Instant now);
  // Is this the answer that was asked of `worker`? Then it counts as given, and is not asked for again.
  [[nodiscard]] bool TakeBundleAnswer(const Worker& worker, std::string_view digest);
  void SetBundle(const std::string& digest, TextBundle bundle);
  void SetBundleFault(const std::string& digest, const BundleError& error, Instant now);
  [[nodiscard]] bool IsReady(const Worker& worker) const {
    return bundles_.Find(worker.hello.tokenizer_digest) != nullptr;
  }

  // Does it take part in serving its model, now or as soon as it has room?
  [[nodiscard]] bool IsServing(const Worker& worker) const;

  // Of the models: see Revisions.
  [[nodiscard]] Revisions& revisions() { return revisions_; }
  [[nodiscard]] const Revisions& revisions() const { return revisions_; }

  // Prefixes that workers are computing now: what this router sent and what workers tell of others.
  [[nodiscard]] PendingPrefixes& pending() { return pending_; }
  [[nodiscard]] const PendingPrefixes& pending() const { return pending_; }

  [[nodiscard]] IndexUse IndexesNow() const;

  // Those of this revision that are serving.
  [[nodiscard]] std::vector<Worker*> Serving(std::string_view revision);

  // Those of this revision that take requests, as decisions look at them; null when nobody serves it.
  [[nodiscard]] const FleetView* FleetOf(const ServedModel& model) const;
  // The worker in a slot of a fleet; null when it takes no requests now.
  [[nodiscard]] Worker* FindAt(WorkerSlot slot) const { return fleets_.FindAt(slot); }
  [[nodiscard]] Worker& At(WorkerSlot slot) const { return fleets_.At(slot); }
  // To be called with each attempt, and piece of a copy, that goes to the worker.
  void NoteSent(Worker& worker, RequestId id);
  // To be called whenever a worker's load, charges or state changed: decisions look at what it was like then.
  void Refresh(Worker& worker);
  // Does it take a request now?
  [[nodiscard]] bool TakesRequests(const Worker& worker) const;
  // A request that it had failed by the worker's fault. Left out, it stays in if there is no other worker.
  void NoteFailure(Worker& worker, Instant now);
  // Time goes on: takes workers back in whose time out is over, and those left out of a revision that has no other.
  void Readmit(Instant now);

  template <typename Visit>
  void ForEach(Visit visit) {
    for (auto& [id, worker] : workers_) visit(*worker);
  }
  [[nodiscard]] WorkerStatus StatusOf(const Worker& worker, Instant now) const;

 private:
  // So many processes whose engine hung are remembered.
  static constexpr std::size_t kMaxStalled = 1024;

  [[nodiscard]] Result<void> Admit(const wire::Hello& hello) const;
  [[nodiscard]] WorkerSlot FreeSlot() const;
  // Makes the revision follow its ready workers.
  void RefreshRevision(const std::string& key);
  void CountCapacity(const std::string& key);
  // Of its revision, that serves and is not left out.
  [[nodiscard]] bool IsOnlyOne(const Worker& worker) const;
  void DropUnusedBundles();

  // What is sent to workers is numbered from here on, for Worker::last_sent.
  static constexpr std::uint64_t kFirstSent = std::uint64_t{1} << 32U;

  const Options options_;
  Rng rng_;
  std::uint64_t sent_number_ = kFirstSent;  // of the last
  PendingPrefixes pending_;                 // of the workers and the requests at them, which go first
  std::map<std::string, std::unique_ptr<Worker>, std::less<>> workers_;
  std::unordered_map<std::string, Worker*> by_identity_;
  std::unordered_map<std::uint64_t, std::uint64_t> stalled_;  // progress of a process at its end, by process
  BundleStore bundles_;
  Revisions revisions_;
  ModelFleets fleets_;
};

}  // namespace roost::router

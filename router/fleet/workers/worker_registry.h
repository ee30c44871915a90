// The workers that this router knows and the models that they serve: their identities, their reports, and whether they
// may get requests. It does not hold requests (request_table.h does).
//
// A worker is a process that sent a hello with a name. Its connection has an identity, which is the address for
// messages and changes when the worker reconnects. A name belongs to one process at a time.
//
//   joined ── its tokenizer is read ──► ready ── not draining or cordoned, engine makes progress ──► serving
//                                                 serving, not full, not ejected:         takes requests
//
// Not thread-safe. Pointers to workers stay valid until that worker is removed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/rng.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/workers/bundle_store.h"
#include "router/fleet/workers/known_worker.h"
#include "router/fleet/workers/model_fleets.h"
#include "router/fleet/workers/revisions.h"
#include "router/index/pending_prefixes.h"
#include "router/route/transfers.h"

namespace roost::router {

// The leading blocks of a prompt that a worker holds.
struct HeldBlocks {
  WorkerSlot worker;
  std::uint32_t block_count = 0;
};

// The memory of all indexes together.
inline constexpr std::uint64_t kDefaultIndexMemoryBytes = std::uint64_t{1} << 30U;

class WorkerRegistry {
 public:
  // The registry refuses more workers, because index and decision are built for this number.
  static constexpr std::size_t kMaxWorkers = kMaxWorkerSlots;

  struct Options {
    Worker::Options worker;
    std::uint64_t index_memory_bytes = kDefaultIndexMemoryBytes;  // of all indexes together
    std::function<std::int64_t()> unix_seconds;                   // wall time, for when a model appeared
    std::uint64_t seed = 0;                                       // differs in every process
  };
  explicit WorkerRegistry(Options options);

  // Null when unknown.
  [[nodiscard]] Worker* Find(std::string_view worker_id);
  // The worker of a connection.
  [[nodiscard]] Worker* FindByIdentity(const std::string& identity);

  // Adds a worker whose name is not in use. kInvalidArgument, naming the field, when its hello is wrong; kOverloaded
  // when there are too many workers.
  [[nodiscard]] Result<Worker*> Add(const std::string& identity, const wire::Hello& hello, Instant now);
  // The worker's connection is gone; see Worker::is_unreachable.
  void SetUnreachable(Worker& worker);
  // The worker continues on another connection.
  void Reconnect(Worker& worker, const std::string& identity);

  void SetAdapters(Worker& worker, const std::vector<std::string>& names);
  // The worker no longer has this one, and has not told yet.
  void DropAdapter(Worker& worker, std::string_view name);

  // Forgets the worker, its blocks and its slot.
  void Remove(std::string_view worker_id, Instant now);
  // Call it before you remove a worker whose engine hangs. When that process comes back, it gets no requests until its
  // engine has made progress.
  void RememberStall(const Worker& worker);

  // True if the caller should ask `worker` for its bundle now; then it counts as asked.
  [[nodiscard]] bool ShouldAskForBundle(const Worker& worker, Instant now);
  // True if this is the bundle that `worker` was asked for. If so, it counts as being read, and is not asked for again.
  [[nodiscard]] bool TakeBundleAnswer(const Worker& worker, std::string_view digest);
  void SetBundle(const std::string& digest, TextBundle bundle);
  void SetBundleFault(const std::string& digest, const BundleError& error, Instant now);
  [[nodiscard]] bool IsReady(const Worker& worker) const {
    return !BringsText(worker.hello) || bundles_.Find(worker.hello.tokenizer_digest) != nullptr;
  }
  // False for a worker that has no tokenizer to bring: its engine gets requests unread.
  [[nodiscard]] static bool BringsText(const wire::Hello& hello) { return !hello.tokenizer_digest.empty(); }

  // The models and adapters of workers whose tokenizer is still to come.
  [[nodiscard]] std::set<std::string, std::less<>> StartingNames() const;

  // True if the worker serves its model, now or as soon as it has room.
  [[nodiscard]] bool IsServing(const Worker& worker) const;

  // True if no other worker of its revision serves.
  [[nodiscard]] bool IsSole(const Worker& worker) const {
    return revisions_.CapacityOf(worker.revision) == (worker.was_serving ? 1U : 0U);
  }

  // The models: see Revisions.
  [[nodiscard]] Revisions& revisions() { return revisions_; }
  [[nodiscard]] const Revisions& revisions() const { return revisions_; }

  // Prefixes that workers are computing now: requests of this router, and those of other routers that workers report.
  [[nodiscard]] PendingPrefixes& pending() { return pending_; }
  [[nodiscard]] const PendingPrefixes& pending() const { return pending_; }

  // Blocks on their way between workers, and how fast they travel.
  [[nodiscard]] Transfers& transfers() { return transfers_; }
  [[nodiscard]] const Transfers& transfers() const { return transfers_; }
  // The worker in a slot, whether it takes requests or not; null when the slot is free.
  [[nodiscard]] const Worker* InSlot(WorkerSlot slot) const {
    return slot.value() < by_slot_.size() ? by_slot_[slot.value()] : nullptr;
  }

  [[nodiscard]] IndexUse IndexesNow() const;
  // Wall time.
  [[nodiscard]] std::int64_t UnixSeconds() const { return options_.unix_seconds(); }

  // The workers of this revision that are serving.
  [[nodiscard]] std::vector<Worker*> Serving(std::string_view revision);
  // Those among them that serve this model or adapter.
  [[nodiscard]] std::vector<Worker*> Serving(const ServedModel& model);

  // The workers of this revision that take requests, in the form that decisions need; null when there is none.
  [[nodiscard]] const FleetView* FleetOf(const ServedModel& model) const;
  // Cuts the matches of a prompt with these blocks to what its workers can go on at (see ResumableBlocks), and orders
  // them deepest first again. Returns what those workers hold.
  [[nodiscard]] std::vector<HeldBlocks> CutToResumable(std::span<const BlockHash> hashes, std::uint32_t prompt_tokens,
                                                       std::vector<WorkerMatch>& matches) const;
  // The worker in a slot of a fleet; null when it takes no requests now.
  [[nodiscard]] Worker* FindAt(WorkerSlot slot) const { return fleets_.FindAt(slot); }
  [[nodiscard]] Worker& At(WorkerSlot slot) const { return fleets_.At(slot); }
  // Call it for each attempt, and each piece of a copy, that is sent to the worker.
  void NoteSent(Worker& worker, RequestId id);
  // Call it whenever a worker's load, charges or state has changed: decisions see the state of the last call.
  void Refresh(Worker& worker);
  // True if the worker takes a request now.
  [[nodiscard]] bool TakesRequests(const Worker& worker) const;
  // A request failed because of the worker, which may be ejected (see Ejection), but not if there is no other one.
  void NoteFailure(Worker& worker, Instant now);
  // A first token is overdue there: the worker is ejected at once, but not if there is no other one.
  void NoteSilence(Worker& worker, Instant now);
  // Takes back workers whose ejection is over, and ejected workers of a revision that has no other worker.
  void Readmit(Instant now);

  template <typename Visit>
  void ForEach(Visit visit) {
    for (auto& [id, worker] : workers_) visit(*worker);
  }
  [[nodiscard]] WorkerState StateOf(const Worker& worker) const;
  // The crowding of a joined worker with this hello, among all; see wire::CrowdingOf.
  [[nodiscard]] wire::Crowding CrowdingOf(const wire::Hello& hello) const;
  [[nodiscard]] WorkerStatus StatusOf(const Worker& worker, Instant now) const;

 private:
  // The maximum number of remembered processes with hung engines.
  static constexpr std::size_t kMaxStalled = 1024;

  [[nodiscard]] Result<void> Admit(const wire::Hello& hello) const;
  [[nodiscard]] WorkerSlot FreeSlot() const;
  // Updates the revision from its ready workers.
  void RefreshRevision(const std::string& key);
  void CountCapacity(const std::string& key);
  // The worker's Ejection has just left it out.
  void LeaveOut(Worker& worker, std::string_view why);
  // True if no other worker of its revision serves and is not ejected.
  [[nodiscard]] bool IsOnlyOne(const Worker& worker) const;
  void DropUnusedBundles();

  // Messages to workers are numbered from here on, for Worker::last_sent.
  static constexpr std::uint64_t kFirstSent = std::uint64_t{1} << 32U;

  const Options options_;
  Rng rng_;
  std::uint64_t sent_number_ = kFirstSent;  // of the last message
  PendingPrefixes pending_;                 // outlives the workers and the requests at them, which use it
  std::map<std::string, std::unique_ptr<Worker>, std::less<>> workers_;
  std::unordered_map<std::string, Worker*> by_identity_;
  std::vector<Worker*> by_slot_;                              // null: free
  std::size_t checkpoint_worker_count_ = 0;                   // of those with wire::Hello::checkpoints
  std::unordered_map<std::uint64_t, std::uint64_t> stalled_;  // by process: its progress when it was removed
  BundleStore bundles_;
  Revisions revisions_;
  ModelFleets fleets_;
  Transfers transfers_;
};

}  // namespace roost::router

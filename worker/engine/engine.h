// The engine: one thread's loop from requests to tokens. Step() reads no queue and sends nothing: the caller gives it
// commands and takes its report, so the whole engine runs in tests without threads or sockets.
//
//   schedule → build batch → forward → commit → sample → report
//
// With plan_ahead, Step begins the next step on the device before it reports the tokens of the previous one. So the
// device always has work.
//
// Every request that Submit accepted ends exactly once: with a finish reason in a report, or silently by CancelLink. A
// request under a constraint waits for its automaton before it is scheduled; its output ends where the constraint
// allows no further token. A stop token ends a request and is not part of its output; none is drawn before
// min_output_tokens. Log probabilities of a prompt are reported in pieces, step by step, all of them before the first
// token. A request with broken logits ends with kError; the other requests of its batch continue.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/cache/prefix_cache.h"
#include "worker/engine_api/exchange.h"
#include "worker/engine_api/step_report.h"
#include "worker/model/model.h"
#include "worker/sched/scheduler.h"
#include "worker/sched/waiting_queue.h"

namespace roost::worker {

class Constrainer;
class DiskCache;
class FrameInbox;
class FrameSource;
class FrameWiper;
class ReadableBlocks;

// The part of the pool that a tenant keeps when others want blocks too.
struct TenantShare {
  std::string name;
  double share = 0;  // of the pool's blocks, above 0

  bool operator==(const TenantShare&) const = default;
};

struct EngineOptions {
  std::uint32_t max_batch_tokens = SchedulerOptions().max_batch_tokens;  // token budget of one step
  std::uint32_t max_running_requests = SchedulerOptions().max_running;   // sequences in one batch
  std::uint32_t max_waiting_requests = SchedulerOptions().max_waiting;   // over this, Submit answers kOverloaded
  std::vector<TokenId> stop_tokens = {};                                 // the model's own

  // The cache.
  std::string eviction = std::string(kDefaultEvictionPolicy);     // one of kEvictionPolicyNames
  double pinned_share_limit = CacheOptions().pinned_share_limit;  // of the pool's blocks; pins beyond it are refused
  double retained_share_limit = 0.125;                            // of the pool's blocks, for each tenant's retention
  Duration max_retention = std::chrono::hours(1);                 // a longer one is shortened to it
  Duration min_hold = Duration(0);                                // see PrefixCache; also for the next field
  double held_share_limit = CacheOptions().held_share_limit;
  std::vector<TenantShare> tenant_shares = {};  // of the pool; unused parts may be borrowed. Their sum is at most 1
  double verify_hits_share = 0;                 // of the requests with hits: computed again and compared
  bool check_invariants = false;                // after every step; new blocks are filled with NaN; for debugging

  // Plan the next step while the model computes one, so no step waits for the tokens of the previous one. Not together
  // with verify_hits_share.
  bool plan_ahead = false;

  // Makes automata for requests under a constraint, and outlives the engine. Null: such requests are refused.
  Constrainer* constrainer = nullptr;

  // The ways of blocks to and from other workers; they outlive the engine. Null: blocks stay here, and Holds are
  // refused.
  ReadableBlocks* readable = nullptr;  // where it tells which blocks may be read; of its model
  FrameInbox* arriving = nullptr;      // what has come for its Holds, and from the disk
  FrameSource* source = nullptr;       // of what comes; the engine cancels what it no longer wants

  // Clears what erased blocks have left in the memory of frames; it outlives the engine. Null: that stays as it is.
  FrameWiper* wiper = nullptr;

  // Where blocks are also kept; it outlives the engine, and needs the two before. Null: nowhere.
  DiskCache* disk = nullptr;

  // The queue.
  SchedulePolicy schedule_policy = SchedulePolicy::kFcfs;
  std::uint32_t short_step_tokens = 0;  // see SchedulerOptions
  std::uint32_t max_partial_prefills =
      SchedulerOptions().max_partial_prefills;      // prefills under way at once; 0: no limit
  std::optional<Duration> first_token_target = {};  // see SchedulerOptions
  std::optional<Duration> max_queue_wait =
      std::nullopt;  // a request that has waited longer is refused with kOverloaded
};

// The most tokens of one request, prompt and output: the model's context, or what the pool holds if that is less.
[[nodiscard]] std::uint32_t ServableContext(const Model& model);

// The limit on running requests of an engine that reports log probabilities: they come back with the drawn tokens, in a
// copy of limited size. An engine that may run more requests refuses to report them.
inline constexpr std::uint32_t kMaxScoredRequests = 4096;
[[nodiscard]] inline bool TellsLogprobs(const EngineOptions& options) {
  return std::min(options.max_running_requests, options.max_batch_tokens) <= kMaxScoredRequests;
}

// Not thread-safe: all calls come from the engine thread. `model` and `clock` outlive it.
class Engine {
 public:
  Engine(Model& model, const Clock& clock, EngineOptions options);
  ~Engine();

  // Accepts a request. kOverloaded when the queue is full; kContextTooLong and kInvalidArgument when it can never run.
  // Output ends with kLength at max_output_tokens or at the end of the context, whichever comes first. The deadline and
  // the waiting time count from `received`, by default now. The first step after the deadline ends the request with
  // kDeadlineExceeded, whether it waits or runs.
  [[nodiscard]] Result<void> Submit(LinkId link, wire::Generate request,
                                    std::optional<Instant> received = std::nullopt);

  // Ends a request; its event with kCancelled is in the next report. Unknown ids are ignored: the request may have just
  // ended.
  void Cancel(RequestKey key);

  // Ends all requests of a link without events, because they would not be read.
  void CancelLink(LinkId link);

  // Carries out an order on the cache. Returns the reply, or nothing when it comes with a later report.
  //
  //   Pin           the ready blocks at once, the others as they become ready; see wire::Pin
  //   Unpin         removes the pins of these blocks
  //   Evict         erases what the order names; see wire::Evict. At most kErasedPerStep blocks leave in one step, so
  //                 the next step and perhaps others after it do it; the reply is in the report of the last one. While
  //                 kMaxEvictions are open it is refused at once
  //   WantPrefixes  the prefixes that requests found most often. O(blocks)
  //   Hold          holds what is here of the blocks, and takes what comes for it (see Arrivals). The reply comes
  //                 with the report of the step that ends it. Refused without a receipt, and when there are too many
  static constexpr std::uint32_t kErasedPerStep = 4096;
  static constexpr std::size_t kMaxEvictions = 16;
  [[nodiscard]] std::optional<OrderReply> CarryOut(LinkId link, EngineOrder order,
                                                   std::optional<HoldReceipt> receipt = std::nullopt);

  // Takes what has come for Holds, for the next step. Call it before the orders are carried out that may wait: a Hold
  // is ordered before anything comes for it, so then each that this tells of has been carried out when the step begins.
  void TakeNews();

  // True if there is something to compute or to report.
  [[nodiscard]] bool HasWork() const;
  // True if requests wait for their automata. That is nothing to compute here; who tells routers of this engine tells
  // them from time to time that it goes on.
  [[nodiscard]] bool AwaitsGrammars() const;
  // Set while blocks from elsewhere are awaited: the time of the next step even if nothing comes. Who tells routers of
  // this engine tells them from time to time that it goes on.
  [[nodiscard]] std::optional<Instant> AwaitsBlocksUntil() const;

  // Runs one step. Without work the report has only the load.
  [[nodiscard]] StepReport Step();

  // See Model::SetPulse. Not within a step.
  void SetPulse(std::function<void()> pulse);

  // All ready blocks, parents before children.
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const;

  // The blocks on disk, parents before children.
  [[nodiscard]] std::vector<wire::StoredRun> DiskSnapshot() const;

  // ServableContext of the engine's model.
  [[nodiscard]] std::uint32_t max_context_tokens() const;

  // The invariants of scheduler and cache. O(blocks); for tests and for debugging a daemon.
  [[nodiscard]] Result<void> CheckInvariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace roost::worker

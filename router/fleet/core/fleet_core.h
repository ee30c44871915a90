// The fleet as a state machine: workers connect, report, fall silent and leave; requests are routed, streamed, moved
// and ended. It has no sockets, threads or clock: messages and instants go in, effects come out. fleet.h puts it behind
// a socket.
//
//   connection unknown  anything but hello       → WantHello (at most one per second and sender)
//   hello               of another major version → Refused; nothing else changes
//                       same process and epoch   → Welcome again, over the hello's connection
//                       same process, new epoch  → the old epoch is lost; Welcome, and WantTokenizer if the router does
//                                                  not have its bundle
//                       name of another process  → Refused, until that one is lost or was silent for kTakeOverSilence
//   step, snapshot      next in sequence         → tokens to their requests, events to the index, load to the decision
//                       came before              → ignored
//                       gap, or another epoch    → the worker is lost; WantHello
//                       digest or count differ   → WantSnapshot
//   bye, malformed, unreachable, silent, stalled → the worker is lost
//
// When a worker is lost, its part of the index is removed, and its requests continue on other workers with the tokens
// that they have so far.
//
// Not thread-safe. The constructor's arguments outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/rng.h"
#include "router/fleet/core/fleet_journal.h"
#include "router/fleet/core/handovers.h"
#include "router/fleet/core/model_arrivals.h"
#include "router/fleet/core/orders.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/fleet_snapshot.h"
#include "router/fleet/forwards/forward_table.h"
#include "router/fleet/requests/request_table.h"
#include "router/fleet/workers/worker_registry.h"
#include "router/index/prefix_index.h"
#include "router/route/policy.h"

namespace roost::router {

struct FleetCoreOptions {
  // Workers report at least every 250 ms, so this is the time of eight reports; longer if they come late (LinkSilence).
  Duration worker_timeout = std::chrono::seconds(2);
  Duration ping_interval = std::chrono::seconds(1);
  RequestTableOptions requests;
  ForwardTableOptions forwards;
  ModeOptions modes;
  // Time without progress after which an engine with work counts as hung; longer if its steps take long (EngineWatch).
  Duration stall_timeout = std::chrono::seconds(10);
  std::uint64_t index_memory_bytes = kDefaultIndexMemoryBytes;  // of all models together
  // Routers that share the limits of API keys, at most, whatever workers report.
  std::uint32_t max_routers = 16;
  std::size_t max_pending_effects = 8192;  // above it Submit returns kOverloaded: the link thread does not keep up
  std::function<std::int64_t()> unix_seconds = [] { return std::int64_t{0}; };
  wire::PeerVersion version = {};  // told to workers
};

class FleetCore {
 public:
  // Another process may take over a worker's name once that worker has been silent for this long.
  static constexpr Duration kTakeOverSilence = std::chrono::seconds(2);

  // `seed` differs in every process: request ids and the router's instance number come from it.
  FleetCore(FleetCoreOptions options, Policy& policy, FleetMetrics& metrics, std::uint64_t seed);

  // ---- from the link; `now` never goes back ----
  void OnMessage(const std::string& identity, wire::WorkerMessage message, Instant now);
  void OnMalformed(const std::string& identity, const Error& error, Instant now);
  // A hello whose sender's key may not have its name or model. The connection belongs to no worker any more.
  void RefuseHello(const std::string& identity, const wire::Hello& hello, const Error& error, Instant now);
  // A message could not be sent over this connection. Its worker is lost, unless this process itself was paused just
  // now: then the worker may have connected again, and has the worker timeout to say so.
  void OnUnreachable(const std::string& identity, Instant now);
  // The result of a ReadBundle effect.
  void OnTextBundle(const std::string& digest, TextBundle bundle, Instant now);
  void OnBundleFault(const std::string& digest, const BundleError& error, Instant now);
  // Call it several times a second. Handles silence, pings, late snapshots, waiting requests and gauges. If two ticks
  // are half the worker timeout or more apart, this process itself was paused, and the gap does not count as silence.
  // Nor does what has come and is not read, except where it is never all read.
  enum class Inbox : std::uint8_t { kRead, kMoreWaits };
  void Tick(Instant now, Inbox inbox = Inbox::kRead);

  // ---- from clients: see Dispatcher, RequestTable and Orders ----
  [[nodiscard]] Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer,
                                         std::span<const WorkerMatch> matches, Instant now);
  [[nodiscard]] Result<RequestId> Forward(ForwardSpec spec, std::shared_ptr<ForwardObserver> observer, Instant now);
  void Grant(RequestId id, std::size_t bytes) { forwards_.Grant(id, bytes); }
  void Cancel(RequestId id);
  // `matches` is MatchesOf(order).
  [[nodiscard]] Result<void> Send(Order order, std::span<const WorkerMatch> matches, Instant now, AnswersDone done);
  // The result of a PromptQuery.
  [[nodiscard]] Result<PromptMatch> Match(const PromptQuery& query, std::span<const WorkerMatch> matches, Instant now) {
    return orders_.Match(query, matches, now);
  }

  // All that Dispatcher::View shows. O(workers + the decision log · candidates).
  [[nodiscard]] FleetSnapshot Snapshot(Instant now);
  // Its parts.
  [[nodiscard]] const std::shared_ptr<const ModelDirectory>& models() const {
    return worker_registry_.revisions().directory();
  }
  [[nodiscard]] std::vector<WorkerStatus> Workers(Instant now);
  [[nodiscard]] FleetStanding Standing(Instant now);
  [[nodiscard]] std::vector<QueueStatus> Queues(Instant now) const { return requests_.waiting().Statuses(now); }
  [[nodiscard]] std::uint32_t router_count();

  [[nodiscard]] const DecisionLog& decisions() const { return requests_.decider().log(); }

  // Ends all requests; from now on Submit returns kUnavailable.
  void Shutdown();

  // The driver must carry them out in this order.
  [[nodiscard]] std::vector<Effect> TakeEffects() { return effects_.Take(); }
  [[nodiscard]] std::size_t request_count() const { return requests_.size(); }
  [[nodiscard]] std::size_t forward_count() const { return forwards_.size(); }
  [[nodiscard]] std::size_t waiting_count() const { return requests_.waiting().size(); }
  [[nodiscard]] std::size_t copy_count() const { return requests_.copies().size(); }
  [[nodiscard]] std::size_t hold_count() const { return requests_.copies().holds().size(); }
  [[nodiscard]] std::size_t handover_count() const { return handovers_.size(); }
  [[nodiscard]] std::size_t pending_count() const { return worker_registry_.pending().size(); }
  [[nodiscard]] std::uint64_t indexed_block_count() const { return worker_registry_.revisions().indexed_block_count(); }

 private:
  // An error when clients' requests can not be sent now.
  [[nodiscard]] Result<void> CheckOpen() const;
  [[nodiscard]] Result<void> Await(const ModelAwaited& awaited, Instant now, AnswersDone done);
  void OnHello(const std::string& identity, const wire::Hello& hello, Instant now);
  // False when another process has the name; then it refuses the hello.
  [[nodiscard]] bool YieldsName(Worker& worker, const std::string& identity, const wire::Hello& hello, Instant now);
  void Begin(const std::string& identity, const wire::Hello& hello, Instant now);
  void OnStep(Worker& worker, wire::Step step, Instant now);
  void OnSnapshot(Worker& worker, const wire::Snapshot& chunk, Instant now);
  void OnTokenizer(const Worker& worker, wire::Tokenizer bundle);
  void OnBye(const Worker& worker, const wire::Bye& bye, Instant now);

  // True when the message was accepted. If not, the worker may be gone.
  [[nodiscard]] bool Settle(Worker& worker, ViewSync::Outcome outcome, Instant now);
  void Lose(const std::string& worker_id, LostReason reason, Instant now);
  // It has left or is lost: its requests move to other workers.
  Aftermath Remove(const std::string& worker_id, Instant now);
  // The worker is new, or its tokenizer was read: sends the requests that were held for its model.
  void TellArrivals(Instant now);
  // Notes what has changed since the last call.
  void Observe(Instant now);
  void AskForHello(const std::string& identity, Instant now);
  void AskForBundle(const Worker& worker, Instant now);
  void SendPing(const Worker& worker);
  void Welcome(const std::string& identity, const wire::Hello& hello);
  void TellNeighbours(const Worker& joined);
  void Refuse(const wire::Hello& hello, const std::string& identity, wire::RefusalCause cause, const Error& error);
  void LoseHungWorkers(Instant now);
  void ForgiveOwnPause(Instant now);
  // Was this process paused just now?
  [[nodiscard]] bool HasPaused(Instant now) const {
    return now < recovered_at_ || (last_tick_ && now - *last_tick_ >= options_.worker_timeout / 2);
  }
  void LoseSilentWorkers(Instant now, Inbox inbox);
  void PublishGauges(Instant now);
  void ListTransfers(Instant now);

  const FleetCoreOptions options_;
  FleetMetrics& metrics_;
  const std::uint64_t router_instance_;
  EffectQueue effects_;
  WorkerRegistry worker_registry_;
  RequestTable requests_;
  ForwardTable forwards_;
  Orders orders_;
  Handovers handovers_;
  Arrivals arrivals_;
  FleetJournal journal_;
  std::shared_ptr<const std::vector<TransferPair>> transfers_ = std::make_shared<const std::vector<TransferPair>>();
  std::uint64_t listed_change_ = 0;  // of Transfers, when they were listed
  Instant list_transfers_at_{};      // not before then

  bool shut_down_ = false;
  std::optional<Instant> last_tick_;
  Instant recovered_at_{};  // from its last pause: the worker timeout after it
  Instant inbox_read_at_{};
  Instant last_ping_{};
  std::map<std::string, Instant> hello_asked_;  // by identity; those of the last second
  // By name and process of a worker, so that a repetition is not logged.
  std::map<std::pair<std::string, std::uint64_t>, wire::RefusalCause> refusals_;
};

}  // namespace roost::router

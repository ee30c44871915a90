// The fleet behind its socket: FleetCore, the link thread that drives it, and the Dispatcher that HTTP threads call.
//
//   http threads    match in the model's index (shared), decide under the mutex, ring the bell
//   link thread     receive and decode → core under the mutex → encode and send, call observers (no lock held)
//   reader thread   reads tokenizer bundles, then tells the core under the mutex
//
// HTTP threads reach the link thread through the queue of the core's effects. The queue is bounded; when it is full,
// Submit returns kOverloaded. Only the link thread calls observers, one at a time; they may call Submit and Cancel.
//
// **The age of a View.** The link thread makes a snapshot in each of its turns, and turns whenever a message comes, a
// thread rings, and every 100 ms. So a view is as old as the time since the last of these. To take at most a hundredth
// of the thread's time, it waits a hundred times as long as the last snapshot took, and a millisecond at least, before
// it makes the next: some milliseconds with ten workers, tens with a hundred. Two changes show at once, before anybody
// is told of them: the models that are served, and what an order did.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/turn_count.h"
#include "common/wire/socket.h"
#include "router/fleet/core/fleet_core.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/fleet_snapshot.h"
#include "router/fleet/workers/bundle_reader.h"
#include "router/route/policy.h"

namespace roost::router {

struct FleetOptions {
  std::string bind = "tcp://127.0.0.1:7001";  // port 0: a free one, see Fleet::endpoint
  wire::InsecureBind insecure_bind = wire::InsecureBind::kRefuse;
  std::optional<wire::ServerKeys> link_keys;  // none: anyone may pose as a worker
  std::string policy = "cache-aware";         // see MakePolicy
  FleetCoreOptions core;
  // Byte budgets; null: no bound. input_budget covers tokenizers while they are read, frame_budget covers workers'
  // messages while they arrive.
  std::shared_ptr<ByteBudget> input_budget;
  std::shared_ptr<ByteBudget> frame_budget;
  SubmitHook on_submit;  // null: none
};

class Fleet final : public Dispatcher {
 public:
  // Binds and starts the threads. `read_bundle` is ReadTextBundle, except in tests; `metrics` outlives the fleet.
  // Errors: unknown policy, an endpoint that can not be bound.
  [[nodiscard]] static Result<std::unique_ptr<Fleet>> Start(const FleetOptions& options, BundleReader::Read read_bundle,
                                                            FleetMetrics& metrics);
  ~Fleet() override;

  // Ends all requests with kUnavailable and joins the threads. Submit fails from then on. An observer must not call it.
  // A second call does nothing.
  void Stop();

  // Has the link thread turned since the call before? Asks it for another turn. One thread at a time.
  [[nodiscard]] bool LinkTurns();

  // The bound address, with the actual port.
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }

  [[nodiscard]] Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) override;
  void Cancel(RequestId id) override;
  [[nodiscard]] Result<RequestId> Forward(ForwardSpec spec, std::shared_ptr<ForwardObserver> observer) override;
  void Grant(RequestId id, std::size_t bytes) override;
  [[nodiscard]] Result<void> Send(Order order, AnswersDone done) override;
  [[nodiscard]] std::shared_ptr<const FleetSnapshot> View() const override;

 private:
  struct Incoming {
    std::string identity;
    std::string public_key;
    Result<std::optional<wire::WorkerMessage>> message;
  };

  Fleet(const FleetOptions& options, std::unique_ptr<Policy> policy, FleetMetrics& metrics);

  [[nodiscard]] Result<void> Bind(const FleetOptions& options);
  void StartThreads(BundleReader::Read read_bundle);
  void RunLink();
  [[nodiscard]] std::vector<Incoming> ReceiveBatch();
  [[nodiscard]] std::vector<Effect> Feed(std::vector<Incoming> batch, FleetCore::Inbox inbox);
  void FeedOne(Incoming incoming, Instant now);
  // May the sender of a hello have its name and model?
  [[nodiscard]] Result<void> CheckHello(const std::string& public_key, const wire::Hello& hello) const;
  // Swaps in a new view if it is time, or if `effects` answer an order. With the mutex.
  void Publish(const std::vector<Effect>& effects);
  // The link thread may wait this long for messages: until its next tick, or until a view is due.
  [[nodiscard]] std::chrono::milliseconds Patience() const;
  // Carries out `effects`, and those that follow from them, until none is left.
  void CarryOutAll(std::vector<Effect> effects);
  // False when the effect was a message to a worker that can not be reached.
  [[nodiscard]] bool CarryOut(Effect& effect);

  const SteadyClock clock_;
  FleetMetrics& metrics_;
  const std::shared_ptr<ByteBudget> input_budget_;  // null: no bound
  const std::shared_ptr<wire::LinkGuard> guard_;    // null: no keys
  const std::unique_ptr<Policy> policy_;            // used only by the core

  const SubmitHook on_submit_;  // null: none

  std::mutex mutex_;
  FleetCore core_;  // guarded by mutex_

  mutable std::mutex view_mutex_;
  std::shared_ptr<const FleetSnapshot> view_;  // guarded by view_mutex_, not null
  Instant next_view_{};                        // link thread: when the next one may be made
  bool view_is_due_ = false;                   // link thread: a turn made none, because it was too early

  std::string endpoint_;  // constant after Bind
  wire::Context context_;
  std::optional<wire::RouterSocket> socket_;  // link thread, once started
  wire::Waker waker_;
  Instant last_tick_{};  // link thread
  TurnCount turns_;

  std::atomic<bool> stopping_ = false;
  std::optional<BundleReader> bundle_reader_;
  std::thread link_;
};

}  // namespace roost::router

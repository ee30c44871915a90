// The fleet behind its socket: FleetCore, the link thread that drives it, and the Dispatcher that HTTP threads call.
//
//   http threads    match in the model's index (shared), decide under the mutex, ring the bell
//   link thread     receive and decode → core under the mutex → encode and send, call observers (no lock held)
//   reader thread   reads tokenizer bundles, then tells the core under the mutex
//
// The link thread holds the mutex for one message at a time; between messages it lets waiting HTTP threads go first.
//
// HTTP threads reach the link thread through the queue of the core's effects. The queue is bounded; when it is full,
// Submit returns kOverloaded. Only the link thread calls observers, one at a time; they may call Submit and Cancel.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/turn_count.h"
#include "common/wire/socket.h"
#include "router/fleet/bundle_reader.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_core.h"
#include "router/fleet/fleet_metrics.h"
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

  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> RevisionsOf(std::string_view name) const override;
  [[nodiscard]] std::shared_ptr<const ServedModel> FindModel(std::string_view name) const override;
  [[nodiscard]] std::shared_ptr<const ServedModel> ChooseModel(std::string_view name) override;
  [[nodiscard]] bool IsExpected(std::string_view model) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> Models() const override;
  [[nodiscard]] std::vector<WorkerStatus> Workers() const override;
  [[nodiscard]] std::vector<QueueStatus> Queues() const override;
  [[nodiscard]] FleetStanding Standing() const override;
  [[nodiscard]] std::optional<std::string> KnownModel(std::string_view name) const override;
  [[nodiscard]] bool IsArriving(std::string_view model) const override;
  [[nodiscard]] bool WhenServed(std::string_view model, std::function<void()> go) override;
  [[nodiscard]] std::uint32_t RouterCount() const override { return router_count_; }
  [[nodiscard]] Result<void> CheckRoom(const ServedModel& model) const override;
  [[nodiscard]] Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) override;
  [[nodiscard]] Result<void> Pin(PinOrder order, AnswersDone done) override;
  [[nodiscard]] Result<void> MostUsed(PrefixesQuestion question, AnswersDone done) override;
  [[nodiscard]] Result<void> Warm(WarmOrder order, AnswersDone done) override;
  [[nodiscard]] Result<void> Evict(EvictOrder order, AnswersDone done) override;
  [[nodiscard]] Result<void> Cordon(CordonOrder order, AnswersDone done) override;
  [[nodiscard]] Result<PromptMatch> Match(PromptQuery query) override;
  [[nodiscard]] std::vector<DecisionRecord> LatestDecisions(std::size_t limit) const override;
  [[nodiscard]] std::vector<DecisionRecord> FindDecisions(std::string_view id) const override;
  void Cancel(RequestId id) override;

 private:
  struct Incoming {
    std::string identity;
    std::string public_key;
    Result<std::optional<wire::WorkerMessage>> message;
  };

  // Holds the mutex for an HTTP thread.
  class Turn;

  Fleet(const FleetOptions& options, std::unique_ptr<Policy> policy, FleetMetrics& metrics);

  [[nodiscard]] Result<void> Bind(const FleetOptions& options);
  void StartThreads(BundleReader::Read read_bundle);
  void RunLink();
  [[nodiscard]] std::vector<Incoming> ReceiveBatch();
  [[nodiscard]] std::vector<Effect> Feed(std::vector<Incoming> batch);
  void FeedOne(Incoming incoming, Instant now);
  // May the sender of a hello have its name and model?
  [[nodiscard]] Result<void> CheckHello(const std::string& public_key, const wire::Hello& hello) const;
  // Call it without the mutex. Waits until the threads that want the mutex have had it, or some time has passed.
  void LetOthersIn() const;
  // Carries out `effects`, and those that follow from them, until none is left.
  void CarryOutAll(std::vector<Effect> effects);
  // False when the effect was a message to a worker that can not be reached.
  [[nodiscard]] bool CarryOut(Effect& effect);

  const SteadyClock clock_;
  FleetMetrics& metrics_;
  const std::shared_ptr<ByteBudget> input_budget_;  // null: no bound
  const std::shared_ptr<wire::LinkGuard> guard_;    // null: no keys
  const std::unique_ptr<Policy> policy_;            // used only by the core

  mutable std::mutex mutex_;
  mutable FleetCore core_;                                  // guarded by mutex_
  mutable std::atomic<std::uint32_t> waiting_threads_ = 0;  // HTTP threads that want the mutex

  std::string endpoint_;  // constant after Bind
  wire::Context context_;
  std::optional<wire::RouterSocket> socket_;  // link thread, once started
  wire::Waker waker_;
  Instant last_tick_{};  // link thread
  TurnCount turns_;
  std::atomic<std::uint32_t> router_count_ = 1;

  std::atomic<bool> stopping_ = false;
  std::optional<BundleReader> bundle_reader_;
  std::thread link_;
};

}  // namespace roost::router

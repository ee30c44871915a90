// The thread of a worker that stands beside an engine of another program: an EngineHost whose engine answers over HTTP.
//
//   link thread ─ inbox ─► commands ─► AdapterEngine ◄─► HttpCalls ◄─► engine
//                                      ForwardCalls  ◄──────┘
//              ◄─ outbox ─ reports ◄──┘    BlockSource ◄─ events ────┘
//
// A round: commands, arrivals over HTTP and from the block source, timers; then one StepReport if there is anything to
// tell. Output that does not fit the outbox is dropped, and an OutputLost follows as soon as there is room, as from the
// thread of an own engine (engine_thread.h). Pins are refused, and no prefix is told: the engine's cache is its own. So
// are evictions, but of slots that are saved.
//
// Threads: as EngineHost says. The block source and the calls are used on the engine's thread only, once it is started.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"
#include "worker/adapters/block_source.h"
#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/events/event_feed.h"
#include "worker/adapters/forward_calls.h"
#include "worker/adapters/host/adapter_engine.h"
#include "worker/adapters/http_calls.h"
#include "worker/adapters/slots/slot_shelf.h"
#include "worker/adapters/slots/slot_table.h"
#include "worker/engine_api/engine_host.h"
#include "worker/engine_api/engine_outbox.h"
#include "worker/engine_api/exchange.h"
#include "worker/engine_api/stall_watch.h"
#include "worker/engine_api/worker_engine.h"

namespace roost::worker::adapters {

struct AskTimes {
  Duration patience = std::chrono::seconds(900);    // an engine may load its model for minutes
  Duration pause = std::chrono::milliseconds(500);  // between two attempts
};

// Asks the engine what it is, again and again until it answers or the patience is over. Waits meanwhile; a Wake of the
// calls ends a pause. kUnavailable, with the last reason, when the time is over; other errors at once.
[[nodiscard]] Result<EngineFacts> AskForFacts(const EngineProtocol& protocol, HttpCalls& calls, const Clock& clock,
                                              AskTimes times);

// Ranks of one engine go together: the host that misses the engine first has the others look at once, so that no
// request is sent from one dead rank to the next. Thread-safe.
class RankAlarm {
 public:
  // The calls outlive their membership.
  void Join(HttpCalls& calls);
  void Leave(HttpCalls& calls);
  // Wakes all members.
  void Ring();
  // How often it has rung.
  [[nodiscard]] std::uint64_t count() const { return count_.load(); }

 private:
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;
  std::set<HttpCalls*> members_;  // guarded by mutex_
};

class AdapterHost final : public EngineHost {
 public:
  struct Setup {
    const EngineProtocol& protocol;
    EngineFacts facts;  // of AskForFacts
    AdapterOptions options;
    std::unique_ptr<HttpCalls> calls = nullptr;
    std::unique_ptr<BlockSource> blocks = nullptr;                     // null: the worker sends no cache events
    std::shared_ptr<RankAlarm> alarm = std::make_shared<RankAlarm>();  // of the engine's ranks; not null
  };

  // `clock` and `waker` outlive it. The waker is rung after each output.
  AdapterHost(Setup setup, const Clock& clock, const wire::Waker& waker);
  ~AdapterHost() override;
  AdapterHost(const AdapterHost&) = delete;
  AdapterHost& operator=(const AdapterHost&) = delete;

  void Start() override;
  void Stop() override;

  [[nodiscard]] bool TryPost(EngineCommand&& command) override;
  [[nodiscard]] bool HasRoomForRequest() const override { return inbox_.size() < kInboxRequestLimit; }
  [[nodiscard]] std::optional<EngineOutput> TryTake() override { return outbox_.TryTake(); }
  // Watches the rounds. An engine that hangs is no stall of this thread: EngineStanding tells of it.
  [[nodiscard]] const StallWatch& stall_watch() const override { return stall_watch_; }

  // Fills in the hello's fields about this engine: sizes, limits, features; not its model and tokenizer.
  static void Describe(const EngineProtocol& protocol, const EngineFacts& facts, const AdapterOptions& options,
                       wire::Hello& hello);

 private:
  static AdapterOptions WithOwnIds(AdapterOptions options);
  void Run();
  void Wait();
  [[nodiscard]] Duration TimeToNextRound() const;
  void DrainInbox();
  void PollBlocks();
  void FollowAlarm();
  void PublishRound();
  [[nodiscard]] StepReport MakeReport();
  void PublishForwarded();
  void PublishStanding();
  void PublishSnapshot();

  void Apply(SubmitCommand command);
  void Apply(const CancelCommand& command);
  void Apply(const CancelLinkCommand& command);
  void Apply(ForwardPart command);
  void Apply(const SnapshotCommand&) { snapshot_wanted_ = true; }
  void Apply(const OrderCommand& command) {
    const auto* const evict = std::get_if<wire::Evict>(&command.order);
    if (evict != nullptr && engine_.evicts()) return engine_.Evict(command.link, *evict);
    outbox_.Answer({command.link, RefusalOf(command.order)});
  }
  void Apply(const NudgeCommand&) {}

  const Clock& clock_;
  const std::unique_ptr<HttpCalls> calls_;
  const std::unique_ptr<BlockSource> blocks_;
  const std::shared_ptr<RankAlarm> alarm_;
  BoundedQueue<EngineCommand> inbox_{kInboxCapacity};
  EngineOutbox outbox_;
  std::atomic<bool> stopping_{false};
  StallWatch stall_watch_;
  std::thread thread_;

  // The engine thread's own.
  AdapterEngine engine_;
  ForwardCalls forwards_;
  std::vector<wire::CacheEvent> events_;  // for the next report
  std::optional<EngineStanding> told_standing_;
  std::uint64_t seen_alarms_ = 0;
  bool was_away_ = false;
  bool blocks_wait_ = false;  // the source has more
  bool snapshot_wanted_ = false;
};

// A worker's engine that is another program's: the facts that it told, the host that talks to it, and what follows from
// them for the hello.

// The addresses of an engine.
struct EngineAddress {
  HttpOptions http;
  std::string events_endpoint = {};  // tcp://HOST:PORT; empty: no events, so the router goes by its own history
  std::string replay_endpoint = {};
  std::string events_absence = {};          // why events_endpoint is empty, and what would change that; for operators
  std::string prompts_absence = {};         // the same of prompts that routers can not read; then there are no events
  std::optional<SlotDirectory> slots = {};  // none: none is saved
};

// An engine that has answered.
struct ConnectedEngine {
  const EngineProtocol* protocol = nullptr;
  EngineFacts facts;
  AdapterOptions options;
  std::unique_ptr<HttpCalls> calls = nullptr;
  std::unique_ptr<EventFeed> feed = nullptr;   // null: without events
  std::unique_ptr<SlotTable> slots = nullptr;  // of an engine whose slots are chosen here
  std::string cache_absence = {};              // why; see wire::Hello
  std::shared_ptr<RankAlarm> alarm = {};       // which all of the engine's ranks share
};

// Waits until the engine answers, at most for `patience`. kUnavailable: no answer. kInvalidArgument (engine-url): the
// address is wrong, or the engine is none that Roost can stand for.
[[nodiscard]] Result<EngineFacts> AwaitEngine(const EngineProtocol& protocol, const HttpOptions& http,
                                              const Clock& clock, Duration patience);

// As AwaitEngine, and waits for the first replay of its events. One for each of
// its ranks, whose events come from `address` with the rank's number added to the ports. `scope` is that of requests
// without tenant, salt and adapter; its block_tokens are filled in. kUnavailable: no answer. kInvalidArgument
// (engine-url, engine-events or engine-replay): an address is wrong, or the engine is none that Roost can stand for.
[[nodiscard]] Result<std::vector<ConnectedEngine>> ConnectEngine(const EngineProtocol& protocol,
                                                                 const EngineAddress& address,
                                                                 const AdapterOptions& options, PrefixScope scope,
                                                                 const Clock& clock, Duration patience);

class AdapterWorker final : public WorkerEngine {
 public:
  AdapterWorker(ConnectedEngine engine, const EngineSurroundings& surroundings);

  [[nodiscard]] EngineHost& host() override { return host_; }
  void Describe(wire::Hello& hello) const override;
  [[nodiscard]] DiskStart Disk() override;

 private:
  const EngineProtocol& protocol_;
  const EngineFacts facts_;
  const AdapterOptions options_;
  const bool sends_events_;
  const std::string cache_absence_;
  const bool evicts_;
  const bool checkpoints_;  // as the first replay told
  const DiskStart disk_;
  AdapterHost host_;
};

}  // namespace roost::worker::adapters

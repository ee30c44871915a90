// The worker's link thread: a LinkCore with sockets, the engine's queues and a clock. One dealer socket per router
// address.
//
//   names ─ Resolver ─► addresses ─► dealers ◄──► LinkCore ◄──► EngineHost
//
// A handshake that fails is logged, and the router is dialled again: with keys as its next key (router_keys.h).
//
// Threads: all public functions may be called from any thread; the rest happens on the link thread. The constructor's
// references outlive it. It starts and stops the resolver; its caller starts and stops the engine's host.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/socket.h"
#include "worker/engine_api/engine_host.h"
#include "worker/engine_api/stall_watch.h"
#include "worker/link/link_core.h"
#include "worker/link/link_status.h"
#include "worker/link/resolver.h"
#include "worker/link/router_keys.h"

namespace roost::worker {

// Called on the link thread with events for metrics.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  virtual void OnStep(const StepReport& report) = 0;
  struct Links {
    std::size_t up = 0;
    std::size_t down = 0;
    bool engine_is_away = false;
  };
  // Called after each round.
  virtual void OnRound(const LinkCounts& counts, Links links) = 0;
};

class LinkThread final : private LinkEffects {
 public:
  // `keys` of the links; without, they are open.
  LinkThread(LinkCore::Setup setup, Resolver::Options routers, std::optional<RouterKeys> keys, const Clock& clock,
             const wire::Waker& waker, EngineHost& engine, LinkObserver& observer);
  ~LinkThread() override;
  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  void Start();
  // From now on new requests are refused.
  void BeginDrain();
  [[nodiscard]] bool is_draining() const { return draining_.load(); }
  // No other worker can continue what this one has begun, as its routers say.
  [[nodiscard]] bool is_sole() const { return sole_.load(); }
  // The reason why the engine takes no requests now; empty if it takes them.
  [[nodiscard]] std::string EngineAbsence() const;
  // The view that each router has of this worker. Without addresses of routers there are none.
  [[nodiscard]] std::vector<RouterStatus> Routers() const;
  [[nodiscard]] const StallWatch& stall_watch() const { return stall_watch_; }
  // Waits until a router has welcomed the worker. False after `timeout`.
  [[nodiscard]] bool WaitForRouter(std::chrono::milliseconds timeout);
  // Waits until draining has begun and no request is left. False after `timeout`.
  [[nodiscard]] bool WaitForDrained(std::chrono::milliseconds timeout);
  // Waits until, besides, the routers have handed over what others shall hold: see LinkCore. False after `timeout`.
  [[nodiscard]] bool WaitForHandedOver(std::chrono::milliseconds timeout);
  // Says goodbye and ends. Idempotent.
  void Stop();

 private:
  struct Peer {
    PeerId id;
    wire::DealerSocket socket;
    std::optional<wire::ClientKeys> keys = {};  // of the socket
    KeyTurn key_turn = {};
    std::string told = {};  // the last logged failure; empty once the link is up
  };
  using Peers = std::map<std::string, Peer>;  // by endpoint

  wire::SendOutcome Send(PeerId peer, const wire::WorkerMessage& message) override;
  void Redial(PeerId peer) override;
  [[nodiscard]] bool Submit(EngineCommand command) override;
  void Command(EngineCommand command) override;

  void Run();
  void Round();
  void ApplyAddresses();
  void ApplyDrain();
  void Reach(bool& milestone);
  void PublishStatuses();
  [[nodiscard]] bool WaitFor(const bool& milestone, std::chrono::milliseconds timeout);
  void Connect(const std::string& endpoint);
  [[nodiscard]] std::optional<wire::ClientKeys> KeysFor(std::size_t turn);
  void LookAtHandshake(const std::string& endpoint, Peer& peer);
  [[nodiscard]] Peers::value_type& EntryOf(PeerId id);
  void FlushBacklog();
  void ReceiveFrom(Peer& peer);
  void ReceiveOutputs();
  void Wait();

  const Clock& clock_;
  const wire::Waker& waker_;
  EngineHost& engine_;
  LinkObserver& observer_;
  Resolver resolver_;
  std::thread thread_;
  std::atomic<bool> draining_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> sole_{false};
  StallWatch stall_watch_;

  mutable std::mutex told_mutex_;
  std::condition_variable milestone_reached_;
  // Guarded by told_mutex_.
  bool welcomed_ = false;
  bool drained_ = false;
  bool handed_over_ = false;
  std::vector<RouterStatus> statuses_;
  std::string engine_absence_;

  // Used by the link thread only. The context is declared before the sockets, so that they are destroyed first.
  wire::Context context_;
  std::optional<RouterKeys> keys_;
  Peers peers_;
  std::uint32_t next_peer_id_ = 1;
  std::deque<EngineCommand> backlog_;  // commands for which the inbox had no space; never requests
  bool drain_begun_ = false;
  LinkCore core_;
};

}  // namespace roost::worker

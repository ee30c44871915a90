// The engine's thread: drain the inbox → Step → publish. It waits only for commands, when there is nothing to compute.
// When the output queue is full it drops reports, and says so with OutputLost as soon as there is room. It takes a
// snapshot only when there is room for it.
//
// Threads: Start and Stop from the owner; Post, HasRoom and TryTake from the link thread alone; Nudge from any.
// Everything about the engine itself happens on the engine thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/wire/socket.h"
#include "worker/engine/engine.h"
#include "worker/link/exchange.h"

namespace roost::worker {

inline constexpr std::size_t kInboxCapacity = 2048;
// The part of the inbox that requests leave free for cancels and snapshots.
inline constexpr std::size_t kInboxRequestLimit = 1024;
inline constexpr std::size_t kOutboxCapacity = 1024;

class EngineThread {
 public:
  // `engine` and `waker` outlive it. The waker is rung after each output. OpenMP teams started by this thread have
  // `compute_thread_count` threads; 0 leaves that to OpenMP.
  EngineThread(Engine& engine, const wire::Waker& waker, std::uint32_t compute_thread_count);
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  void Start();
  // Ends after the running step. Idempotent.
  void Stop();

  // False when the inbox is full; then `command` is untouched.
  [[nodiscard]] bool TryPost(EngineCommand&& command) { return inbox_.TryPush(std::move(command)); }
  // Ends a wait. An inbox that is full is not waited for.
  void Nudge() { (void)inbox_.TryPush(NudgeCommand{}); }
  [[nodiscard]] bool HasRoomForRequest() const { return inbox_.size() < kInboxRequestLimit; }
  [[nodiscard]] std::optional<EngineOutput> TryTake() { return outbox_.TryPop(); }

 private:
  void Run();
  void DrainInbox();
  void Round();
  void Publish(EngineOutput output);
  void PublishAnswers();
  void TellOfLoss();
  [[nodiscard]] bool CanPublish() const { return !output_lost_ && outbox_.size() < outbox_.capacity(); }

  void ApplyAny(EngineCommand command);
  void Apply(SubmitCommand command);
  void Apply(const CancelCommand& command) { engine_.Cancel(command.key); }
  void Apply(const CancelLinkCommand& command);
  void Apply(const SnapshotCommand&) { snapshot_wanted_ = true; }
  void Apply(const PinCommand& command);
  void Apply(const UnpinCommand& command);
  void Apply(EvictCommand command);
  void Apply(const WantPrefixesCommand& command);
  void Apply(const NudgeCommand&) {}

  const wire::Waker& waker_;
  const std::uint32_t compute_thread_count_;
  BoundedQueue<EngineCommand> inbox_{kInboxCapacity};
  BoundedQueue<EngineOutput> outbox_{kOutboxCapacity};
  std::atomic<bool> stopping_{false};
  std::thread thread_;

  // The engine thread's own.
  Engine& engine_;
  std::vector<RequestEvent> rejected_;  // answers to requests that the engine did not take
  std::vector<EngineAnswer> answers_;   // follow the next report
  bool snapshot_wanted_ = false;        // taken after the next step for whose report and snapshot there is room
  bool report_due_ = false;  // a command has changed the load, which is reported even if there is nothing to compute
  bool output_lost_ = false;
};

}  // namespace roost::worker

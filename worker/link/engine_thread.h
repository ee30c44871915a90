// The engine's thread: drain the inbox → Step → publish. It waits only for commands, and only when there is nothing to
// compute. When the output queue is full it drops reports, and sends OutputLost as soon as there is space. It takes a
// snapshot only when there is space for it.
//
// Threads: the owner calls Start and Stop; only the link thread calls TryPost, HasRoomForRequest and TryTake; any
// thread may call Nudge and ask the stall watch. The engine itself is used only on the engine thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/wire/socket.h"
#include "worker/engine/engine.h"
#include "worker/link/exchange.h"
#include "worker/link/stall_watch.h"

namespace roost::worker {

inline constexpr std::size_t kInboxCapacity = 2048;
// The limit for requests; the rest of the inbox is left for cancels and snapshots.
inline constexpr std::size_t kInboxRequestLimit = 1024;
inline constexpr std::size_t kOutboxCapacity = 1024;

class EngineThread {
 public:
  // `engine`, `clock` and `waker` outlive it. The waker is rung after each output. OpenMP teams that this thread starts
  // have `compute_thread_count` threads; with 0 OpenMP decides.
  EngineThread(Engine& engine, const Clock& clock, const wire::Waker& waker, std::uint32_t compute_thread_count);
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  void Start();
  // Ends after the running step. Idempotent.
  void Stop();

  // False when the inbox is full; then `command` is unchanged.
  [[nodiscard]] bool TryPost(EngineCommand&& command) { return inbox_.TryPush(std::move(command)); }
  // Wakes the engine thread. Does nothing if the inbox is full, because then the thread does not wait.
  void Nudge() { (void)inbox_.TryPush(NudgeCommand{}); }
  // Of steps: a step that hangs never ends.
  [[nodiscard]] const StallWatch& stall_watch() const { return stall_watch_; }
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
  StallWatch stall_watch_;
  std::thread thread_;

  // The engine thread's own.
  Engine& engine_;
  std::vector<RequestEvent> rejected_;  // answers to requests that the engine refused
  std::vector<EngineAnswer> answers_;   // sent after the next report
  bool snapshot_wanted_ = false;        // taken after the next step if there is space for its report and the snapshot
  bool report_due_ = false;             // a command has changed the load: report it even if there is nothing to compute
  bool output_lost_ = false;
};

}  // namespace roost::worker

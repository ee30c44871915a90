// The engine's thread: drain the inbox → Step → publish. It waits only for commands, and only when there is nothing to
// compute. When the output queue is full it drops reports, and sends OutputLost as soon as there is space. It takes a
// snapshot only when there is space for it.
//
// Threads: as of every host, and any thread may call Nudge. The engine itself is used only on the engine thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/wire/socket.h"
#include "worker/engine/engine.h"
#include "worker/engine_api/engine_host.h"
#include "worker/engine_api/engine_outbox.h"
#include "worker/engine_api/exchange.h"
#include "worker/engine_api/stall_watch.h"
#include "worker/transfer/frame_source.h"

namespace roost::worker {

class EngineThread final : public EngineHost {
 public:
  // `engine`, `clock` and `waker` outlive it. The waker is rung after each output.
  EngineThread(Engine& engine, const Clock& clock, const wire::Waker& waker);
  // Before anything is posted: from now on Holds are asked of `source`, which outlives it, as soon as they come; null:
  // they are refused. `travelling` tells what is on its way, from any thread.
  void SetTransfer(FrameSource* source, std::function<TravellingBytes()> travelling) {
    source_ = source;
    travelling_ = std::move(travelling);
  }
  ~EngineThread() override;
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  void Start() override;
  // After the running step.
  void Stop() override;

  [[nodiscard]] bool TryPost(EngineCommand&& command) override;
  // Wakes the engine thread. Does nothing if the inbox is full, because then the thread does not wait.
  void Nudge() { (void)inbox_.TryPush(NudgeCommand{}); }
  // Watches steps and their parts: a step that hangs never ends, and no part of it.
  [[nodiscard]] const StallWatch& stall_watch() const override { return stall_watch_; }
  [[nodiscard]] TravellingBytes travelling_bytes() const override {
    return travelling_ ? travelling_() : TravellingBytes();
  }
  [[nodiscard]] bool HasRoomForRequest() const override { return inbox_.size() < kInboxRequestLimit; }
  [[nodiscard]] std::optional<EngineOutput> TryTake() override { return outbox_.TryTake(); }

 private:
  [[nodiscard]] bool TryPostHold(OrderCommand& hold, EngineCommand& command);
  void Run();
  void DrainInbox();
  [[nodiscard]] Duration IdleWait() const;
  void Round();

  void ApplyAny(EngineCommand command);
  void Apply(SubmitCommand command);
  void Apply(const CancelCommand& command) { engine_.Cancel(command.key); }
  void Apply(const CancelLinkCommand& command);
  void Apply(const SnapshotCommand&) { snapshot_wanted_ = true; }
  void Apply(OrderCommand command);
  void Apply(const ForwardPart&) {}  // its hello names no routes
  void Apply(const NudgeCommand&) {}

  BoundedQueue<EngineCommand> inbox_{kInboxCapacity};
  EngineOutbox outbox_;
  std::atomic<bool> stopping_{false};
  StallWatch stall_watch_;
  std::thread thread_;
  const Clock& clock_;
  FrameSource* source_ = nullptr;  // constant since before the first post
  std::function<TravellingBytes()> travelling_;
  std::uint64_t last_hold_id_ = 0;  // the link thread's

  // The engine thread's own.
  Engine& engine_;
  bool snapshot_wanted_ = false;  // taken after the next step if there is space for its report and the snapshot
  bool report_due_ = false;       // a command has changed the load: report it even if there is nothing to compute
};

}  // namespace roost::worker

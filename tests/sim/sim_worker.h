// A worker of the simulation: the real engine with its scheduler and cache, and the real link's core, around a model of
// a few lines. A process that dies and comes back under the same name is a new SimWorker.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "tests/sim/sim_transfer.h"
#include "tests/support/fake_model.h"
#include "worker/engine/engine.h"
#include "worker/link/link_core.h"

namespace roost::sim {

class SimWorker final : private worker::LinkEffects {
 public:
  static constexpr std::uint32_t kBlockTokens = 4;
  static constexpr Duration kStepDuration = std::chrono::milliseconds(10);

  struct Setup {
    std::string id;
    std::uint32_t block_count = 48;
    bool sends_cache_events = true;
    std::uint64_t first_epoch = 1;
    std::uint32_t router_count = 1;
    bool exchanges_blocks = false;
  };
  using Carry = std::function<void(worker::PeerId router, wire::WorkerMessage message)>;

  // `carry` takes messages to their line, and `carry_blocks` those to other workers; `clock` outlives it.
  SimWorker(const Setup& setup, const Clock& clock, Carry carry, SimTransfer::Carry carry_blocks = {});

  void Receive(worker::PeerId router, wire::RouterMessage message) { core_.OnMessage(router, std::move(message)); }
  void Receive(const std::string& worker_id, TransferMessage message) {
    transfer_.Receive(worker_id, std::move(message));
  }
  // Back in service, as all its routers are told.
  void Uncordon() {
    for (std::uint32_t i = 0; i < setup_.router_count; ++i) core_.OnMessage(worker::PeerId(i), wire::Cordon{false});
  }
  // Runs what is due now: steps of the engine, snapshots, heartbeats, hellos, fetches.
  void Run();
  // The next report is lost before the link, as when the link falls behind the engine.
  void LoseNextReport() { lose_next_report_ = true; }
  void LoseNoReport() { lose_next_report_ = false; }

  [[nodiscard]] const std::string& id() const { return setup_.id; }
  [[nodiscard]] bool sends_cache_events() const { return setup_.sends_cache_events; }
  [[nodiscard]] bool is_idle() const {
    return !engine_.HasWork() && !engine_.AwaitsBlocksUntil() && !inbox_.has_news() && transfer_.is_idle();
  }
  [[nodiscard]] bool is_up() const { return core_.up_count() == setup_.router_count; }
  // The hashes of the blocks that its cache has ready.
  [[nodiscard]] std::set<BlockHash> Held() const;
  // Call them when it is idle: blocks that others may read, and blocks that something holds.
  [[nodiscard]] std::size_t ReadableCount() const { return readable_.size(); }
  [[nodiscard]] std::size_t CountHeldBlocks() { return engine_.Step().referenced_blocks; }
  // The ends of its Holds, by outcome.
  using HoldEnds = std::array<std::uint64_t, wire::kHoldOutcomeNames.size()>;
  [[nodiscard]] const HoldEnds& hold_ends() const { return hold_ends_; }

 private:
  void Redial(worker::PeerId /*peer*/) override {}
  wire::SendOutcome Send(worker::PeerId peer, const wire::WorkerMessage& message) override;
  bool Submit(worker::EngineCommand command) override;
  void Command(worker::EngineCommand command) override { static_cast<void>(Submit(std::move(command))); }

  void RunEngine();
  void Apply(worker::SubmitCommand& command);
  void Apply(const worker::CancelCommand& command) { engine_.Cancel(command.key); }
  void Apply(const worker::CancelLinkCommand& command) {
    engine_.CancelLink(command.link);
    report_due_ = true;
  }
  void Apply(const worker::ForwardPart&) {}  // its hello names no routes
  void Apply(const worker::NudgeCommand&) {}
  void Apply(const worker::SnapshotCommand&) { snapshot_wanted_ = true; }
  void Apply(const worker::OrderCommand& command);
  [[nodiscard]] bool IsStepDue() const;

  worker::EngineOptions OptionsOf(const Setup& setup);
  worker::LinkCore::Setup CoreSetup(const Setup& setup) const;

  const Setup setup_;
  const Clock& clock_;
  const Carry carry_;
  testing_support::FakeModel model_;
  worker::ReadableBlocks readable_;
  worker::FrameInbox inbox_;
  SimTransfer transfer_;
  worker::Engine engine_;
  worker::LinkCore core_;
  std::vector<worker::RequestEvent> rejected_;  // sent with the next report
  std::vector<worker::EngineAnswer> answers_;   // sent after the next report
  bool snapshot_wanted_ = false;
  bool report_due_ = false;
  bool lose_next_report_ = false;
  std::uint64_t last_hold_ = 0;
  HoldEnds hold_ends_{};
  Instant next_step_;
};

}  // namespace roost::sim

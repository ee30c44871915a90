// The link's core and a real engine under random requests, losses and routers, against routers that keep the naive
// view: a set of hashes, filled from snapshots and events. After each step that a router receives while it is
// synchronised, its view has the digest of that step; at the end it has what the engine has.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <set>

#include "common/base/rng.h"
#include "tests/support/fake_model.h"
#include "worker/engine/engine.h"
#include "worker/link/link_core.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kBlockTokens = 4;
constexpr std::uint32_t kBlockCount = 48;
constexpr std::size_t kOutboxLimit = 6;
constexpr std::array kPeers{PeerId(1), PeerId(2), PeerId(3)};

// A router's view, derived from its messages. It fails the test when the order or the digest is wrong.
class NaiveRouter {
 public:
  // The epoch to welcome, if the message is a hello.
  std::optional<std::uint64_t> Hear(const wire::WorkerMessage& message) {
    if (const auto* const hello = std::get_if<wire::Hello>(&message)) {
      *this = NaiveRouter();
      epoch_ = hello->epoch;
      return epoch_;
    }
    if (const auto* const chunk = std::get_if<wire::Snapshot>(&message)) Hear(*chunk);
    if (const auto* const step = std::get_if<wire::Step>(&message)) Hear(*step);
    return std::nullopt;
  }

  [[nodiscard]] bool in_step() const { return in_step_; }
  [[nodiscard]] const std::set<BlockHash>& view() const { return view_; }
  void LoseStep() { in_step_ = false; }
  std::size_t mismatch_count = 0;

 private:
  void Hear(const wire::Snapshot& chunk) {
    TakeNumber(chunk.epoch, chunk.sequence);
    if (chunk.chunk_index == 0) view_.clear();
    for (const wire::StoredRun& run : chunk.runs) Store(run);
    in_step_ = chunk.last;
  }
  void Hear(const wire::Step& step) {
    TakeNumber(step.epoch, step.sequence);
    if (!in_step_) return;
    for (const wire::CacheEvent& event : step.events) {
      if (event.kind == wire::CacheEvent::Kind::kStored) Store(event.stored);
      for (const BlockHash hash : event.removed) EXPECT_EQ(view_.erase(hash), 1U);
    }
    EXPECT_EQ(view_.size(), step.load.cached_block_count);
    BlockHash digest;
    for (const BlockHash hash : view_) digest = digest ^ hash;
    EXPECT_EQ(digest, step.load.digest);
  }
  void Store(const wire::StoredRun& run) {
    for (const BlockHash hash : run.hashes) EXPECT_TRUE(view_.insert(hash).second);
  }
  void TakeNumber(std::uint64_t epoch, std::uint64_t sequence) {
    EXPECT_EQ(epoch, epoch_);
    EXPECT_EQ(sequence, next_sequence_++);
  }

  std::uint64_t epoch_ = 0;
  std::uint64_t next_sequence_ = 1;
  bool in_step_ = false;
  std::set<BlockHash> view_;
};

// An engine, the rules of its thread without the thread, a core, and routers.
class Rig final : private LinkEffects {
 public:
  void Redial(PeerId /*peer*/) override {}

  explicit Rig(std::uint64_t seed) : rng_(seed) {}

  void Act() {
    switch (rng_.Below(12)) {
      case 0:
      case 1: SendRequest(AnyPeer()); break;
      case 2:
      case 3:
      case 4: RunEngine(); break;
      case 5:
      case 6:
      case 7: TakeOutputs(rng_.Below(4)); break;
      case 8: TogglePeer(AnyPeer()); break;
      case 9: AskForSnapshot(AnyPeer()); break;
      case 10: unreachable_ = rng_.Below(8) == 0; break;
      default: Pass(); break;
    }
    AnswerHellos();
  }

  // Runs until there are no messages left; then every router has what the engine has.
  void Settle() {
    unreachable_ = false;
    for (const PeerId peer : kPeers) {
      if (!up_peers_.contains(peer)) TogglePeer(peer);
    }
    for (int round = 0; round < 2000; ++round) {
      RunEngine();
      TakeOutputs(kOutboxLimit);
      Pass();
      AnswerHellos();
    }
    ASSERT_FALSE(engine_.HasWork());
    std::set<BlockHash> held;
    for (const wire::StoredRun& run : engine_.Snapshot()) held.insert(run.hashes.begin(), run.hashes.end());
    EXPECT_EQ(core_.up_count(), kPeers.size());
    for (const PeerId peer : kPeers) {
      EXPECT_TRUE(routers_[peer].in_step()) << peer.value();
      EXPECT_EQ(routers_[peer].view(), held) << peer.value();
    }
    EXPECT_EQ(core_.counts().mirror_losses[static_cast<std::size_t>(MirrorLoss::kDigest)], 0U);
  }

  [[nodiscard]] std::uint64_t loss_count() const {
    return core_.counts().mirror_losses[static_cast<std::size_t>(MirrorLoss::kOverflow)];
  }
  [[nodiscard]] std::size_t snapshot_command_count() const { return snapshot_command_count_; }

 private:
  // ---- the core's effects ----
  wire::SendOutcome Send(PeerId peer, const wire::WorkerMessage& message) override {
    if (unreachable_) return wire::SendOutcome::kFull;
    if (const auto epoch = routers_[peer].Hear(message)) greeted_[peer] = *epoch;
    return wire::SendOutcome::kSent;
  }
  bool Submit(EngineCommand command) override {
    inbox_.push_back(std::move(command));
    return true;
  }
  void Command(EngineCommand command) override { inbox_.push_back(std::move(command)); }

  // ---- routers ----
  PeerId AnyPeer() { return kPeers[rng_.Below(kPeers.size())]; }
  void TogglePeer(PeerId peer) {
    greeted_.erase(peer);
    if (up_peers_.erase(peer) > 0) return core_.RemovePeer(peer);
    up_peers_.insert(peer);
    core_.AddPeer(peer, "router");
  }
  void AnswerHellos() {
    for (const auto& [peer, epoch] : std::exchange(greeted_, {})) {
      core_.OnMessage(peer, wire::Welcome{1 + rng_.Below(2), epoch});
    }
  }
  void AskForSnapshot(PeerId peer) {
    routers_[peer].LoseStep();
    core_.OnMessage(peer, wire::WantSnapshot{});
  }
  // Prompts share beginnings, and the pool is small, so blocks are found and evicted.
  void SendRequest(PeerId peer) {
    wire::Generate request;
    request.request_id = RequestId(next_request_++);
    request.prompt.assign(kBlockTokens * (1 + rng_.Below(6)), static_cast<TokenId>(rng_.Below(5)));
    request.prompt.insert(request.prompt.end(), rng_.Below(20), static_cast<TokenId>(rng_.Below(7)));
    request.root = BlockHash{1, 2};
    request.block_hashes = HashBlocks(request.root, request.prompt, kBlockTokens);
    request.max_output_tokens = static_cast<std::uint32_t>(1 + rng_.Below(12));
    core_.OnMessage(peer, std::move(request));
  }
  void Pass() {
    clock_.Advance(std::chrono::milliseconds(rng_.Below(200)));
    for (const PeerId peer : up_peers_) {
      if (rng_.Below(50) != 0) core_.OnMessage(peer, wire::Ping{});
    }
    core_.Tick();
  }

  // ---- the engine's thread ----
  void RunEngine() {
    for (EngineCommand& command : std::exchange(inbox_, {})) std::visit([this](auto& value) { Apply(value); }, command);
    if (lost_ && outbox_.size() < kOutboxLimit) {
      outbox_.emplace_back(OutputLost{});
      lost_ = false;
    }
    Publish(engine_.Step());
    if (!snapshot_wanted_ || lost_ || outbox_.size() >= kOutboxLimit) return;
    outbox_.emplace_back(EngineSnapshot{engine_.Snapshot()});
    snapshot_wanted_ = false;
  }
  void Publish(EngineOutput output) {
    lost_ |= outbox_.size() >= kOutboxLimit;
    if (!lost_) outbox_.push_back(std::move(output));
  }
  void TakeOutputs(std::size_t count) {
    for (; count > 0 && !outbox_.empty(); --count) {
      core_.OnOutput(std::move(outbox_.front()));
      outbox_.pop_front();
    }
  }
  void Apply(SubmitCommand& command) { EXPECT_TRUE(engine_.Submit(command.link, std::move(command.request)).ok()); }
  void Apply(const CancelCommand& command) { engine_.Cancel(command.key); }
  void Apply(const CancelLinkCommand& command) { engine_.CancelLink(command.link); }
  void Apply(const OrderCommand& command) { (void)engine_.CarryOut(command.link, command.order); }
  void Apply(const NudgeCommand&) {}
  void Apply(const ForwardPart&) { ADD_FAILURE() << "no router forwards here"; }
  void Apply(const SnapshotCommand&) {
    EXPECT_FALSE(snapshot_wanted_) << "one is asked for at a time";
    snapshot_wanted_ = true;
    ++snapshot_command_count_;
  }

  static LinkCore::Setup MakeSetup() {
    LinkCore::Setup setup;
    setup.hello.block_count = kBlockCount;
    return setup;
  }

  Rng rng_;
  ManualClock clock_;
  testing_support::FakeModel model_{
      testing_support::FakeModel::Options{.block_tokens = kBlockTokens, .block_count = kBlockCount}};
  Engine engine_{model_, clock_, EngineOptions{.max_batch_tokens = 32}};
  std::vector<EngineCommand> inbox_;
  std::deque<EngineOutput> outbox_;
  bool lost_ = false;
  bool snapshot_wanted_ = false;
  std::size_t snapshot_command_count_ = 0;
  LinkCore core_{MakeSetup(), clock_, *this};
  std::set<PeerId> up_peers_;
  std::map<PeerId, std::uint64_t> greeted_;
  std::map<PeerId, NaiveRouter> routers_;
  bool unreachable_ = false;
  std::uint64_t next_request_ = 1;
};

TEST(LinkModelTest, RoutersHoldWhatTheEngineHolds) {
  std::uint64_t losses = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rig rig(seed);
    for (int i = 0; i < 1500; ++i) rig.Act();
    rig.Settle();
    losses += rig.loss_count();
    EXPECT_LE(rig.snapshot_command_count(), rig.loss_count());
    if (HasFailure()) return;
  }
  EXPECT_GT(losses, 100U);
}

}  // namespace
}  // namespace roost::worker

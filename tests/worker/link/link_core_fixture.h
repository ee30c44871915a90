// For tests of the link's state machine: a core whose effects are recorded, an engine that the test plays, and small
// verbs for what routers and the engine say.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "worker/link/link_core.h"

namespace roost::worker {

constexpr PeerId kPeer{1};
constexpr PeerId kOther{2};

// Records what the core does, in order.
class RecordedEffects final : public LinkEffects {
 public:
  wire::SendOutcome Send(PeerId peer, const wire::WorkerMessage& message) override {
    if (outcome == wire::SendOutcome::kSent) sent.emplace_back(peer, message);
    return outcome;
  }
  void Redial(PeerId peer) override { redialled.push_back(peer); }
  bool Submit(EngineCommand command) override {
    if (inbox_is_full) return false;
    submit_count += std::holds_alternative<SubmitCommand>(command) ? 1 : 0;
    commands.emplace_back(std::move(command));
    return true;
  }
  void Command(EngineCommand command) override { commands.push_back(std::move(command)); }

  // The messages of type T sent since the last call, to any peer; forgets all others.
  template <typename T>
  std::vector<T> Take() {
    std::vector<T> taken;
    for (auto& [peer, message] : std::exchange(sent, {})) {
      if (auto* value = std::get_if<T>(&message)) taken.push_back(std::move(*value));
    }
    return taken;
  }
  template <typename T>
  std::vector<T> TakeCommands() {
    std::vector<T> taken;
    for (EngineCommand& command : std::exchange(commands, {})) {
      if (auto* value = std::get_if<T>(&command)) taken.push_back(std::move(*value));
    }
    return taken;
  }

  wire::SendOutcome outcome = wire::SendOutcome::kSent;
  bool inbox_is_full = false;
  std::uint64_t submit_count = 0;
  std::vector<std::pair<PeerId, wire::WorkerMessage>> sent;
  std::vector<EngineCommand> commands;
  std::vector<PeerId> redialled;
};

// A block whose parent is the root.
inline wire::StoredRun RunOf(std::uint64_t name) { return {0, {BlockHash{0, name}}}; }
inline wire::CacheEvent Stored(std::uint64_t name) {
  wire::CacheEvent event;
  event.stored = RunOf(name);
  return event;
}
inline wire::CacheEvent Removed(std::uint64_t name) {
  wire::CacheEvent event;
  event.kind = wire::CacheEvent::Kind::kRemoved;
  event.removed = {BlockHash{0, name}};
  return event;
}

// An engine's cache as its reports describe it: the digest in the load fits the events.
class ReportedCache {
 public:
  StepReport Report(std::vector<wire::CacheEvent> events) {
    for (const wire::CacheEvent& event : events) {
      for (const BlockHash hash : event.stored.hashes) digest_ = digest_ ^ hash;
      for (const BlockHash hash : event.removed) digest_ = digest_ ^ hash;
      count_ += static_cast<std::uint32_t>(event.stored.hashes.size());
      count_ -= static_cast<std::uint32_t>(event.removed.size());
    }
    StepReport report;
    report.events = std::move(events);
    report.load.cached_block_count = count_;
    report.load.digest = digest_;
    report.load.step_decode_tokens = 3;
    report.load.step_seconds = 0.5;
    return report;
  }

 private:
  BlockHash digest_;
  std::uint32_t count_ = 0;
};

inline RequestEvent TokensOf(LinkId link, std::uint64_t request,
                             std::optional<wire::FinishReason> finish = std::nullopt) {
  RequestEvent event;
  event.link = link;
  event.event.request_id = RequestId(request);
  event.event.tokens = {42};
  event.event.finish = finish;
  return event;
}

inline wire::Generate GenerateNumber(std::uint64_t id) {
  wire::Generate generate;
  generate.request_id = RequestId(id);
  generate.prompt = {1, 2, 3};
  return generate;
}

// The digest of Generates with these ids, for a ping.
inline std::uint64_t DigestOf(std::initializer_list<std::uint64_t> ids) {
  std::uint64_t digest = 0;
  for (const std::uint64_t id : ids) digest ^= wire::MixedId(RequestId(id));
  return digest;
}

class LinkCoreTest : public ::testing::Test {
 protected:
  explicit LinkCoreTest(LinkCore::Setup setup = MakeSetup()) : core_(std::move(setup), clock_, effects_) {}

  static LinkCore::Setup MakeSetup() {
    LinkCore::Setup setup;
    setup.hello.worker_id = "worker-1";
    setup.hello.block_count = 100;
    setup.tokenizer.digest = "digest";
    setup.first_epoch = 100;
    return setup;
  }

  // Adds the peer and lets it greet; returns the epoch of its hello.
  std::uint64_t Greet(PeerId peer) {
    core_.AddPeer(peer, "router");
    core_.Tick();
    return effects_.Take<wire::Hello>().at(0).epoch;
  }
  void Welcome(PeerId peer, std::uint64_t epoch, std::uint64_t instance = 1) {
    core_.OnMessage(peer, wire::Welcome{instance, epoch});
  }
  // Brings the peer up with its load and its snapshot; both messages are discarded.
  void BringUp(PeerId peer) {
    Welcome(peer, Greet(peer));
    core_.Tick();
    effects_.sent.clear();
  }
  // The peer, which is up, sends a request. Returns the id of the present life of its link.
  LinkId Submit(PeerId peer, std::uint64_t request) {
    core_.OnMessage(peer, GenerateNumber(request));
    return effects_.TakeCommands<SubmitCommand>().at(0).link;
  }
  // The engine's next report.
  void Report(std::vector<wire::CacheEvent> events, std::vector<RequestEvent> tokens = {}) {
    StepReport report = cache_.Report(std::move(events));
    report.tokens = std::move(tokens);
    core_.OnOutput(std::move(report));
  }
  void Pass(Duration time) {
    clock_.Advance(time);
    core_.Tick();
  }
  std::uint64_t ResyncCount(ResyncReason reason) { return core_.counts().resyncs[static_cast<std::size_t>(reason)]; }
  std::uint64_t LossCount(MirrorLoss reason) { return core_.counts().mirror_losses[static_cast<std::size_t>(reason)]; }

  ManualClock clock_;
  RecordedEffects effects_;
  ReportedCache cache_;
  LinkCore core_;
};

}  // namespace roost::worker

#include "router/fleet/fleet_core.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/log.h"

namespace roost::router {

namespace {

constexpr Duration kHelloPatience = std::chrono::seconds(1);
// Senders that are no workers (yet) and are remembered, so that they are neither asked nor logged too often.
constexpr std::size_t kMaxStrangers = 1024;

std::string BlocksText(std::uint32_t count, std::uint32_t tokens) {
  return fmt::format("{} of {} tokens", count, tokens);
}

}  // namespace

FleetCore::FleetCore(FleetCoreOptions options, Policy& policy, FleetMetrics& metrics, std::uint64_t seed)
    : options_(std::move(options)),
      metrics_(metrics),
      router_instance_(Rng(seed)()),
      roster_(options_.modes, options_.index_memory_bytes, options_.unix_seconds, Rng(~router_instance_)()),
      requests_(options_.requests, Rng(~seed)(), roster_, policy, effects_, metrics) {}

void FleetCore::OnMessage(const std::string& identity, wire::WorkerMessage message, Instant now) {
  if (const auto* const hello = std::get_if<wire::Hello>(&message)) {
    OnHello(identity, *hello, now);
    return;
  }
  Worker* const worker = roster_.Find(identity);
  if (worker == nullptr) {
    if (!std::holds_alternative<wire::Bye>(message)) AskForHello(identity, now);
    return;
  }
  worker->last_heard = now;
  if (auto* const step = std::get_if<wire::Step>(&message)) {
    OnStep(*worker, std::move(*step), now);
  } else if (const auto* const chunk = std::get_if<wire::Snapshot>(&message)) {
    OnSnapshot(*worker, *chunk, now);
  } else if (auto* const bundle = std::get_if<wire::Tokenizer>(&message)) {
    OnTokenizer(*worker, std::move(*bundle));
  } else if (const auto* const bye = std::get_if<wire::Bye>(&message)) {
    OnBye(*worker, *bye, now);
  }
}

void FleetCore::OnHello(const std::string& identity, const wire::Hello& hello, Instant now) {
  Worker* const known = roster_.Find(identity);
  const wire::Welcome welcome{.router_instance = router_instance_, .epoch = hello.epoch};
  if (known != nullptr && known->hello.epoch == hello.epoch) {
    known->last_heard = now;
    effects_.Send(identity, welcome);
    return;
  }
  // The new life stands before the old one's requests are placed: it may take them itself.
  const bool restarted = known != nullptr;
  if (restarted) {
    metrics_.OnWorkerLost(LostReason::kRestarted);
    ClearGauges(*known);
    roster_.Remove(identity);
  }
  const Result<Worker*> added = roster_.Add(identity, hello, now);
  if (added.ok()) {
    LogInfo("worker joined", {{"worker", identity},
                              {"model", hello.model},
                              {"blocks", BlocksText(hello.block_count, hello.block_tokens)},
                              {"epoch", fmt::to_string(hello.epoch)}});
    hello_asked_.erase(identity);
    metrics_.OnResync(ResyncReason::kHello);
    effects_.Send(identity, welcome);
    AskForBundle(**added, now);
  } else {
    Refuse(hello, identity, added.error());
  }
  if (restarted) requests_.OnWorkerLost(identity, now);
}

void FleetCore::Refuse(const wire::Hello& hello, const std::string& identity, const Error& error) {
  if (refused_epochs_.size() >= kMaxStrangers) refused_epochs_.clear();
  const auto [entry, is_new] = refused_epochs_.try_emplace(identity, hello.epoch);
  if (!is_new && std::exchange(entry->second, hello.epoch) == hello.epoch) return;
  LogWarning("worker refused", {{"worker", identity}, {"error", error.ToString()}});
}

void FleetCore::AskForBundle(const Worker& worker, Instant now) {
  if (roster_.ShouldAskForBundle(worker, now)) effects_.Send(worker.hello.worker_id, wire::WantTokenizer{});
}

void FleetCore::OnStep(Worker& worker, wire::Step step, Instant now) {
  const std::uint64_t stored_before = worker.view.sync().stored_block_count();
  const std::uint64_t removed_before = worker.view.sync().removed_block_count();
  if (!Settle(worker, worker.view.Apply(step, now), now)) return;
  metrics_.OnIndexEvents(worker.view.sync().stored_block_count() - stored_before,
                         worker.view.sync().removed_block_count() - removed_before);
  worker.Report(std::move(step.load), now);
  roster_.Refresh(worker);
  // A retry changes other workers' charges but not the roster, so `worker` stays.
  for (wire::TokenEvent& event : step.tokens) requests_.OnEvent(worker.hello.worker_id, std::move(event), now);
  requests_.DispatchWaitingTo(worker, now);
}

void FleetCore::OnSnapshot(Worker& worker, const wire::Snapshot& chunk, Instant now) {
  static_cast<void>(Settle(worker, worker.view.Apply(chunk, now), now));
}

bool FleetCore::Settle(Worker& worker, ViewSync::Outcome outcome, Instant now) {
  switch (outcome) {
    case ViewSync::Outcome::kApplied: return true;
    case ViewSync::Outcome::kDuplicate: return false;
    case ViewSync::Outcome::kWantSnapshot:
      metrics_.OnResync(ResyncReason::kDigest);
      LogWarning("index differs from its worker; asking for a snapshot", {{"worker", worker.hello.worker_id}});
      effects_.Send(worker.hello.worker_id, wire::WantSnapshot{});
      return true;
    case ViewSync::Outcome::kLinkBroken: break;
  }
  const std::string worker_id = worker.hello.worker_id;
  metrics_.OnResync(ResyncReason::kGap);
  Lose(worker_id, LostReason::kBrokenLink, now);
  AskForHello(worker_id, now);
  return false;
}

void FleetCore::OnTokenizer(const Worker& worker, wire::Tokenizer bundle) {
  if (!roster_.TakeBundleAnswer(worker, bundle.digest)) return;
  effects_.Push(ReadBundle{std::move(bundle)});
}

void FleetCore::OnTextBundle(const std::string& digest, Result<TextBundle> bundle) {
  roster_.SetBundle(digest, std::move(bundle));
}

void FleetCore::OnBye(const Worker& worker, const wire::Bye& bye, Instant now) {
  if (bye.epoch != worker.hello.epoch) return;
  const std::string worker_id = worker.hello.worker_id;
  Lose(worker_id, LostReason::kLeft, now);
}

void FleetCore::OnMalformed(const std::string& identity, const Error& error, Instant now) {
  if (roster_.Find(identity) == nullptr) return;  // whoever it is, it gets no log line
  LogWarning("malformed message", {{"worker", identity}, {"error", error.ToString()}});
  Lose(identity, LostReason::kBrokenLink, now);
  AskForHello(identity, now);
}

void FleetCore::OnUnreachable(const std::string& identity, Instant now) {
  if (roster_.Find(identity) != nullptr) Lose(identity, LostReason::kUnreachable, now);
}

void FleetCore::Lose(const std::string& worker_id, LostReason reason, Instant now) {
  LogWarning("worker lost", {{"worker", worker_id}, {"reason", std::string(NameOf(reason))}});
  metrics_.OnWorkerLost(reason);
  ClearGauges(*roster_.Find(worker_id));
  roster_.Remove(worker_id);
  requests_.OnWorkerLost(worker_id, now);
}

void FleetCore::AskForHello(const std::string& identity, Instant now) {
  const auto asked = hello_asked_.find(identity);
  if (asked != hello_asked_.end() && now - asked->second < kHelloPatience) return;
  if (asked == hello_asked_.end() && hello_asked_.size() >= kMaxStrangers) return;
  hello_asked_.insert_or_assign(identity, now);
  effects_.Send(identity, wire::WantHello{});
}

void FleetCore::Tick(Instant now) {
  ForgiveOwnPause(now);
  std::erase_if(hello_asked_, [&](const auto& entry) { return now - entry.second >= kHelloPatience; });

  const bool ping = now - last_ping_ >= options_.ping_interval;
  if (ping) last_ping_ = now;
  std::vector<std::string> silent;
  roster_.ForEach([&](Worker& worker) {
    const std::string& id = worker.hello.worker_id;
    if (now - worker.last_heard > options_.worker_timeout) {
      silent.push_back(id);
      return;
    }
    if (ping) effects_.Send(id, wire::Ping{.generate_digest = worker.generate_digest});
    if (!roster_.IsReady(worker)) AskForBundle(worker, now);
    if (const auto change = worker.view.Tick(now)) TellModeChange(worker, *change, metrics_);
    if (worker.view.TakeSnapshotDue(now)) effects_.Send(id, wire::WantSnapshot{});
  });
  for (const std::string& worker_id : silent) Lose(worker_id, LostReason::kSilent, now);
  requests_.DispatchWaiting(now);
  requests_.ExpireWaiting(now);
  roster_.SweepIndexes();
  PublishGauges();
}

void FleetCore::ForgiveOwnPause(Instant now) {
  const Duration since_last = now - std::exchange(last_tick_, now);
  if (since_last < options_.worker_timeout / 2) return;
  roster_.ForEach([&](Worker& worker) { worker.last_heard = now; });
}

void FleetCore::ClearGauges(const Worker& worker) {
  metrics_.SetInFlight(worker.hello.model, worker.hello.worker_id, 0);
  metrics_.SetMode(worker.hello.model, worker.hello.worker_id, std::nullopt);
}

void FleetCore::PublishGauges() {
  std::uint32_t ready = 0;
  std::uint32_t starting = 0;
  roster_.ForEach([&](const Worker& worker) {
    ++(roster_.IsReady(worker) ? ready : starting);
    metrics_.SetInFlight(worker.hello.model, worker.hello.worker_id, worker.ledger->request_count());
    metrics_.SetMode(worker.hello.model, worker.hello.worker_id, worker.view.mode());
  });
  requests_.PublishQueues();
  metrics_.SetWorkers(ready, starting);
  metrics_.SetIndex(roster_.IndexesNow());
}

Result<void> FleetCore::CheckOpen() const {
  if (shut_down_) return Error{ErrorCode::kUnavailable, "the router is stopping", ""};
  if (effects_.size() >= options_.max_pending_effects) {
    return Error{ErrorCode::kOverloaded, "the router's link to the workers is full", ""};
  }
  return {};
}

Result<RequestId> FleetCore::Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer,
                                    std::span<const WorkerMatch> matches, Instant now) {
  ROOST_RETURN_IF_ERROR(CheckOpen());
  return requests_.Submit(std::move(spec), std::move(observer), matches, now);
}

Result<std::vector<std::string>> FleetCore::Pin(PinOrder order, std::span<const WorkerMatch> matches) {
  ROOST_RETURN_IF_ERROR(CheckOpen());
  return requests_.Pin(std::move(order), matches);
}

std::vector<WorkerStatus> FleetCore::Workers(Instant now) {
  std::vector<WorkerStatus> statuses;
  roster_.ForEach([&](const Worker& worker) { statuses.push_back(roster_.StatusOf(worker, now)); });
  return statuses;
}

void FleetCore::Shutdown() {
  shut_down_ = true;
  requests_.EndAll({ErrorCode::kUnavailable, "the router is stopping", ""});
}

}  // namespace roost::router

#include "router/fleet/core/fleet_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "router/route/pair_rates.h"

namespace roost::router {

namespace {

constexpr std::size_t kFingerprintDigits = 12;
constexpr Duration kHelloPatience = std::chrono::seconds(1);
constexpr Duration kListInterval = std::chrono::seconds(1);  // of pairs of workers
// The maximum number of remembered senders that are not workers (yet). They are remembered so that the router does not
// ask them or log them too often.
constexpr std::size_t kMaxStrangers = 1024;

}  // namespace

FleetCore::FleetCore(FleetCoreOptions options, Policy& policy, FleetMetrics& metrics, std::uint64_t seed)
    : options_(std::move(options)),
      metrics_(metrics),
      router_instance_(Rng(seed)()),
      worker_registry_({.worker = {.modes = options_.modes,
                                   .stall_timeout = options_.stall_timeout,
                                   .link_timeout = options_.worker_timeout},
                        .index_memory_bytes = options_.index_memory_bytes,
                        .unix_seconds = options_.unix_seconds,
                        .seed = Rng(~router_instance_)()}),
      requests_(options_.requests, Rng(~seed)(), worker_registry_, policy, effects_, metrics),
      forwards_(options_.forwards, Rng(~seed)() ^ (std::uint64_t{1} << 61U), worker_registry_, effects_, metrics),
      orders_(Mix64(~seed), worker_registry_, requests_, effects_),
      handovers_(Mix64(seed ^ Mix64(~seed)), worker_registry_, requests_, effects_, metrics) {}

void FleetCore::OnMessage(const std::string& identity, wire::WorkerMessage message, Instant now) {
  if (const auto* const hello = std::get_if<wire::Hello>(&message)) {
    OnHello(identity, *hello, now);
    return;
  }
  Worker* const worker = worker_registry_.FindByIdentity(identity);
  if (worker == nullptr) {
    if (!std::holds_alternative<wire::Bye>(message)) AskForHello(identity, now);
    return;
  }
  worker->link.OnMessage(now);
  auto* const prefixes = std::get_if<wire::Prefixes>(&message);
  if (prefixes != nullptr && handovers_.OnPrefixes(worker->hello.worker_id, *prefixes, now)) return;
  if (orders_.OnMessage(worker->hello.worker_id, message)) return;
  if (auto* const step = std::get_if<wire::Step>(&message)) {
    OnStep(*worker, std::move(*step), now);
  } else if (const auto* const chunk = std::get_if<wire::Snapshot>(&message)) {
    OnSnapshot(*worker, *chunk, now);
  } else if (auto* const bundle = std::get_if<wire::Tokenizer>(&message)) {
    OnTokenizer(*worker, std::move(*bundle));
  } else if (const auto* const adapters = std::get_if<wire::Adapters>(&message)) {
    if (adapters->epoch == worker->hello.epoch) worker_registry_.SetAdapters(*worker, adapters->names);
  } else if (const auto* const held = std::get_if<wire::HoldAnswer>(&message)) {
    requests_.copies().OnHoldAnswer(worker->hello.worker_id, *held, now);
  } else if (auto* const forwarded = std::get_if<wire::Forwarded>(&message)) {
    if (forwarded->epoch == worker->hello.epoch) {
      forwards_.OnForwarded(worker->hello.worker_id, std::move(*forwarded), now);
    }
  } else if (const auto* const bye = std::get_if<wire::Bye>(&message)) {
    OnBye(*worker, *bye, now);
  }
}

void FleetCore::OnHello(const std::string& identity, const wire::Hello& hello, Instant now) {
  const Result<void> same_major = wire::CheckMajors({.worker = hello.version, .router = options_.version});
  if (!same_major.ok()) return Refuse(hello, identity, wire::RefusalCause::kVersion, same_major.error());
  // A connection belongs to one worker.
  const Worker* const other = worker_registry_.FindByIdentity(identity);
  if (other != nullptr && other->hello.worker_id != hello.worker_id) {
    Lose(std::string(other->hello.worker_id), LostReason::kBrokenLink, now);
  }
  Worker* const known = worker_registry_.Find(hello.worker_id);
  if (known == nullptr) return Begin(identity, hello, now);
  if (known->hello.process_id != hello.process_id && !YieldsName(*known, identity, hello, now)) return;
  if (known->hello.process_id == hello.process_id && known->hello.epoch == hello.epoch) {
    worker_registry_.Reconnect(*known, identity);
    known->link.OnMessage(now);
    return Welcome(identity, hello);
  }
  // The new epoch begins before the old one's requests are placed again, so that the worker can take them itself.
  const std::string model = known->hello.model;
  metrics_.OnWorkerLost(model, LostReason::kRestarted);
  metrics_.ForgetWorker(model, known->hello.worker_id);
  if (known->hello.process_id != hello.process_id)
    requests_.decider().losses().OnGone(*known, BlockLoss::Worker::kLost);
  worker_registry_.Remove(hello.worker_id, now);
  Begin(identity, hello, now);
  const Aftermath requests = requests_.OnWorkerLost(hello.worker_id, now);
  forwards_.OnWorkerLost(hello.worker_id, now);
  journal_.OnLost(hello.worker_id, model, LostReason::kRestarted, requests, now);
  orders_.OnWorkerLost(hello.worker_id);
  handovers_.OnWorkerLost(hello.worker_id, now);
}

bool FleetCore::YieldsName(Worker& worker, const std::string& identity, const wire::Hello& hello, Instant now) {
  const bool is_gone = worker.is_unreachable || now - worker.link.heard() >= kTakeOverSilence;
  if (worker.identity == identity || is_gone) return true;
  // If the known worker's connection is gone, sending fails, and the next hello is accepted.
  SendPing(worker);
  Refuse(hello, identity, wire::RefusalCause::kNameTaken,
         InvalidArgument("worker_id",
                         "another process serves under the name {} and was heard {:.1f} s ago: each worker needs a "
                         "--worker-id of its own",
                         hello.worker_id, ToSeconds(now - worker.link.heard())));
  return false;
}

void FleetCore::SendPing(const Worker& worker) {
  effects_.Send(worker.identity,
                wire::Ping{.generate_digest = worker.generate_digest, .sole = worker_registry_.IsSole(worker)});
}

void FleetCore::RefuseHello(const std::string& identity, const wire::Hello& hello, const Error& error, Instant now) {
  const Worker* const worker = worker_registry_.FindByIdentity(identity);
  if (worker != nullptr) Lose(std::string(worker->hello.worker_id), LostReason::kBrokenLink, now);
  Refuse(hello, identity, wire::RefusalCause::kKey, error);
}

void FleetCore::Begin(const std::string& identity, const wire::Hello& hello, Instant now) {
  const Result<Worker*> added = worker_registry_.Add(identity, hello, now);
  if (!added.ok()) {
    const bool is_full = added.error().code == ErrorCode::kOverloaded;
    return Refuse(hello, identity, is_full ? wire::RefusalCause::kFull : wire::RefusalCause::kHello, added.error());
  }
  LogInfo("worker joined", {{"worker", hello.worker_id},
                            {"model", hello.model},
                            {"fingerprint", hello.fingerprint.substr(0, kFingerprintDigits)},
                            {"blocks", hello.block_count},
                            {"block_tokens", hello.block_tokens},
                            {"protocol", wire::Describe(hello.version)},
                            {"engine", hello.engine.empty() ? "roost" : hello.engine},
                            {"epoch", fmt::to_string(hello.epoch)}});
  if (!hello.cache_absence.empty()) {
    LogWarning("a worker does not tell what it caches", {{"worker", hello.worker_id}, {"reason", hello.cache_absence}});
  }
  hello_asked_.erase(identity);
  refusals_.erase({hello.worker_id, hello.process_id});
  metrics_.OnResync(ResyncReason::kHello);
  journal_.OnJoined(hello.worker_id, hello.model, now);
  Welcome(identity, hello);
  TellNeighbours(**added);
  AskForBundle(**added, now);
  TellArrivals(now);
}

void FleetCore::Welcome(const std::string& identity, const wire::Hello& hello) {
  effects_.Send(identity, wire::Welcome{.router_instance = router_instance_,
                                        .epoch = hello.epoch,
                                        .version = options_.version,
                                        .crowding = worker_registry_.CrowdingOf(hello)});
}

// The processors that its host's other workers share with it may be too few now.
void FleetCore::TellNeighbours(const Worker& joined) {
  const wire::ComputeShare& share = joined.hello.compute;
  if (share.machine == 0 || share.threads == 0) return;
  worker_registry_.ForEach([&](const Worker& other) {
    if (&other == &joined || other.hello.compute.machine != share.machine) return;
    if (worker_registry_.CrowdingOf(other.hello) != wire::Crowding()) Welcome(other.identity, other.hello);
  });
}

void FleetCore::Refuse(const wire::Hello& hello, const std::string& identity, wire::RefusalCause cause,
                       const Error& error) {
  effects_.Send(identity, wire::Refused{.epoch = hello.epoch, .reason = error.ToString(), .cause = cause});
  if (refusals_.size() >= kMaxStrangers) refusals_.clear();
  const auto [told, is_first] = refusals_.try_emplace({hello.worker_id, hello.process_id}, cause);
  if (!is_first && std::exchange(told->second, cause) == cause) return;
  LogError("worker refused", {{"worker", hello.worker_id}, {"error", error.ToString()}});
}

void FleetCore::AskForBundle(const Worker& worker, Instant now) {
  if (worker_registry_.ShouldAskForBundle(worker, now)) effects_.Send(worker.identity, wire::WantTokenizer{});
}

namespace {

void LogAbsence(const Worker& worker, std::uint64_t was_away_ms) {
  const wire::Load& load = worker.load;
  if ((load.engine_away_ms > 0) == (was_away_ms > 0)) return;
  if (load.engine_away_ms > 0) {
    LogWarning("the engine of a worker can not be reached",
               {{"worker", worker.hello.worker_id}, {"engine", worker.hello.engine}, {"reason", load.engine_absence}});
  } else {
    LogInfo("the engine of a worker is back", {{"worker", worker.hello.worker_id}});
  }
}

}  // namespace

void FleetCore::OnStep(Worker& worker, wire::Step step, Instant now) {
  const std::uint64_t stored_before = worker.view.sync().stored_block_count();
  const std::uint64_t removed_before = worker.view.sync().removed_block_count();
  if (!Settle(worker, worker.view.Apply(step, now), now)) return;
  metrics_.OnIndexEvents(worker.view.sync().stored_block_count() - stored_before,
                         worker.view.sync().removed_block_count() - removed_before);
  if (const auto change = worker.view.OnLoad(step.load, now)) TellModeChange(worker, *change, metrics_);
  const std::uint64_t was_away_ms = worker.load.engine_away_ms;
  worker.Report(std::move(step.load), now);
  LogAbsence(worker, was_away_ms);
  // It may be another process, with an empty cache.
  if (was_away_ms > 0 && worker.load.engine_away_ms == 0) worker.view.ForgetPredictions();
  worker_registry_.transfers().Report(worker.slot, worker.load, now);
  worker_registry_.Refresh(worker);
  // A retry changes other workers' charges but not the registry, so `worker` stays valid.
  for (wire::TokenEvent& event : step.tokens) {
    worker.totals.output_tokens += event.tokens.size();
    requests_.OnEvent(worker.hello.worker_id, std::move(event), now);
  }
  requests_.DispatchWaitingTo(worker, now);
  orders_.OnReport(worker, now);
  handovers_.OnReport(worker, now);
}

void FleetCore::OnSnapshot(Worker& worker, const wire::Snapshot& chunk, Instant now) {
  if (Settle(worker, worker.view.Apply(chunk, now), now)) handovers_.OnReport(worker, now);
}

bool FleetCore::Settle(Worker& worker, ViewSync::Outcome outcome, Instant now) {
  switch (outcome) {
    case ViewSync::Outcome::kApplied: return true;
    case ViewSync::Outcome::kDuplicate: return false;
    case ViewSync::Outcome::kWantSnapshot:
      metrics_.OnResync(ResyncReason::kDigest);
      LogWarning("the index differs from what the worker holds; asking for a snapshot",
                 {{"worker", worker.hello.worker_id}});
      effects_.Send(worker.identity, wire::WantSnapshot{});
      return true;
    case ViewSync::Outcome::kLinkBroken: break;
  }
  metrics_.OnResync(ResyncReason::kGap);
  const std::string identity = worker.identity;
  Lose(std::string(worker.hello.worker_id), LostReason::kBrokenLink, now);
  AskForHello(identity, now);
  return false;
}

void FleetCore::OnTokenizer(const Worker& worker, wire::Tokenizer bundle) {
  if (!worker_registry_.TakeBundleAnswer(worker, bundle.digest)) return;
  effects_.Push(ReadBundle{std::move(bundle)});
}

void FleetCore::OnTextBundle(const std::string& digest, TextBundle bundle, Instant now) {
  worker_registry_.SetBundle(digest, std::move(bundle));
  worker_registry_.ForEach([&](Worker& worker) { handovers_.OnReport(worker, now); });
  TellArrivals(now);
}

void FleetCore::TellArrivals(Instant now) {
  for (AnswersDone& go : arrivals_.Take(*models(), now)) effects_.Push(NotifyAnswers{std::move(go), {}});
}

void FleetCore::OnBundleFault(const std::string& digest, const BundleError& error, Instant now) {
  worker_registry_.SetBundleFault(digest, error, now);
}

void FleetCore::OnBye(const Worker& worker, const wire::Bye& bye, Instant now) {
  if (bye.epoch != worker.hello.epoch) return;
  const std::string worker_id = worker.hello.worker_id;
  const std::string model = worker.hello.model;
  LogInfo("worker left", {{"worker", worker_id}});
  requests_.decider().losses().OnGone(worker, BlockLoss::Worker::kLeft);
  Remove(worker_id, now);
  journal_.OnLeft(worker_id, model, now);
}

void FleetCore::OnMalformed(const std::string& identity, const Error& error, Instant now) {
  const Worker* const worker = worker_registry_.FindByIdentity(identity);
  if (worker == nullptr) return;  // an unknown sender gets no log line
  LogWarning("malformed message", {{"worker", worker->hello.worker_id}, {"error", error.ToString()}});
  Lose(std::string(worker->hello.worker_id), LostReason::kBrokenLink, now);
  AskForHello(identity, now);
}

void FleetCore::OnUnreachable(const std::string& identity, Instant now) {
  Worker* const worker = worker_registry_.FindByIdentity(identity);
  if (worker == nullptr || worker->is_unreachable) return;
  if (!HasPaused(now)) return Lose(std::string(worker->hello.worker_id), LostReason::kUnreachable, now);
  LogInfo("a worker has hung up while this router was paused: it may connect again",
          {{"worker", worker->hello.worker_id}});
  worker_registry_.SetUnreachable(*worker);
}

void FleetCore::Lose(const std::string& worker_id, LostReason reason, Instant now) {
  const std::string model = worker_registry_.Find(worker_id)->hello.model;
  LogWarning("worker lost", {{"worker", worker_id}, {"model", model}, {"reason", std::string(NameOf(reason))}});
  metrics_.OnWorkerLost(model, reason);
  requests_.decider().losses().OnGone(*worker_registry_.Find(worker_id), BlockLoss::Worker::kLost);
  const Aftermath requests = Remove(worker_id, now);
  journal_.OnLost(worker_id, model, reason, requests, now);
}

Aftermath FleetCore::Remove(const std::string& worker_id, Instant now) {
  metrics_.ForgetWorker(worker_registry_.Find(worker_id)->hello.model, worker_id);
  worker_registry_.Remove(worker_id, now);
  const Aftermath requests = requests_.OnWorkerLost(worker_id, now);
  forwards_.OnWorkerLost(worker_id, now);
  orders_.OnWorkerLost(worker_id);
  handovers_.OnWorkerLost(worker_id, now);
  return requests;
}

void FleetCore::LoseHungWorkers(Instant now) {
  std::vector<std::string> hung;
  worker_registry_.ForEach([&](const Worker& worker) {
    if (!worker.stalled_at.has_value() && worker.IsStalled(now)) hung.push_back(worker.hello.worker_id);
  });
  for (const std::string& worker_id : hung) {
    worker_registry_.RememberStall(*worker_registry_.Find(worker_id));
    Lose(worker_id, LostReason::kStalled, now);
  }
}

void FleetCore::AskForHello(const std::string& identity, Instant now) {
  const auto asked = hello_asked_.find(identity);
  if (asked != hello_asked_.end() && now - asked->second < kHelloPatience) return;
  if (asked == hello_asked_.end() && hello_asked_.size() >= kMaxStrangers) return;
  hello_asked_.insert_or_assign(identity, now);
  effects_.Send(identity, wire::WantHello{});
}

void FleetCore::LoseSilentWorkers(Instant now, Inbox inbox) {
  if (inbox == Inbox::kRead) inbox_read_at_ = now;
  if (inbox == Inbox::kMoreWaits && now - inbox_read_at_ < options_.worker_timeout) return;
  std::map<std::string, LostReason> silent;
  worker_registry_.ForEach([&](const Worker& worker) {
    if (!worker.link.IsOver(now)) return;
    silent[worker.hello.worker_id] = worker.is_unreachable ? LostReason::kUnreachable : LostReason::kSilent;
  });
  for (const auto& [worker_id, reason] : silent) Lose(worker_id, reason, now);
}

void FleetCore::Tick(Instant now, Inbox inbox) {
  ForgiveOwnPause(now);
  arrivals_.Begin(now);
  std::erase_if(hello_asked_, [&](const auto& entry) { return now - entry.second >= kHelloPatience; });

  const bool ping = now - last_ping_ >= options_.ping_interval;
  if (ping) last_ping_ = now;
  LoseSilentWorkers(now, inbox);
  worker_registry_.ForEach([&](Worker& worker) {
    if (ping) SendPing(worker);
    if (!worker_registry_.IsReady(worker)) AskForBundle(worker, now);
    if (const auto change = worker.view.Tick(now)) TellModeChange(worker, *change, metrics_);
    if (worker.view.TakeSnapshotDue(now)) effects_.Send(worker.identity, wire::WantSnapshot{});
  });
  LoseHungWorkers(now);
  requests_.MoveOverdue(now);
  worker_registry_.Readmit(now);
  requests_.Expire(now);
  forwards_.Expire(now);
  orders_.Expire(now);
  handovers_.Expire(now);
  requests_.DispatchWaiting(now);
  worker_registry_.revisions().SweepIndexes();
  TellArrivals(now);
  Observe(now);
  PublishGauges(now);
  ListTransfers(now);
}

// A pause grows shorter without a change.
void FleetCore::ListTransfers(Instant now) {
  const auto is_paused = [](const TransferPair& pair) { return pair.paused_seconds > 0; };
  if (now < list_transfers_at_) return;
  list_transfers_at_ = now + kListInterval;
  const std::uint64_t change = worker_registry_.transfers().rates().change_count();
  if (change == listed_change_ && std::none_of(transfers_->begin(), transfers_->end(), is_paused)) return;
  listed_change_ = change;
  std::vector<TransferPair> pairs;
  const Transfers& transfers = worker_registry_.transfers();
  const std::map<WorkerPair, std::uint32_t> in_flight = transfers.InFlight();
  for (const PairRates::Pair& pair : transfers.rates().pairs()) {
    const Worker* const from = worker_registry_.InSlot(pair.ends.from);
    const Worker* const to = worker_registry_.InSlot(pair.ends.to);
    if (from == nullptr || to == nullptr) continue;
    TransferPair& told = pairs.emplace_back();
    told.from = from->hello.worker_id;
    told.to = to->hello.worker_id;
    told.model = to->hello.model;
    if (pair.rate) told.start_seconds = pair.rate->start_seconds;
    if (pair.rate) told.bytes_per_second = pair.rate->bytes_per_second;
    const auto open = in_flight.find(pair.ends);
    told.in_flight_count = open == in_flight.end() ? 0 : open->second;
    told.done_count = pair.done_count;
    told.failed_count = pair.failed_count;
    if (pair.has_ended) told.last_outcome = NameOf(pair.last_outcome);
    const wire::HoldCause cause = requests_.copies().holds().LastCause(told.from, told.to);
    if (cause != wire::HoldCause::kNone) told.last_cause = wire::kHoldCauseNames[static_cast<std::size_t>(cause)];
    told.paused_seconds = std::max(0.0, ToSeconds(pair.paused_until - now));
  }
  transfers_ = std::make_shared<const std::vector<TransferPair>>(std::move(pairs));
}

std::uint32_t FleetCore::router_count() {
  std::vector<std::uint32_t> counts;
  worker_registry_.ForEach([&counts](const Worker& worker) { counts.push_back(worker.load.router_count); });
  if (counts.empty()) return 1;
  // More than half of the workers report this many, or more.
  const auto middle = counts.begin() + static_cast<std::ptrdiff_t>((counts.size() - 1) / 2);
  std::nth_element(counts.begin(), middle, counts.end());
  return std::clamp(*middle, 1U, std::max(options_.max_routers, 1U));
}

void FleetCore::ForgiveOwnPause(Instant now) {
  const Instant last = std::exchange(last_tick_, now).value_or(now);
  if (now - last < options_.worker_timeout / 2) return;
  recovered_at_ = now + options_.worker_timeout;
  worker_registry_.ForEach([&](Worker& worker) {
    worker.link.Forgive(now);
    worker.engine.Forgive(now);
    worker.first_tokens.Forgive(now);
    worker.later_tokens.Begin(now);
  });
}

void FleetCore::Observe(Instant now) {
  std::vector<FleetJournal::Observed> workers;
  worker_registry_.ForEach([&](const Worker& worker) {
    workers.push_back(
        {worker.hello.worker_id, worker.hello.model, worker_registry_.StateOf(worker), worker.load.engine_absence});
  });
  for (const std::string& model : journal_.Observe(workers, now)) metrics_.ForgetModel(model);
}

void FleetCore::PublishGauges(Instant now) {
  worker_registry_.ForEach([&](const Worker& worker) {
    metrics_.SetInFlight(worker.hello.model, worker.hello.worker_id,
                         worker.ledger->request_count() + worker.forward_count);
    metrics_.SetMode(worker.hello.model, worker.hello.worker_id, worker.view.mode());
    metrics_.SetCacheValue(worker.hello.model, worker.hello.worker_id, worker.CacheValue(now));
  });
  requests_.waiting().Publish();
  for (const auto& [model, counts] : journal_.Counts()) metrics_.SetWorkers(model, counts);
  metrics_.SetIndex(worker_registry_.IndexesNow());
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

Result<RequestId> FleetCore::Forward(ForwardSpec spec, std::shared_ptr<ForwardObserver> observer, Instant now) {
  ROOST_RETURN_IF_ERROR(CheckOpen());
  return forwards_.Submit(std::move(spec), std::move(observer), now);
}

void FleetCore::Cancel(RequestId id) {
  requests_.Cancel(id);
  forwards_.Cancel(id);
}

Result<void> FleetCore::Send(Order order, std::span<const WorkerMatch> matches, Instant now, AnswersDone done) {
  if (shut_down_) return CheckOpen();
  if (const auto* const awaited = std::get_if<ModelAwaited>(&order)) return Await(*awaited, now, std::move(done));
  const bool goes_to_workers =
      !std::holds_alternative<PromptQuery>(order) && !std::holds_alternative<DecisionsQuestion>(order);
  if (goes_to_workers) ROOST_RETURN_IF_ERROR(CheckOpen());
  if (const auto* const evict = std::get_if<EvictOrder>(&order)) handovers_.Evict(*evict);
  return orders_.Send(std::move(order), matches, now, std::move(done));
}

Result<void> FleetCore::Await(const ModelAwaited& awaited, Instant now, AnswersDone done) {
  if (!arrivals_.Hold(awaited.model, std::move(done), now)) {
    return Error{ErrorCode::kOverloaded, "too many requests wait for a worker to bring their model", ""};
  }
  TellArrivals(now);  // a worker may have come meanwhile
  return {};
}

FleetSnapshot FleetCore::Snapshot(Instant now) {
  FleetSnapshot snapshot;
  snapshot.at = now;
  snapshot.models = models();
  if (!shut_down_) {
    snapshot.starting = worker_registry_.StartingNames();
    snapshot.is_settling = arrivals_.IsSettling(now);
  }
  snapshot.workers = Workers(now);
  snapshot.queues = Queues(now);
  snapshot.transfers = transfers_;
  snapshot.requests_pull = options_.requests.routing.pulls == RequestPulls::kOn;
  snapshot.standing = Standing(now);
  snapshot.router_count = router_count();
  const Result<void> open = CheckOpen();
  snapshot.refusal = open.ok() ? requests_.Refusal() : std::optional(open.error());
  for (auto& [name, error] : requests_.waiting().FullQueues()) {
    snapshot.full_queues.emplace(std::pair(name.revision, name.adapter), error);
  }
  snapshot.metrics = &metrics_;
  return snapshot;
}

std::vector<WorkerStatus> FleetCore::Workers(Instant now) {
  std::vector<WorkerStatus> statuses;
  worker_registry_.ForEach([&](const Worker& worker) { statuses.push_back(worker_registry_.StatusOf(worker, now)); });
  std::map<std::string_view, std::size_t> ready;  // workers, by model
  for (const WorkerStatus& status : statuses) ready[status.model] += status.state == WorkerState::kReady ? 1 : 0;
  const WorkerShares shares(decisions());
  for (WorkerStatus& status : statuses) {
    status.share = shares.Of(status.model, status.worker_id, ready[status.model], status.came_at);
  }
  return statuses;
}

FleetStanding FleetCore::Standing(Instant now) {
  Observe(now);
  return journal_.StandingAt(now);
}

void FleetCore::Shutdown() {
  shut_down_ = true;
  for (AnswersDone& go : arrivals_.TakeAll()) effects_.Push(NotifyAnswers{std::move(go), {}});
  requests_.EndAll({ErrorCode::kUnavailable, "the router is stopping", ""});
  forwards_.EndAll({ErrorCode::kUnavailable, "the router is stopping", ""});
  orders_.EndAll();
  handovers_.EndAll();
}

}  // namespace roost::router

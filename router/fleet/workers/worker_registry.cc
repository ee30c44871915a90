#include "router/fleet/workers/worker_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/prefix/block_hash.h"
#include "common/wire/crowding.h"

namespace roost::router {

namespace {

void LogUnreadable(const Worker& worker, const Error& error) {
  LogError("worker gets no requests: its tokenizer can not be read",
           {{"worker", worker.hello.worker_id}, {"model", worker.hello.model}, {"error", error.ToString()}});
}
}  // namespace

WorkerRegistry::WorkerRegistry(Options options)
    : options_(std::move(options)), rng_(options_.seed), revisions_(options_.index_memory_bytes) {}

Worker* WorkerRegistry::Find(std::string_view worker_id) {
  const auto found = workers_.find(worker_id);
  return found == workers_.end() ? nullptr : found->second.get();
}

Worker* WorkerRegistry::FindByIdentity(const std::string& identity) {
  const auto found = by_identity_.find(identity);
  return found == by_identity_.end() ? nullptr : found->second;
}

// ---- coming and going ----

Result<void> WorkerRegistry::Admit(const wire::Hello& hello) const {
  if (hello.process_id == 0) return InvalidArgument("process_id", "is missing");
  if (!IsValidBlockTokens(hello.block_tokens)) {
    return InvalidArgument("block_tokens", "{} is not a power of two from {} to {}", hello.block_tokens,
                           kMinBlockTokens, kMaxBlockTokens);
  }
  if (workers_.size() >= kMaxWorkers) {
    return Error{ErrorCode::kOverloaded, fmt::format("this router takes at most {} workers", kMaxWorkers), "worker_id"};
  }
  return {};
}

Result<Worker*> WorkerRegistry::Add(const std::string& identity, const wire::Hello& hello, Instant now) {
  ROOST_RETURN_IF_ERROR(Admit(hello));
  const std::string revision = RevisionKey(hello);
  std::shared_ptr<PrefixIndex> index = revisions_.Join(revision, hello.model);
  auto worker = std::make_unique<Worker>(hello, FreeSlot(), std::move(index), revisions_.StepCostsOf(revision),
                                         pending_, options_.worker, rng_.Below(kFirstSent), now);
  const auto stalled = stalled_.find(hello.process_id);
  if (stalled != stalled_.end()) worker->stalled_at = stalled->second;
  Worker* const added = workers_.insert_or_assign(hello.worker_id, std::move(worker)).first->second.get();
  const std::size_t slot = added->slot.value();
  if (by_slot_.size() <= slot) by_slot_.resize(slot + 1);
  by_slot_[slot] = added;
  if (hello.checkpoints) ++checkpoint_worker_count_;
  transfers_.Join(added->slot, PlaceOf(hello));
  Reconnect(*added, identity);
  RefreshRevision(revision);
  if (const Error* const unreadable = bundles_.FindUnreadable(hello.tokenizer_digest)) {
    LogUnreadable(*added, *unreadable);
  }
  return added;
}

void WorkerRegistry::SetUnreachable(Worker& worker) {
  worker.is_unreachable = true;
  Refresh(worker);
}

void WorkerRegistry::Reconnect(Worker& worker, const std::string& identity) {
  by_identity_.erase(worker.identity);
  worker.identity = identity;
  by_identity_.insert_or_assign(identity, &worker);
  if (std::exchange(worker.is_unreachable, false)) Refresh(worker);
}

void WorkerRegistry::SetAdapters(Worker& worker, const std::vector<std::string>& names) {
  worker.adapters = AdapterNames(names.begin(), names.end());
  RefreshRevision(worker.revision);
}

void WorkerRegistry::DropAdapter(Worker& worker, std::string_view name) {
  const auto found = worker.adapters.find(name);
  if (found == worker.adapters.end()) return;
  worker.adapters.erase(found);
  RefreshRevision(worker.revision);
}

void WorkerRegistry::Remove(std::string_view worker_id, Instant now) {
  const auto found = workers_.find(worker_id);
  if (found == workers_.end()) return;
  const std::string revision = found->second->revision;
  AdapterNames names = std::move(found->second->adapters);
  names.insert(found->second->hello.aliases.begin(), found->second->hello.aliases.end());
  fleets_.Remove(*found->second);
  transfers_.Leave(found->second->slot);
  by_slot_[found->second->slot.value()] = nullptr;
  by_identity_.erase(found->second->identity);
  if (found->second->hello.checkpoints) --checkpoint_worker_count_;
  workers_.erase(found);
  revisions_.Leave(revision, now);
  RefreshRevision(revision);
  revisions_.NoteLost(names, now);
}

void WorkerRegistry::RememberStall(const Worker& worker) {
  if (stalled_.size() >= kMaxStalled) stalled_.clear();
  stalled_.insert_or_assign(worker.hello.process_id, worker.engine.progress());
}

WorkerSlot WorkerRegistry::FreeSlot() const {
  const auto free = std::find(by_slot_.begin(), by_slot_.end(), nullptr);
  return WorkerSlot(static_cast<std::uint32_t>(free - by_slot_.begin()));
}

// ---- bundles ----

bool WorkerRegistry::ShouldAskForBundle(const Worker& worker, Instant now) {
  if (!BringsText(worker.hello)) return false;
  DropUnusedBundles();
  const auto is_here = [this](const BundleStore::Source& source) {
    const Worker* const asked = Find(source.worker_id);
    return asked != nullptr && asked->hello.epoch == source.epoch;
  };
  return bundles_.Ask(worker.hello.tokenizer_digest, {worker.hello.worker_id, worker.hello.epoch}, is_here, now);
}

bool WorkerRegistry::TakeBundleAnswer(const Worker& worker, std::string_view digest) {
  return bundles_.TakeAnswer(digest, {worker.hello.worker_id, worker.hello.epoch});
}

void WorkerRegistry::SetBundle(const std::string& digest, TextBundle bundle) {
  bundles_.SetText(digest, std::move(bundle));
  std::set<std::string> revisions;
  for (const auto& [id, worker] : workers_) {
    if (worker->hello.tokenizer_digest == digest) revisions.insert(worker->revision);
  }
  for (const std::string& revision : revisions) RefreshRevision(revision);
}

void WorkerRegistry::SetBundleFault(const std::string& digest, const BundleError& error, Instant now) {
  bundles_.SetFault(digest, error, now);
  if (error.fault != BundleFault::kUnreadable) {
    LogWarning("a tokenizer was not read; the router will ask for it again",
               {{"digest", digest}, {"error", error.error.ToString()}});
    return;
  }
  for (const auto& [id, worker] : workers_) {
    if (worker->hello.tokenizer_digest == digest) LogUnreadable(*worker, error.error);
  }
}

void WorkerRegistry::DropUnusedBundles() {
  std::set<std::string_view> used;
  for (const auto& [id, worker] : workers_) used.insert(worker->hello.tokenizer_digest);
  bundles_.DropUnused(used);
}

// ---- models ----

void WorkerRegistry::RefreshRevision(const std::string& key) {
  const wire::Hello* hello = nullptr;
  std::uint32_t max_context_tokens = 0;
  AdapterNames adapters;
  AdapterNames aliases;
  std::set<std::string, std::less<>> routes;
  for (const auto& [id, worker] : workers_) {
    if (worker->revision != key) continue;
    Refresh(*worker);
    if (!IsReady(*worker)) continue;
    const std::uint32_t own = worker->hello.max_context_tokens;
    max_context_tokens = hello == nullptr ? own : std::min(max_context_tokens, own);
    if (hello == nullptr) hello = &worker->hello;
    adapters.insert(worker->adapters.begin(), worker->adapters.end());
    aliases.insert(worker->hello.aliases.begin(), worker->hello.aliases.end());
    routes.insert(worker->hello.routes.begin(), worker->hello.routes.end());
  }
  if (hello == nullptr) return revisions_.Withdraw(key);
  const std::shared_ptr<const TextBundle> bundle = bundles_.Find(hello->tokenizer_digest);
  const TextBundle text = bundle == nullptr ? TextBundle() : *bundle;
  revisions_.Publish(key,
                     ServedModel{.name = hello->model,
                                 .base = "",
                                 .fingerprint = hello->fingerprint,
                                 .kv_dtype = hello->kv_dtype,
                                 .block_tokens = hello->block_tokens,
                                 .max_context_tokens = max_context_tokens,
                                 .sampling = hello->sampling,
                                 .tokenizer = text.tokenizer,
                                 .chat_template = text.chat_template,
                                 .bos_token = text.bos_token,
                                 .eos_token = text.eos_token,
                                 .created_unix_seconds = options_.unix_seconds(),
                                 .revision = key,
                                 .index = nullptr,
                                 .has_text = BringsText(*hello),
                                 .routes = std::move(routes)},
                     aliases, adapters);
  CountCapacity(key);
}

void WorkerRegistry::CountCapacity(const std::string& key) {
  const auto count = std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return entry.second->revision == key && IsServing(*entry.second);
  });
  revisions_.SetCapacity(key, static_cast<std::uint32_t>(count));
}

IndexUse WorkerRegistry::IndexesNow() const {
  return {.block_count = revisions_.indexed_block_count(),
          .memory_bytes = revisions_.index_memory_bytes(),
          .shed_blocks_total = revisions_.shed_block_total()};
}

// ---- which workers may get requests ----

std::set<std::string, std::less<>> WorkerRegistry::StartingNames() const {
  std::set<std::string, std::less<>> names;
  for (const auto& [id, worker] : workers_) {
    if (IsReady(*worker) || bundles_.FindUnreadable(worker->hello.tokenizer_digest) != nullptr) continue;
    names.insert(worker->hello.model);
    names.insert(worker->hello.aliases.begin(), worker->hello.aliases.end());
    names.insert(worker->adapters.begin(), worker->adapters.end());
  }
  return names;
}

std::vector<HeldBlocks> WorkerRegistry::CutToResumable(std::span<const BlockHash> hashes, std::uint32_t prompt_tokens,
                                                       std::vector<WorkerMatch>& matches) const {
  std::vector<HeldBlocks> held;
  if (checkpoint_worker_count_ == 0 || prompt_tokens == 0) return held;
  for (WorkerMatch& match : matches) {
    const Worker* const worker = InSlot(match.worker);
    const ResumableBlocks* const resumable = worker == nullptr ? nullptr : worker->view.resumable();
    if (resumable == nullptr) continue;
    held.push_back({match.worker, match.block_count});
    // The last token of a prompt is always computed. The held blocks have to reach beyond a hit by those that are
    // dropped.
    const std::uint32_t usable = (prompt_tokens - 1) / worker->hello.block_tokens;
    const std::uint32_t dropped = worker->load.dropped_tokens / worker->hello.block_tokens;
    const std::uint32_t reached = match.block_count - std::min(match.block_count, dropped);
    match.block_count = resumable->LastBefore(hashes, std::min(reached, usable));
  }
  if (held.empty()) return held;
  std::erase_if(matches, [](const WorkerMatch& match) { return match.block_count == 0; });
  std::stable_sort(matches.begin(), matches.end(),
                   [](const WorkerMatch& a, const WorkerMatch& b) { return a.block_count > b.block_count; });
  return held;
}

bool WorkerRegistry::IsServing(const Worker& worker) const {
  return IsReady(worker) && !worker.load.draining && !worker.is_leaving && !worker.stalled_at.has_value();
}

bool WorkerRegistry::TakesRequests(const Worker& worker) const {
  return IsServing(worker) && !worker.full_until.has_value() && !worker.is_unreachable && worker.ejection.admits();
}

std::vector<Worker*> WorkerRegistry::Serving(std::string_view revision) {
  std::vector<Worker*> serving;
  for (const auto& [id, worker] : workers_) {
    if (worker->revision == revision && IsServing(*worker)) serving.push_back(worker.get());
  }
  return serving;
}

std::vector<Worker*> WorkerRegistry::Serving(const ServedModel& model) {
  std::vector<Worker*> serving = Serving(model.revision);
  const auto lacks = [&model](const Worker* worker) { return !worker->adapters.contains(model.adapter()); };
  if (model.is_adapter()) std::erase_if(serving, lacks);
  return serving;
}

const FleetView* WorkerRegistry::FleetOf(const ServedModel& model) const {
  return revisions_.Find(model.revision) == nullptr ? nullptr : fleets_.Find(model.revision);
}

void WorkerRegistry::NoteSent(Worker& worker, RequestId id) {
  worker.generate_digest ^= wire::MixedId(id);
  worker.last_sent = ++sent_number_;
  Refresh(worker);
}

void WorkerRegistry::Refresh(Worker& worker) {
  const bool was_serving = std::exchange(worker.was_serving, IsServing(worker));
  if (was_serving != worker.was_serving) CountCapacity(worker.revision);
  TakesRequests(worker) ? fleets_.Set(worker) : fleets_.Remove(worker);
}

void WorkerRegistry::NoteFailure(Worker& worker, Instant now) {
  if (worker.ejection.OnFailure(now)) LeaveOut(worker, "it fails its requests");
}

void WorkerRegistry::NoteSilence(Worker& worker, Instant now) {
  worker.owed_at = worker.engine.progress();
  if (worker.ejection.OnSilence(now)) LeaveOut(worker, "its tokens stay away");
}

void WorkerRegistry::LeaveOut(Worker& worker, std::string_view why) {
  if (IsOnlyOne(worker)) return worker.ejection.Lift();
  LogWarning("a worker gets no requests for a while",
             {{"worker", worker.hello.worker_id}, {"reason", std::string(why)}});
  Refresh(worker);
}

bool WorkerRegistry::IsOnlyOne(const Worker& worker) const {
  return std::none_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const Worker& other = *entry.second;
    return &other != &worker && other.revision == worker.revision && IsServing(other) && other.ejection.is_in();
  });
}

void WorkerRegistry::Readmit(Instant now) {
  for (const auto& [id, worker] : workers_) {
    const bool was_full = worker->full_until.has_value() && now >= *worker->full_until;
    if (was_full) worker->full_until.reset();
    const bool is_needed = !worker->ejection.is_in() && IsOnlyOne(*worker);
    if (is_needed) worker->ejection.Lift();
    if (was_full || is_needed || worker->ejection.Tick(now)) Refresh(*worker);
  }
}

wire::Crowding WorkerRegistry::CrowdingOf(const wire::Hello& hello) const {
  std::vector<wire::ComputeShare> all;
  for (const auto& [id, worker] : workers_) all.push_back(worker->hello.compute);
  return wire::CrowdingOf(hello.compute, all);
}

namespace {

// Without the secret.
wire::Transfer PublicPartOf(wire::Transfer transfer) {
  transfer.secret.clear();
  return transfer;
}

}  // namespace

WorkerState WorkerRegistry::StateOf(const Worker& worker) const {
  if (!IsReady(worker)) return WorkerState::kStarting;
  if (worker.load.cordoned) return WorkerState::kCordoned;
  if (worker.load.engine_away_ms > 0) return WorkerState::kAway;
  if (worker.load.draining || worker.is_leaving) return WorkerState::kDraining;
  if (worker.stalled_at.has_value()) return WorkerState::kStalled;
  return worker.ejection.admits() && !worker.is_unreachable ? WorkerState::kReady : WorkerState::kEjected;
}

WorkerStatus WorkerRegistry::StatusOf(const Worker& worker, Instant now) const {
  return {.worker_id = worker.hello.worker_id,
          .slot = worker.slot,
          .model = worker.hello.model,
          .ready = IsReady(worker) && !worker.stalled_at.has_value(),
          .state = StateOf(worker),
          .came_at = worker.came_at,
          .seconds_since_heard = ToSeconds(now - worker.link.heard()),
          .load = worker.load,
          .block_count = worker.hello.block_count,
          .block_tokens = worker.hello.block_tokens,
          .in_flight_requests = worker.ledger->request_count() + worker.forward_count,
          .indexed_block_count = worker.index->View(worker.slot).block_count,
          .mode = ShownMode(worker),
          .index_in_sync = worker.view.in_sync(),
          .requests_total = worker.requests_total,
          .totals = worker.totals,
          .cache_value_seconds = worker.CacheValue(now),
          .version = worker.hello.version,
          .fingerprint = worker.hello.fingerprint,
          .kv_dtype = worker.hello.kv_dtype,
          .adapters = {worker.adapters.begin(), worker.adapters.end()},
          .role = worker.hello.role,
          .host = worker.hello.host,
          .engine = worker.hello.engine,
          .cache_absence = worker.hello.cache_absence,
          .is_unread = !BringsText(worker.hello),
          .compute = worker.hello.compute,
          .transfer = PublicPartOf(worker.hello.transfer)};
}

}  // namespace roost::router

#include "router/fleet/roster.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/prefix/block_hash.h"

namespace roost::router {

namespace {

// From sending to the step that could take a request in, beside the step's own duration.
constexpr Duration kLinkDelay = std::chrono::milliseconds(2);
constexpr double kLongestStepSeconds = 3600;
// A bundle may be large and the network slow; after this the answer is taken for lost.
constexpr Duration kBundlePatience = std::chrono::seconds(10);
// Bundles (tens of megabytes each) that no worker uses are kept up to this many, for a worker that restarts.
constexpr std::size_t kMaxBundles = 8;

bool ServeTheSame(const wire::Hello& a, const wire::Hello& b) {
  return a.fingerprint == b.fingerprint && a.kv_dtype == b.kv_dtype && a.block_tokens == b.block_tokens &&
         a.tokenizer_digest == b.tokenizer_digest;
}

}  // namespace

Worker::Worker(wire::Hello its_hello, WorkerSlot its_slot, std::shared_ptr<PrefixIndex> its_index,
               PendingPrefixes& pending, ModeOptions modes, std::uint64_t turn, Instant now)
    : hello(std::move(its_hello)),
      slot(its_slot),
      index(std::move(its_index)),
      view(*index, slot, hello, modes, now),
      busy(now),
      told(pending, slot),
      joined_at(now),
      last_heard(now),
      computed_tokens(kGivenHalfLife, now),
      last_sent(turn) {
  load.free_block_count = hello.block_count;
}

void Worker::Report(wire::Load report, Instant now) {
  std::vector<wire::OtherPrompt> others = std::exchange(report.other_prompts, {});
  load = std::move(report);
  computed_tokens.Add(load.step_prefill_tokens, now);
  // A heartbeat between two steps repeats the load of the last one, and so covers nothing new.
  if (load.step_seconds > 0) {
    rates.Observe({load.step_prefill_tokens, load.step_decode_tokens, load.step_seconds});
    busy.Observe(PrefillSeconds(ViewOf(*this), load.step_prefill_tokens), now);
    const Instant began = now - FromSeconds(std::min(load.step_seconds, kLongestStepSeconds)) - kLinkDelay;
    ledger->CoverUntil(began, load.step_prefill_tokens, hello.ageing_tokens);
  } else {
    busy.Observe(0, now);
  }
  ledger->SetOthers(others, now);
  // What a worker caches of which nothing is known is not known of these either.
  if (view.mode() == WorkerMode::kBlind) others.clear();
  told.Follow(std::move(others));
}

void TellModeChange(const Worker& worker, ModeTracker::Change change, FleetMetrics& metrics) {
  metrics.OnModeChange(change.to, change.reason);
  LogWarning("what is known of a worker's cache begins anew", {{"worker", worker.hello.worker_id},
                                                               {"mode", std::string(NameOf(change.to))},
                                                               {"reason", std::string(NameOf(change.reason))}});
}

Roster::Roster(ModeOptions modes, std::uint64_t index_memory_bytes, std::function<std::int64_t()> unix_seconds,
               std::uint64_t seed)
    : modes_(modes),
      unix_seconds_(std::move(unix_seconds)),
      rng_(seed),
      index_budget_(std::make_shared<IndexBudget>(index_memory_bytes)) {}

Worker* Roster::Find(std::string_view worker_id) {
  const auto found = workers_.find(worker_id);
  return found == workers_.end() ? nullptr : found->second.get();
}

Result<void> Roster::Admit(std::string_view identity, const wire::Hello& hello) const {
  if (hello.protocol_version != wire::kProtocolVersion) {
    return InvalidArgument("protocol_version", "{} is not {}, which this router speaks", hello.protocol_version,
                           wire::kProtocolVersion);
  }
  if (hello.worker_id != identity) return InvalidArgument("worker_id", "differs from the link's identity");
  if (!IsValidBlockTokens(hello.block_tokens)) return InvalidArgument("block_tokens", "{}", hello.block_tokens);
  if (workers_.size() >= kMaxWorkers) return InvalidArgument("worker_id", "{} workers are the most", kMaxWorkers);
  for (const auto& [id, other] : workers_) {
    if (other->hello.model != hello.model || ServeTheSame(other->hello, hello)) continue;
    return InvalidArgument("model",
                           "\"{}\" differs from what worker {} serves under that name (fingerprint, kv_dtype, "
                           "block_tokens and tokenizer must be equal)",
                           hello.model, id);
  }
  return {};
}

Result<Worker*> Roster::Add(std::string_view identity, const wire::Hello& hello, Instant now) {
  ROOST_RETURN_IF_ERROR(Admit(identity, hello));
  auto worker =
      std::make_unique<Worker>(hello, FreeSlot(), IndexFor(hello.model), pending_, modes_, rng_.Below(kFirstSent), now);
  const FleetView* const fleet = fleets_.Find(hello.model);
  if (fleet != nullptr) worker->computed_tokens.Add(fleet->speed().given_tokens_lately, now);
  Worker* const added = workers_.insert_or_assign(hello.worker_id, std::move(worker)).first->second.get();
  RefreshModel(hello.model);
  const auto bundle = bundles_.find(hello.tokenizer_digest);
  if (bundle != bundles_.end() && bundle->second.unreadable.has_value()) {
    LogUnreadable(*added, *bundle->second.unreadable);
  }
  return added;
}

void Roster::Remove(std::string_view worker_id) {
  const auto found = workers_.find(worker_id);
  if (found == workers_.end()) return;
  const std::string model = found->second->hello.model;
  fleets_.Remove(*found->second);
  workers_.erase(found);
  DropUnusedIndex(model);
  RefreshModel(model);
}

std::shared_ptr<PrefixIndex> Roster::IndexFor(const std::string& model) {
  std::shared_ptr<PrefixIndex>& index = indexes_[model];
  if (index == nullptr) index = std::make_shared<PrefixIndex>(index_budget_);
  return index;
}

void Roster::DropUnusedIndex(const std::string& model) {
  const bool used = std::any_of(workers_.begin(), workers_.end(),
                                [&](const auto& entry) { return entry.second->hello.model == model; });
  if (used) return;
  const auto found = indexes_.find(model);
  if (found == indexes_.end()) return;
  shed_before_ += found->second->shed_block_total();
  indexes_.erase(found);
}

void Roster::NoteSent(Worker& worker, RequestId id) {
  worker.generate_digest ^= wire::MixedId(id);
  worker.last_sent = ++sent_number_;
  Refresh(worker);
}

void Roster::SweepIndexes() {
  // What lost workers left behind: some tens of microseconds for each model.
  constexpr std::size_t kBuckets = 4096;
  for (const auto& [model, index] : indexes_) index->Sweep(kBuckets);
}

IndexUse Roster::IndexesNow() const {
  IndexUse use{.block_count = indexed_block_count(),
               .memory_bytes = index_budget_->used_bytes(),
               .shed_blocks_total = shed_before_};
  for (const auto& [model, index] : indexes_) use.shed_blocks_total += index->shed_block_total();
  return use;
}

std::uint64_t Roster::indexed_block_count() const {
  std::uint64_t count = 0;
  for (const auto& [model, index] : indexes_) count += index->block_count();
  return count;
}

WorkerSlot Roster::FreeSlot() const {
  std::set<WorkerSlot> used;
  for (const auto& [id, worker] : workers_) used.insert(worker->slot);
  std::uint32_t slot = 0;
  while (used.contains(WorkerSlot(slot))) ++slot;
  return WorkerSlot(slot);
}

bool Roster::WasAsked(const Bundle& bundle, const Worker& worker) const {
  return bundle.asked_worker_id == worker.hello.worker_id && bundle.asked_epoch == worker.hello.epoch;
}

bool Roster::ShouldAskForBundle(const Worker& worker, Instant now) {
  DropUnusedBundles();
  Bundle& bundle = bundles_[worker.hello.tokenizer_digest];
  if (!bundle.is_open() || bundle.answered) return false;
  const Worker* const asked = Find(bundle.asked_worker_id);
  if (asked != nullptr && WasAsked(bundle, *asked) && now < bundle.ask_again) return false;
  bundle.ask_again = now + kBundlePatience;
  bundle.asked_worker_id = worker.hello.worker_id;
  bundle.asked_epoch = worker.hello.epoch;
  return true;
}

bool Roster::TakeBundleAnswer(const Worker& worker, std::string_view digest) {
  const auto found = bundles_.find(digest);
  if (found == bundles_.end() || !found->second.is_open() || !WasAsked(found->second, worker)) return false;
  return !std::exchange(found->second.answered, true);
}

void Roster::SetBundle(const std::string& digest, Result<TextBundle> bundle) {
  Bundle& entry = bundles_[digest];
  if (bundle.ok()) {
    entry.text = std::make_shared<const TextBundle>(std::move(bundle).value());
  } else {
    entry.unreadable = bundle.error();
  }
  std::set<std::string> models;
  for (const auto& [id, worker] : workers_) {
    if (worker->hello.tokenizer_digest != digest) continue;
    models.insert(worker->hello.model);
    if (entry.unreadable.has_value()) LogUnreadable(*worker, *entry.unreadable);
  }
  for (const std::string& model : models) RefreshModel(model);
}

void Roster::LogUnreadable(const Worker& worker, const Error& error) const {
  LogError("worker is not used: its tokenizer can not be read",
           {{"worker", worker.hello.worker_id}, {"model", worker.hello.model}, {"error", error.ToString()}});
}

bool Roster::IsReady(const Worker& worker) const {
  const auto found = bundles_.find(worker.hello.tokenizer_digest);
  return found != bundles_.end() && found->second.text != nullptr;
}

void Roster::DropUnusedBundles() {
  if (bundles_.size() < kMaxBundles) return;
  std::set<std::string_view> used;
  for (const auto& [id, worker] : workers_) used.insert(worker->hello.tokenizer_digest);
  std::erase_if(bundles_, [&](const auto& entry) { return !used.contains(entry.first); });
}

void Roster::RefreshModel(const std::string& name) {
  const wire::Hello* hello = nullptr;
  std::uint32_t max_context_tokens = 0;
  for (const auto& [id, worker] : workers_) {
    if (worker->hello.model != name) continue;
    Refresh(*worker);
    if (!IsReady(*worker)) continue;
    const std::uint32_t own = worker->hello.max_context_tokens;
    max_context_tokens = hello == nullptr ? own : std::min(max_context_tokens, own);
    if (hello == nullptr) hello = &worker->hello;
  }
  if (hello == nullptr) {
    models_.erase(name);
    return;
  }
  std::shared_ptr<const ServedModel>& served = models_[name];
  const bool unchanged = served != nullptr && served->fingerprint == hello->fingerprint &&
                         served->block_tokens == hello->block_tokens && served->kv_dtype == hello->kv_dtype &&
                         served->max_context_tokens == max_context_tokens && served->index == indexes_.at(name);
  if (unchanged) return;
  const TextBundle& text = *bundles_.at(hello->tokenizer_digest).text;
  served = std::make_shared<const ServedModel>(
      ServedModel{.name = name,
                  .fingerprint = hello->fingerprint,
                  .kv_dtype = hello->kv_dtype,
                  .block_tokens = hello->block_tokens,
                  .max_context_tokens = max_context_tokens,
                  .sampling = hello->sampling,
                  .tokenizer = text.tokenizer,
                  .chat_template = text.chat_template,
                  .bos_token = text.bos_token,
                  .eos_token = text.eos_token,
                  .created_unix_seconds = served == nullptr ? unix_seconds_() : served->created_unix_seconds,
                  .index = indexes_.at(name)});
}

std::shared_ptr<const ServedModel> Roster::FindModel(std::string_view name) const {
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const ServedModel>> Roster::Models() const {
  std::vector<std::shared_ptr<const ServedModel>> models;
  for (const auto& [name, model] : models_) models.push_back(model);
  return models;
}

std::vector<Worker*> Roster::Serving(const ServedModel& model) {
  std::vector<Worker*> serving;
  const FleetView* const fleet = FleetOf(model);
  if (fleet == nullptr) return serving;
  for (const auto& [id, worker] : workers_) {
    if (worker->hello.model == model.name && fleet->Find(worker->slot) != nullptr) serving.push_back(worker.get());
  }
  return serving;
}

const FleetView* Roster::FleetOf(const ServedModel& model) const {
  const std::shared_ptr<const ServedModel> served = FindModel(model.name);
  const bool same = served != nullptr && served->fingerprint == model.fingerprint &&
                    served->kv_dtype == model.kv_dtype && served->block_tokens == model.block_tokens;
  return same ? fleets_.Find(model.name) : nullptr;
}

void Roster::Refresh(Worker& worker) {
  const bool takes_requests = !worker.load.draining && IsReady(worker);
  takes_requests ? fleets_.Set(worker) : fleets_.Remove(worker);
}

WorkerStatus Roster::StatusOf(const Worker& worker, Instant now) const {
  return {.worker_id = worker.hello.worker_id,
          .slot = worker.slot,
          .model = worker.hello.model,
          .ready = IsReady(worker),
          .seconds_since_heard = ToSeconds(now - worker.last_heard),
          .load = worker.load,
          .block_count = worker.hello.block_count,
          .block_tokens = worker.hello.block_tokens,
          .in_flight_requests = worker.ledger->request_count(),
          .indexed_block_count = worker.index->View(worker.slot).block_count,
          .mode = worker.view.mode(),
          .index_in_sync = worker.view.in_sync(),
          .requests_total = worker.requests_total};
}

}  // namespace roost::router

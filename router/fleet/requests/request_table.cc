#include "router/fleet/requests/request_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "router/fleet/evicted.h"
#include "router/fleet/requests/worker_message.h"

namespace roost::router {

namespace {

// The time within which something should be done that was predicted to take `seconds`, with slack.
Duration PatienceFor(double seconds) {
  constexpr double kSlack = 4;
  constexpr double kMinSeconds = 1;
  constexpr double kMaxSeconds = 120;
  return FromSeconds(std::clamp(kSlack * seconds, kMinSeconds, kMaxSeconds));
}

// For a Hold that measures a pair.
constexpr Duration kMeasurePatience = std::chrono::seconds(30);

}  // namespace

Error NobodyServes(const ServedModel& model) {
  return {ErrorCode::kUnavailable, fmt::format("no worker serves {} now", model.name), "model"};
}

RequestTable::RequestTable(RequestTableOptions options, std::uint64_t first_id, WorkerRegistry& registry,
                           Policy& policy, EffectQueue& effects, FleetMetrics& metrics)
    : options_(options),
      worker_registry_(registry),
      effects_(effects),
      metrics_(metrics),
      decider_(options.routing, registry, policy, metrics),
      waiting_({options.max_queue, options.max_queue_wait}, metrics),
      holds_(first_id ^ (std::uint64_t{1} << 62U), registry, effects, metrics, options.max_open_holds),
      copies_(first_id ^ (std::uint64_t{1} << 63U), registry, effects, metrics, holds_),
      next_id_(first_id) {}

RequestTable::~RequestTable() = default;

Result<RequestId> RequestTable::Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer,
                                       std::span<const WorkerMatch> matches, Instant now) {
  ROOST_RETURN_IF_ERROR(CheckBounds(spec));
  if (requests_.size() >= options_.max_requests) return TooManyInFlight();
  if (spec.deadline.has_value() && *spec.deadline <= now) {
    return Error{ErrorCode::kDeadlineExceeded, "the request's deadline passed before it could be sent", ""};
  }
  auto owned = std::make_unique<Request>();
  Request& request = *owned;
  request.id = NextId();
  request.spec = std::move(spec);
  request.observer = std::move(observer);
  request.choices.resize(request.spec.generate.sample_count);
  request.prompt_logprobs_told = !request.spec.generate.prompt_logprobs.has_value();
  request.parts = {{.choices = {0, request.spec.generate.sample_count}}};
  Sending sending = Sending::kNoRoom;
  const bool in_reserve = MayUseReserve(request.spec);
  // Otherwise a new request must not overtake waiting ones.
  if (in_reserve || waiting_.size(AdmissionQueues::QueueNameOf(*request.spec.model)) == 0) {
    const Admission admission = in_reserve ? Admission::kInReserve : Admission::kWithRoom;
    sending = SendFirstPart(request, request.spec.generate.block_hashes, matches, admission, now);
    if (sending == Sending::kNoWorker && MoveToOtherRevision(request)) {
      sending = SendParts(request, Admission::kWithRoom, now);
    }
  }
  if (sending == Sending::kNoWorker) return WhyNobody(request.spec);
  if (sending == Sending::kNoRoom) ROOST_RETURN_IF_ERROR(Enqueue(request, now));
  if (request.spec.generate.cache_mode == wire::CacheMode::kOff) metrics_.OnCacheOff(request.spec.model->model_name());
  if (request.spec.deadline.has_value()) deadlines_.emplace(*request.spec.deadline, request.id);
  requests_.emplace(request.id, std::move(owned));
  return request.id;
}

// Either no worker serves the model, or none of those that do supports the request's constraint.
Error RequestTable::WhyNobody(const GenerateSpec& spec) {
  if (!spec.generate.constraint.has_value() || worker_registry_.Serving(*spec.model).empty())
    return NobodyServes(*spec.model);
  return InvalidArgument(spec.generate.constraint->field, "no worker of '{}' can constrain its output",
                         spec.model->name);
}

RequestTable::Sending RequestTable::SendParts(Request& request, Admission admission, Instant now) {
  while (!request.parts.empty()) {
    const std::vector<TokenId>& output = request.choices[request.parts.front().choices.first].output;
    const std::vector<BlockHash> hashes = HashesSoFar(request.spec, output, output.size());
    const std::vector<WorkerMatch> matches = MatchNow(*request.spec.model, hashes);
    const Sending sending = SendFirstPart(request, hashes, matches, admission, now);
    if (sending == Sending::kSent || (sending == Sending::kNoWorker && MoveToOtherRevision(request))) continue;
    return sending;
  }
  LeaveQueue(request);  // its waiting choices were sent too
  return Sending::kSent;
}

RequestTable::Sending RequestTable::SendFirstPart(Request& request, std::span<const BlockHash> hashes,
                                                  std::span<const WorkerMatch> matches, Admission admission,
                                                  Instant now) {
  const Part part = request.parts.front();
  const bool uses_cache = request.spec.generate.cache_mode == wire::CacheMode::kOn;
  std::vector<WorkerMatch> depths(matches.begin(), matches.end());
  if (uses_cache) worker_registry_.pending().Deepen(request.spec.generate.block_hashes, now, depths);
  const std::size_t output_tokens = request.choices[part.choices.first].output.size();
  const auto prompt_tokens = static_cast<std::uint32_t>(request.spec.generate.prompt.size() + output_tokens);
  const PlacementQuery query{.spec = request.spec,
                             .prompt_token_count = prompt_tokens,
                             .sample_count = part.choices.count,
                             .retry_count = part.retry_count + part.late_count,
                             .matches = depths,
                             .may_pull = !holds_.is_full()};
  std::optional<Placement> placement = FindPlace(query, admission, now);
  if (!placement.has_value()) return MayBeTaken(request) ? Sending::kNoRoom : Sending::kNoWorker;
  Worker& worker = placement->worker;
  metrics_.OnSent(worker.hello.model, worker.hello.worker_id);

  Attempt attempt;
  attempt.request = &request;
  attempt.part = part;
  // The first attempt has the request's id.
  attempt.id = std::exchange(request.was_sent, true) ? NextId() : request.id;
  attempt.worker_id = worker.hello.worker_id;
  attempt.prompt_token_count = prompt_tokens;
  BeginPull(attempt, placement->decision, worker, hashes, now);
  attempt.prediction = Decider::PredictionOf(*placement);
  const std::uint32_t uncached_tokens = prompt_tokens - attempt.prediction.cached_tokens;
  attempt.charge =
      InFlightLedger::Add(worker.ledger, uncached_tokens, now, attempt.prediction.cached_tokens, attempt.id);
  attempt.is_probe = worker.ejection.OnSent();
  if (uses_cache && worker.view.mode() != WorkerMode::kBlind) {
    const std::optional<PrefixPull>& pull = placement->decision.pull;
    PendingPrefixes::Coming coming;
    if (pull) coming = {.block_count = pull->end_block(), .at = now + FromSeconds(pull->price.seconds)};
    // After this time the prompt no longer counts as pending.
    attempt.pending_until = now + PatienceFor(placement->decision.predicted_ttft_seconds);
    attempt.pending =
        worker_registry_.pending().Add(worker.slot, request.spec.generate.block_hashes, attempt.pending_until, coming);
  }
  ++worker.requests_total;
  worker_registry_.NoteSent(worker, attempt.id);
  const WorkerOrder order{attempt.id,
                          part.choices,
                          request.choices[part.choices.first].output,
                          hashes,
                          attempt.prediction.cached_tokens,
                          request.prompt_logprobs_told ? std::nullopt : request.spec.generate.prompt_logprobs,
                          PriorityAtWorker(request.spec, now)};
  effects_.Send(worker.identity, MessageOf(request.spec, order, now), request.spec.memory);
  if (placement->decision.copy.has_value()) copies_.Start(request.spec, *placement->decision.copy, now);
  if (placement->decision.measure.has_value()) Measure(*placement->decision.measure, request.spec, now);
  effects_.Push(
      NotifyDispatched{request.observer, {.worker_id = attempt.worker_id, .decision = std::move(placement->decision)}});
  const RequestId id = attempt.id;
  request.parts.erase(request.parts.begin());
  request.attempts.push_back(id);
  attempts_.emplace(id, std::move(attempt));
  return Sending::kSent;
}

// ---- blocks that travel ----

void RequestTable::BeginPull(Attempt& attempt, Decision& decision, const Worker& worker,
                             std::span<const BlockHash> hashes, Instant now) {
  if (!decision.pull.has_value()) {
    const std::uint32_t blocks = decision.matched_tokens / worker.hello.block_tokens;
    if (decision.arriving_tokens > 0) attempt.hold = holds_.Join(worker, hashes.first(blocks));
    return;
  }
  const PrefixPull& pull = *decision.pull;
  const double seconds = pull.price.seconds;
  if (const Worker* const source = worker_registry_.InSlot(pull.source)) {
    attempt.hold = holds_.Start(
        worker, {source->hello.worker_id, source->hello.transfer.address, pull.end_block(), pull.first_block},
        attempt.request->spec, hashes, {.purpose = wire::HoldPurpose::kRequest, .patience = PatienceFor(seconds)}, now,
        [this, id = attempt.id, seconds](const HoldEnd& end, Instant /*now*/) { OnPulled(id, end, seconds); });
  }
  if (attempt.hold.has_value()) return;
  decision.pull.reset();
  decision.matched_tokens -= std::min(decision.matched_tokens, decision.arriving_tokens);
  decision.arriving_tokens = 0;
}

void RequestTable::OnPulled(RequestId attempt_id, const HoldEnd& end, double predicted_seconds) {
  const auto found = attempts_.find(attempt_id);
  if (found == attempts_.end()) return;
  Attempt& attempt = found->second;
  attempt.hold.reset();
  const GenerateSpec& spec = attempt.request->spec;
  decider_.OnPulled(*spec.model, attempt.prediction.number, end.pull, predicted_seconds);
  const Worker* const worker = worker_registry_.Find(attempt.worker_id);
  if (worker == nullptr || attempt.prompt_computed_at.has_value() || !attempt.pending.guards()) return;
  // From now on the worker computes what it lacks.
  attempt.pending = {};
  attempt.pending = worker_registry_.pending().Add(worker->slot, spec.generate.block_hashes, attempt.pending_until);
}

void RequestTable::Measure(const PairToMeasure& pair, const GenerateSpec& spec, Instant now) {
  const bool is_measuring = measuring_.has_value() && holds_.IsOpen(*measuring_);
  const Worker* const source = worker_registry_.InSlot(pair.ends.from);
  const Worker* const worker = worker_registry_.InSlot(pair.ends.to);
  if (is_measuring || now < measure_after_ || source == nullptr || worker == nullptr) return;
  const HoldSource from{source->hello.worker_id, source->hello.transfer.address, pair.first_block + pair.block_count,
                        pair.first_block};
  measuring_ = holds_.Start(*worker, from, spec, spec.generate.block_hashes,
                            {.patience = kMeasurePatience, .range = HoldBook::Range::kFromFirstBlock}, now,
                            [this](const HoldEnd& end, Instant then) {
                              if (end.pull.block_count == 0) measure_after_ = then + RequestTableOptions::kMeasurePause;
                            });
}

// Counts it as sent.
std::uint32_t RequestTable::PriorityAtWorker(const GenerateSpec& spec, Instant now) {
  const bool within_share = tenant_shares_.OnSent(spec.generate.tenant, now);
  return within_share ? spec.generate.priority : std::max(spec.generate.priority, 1U) - 1;
}

bool RequestTable::MoveToOtherRevision(Request& request) {
  if (HasOutput(request)) return false;
  const std::shared_ptr<const ServedModel> other =
      worker_registry_.revisions().directory()->Choose(request.spec.model->name);
  if (other == nullptr || other->revision == request.spec.model->revision) return false;
  if (other->tokenizer != request.spec.model->tokenizer) return false;
  if (request.spec.generate.prompt.size() + request.spec.generate.max_output_tokens > other->max_context_tokens)
    return false;
  LeaveQueue(request);
  request.spec.model = other;
  request.spec.generate.own.reset();
  request.spec.generate.root = ScopeRoot(*other, request.spec.generate.tenant, request.spec.salt);
  request.spec.generate.block_hashes =
      HashBlocks(request.spec.generate.root, request.spec.generate.prompt, other->block_tokens);
  return true;
}

std::vector<WorkerMatch> RequestTable::MatchNow(const ServedModel& model, std::span<const BlockHash> hashes) const {
  const std::shared_ptr<const ServedModel> served = worker_registry_.revisions().Find(model.revision);
  return served == nullptr ? std::vector<WorkerMatch>() : served->index->Match(hashes);
}

RequestTable::Attempt* RequestTable::FindAttempt(const std::string& worker_id, RequestId attempt_id) {
  const auto found = attempts_.find(attempt_id);
  if (found == attempts_.end() || found->second.worker_id != worker_id) return nullptr;
  return &found->second;
}

bool RequestTable::HasOpenChoice(const Request& request, ChoiceRange range) {
  const auto first = request.choices.begin() + range.first;
  return std::any_of(first, first + range.count, [](const Choice& choice) { return !choice.ended; });
}

bool RequestTable::HasOutput(const Request& request) {
  return std::any_of(request.choices.begin(), request.choices.end(),
                     [](const Choice& choice) { return choice.ended || !choice.output.empty(); });
}

void RequestTable::SendTo(const std::string& worker_id, wire::RouterMessage message) {
  if (const Worker* const worker = worker_registry_.Find(worker_id))
    effects_.Send(worker->identity, std::move(message));
}

// ---- ends and retries of attempts ----

// All choices as one range if none of them has tokens; otherwise each open choice alone.
std::vector<ChoiceRange> RequestTable::RangesLeft(const Attempt& attempt) {
  const std::vector<Choice>& choices = attempt.request->choices;
  const ChoiceRange all = attempt.part.choices;
  const auto first = choices.begin() + all.first;
  const auto is_untouched = [](const Choice& choice) { return !choice.ended && choice.output.empty(); };
  if (std::all_of(first, first + all.count, is_untouched)) return {all};
  std::vector<ChoiceRange> ranges;
  for (std::uint32_t i = all.first; i < all.first + all.count; ++i) {
    if (!choices[i].ended) ranges.push_back({i, 1});
  }
  return ranges;
}

// A worker that is full for a moment is no reason to give up: its refusal does not count as a retry, and a request that
// no worker takes waits.
RequestTable::Fate RequestTable::Retry(const Attempt& attempt, RetryReason reason, const Error& error, Instant now) {
  Request& request = *attempt.request;
  request.prompt_logprobs.clear();  // the next attempt sends them from the start
  Part part = attempt.part;
  if (reason == RetryReason::kNoFirstToken || reason == RetryReason::kNoLaterToken) {
    ++part.late_count;
  } else if (reason != RetryReason::kOverloaded) {
    ++part.retry_count;
  }
  const std::uint64_t decision = attempt.prediction.number;
  for (const ChoiceRange range : RangesLeft(attempt)) {
    part.choices = range;
    request.parts.push_back(part);
  }
  Forget(attempt);
  Sending sending = Sending::kNoWorker;
  if (part.retry_count <= options_.max_retries) {
    const bool is_new = reason == RetryReason::kOverloaded && !HasOutput(request);
    sending = SendParts(request, is_new ? Admission::kWithRoom : Admission::kAnyway, now);
  }
  if (sending == Sending::kNoWorker) {
    End(request, {.reason = wire::FinishReason::kError, .error = error});
    return Fate::kFailed;
  }
  metrics_.OnRetry(request.spec.model->model_name(), reason);
  decider_.OnNoOutcome(decision, NameOf(reason));
  if (sending == Sending::kSent) return Fate::kMoved;
  if (request.waits) return Fate::kWaits;
  // A request that workers refuse again and again must not wait for ever.
  if (request.wait_deadline.has_value() && now >= *request.wait_deadline) {
    EndWait(request);
    return Fate::kFailed;
  }
  EnqueueFirst(request, now);
  return Fate::kWaits;
}

void RequestTable::Cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found != requests_.end()) {
    End(*found->second, {.reason = wire::FinishReason::kCancelled, .error = std::nullopt});
  }
}

void RequestTable::KeepOut(const EvictOrder& order) {
  for (const auto& [id, request] : requests_) {
    if (IsNamed(order, request->spec)) request->spec.generate.cache_mode = wire::CacheMode::kOff;
  }
  for (auto& [id, attempt] : attempts_) {
    if (IsNamed(order, attempt.request->spec)) attempt.pending = {};
  }
  copies_.Evict(order);
}

void RequestTable::EndAll(const Error& error) {
  copies_.EndAll();
  while (!requests_.empty()) {
    End(*requests_.begin()->second, {.reason = wire::FinishReason::kError, .error = error});
  }
}

void RequestTable::Forget(const Attempt& attempt) {
  decider_.OnNoOutcome(attempt.prediction.number, attempt.prompt_computed_at ? "not_reported" : "request_ended");
  Worker* const worker = worker_registry_.Find(attempt.worker_id);
  if (attempt.is_probe && worker != nullptr) worker->ejection.OnProbeDropped();
  if (attempt.hold.has_value()) holds_.Leave(*attempt.hold);
  tenant_shares_.OnEnded(attempt.request->spec.generate.tenant);
  std::erase(attempt.request->attempts, attempt.id);
  attempts_.erase(attempt.id);
  if (worker != nullptr) worker_registry_.Refresh(*worker);
}

void RequestTable::End(Request& request, GenerationEnd end) {
  while (!request.attempts.empty()) {
    const Attempt& attempt = attempts_.at(request.attempts.back());
    SendTo(attempt.worker_id, wire::Cancel{attempt.id});
    Forget(attempt);
  }
  LeaveQueue(request);
  if (request.spec.deadline.has_value()) deadlines_.erase({*request.spec.deadline, request.id});
  effects_.Push(NotifyEnd{std::move(request.observer), std::move(end)});
  requests_.erase(request.id);
}

}  // namespace roost::router

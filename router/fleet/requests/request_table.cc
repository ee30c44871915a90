#include "router/fleet/requests/request_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "router/fleet/evicted.h"
#include "router/fleet/requests/worker_message.h"

namespace roost::router {

Error NobodyServes(const ServedModel& model) {
  return {ErrorCode::kUnavailable, fmt::format("no worker serves {} now", model.name), "model"};
}

namespace {

Error WeightsReplaced() {
  return {ErrorCode::kUnavailable, "the model's weights were replaced, and others can not continue the answer", ""};
}

Error NoTriesLeft(std::uint32_t losses) {
  return {ErrorCode::kUnavailable, fmt::format("{} workers in turn were lost or gave the request up", losses), ""};
}

}  // namespace

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
  ExpectReturn(request.spec, now);
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

void RequestTable::ExpectReturn(GenerateSpec& spec, Instant now) {
  const std::optional<Duration> gap = return_gaps_.OnRequest({spec.generate.session_hash, spec.generate.tenant}, now);
  if (!gap || spec.longest_learned_return_ms == 0) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(*gap).count();
  spec.generate.expect_return_ms = std::min(static_cast<std::uint64_t>(ms), spec.longest_learned_return_ms);
}

// Either no worker serves the model, or none of those that do supports what the request asks for.
Error RequestTable::WhyNobody(const GenerateSpec& spec) {
  const std::vector<Worker*> workers = worker_registry_.Serving(*spec.model);
  if (workers.empty()) return NobodyServes(*spec.model);
  if (spec.generate.constraint.has_value()) {
    return InvalidArgument(spec.generate.constraint->field, "no worker of '{}' can constrain its output",
                           spec.model->name);
  }
  const bool has_least = std::any_of(workers.begin(), workers.end(), [](const Worker* worker) {
    return worker->hello.features.contains(wire::Feature::kMinOutputTokens);
  });
  if (spec.generate.min_output_tokens > 0 && !has_least) {
    return InvalidArgument("min_tokens", "no worker of '{}' has a least number of tokens", spec.model->name);
  }
  return NobodyServes(*spec.model);
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
  std::optional<Placement> placement = Place(request, hashes, matches, admission, now);
  if (!placement.has_value()) return MayBeTaken(request) ? Sending::kNoRoom : Sending::kNoWorker;
  const Attempt& attempt = Prepare(request, *placement, hashes, now);
  Dispatch(attempt, *placement, hashes, now);
  return Sending::kSent;
}

std::optional<Placement> RequestTable::Place(const Request& request, std::span<const BlockHash> hashes,
                                             std::span<const WorkerMatch> matches, Admission admission, Instant now) {
  const Part& part = request.parts.front();
  const std::uint32_t prompt_tokens = TokensBefore(request, part);
  std::vector<WorkerMatch> depths(matches.begin(), matches.end());
  const std::vector<HeldBlocks> held = worker_registry_.CutToResumable(hashes, prompt_tokens, depths);
  if (UsesCache(request)) worker_registry_.pending().Deepen(request.spec.generate.block_hashes, now, depths);
  return FindPlace({.spec = request.spec,
                    .prompt_token_count = prompt_tokens,
                    .sample_count = part.choices.count,
                    .retry_count = part.retry_count + part.late_count,
                    .matches = depths,
                    .may_pull = !holds_.is_full(),
                    .together = WhyTogether(request, part),
                    .held = held},
                   admission, now);
}

RequestTable::Attempt& RequestTable::Prepare(Request& request, Placement& placement, std::span<const BlockHash> hashes,
                                             Instant now) {
  Worker& worker = placement.worker;
  // The first attempt has the request's id.
  const RequestId id = std::exchange(request.was_sent, true) ? NextId() : request.id;
  Attempt& attempt = attempts_[id];
  attempt.id = id;
  attempt.request = &request;
  attempt.part = request.parts.front();
  attempt.worker_id = worker.hello.worker_id;
  attempt.prompt_token_count = TokensBefore(request, attempt.part);
  request.parts.erase(request.parts.begin());
  request.attempts.push_back(id);
  BeginPull(attempt, placement.decision, worker, hashes, now);
  attempt.prediction = Decider::PredictionOf(placement);
  const std::uint32_t cached_tokens = attempt.prediction.cached_tokens;
  attempt.charge =
      InFlightLedger::Add(worker.ledger, attempt.prompt_token_count - cached_tokens, now, cached_tokens, id);
  const std::optional<PrefixPull>& pull = placement.decision.pull;
  if (pull.has_value() && pull->source == worker.slot) attempt.charge.Restore(pull->price.bytes);
  attempt.is_probe = worker.ejection.OnSent();
  ExpectPrompt(attempt, placement.decision, worker, now);
  if (placement.decision.apart.has_value()) BeginApart(attempt, *placement.decision.apart, hashes, now);
  if (!KvTransferFor(attempt, worker).empty()) {
    const double seconds = placement.decision.predicted_ttft_seconds + worker.handover_seconds;
    handovers_due_.emplace(now + PatienceFor(seconds), id);
  }
  ++worker.requests_total;
  worker_registry_.NoteSent(worker, id);
  return attempt;
}

void RequestTable::Dispatch(const Attempt& attempt, Placement& placement, std::span<const BlockHash> hashes,
                            Instant now) {
  const Request& request = *attempt.request;
  const Worker& worker = placement.worker;
  const WorkerOrder order{attempt.id,
                          attempt.part.choices,
                          request.choices[attempt.part.choices.first].output,
                          hashes,
                          attempt.prediction.cached_tokens,
                          request.prompt_logprobs_told ? std::nullopt : request.spec.generate.prompt_logprobs,
                          PriorityAtWorker(request.spec, now),
                          PartOf(attempt),
                          KvTransferFor(attempt, worker)};
  effects_.Send(worker.identity, MessageOf(request.spec, order, now), request.spec.memory);
  metrics_.OnSent(worker.hello.model, worker.hello.worker_id);
  if (placement.decision.copy.has_value()) copies_.Start(request.spec, *placement.decision.copy, now);
  effects_.Push(
      NotifyDispatched{request.observer, {.worker_id = attempt.worker_id, .decision = std::move(placement.decision)}});
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

bool RequestTable::UsesCache(const Request& request) {
  return request.spec.generate.cache_mode == wire::CacheMode::kOn;
}

std::uint32_t RequestTable::TokensBefore(const Request& request, const Part& part) {
  return static_cast<std::uint32_t>(request.spec.generate.prompt.size() +
                                    request.choices[part.choices.first].output.size());
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
RequestTable::Fate RequestTable::Retry(Attempt& attempt, RetryReason reason, const Error& error, Instant now) {
  Request& request = *attempt.request;
  request.prompt_logprobs.clear();  // the next attempt sends them from the start
  // The ranks of an engine that died refuse one after the other.
  const bool was_refused = reason == RetryReason::kUnavailable && !attempt.prompt_computed_at.has_value();
  Part part = attempt.part;
  part.goes_on = false;  // what it computes again counts again
  part.kv_transfer.clear();
  if (reason == RetryReason::kNoFirstToken || reason == RetryReason::kNoLaterToken) {
    ++part.late_count;
  } else if (reason != RetryReason::kOverloaded && !was_refused) {
    ++part.retry_count;
  }
  if (reason != RetryReason::kOverloaded) {
    ++part.loss_count;
    part.token_count = 0;
  }
  const std::uint64_t decision = attempt.prediction.number;
  for (const ChoiceRange range : RangesLeft(attempt)) {
    part.choices = range;
    request.parts.push_back(part);
  }
  Forget(attempt);
  Sending sending = Sending::kNoWorker;
  if (HasTries(part)) {
    const bool is_new = reason == RetryReason::kOverloaded && !HasOutput(request);
    sending = SendParts(request, is_new ? Admission::kWithRoom : Admission::kAnyway, now);
  }
  if (sending == Sending::kNoWorker) {
    End(request, {.reason = wire::FinishReason::kError, .error = WhyNotAgain(request, part, error)});
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

// `error` ended its last attempt.
Error RequestTable::WhyNotAgain(const Request& request, const Part& part, const Error& error) const {
  if (!HasTries(part)) return NoTriesLeft(part.loss_count);
  const std::shared_ptr<const ServedModel> served =
      worker_registry_.revisions().directory()->Main(request.spec.model->name);
  const bool is_replaced = served != nullptr && served->revision != request.spec.model->revision;
  return HasOutput(request) && is_replaced ? WeightsReplaced() : error;
}

bool RequestTable::HasTries(const Part& part) const {
  return part.retry_count <= options_.max_retries && part.loss_count <= RequestTableOptions::kMaxLosses;
}

void RequestTable::Cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found != requests_.end()) {
    End(*found->second, {.reason = wire::FinishReason::kCancelled, .error = std::nullopt});
  }
}

void RequestTable::KeepOut(const EvictOrder& order, Instant now) {
  for (const auto& [id, request] : requests_) {
    if (IsNamed(order, request->spec)) request->spec.generate.cache_mode = wire::CacheMode::kOff;
  }
  for (auto& [id, attempt] : attempts_) {
    if (!IsNamed(order, attempt.request->spec)) continue;
    attempt.pending = {};
    if (attempt.following.has_value()) attempt.following->pending = {};
  }
  copies_.Evict(order);
  decider_.losses().OnEvict(order, now);
}

void RequestTable::EndAll(const Error& error) {
  copies_.EndAll();
  while (!requests_.empty()) {
    End(*requests_.begin()->second, {.reason = wire::FinishReason::kError, .error = error});
  }
}

void RequestTable::Forget(Attempt& attempt) {
  decider_.OnNoOutcome(attempt.prediction.number, attempt.prompt_computed_at ? "not_reported" : "request_ended");
  Worker* const worker = worker_registry_.Find(attempt.worker_id);
  if (attempt.is_probe && worker != nullptr) worker->ejection.OnProbeDropped();
  if (attempt.hold.has_value()) holds_.Leave(*attempt.hold);
  if (attempt.following.has_value()) EndFollowing(*attempt.following);
  tenant_shares_.OnEnded(attempt.request->spec.generate.tenant);
  std::erase(attempt.request->attempts, attempt.id);
  attempts_.erase(attempt.id);
  if (worker != nullptr) worker_registry_.Refresh(*worker);
}

void RequestTable::End(Request& request, GenerationEnd end) {
  while (!request.attempts.empty()) {
    Attempt& attempt = attempts_.at(request.attempts.back());
    SendTo(attempt.worker_id, wire::Cancel{attempt.id});
    Forget(attempt);
  }
  LeaveQueue(request);
  if (request.spec.deadline.has_value()) deadlines_.erase({*request.spec.deadline, request.id});
  effects_.Push(NotifyEnd{std::move(request.observer), std::move(end)});
  requests_.erase(request.id);
}

}  // namespace roost::router

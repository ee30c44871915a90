#include "router/fleet/request_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "router/fleet/evicted.h"
#include "router/fleet/worker_message.h"

namespace roost::router {

namespace {

Error WorkerLost() { return {ErrorCode::kUnavailable, "the worker was lost and no other can continue", ""}; }

// The time by which a prompt should be computed, with slack. After it, the prompt no longer counts as pending.
Instant PendingUntil(Instant now, const Decision& decision) {
  constexpr double kSlack = 4;
  constexpr double kLeastSeconds = 1;
  constexpr double kMostSeconds = 120;
  return now + FromSeconds(std::clamp(kSlack * decision.predicted_ttft_seconds, kLeastSeconds, kMostSeconds));
}

// A worker that refused a request because it is full gets no requests for this time. Otherwise each of the many waiting
// requests would try it.
constexpr Duration kFullTime = std::chrono::milliseconds(100);

// Whether the worker caused the error, not the request.
bool IsWorkersFault(ErrorCode code) { return code == ErrorCode::kInternal || code == ErrorCode::kDataLoss; }

// An output may end at a stop token, without any other token. Its prompt was computed too.
bool HasComputedPrompt(const wire::TokenEvent& event) {
  return !event.tokens.empty() || (event.finish.has_value() && !wire::EndsAllChoices(*event.finish));
}

}  // namespace

Error NobodyServes(const ServedModel& model) {
  return {ErrorCode::kUnavailable, fmt::format("no worker serves {} now", model.name), ""};
}

RequestBook::RequestBook(RequestBookOptions options, std::uint64_t first_id, Roster& roster, Policy& policy,
                         EffectQueue& effects, FleetMetrics& metrics)
    : options_(options),
      roster_(roster),
      effects_(effects),
      metrics_(metrics),
      decider_(roster, policy, metrics),
      waiting_({options.max_queue, options.max_queue_wait}, metrics),
      copies_(first_id ^ (std::uint64_t{1} << 63U), roster, effects, metrics),
      next_id_(first_id) {}

RequestBook::~RequestBook() = default;

Result<RequestId> RequestBook::Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer,
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
  request.choices.resize(request.spec.sample_count);
  request.prompt_logprobs_told = !request.spec.prompt_logprobs.has_value();
  request.parts = {{.choices = {0, request.spec.sample_count}}};
  Sending sending = Sending::kNoRoom;  // a new request must not overtake waiting ones
  if (waiting_.size(request.spec.model->revision) == 0) {
    sending = SendFirstPart(request, request.spec.block_hashes, matches, Admission::kWithRoom, now);
    if (sending == Sending::kNoWorker && MoveToOtherRevision(request)) {
      sending = SendParts(request, Admission::kWithRoom, now);
    }
  }
  if (sending == Sending::kNoWorker) return WhyNobody(request.spec);
  if (sending == Sending::kNoRoom) ROOST_RETURN_IF_ERROR(Enqueue(request, now));
  if (request.spec.cache_mode == wire::CacheMode::kOff) metrics_.OnCacheOff(request.spec.model->model_name());
  if (request.spec.deadline.has_value()) deadlines_.emplace(*request.spec.deadline, request.id);
  requests_.emplace(request.id, std::move(owned));
  return request.id;
}

// Either no worker serves the model, or none of those that do supports the request's constraint.
Error RequestBook::WhyNobody(const GenerateSpec& spec) {
  if (!spec.constraint.has_value() || roster_.Serving(*spec.model).empty()) return NobodyServes(*spec.model);
  return InvalidArgument(spec.constraint->field, "no worker of '{}' can constrain its output", spec.model->name);
}

RequestBook::Sending RequestBook::SendParts(Request& request, Admission admission, Instant now) {
  while (!request.parts.empty()) {
    const std::vector<TokenId>& output = request.choices[request.parts.front().choices.first].output;
    std::vector<BlockHash> hashes = HashesSoFar(request.spec, output, output.size());
    const std::vector<WorkerMatch> matches = MatchNow(*request.spec.model, hashes);
    const Sending sending = SendFirstPart(request, std::move(hashes), matches, admission, now);
    if (sending == Sending::kSent || (sending == Sending::kNoWorker && MoveToOtherRevision(request))) continue;
    return sending;
  }
  LeaveQueue(request);  // its waiting choices were sent too
  return Sending::kSent;
}

RequestBook::Sending RequestBook::SendFirstPart(Request& request, std::vector<BlockHash> hashes,
                                                std::span<const WorkerMatch> matches, Admission admission,
                                                Instant now) {
  const Part part = request.parts.front();
  const bool uses_cache = request.spec.cache_mode == wire::CacheMode::kOn;
  std::vector<WorkerMatch> depths(matches.begin(), matches.end());
  if (uses_cache) roster_.pending().Deepen(request.spec.block_hashes, now, depths);
  const std::size_t output_tokens = request.choices[part.choices.first].output.size();
  const auto prompt_tokens = static_cast<std::uint32_t>(request.spec.prompt.size() + output_tokens);
  const PlacementQuery query{.spec = request.spec,
                             .prompt_token_count = prompt_tokens,
                             .sample_count = part.choices.count,
                             .retry_count = part.retry_count,
                             .matches = depths};
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
  attempt.prediction = Decider::PredictionOf(*placement);
  const std::uint32_t uncached_tokens = prompt_tokens - attempt.prediction.cached_tokens;
  attempt.charge = InFlightLedger::Add(worker.ledger, uncached_tokens, now);
  attempt.is_probe = worker.ejection.OnSent();
  if (uses_cache && worker.view.mode() != WorkerMode::kBlind) {
    attempt.pending =
        roster_.pending().Add(worker.slot, request.spec.block_hashes, PendingUntil(now, placement->decision));
  }
  ++worker.requests_total;
  roster_.NoteSent(worker, attempt.id);
  WorkerOrder order{attempt.id,
                    part.choices,
                    request.choices[part.choices.first].output,
                    std::move(hashes),
                    attempt.prediction.cached_tokens,
                    request.prompt_logprobs_told ? std::nullopt : request.spec.prompt_logprobs,
                    PriorityAtWorker(request.spec, now)};
  effects_.Send(worker.identity, MessageOf(request.spec, std::move(order), now), request.spec.memory);
  if (placement->decision.copy.has_value()) copies_.Start(request.spec, *placement->decision.copy, now);
  effects_.Push(
      NotifyDispatched{request.observer, {.worker_id = attempt.worker_id, .decision = std::move(placement->decision)}});
  const RequestId id = attempt.id;
  request.parts.erase(request.parts.begin());
  request.attempts.push_back(id);
  attempts_.emplace(id, std::move(attempt));
  return Sending::kSent;
}

// Counts it as sent.
std::uint32_t RequestBook::PriorityAtWorker(const GenerateSpec& spec, Instant now) {
  const bool within_share = tenant_shares_.OnSent(spec.tenant, now);
  return within_share ? spec.priority : std::max(spec.priority, 1U) - 1;
}

bool RequestBook::MoveToOtherRevision(Request& request) {
  if (HasOutput(request)) return false;
  const std::shared_ptr<const ServedModel> other = roster_.revisions().Choose(request.spec.model->name);
  if (other == nullptr || other->revision == request.spec.model->revision) return false;
  if (other->tokenizer != request.spec.model->tokenizer) return false;
  if (request.spec.prompt.size() + request.spec.max_output_tokens > other->max_context_tokens) return false;
  LeaveQueue(request);
  request.spec.model = other;
  request.spec.own.reset();
  request.spec.root = ScopeRoot(*other, request.spec.tenant, request.spec.salt);
  request.spec.block_hashes = HashBlocks(request.spec.root, request.spec.prompt, other->block_tokens);
  return true;
}

std::vector<WorkerMatch> RequestBook::MatchNow(const ServedModel& model, std::span<const BlockHash> hashes) const {
  const std::shared_ptr<const ServedModel> served = roster_.revisions().Find(model.revision);
  return served == nullptr ? std::vector<WorkerMatch>() : served->index->Match(hashes);
}

RequestBook::Attempt* RequestBook::FindAttempt(const std::string& worker_id, RequestId attempt_id) {
  const auto found = attempts_.find(attempt_id);
  if (found == attempts_.end() || found->second.worker_id != worker_id) return nullptr;
  return &found->second;
}

bool RequestBook::HasOpenChoice(const Request& request, ChoiceRange range) {
  const auto first = request.choices.begin() + range.first;
  return std::any_of(first, first + range.count, [](const Choice& choice) { return !choice.ended; });
}

bool RequestBook::HasOutput(const Request& request) {
  return std::any_of(request.choices.begin(), request.choices.end(),
                     [](const Choice& choice) { return choice.ended || !choice.output.empty(); });
}

void RequestBook::SendTo(const std::string& worker_id, wire::RouterMessage message) {
  if (const Worker* const worker = roster_.Find(worker_id)) effects_.Send(worker->identity, std::move(message));
}

// ---- workers' events ----

void RequestBook::OnEvent(const std::string& worker_id, wire::TokenEvent event, Instant now) {
  if (copies_.OnEvent(worker_id, event, now)) return;
  Attempt* const attempt = FindAttempt(worker_id, event.request_id);
  if (attempt == nullptr) return OnOrphan(worker_id, event, now);
  if (event.choice >= attempt->part.choices.count) return;
  const std::uint32_t index = attempt->part.choices.first + event.choice;
  const Choice& choice = attempt->request->choices[index];
  OnPromptLogprobs(*attempt->request, event);
  if (const Result<void> complete = CheckLogprobs(*attempt->request, event); !complete.ok()) {
    event.finish = wire::FinishReason::kError;
    event.error = complete.error();
    SendTo(worker_id, wire::Cancel{attempt->id});
    return OnFailure(*attempt, event, now);
  }
  if (!choice.ended && HasComputedPrompt(event)) OnTokens(*attempt, event, now);
  if (event.finish.has_value() && wire::EndsAllChoices(*event.finish)) {
    OnFailure(*attempt, event, now);
  } else if (!choice.ended && event.finish.has_value()) {
    OnChoiceEnd(*attempt, {index, *event.finish, event.stop_token}, now);
  } else if (!choice.ended && choice.output.size() >= attempt->request->spec.max_output_tokens) {
    // The worker continues beyond the limit: the answer is complete, and the worker gets a Cancel.
    attempt->cut_short = true;
    OnChoiceEnd(*attempt, {index, wire::FinishReason::kLength}, now);
  }
}

void RequestBook::OnOrphan(const std::string& worker_id, const wire::TokenEvent& event, Instant now) {
  if (event.finish.has_value()) {
    orphans_.OnEnd(event.request_id);
  } else if (orphans_.OnTokens(event.request_id, now)) {
    SendTo(worker_id, wire::Cancel{event.request_id});
  }
}

void RequestBook::OnPromptLogprobs(Request& request, wire::TokenEvent& event) {
  if (request.prompt_logprobs_told) return;
  std::move(event.prompt_logprobs.begin(), event.prompt_logprobs.end(), std::back_inserter(request.prompt_logprobs));
  if (request.prompt_logprobs.size() + 1 < request.spec.prompt.size()) return;
  request.prompt_logprobs_told = true;
  request.prompt_logprobs.resize(request.spec.prompt.size() - 1);
  effects_.Push(NotifyPromptLogprobs{request.observer, std::exchange(request.prompt_logprobs, {})});
}

// An event without tokens has none, and a failure needs none.
Result<void> RequestBook::CheckLogprobs(const Request& request, const wire::TokenEvent& event) {
  const bool fails = event.finish.has_value() && wire::EndsAllChoices(*event.finish);
  if (fails || (event.tokens.empty() && !event.finish.has_value())) return {};
  if (!request.prompt_logprobs_told) {
    return DataLoss("prompt_logprobs", "the worker sent {} of {}", request.prompt_logprobs.size(),
                    request.spec.prompt.size() - 1);
  }
  if (!request.spec.output_logprobs.has_value() || event.logprobs.size() == event.tokens.size()) return {};
  return DataLoss("logprobs", "the worker sent those of {} of {} tokens", event.logprobs.size(), event.tokens.size());
}

void RequestBook::OnTokens(Attempt& attempt, wire::TokenEvent& event, Instant now) {
  Request& request = *attempt.request;
  const std::uint32_t index = attempt.part.choices.first + event.choice;
  std::vector<TokenId>& output = request.choices[index].output;
  const std::size_t room = request.spec.max_output_tokens - output.size();
  if (event.tokens.size() > room) event.tokens.resize(room);
  if (!HasComputedPrompt(event)) return;
  event.logprobs.resize(request.spec.output_logprobs.has_value() ? event.tokens.size() : 0);
  OnPromptComputed(attempt, now);
  OnCacheOutcome(attempt, event, now);
  output.insert(output.end(), event.tokens.begin(), event.tokens.end());
  std::optional<std::uint32_t> cached_tokens;
  if (!request.cache_outcome_told && event.cached_token_count.has_value()) {
    request.cache_outcome_told = true;
    cached_tokens = std::min(*event.cached_token_count, static_cast<std::uint32_t>(request.spec.prompt.size()));
    metrics_.OnFirstToken(request.spec.model->model_name(),
                          {.prompt_tokens = static_cast<std::uint32_t>(request.spec.prompt.size()),
                           .predicted_cached_tokens = attempt.prediction.cached_tokens,
                           .actual_cached_tokens = *cached_tokens,
                           .block_tokens = request.spec.model->block_tokens});
    decider_.OnFirstToken(*request.spec.model, attempt.prediction, *cached_tokens, now);
  }
  if (event.tokens.empty() && !cached_tokens.has_value()) return;
  effects_.Push(NotifyTokens{request.observer,
                             {.tokens = {event.tokens.begin(), event.tokens.end()},
                              .cached_token_count = cached_tokens,
                              .choice = index,
                              .logprobs = std::move(event.logprobs)}});
}

void RequestBook::OnPromptComputed(Attempt& attempt, Instant now) {
  if (std::exchange(attempt.prompt_computed, true)) return;
  attempt.pending = {};  // the cache events of its blocks have already come
  attempt.charge.OnFirstToken();
  const GenerateSpec& spec = attempt.request->spec;
  Worker* const worker = roster_.Find(attempt.worker_id);
  if (worker == nullptr) return;
  worker->ejection.OnFirstToken();
  worker->totals.prompt_tokens += spec.prompt.size();
  worker->totals.ttft_seconds += ToSeconds(now - attempt.prediction.decided_at);
  ++worker->totals.first_tokens;
  if (std::exchange(attempt.is_probe, false)) roster_.Refresh(*worker);
  if (spec.cache_mode == wire::CacheMode::kOff) return;
  worker->view.OnComputed(spec.block_hashes, now);
}

// With the first token, or as late as with the last.
void RequestBook::OnCacheOutcome(Attempt& attempt, const wire::TokenEvent& event, Instant now) {
  if (!event.cached_token_count.has_value() || std::exchange(attempt.cache_outcome_known, true)) return;
  Worker* const worker = roster_.Find(attempt.worker_id);
  if (worker == nullptr) return;
  worker->totals.cached_tokens += *event.cached_token_count;
  if (attempt.request->spec.cache_mode == wire::CacheMode::kOff) return;
  const auto change = worker->view.OnOutcome(
      {attempt.prediction.decided_at, attempt.prediction.cached_tokens, *event.cached_token_count}, now);
  if (change.has_value()) TellModeChange(*worker, *change, metrics_);
}

void RequestBook::NoteOutput(const Attempt& attempt, std::uint32_t choice, Instant now) {
  const GenerateSpec& spec = attempt.request->spec;
  Worker* const worker = roster_.Find(attempt.worker_id);
  if (worker == nullptr || worker->view.mode() != WorkerMode::kPredicted) return;
  if (spec.cache_mode == wire::CacheMode::kOff) return;
  const std::vector<TokenId>& output = attempt.request->choices[choice].output;
  if (output.empty()) return;
  // No token was sampled after the last one, so its KV was not computed.
  worker->view.OnComputed(HashesSoFar(spec, output, output.size() - 1), now);
}

void RequestBook::OnChoiceEnd(Attempt& attempt, ChoiceEnd end, Instant now) {
  Request& request = *attempt.request;
  NoteOutput(attempt, end.choice, now);
  request.choices[end.choice].ended = true;
  if (!HasOpenChoice(request, attempt.part.choices)) {
    if (attempt.cut_short) SendTo(attempt.worker_id, wire::Cancel{attempt.id});
    Forget(attempt);
  }
  if (HasOpenChoice(request, {0, request.spec.sample_count})) {
    effects_.Push(NotifyChoiceEnd{request.observer, end});
  } else {
    End(request, {.reason = end.reason, .error = std::nullopt, .stop_token = end.stop_token});
  }
}

void RequestBook::OnFailure(Attempt& attempt, const wire::TokenEvent& event, Instant now) {
  Request& request = *attempt.request;
  // If the client had cancelled, the request would be gone. So the worker gave it up.
  const bool given_up = event.finish == wire::FinishReason::kCancelled;
  const Error error =
      given_up ? WorkerLost()
               : event.error.value_or(Error{ErrorCode::kInternal, "the worker failed and gave no reason", ""});
  const bool is_full = error.code == ErrorCode::kOverloaded;
  const bool lacks_adapter = error.code == ErrorCode::kModelNotFound && request.spec.model->is_adapter();
  if (Worker* const worker = roster_.Find(attempt.worker_id)) {
    if (is_full) worker->full_until = now + kFullTime;
    worker->is_leaving = worker->is_leaving || error.code == ErrorCode::kUnavailable;
    if (IsWorkersFault(error.code)) {
      attempt.is_probe = false;
      roster_.NoteFailure(*worker, now);
    }
    if (lacks_adapter) roster_.DropAdapter(*worker, request.spec.model->adapter());
    roster_.Refresh(*worker);
  }
  if (is_full || lacks_adapter || error.code == ErrorCode::kUnavailable) {
    Retry(attempt, is_full ? RetryReason::kOverloaded : RetryReason::kUnavailable, error, now);
  } else {
    Forget(attempt);
    End(request, {.reason = wire::FinishReason::kError, .error = error});
  }
}

// ---- ends and retries of attempts ----

// All choices as one range if none of them has tokens; otherwise each open choice alone.
std::vector<ChoiceRange> RequestBook::RangesLeft(const Attempt& attempt) {
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
void RequestBook::Retry(const Attempt& attempt, RetryReason reason, const Error& error, Instant now) {
  Request& request = *attempt.request;
  request.prompt_logprobs.clear();  // the next attempt sends them from the start
  Part part = attempt.part;
  if (reason != RetryReason::kOverloaded) ++part.retry_count;
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
  if (sending == Sending::kNoWorker) return End(request, {.reason = wire::FinishReason::kError, .error = error});
  metrics_.OnRetry(reason);
  if (sending == Sending::kSent || request.waits) return;
  // A request that workers refuse again and again must not wait for ever.
  if (request.wait_deadline.has_value() && now >= *request.wait_deadline) return EndWait(request);
  EnqueueFirst(request, now);
}

void RequestBook::OnWorkerLost(const std::string& worker_id, Instant now) {
  copies_.OnWorkerLost(worker_id);
  std::vector<RequestId> lost;  // sorted, so that runs are reproducible
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.worker_id == worker_id) lost.push_back(id);
  }
  std::sort(lost.begin(), lost.end());
  for (const RequestId id : lost) {
    // The attempt may be gone: when a request ends, its other attempts end too.
    const auto found = attempts_.find(id);
    if (found != attempts_.end()) Retry(found->second, RetryReason::kWorkerLost, WorkerLost(), now);
  }
}

void RequestBook::Cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found != requests_.end()) {
    End(*found->second, {.reason = wire::FinishReason::kCancelled, .error = std::nullopt});
  }
}

void RequestBook::KeepOut(const EvictOrder& order) {
  for (const auto& [id, request] : requests_) {
    if (IsNamed(order, request->spec)) request->spec.cache_mode = wire::CacheMode::kOff;
  }
  for (auto& [id, attempt] : attempts_) {
    if (IsNamed(order, attempt.request->spec)) attempt.pending = {};
  }
  copies_.Evict(order);
}

void RequestBook::EndAll(const Error& error) {
  copies_.EndAll();
  while (!requests_.empty()) {
    End(*requests_.begin()->second, {.reason = wire::FinishReason::kError, .error = error});
  }
}

void RequestBook::Forget(const Attempt& attempt) {
  Worker* const worker = roster_.Find(attempt.worker_id);
  if (attempt.is_probe && worker != nullptr) worker->ejection.OnProbeDropped();
  tenant_shares_.OnEnded(attempt.request->spec.tenant);
  std::erase(attempt.request->attempts, attempt.id);
  attempts_.erase(attempt.id);
  if (worker != nullptr) roster_.Refresh(*worker);
}

void RequestBook::End(Request& request, GenerationEnd end) {
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

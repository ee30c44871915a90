// The part of the request table that takes what the workers send: tokens, ends and failures of attempts. And what a
// lost worker leaves behind.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "router/fleet/requests/request_table.h"
#include "router/fleet/requests/return_gaps.h"
#include "router/fleet/requests/worker_message.h"

namespace roost::router {

namespace {

Error WorkerLost() { return {ErrorCode::kUnavailable, "the worker was lost and no other can continue", ""}; }

// A worker that refused a request because it is full gets no requests for this time. Otherwise each of the many waiting
// requests would try it.
constexpr Duration kFullTime = std::chrono::milliseconds(100);

// True if the worker caused the error, not the request.
bool IsWorkersFault(ErrorCode code) { return code == ErrorCode::kInternal || code == ErrorCode::kDataLoss; }

// The worker leaves or can not go on. An error that names a field is about the request: the client may try it again.
bool IsUnavailable(const Error& error) { return error.code == ErrorCode::kUnavailable && error.field.empty(); }

// An output may end at a stop token, without any other token. Its prompt was computed too.
bool HasComputedPrompt(const wire::TokenEvent& event) {
  return !event.tokens.empty() || (event.finish.has_value() && !wire::EndsAllChoices(*event.finish));
}

}  // namespace

void RequestTable::OnEvent(const std::string& worker_id, wire::TokenEvent event, Instant now) {
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
  DropForConnector(*attempt, event);
  if (!choice.ended && HasComputedPrompt(event)) OnTokens(*attempt, event, now);
  if (event.finish.has_value() && wire::EndsAllChoices(*event.finish)) {
    OnFailure(*attempt, event, now);
  } else if (!choice.ended && event.finish == wire::FinishReason::kLength && attempt->following.has_value()) {
    GoOn(*attempt, std::move(event.kv_transfer), now);
  } else if (!choice.ended && event.finish.has_value()) {
    OnChoiceEnd(*attempt, {index, *event.finish, event.stop_token}, now);
  } else if (!choice.ended && choice.output.size() >= attempt->request->spec.generate.max_output_tokens) {
    // The worker continues beyond the limit: the answer is complete, and the worker gets a Cancel.
    attempt->cut_short = true;
    OnChoiceEnd(*attempt, {index, wire::FinishReason::kLength}, now);
  }
}

void RequestTable::OnOrphan(const std::string& worker_id, const wire::TokenEvent& event, Instant now) {
  if (event.finish.has_value()) {
    orphans_.OnEnd(event.request_id);
  } else if (orphans_.OnTokens(event.request_id, now)) {
    SendTo(worker_id, wire::Cancel{event.request_id});
  }
}

void RequestTable::OnPromptLogprobs(Request& request, wire::TokenEvent& event) {
  if (request.prompt_logprobs_told) return;
  std::move(event.prompt_logprobs.begin(), event.prompt_logprobs.end(), std::back_inserter(request.prompt_logprobs));
  if (request.prompt_logprobs.size() + 1 < request.spec.generate.prompt.size()) return;
  request.prompt_logprobs_told = true;
  request.prompt_logprobs.resize(request.spec.generate.prompt.size() - 1);
  effects_.Push(NotifyPromptLogprobs{request.observer, std::exchange(request.prompt_logprobs, {})});
}

// An event without tokens has none, and a failure needs none.
Result<void> RequestTable::CheckLogprobs(const Request& request, const wire::TokenEvent& event) {
  const bool fails = event.finish.has_value() && wire::EndsAllChoices(*event.finish);
  if (fails || (event.tokens.empty() && !event.finish.has_value())) return {};
  if (!request.prompt_logprobs_told) {
    return DataLoss("prompt_logprobs", "the worker sent {} of {}", request.prompt_logprobs.size(),
                    request.spec.generate.prompt.size() - 1);
  }
  if (!request.spec.generate.output_logprobs.has_value() || event.logprobs.size() == event.tokens.size()) return {};
  return DataLoss("logprobs", "the worker sent those of {} of {} tokens", event.logprobs.size(), event.tokens.size());
}

void RequestTable::OnTokens(Attempt& attempt, wire::TokenEvent& event, Instant now) {
  Request& request = *attempt.request;
  const std::uint32_t index = attempt.part.choices.first + event.choice;
  std::vector<TokenId>& output = request.choices[index].output;
  const std::size_t room = request.spec.generate.max_output_tokens - output.size();
  if (event.tokens.size() > room) event.tokens.resize(room);
  if (!HasComputedPrompt(event)) return;
  event.logprobs.resize(request.spec.generate.output_logprobs.has_value() ? event.tokens.size() : 0);
  NoteTokens(attempt, event.tokens.size(), now);
  OnPromptComputed(attempt, now);
  OnCacheOutcome(attempt, event, now);
  output.insert(output.end(), event.tokens.begin(), event.tokens.end());
  std::optional<std::uint32_t> cached_tokens;
  std::uint32_t written_tokens = 0;
  if (!request.cache_outcome_told && event.cached_token_count.has_value()) {
    request.cache_outcome_told = true;
    cached_tokens =
        std::min(*event.cached_token_count, static_cast<std::uint32_t>(request.spec.generate.prompt.size()));
    written_tokens = std::min(event.written_token_count,
                              static_cast<std::uint32_t>(request.spec.generate.prompt.size()) - *cached_tokens);
    metrics_.OnFirstToken(request.spec.model->model_name(),
                          {.prompt_tokens = static_cast<std::uint32_t>(request.spec.generate.prompt.size()),
                           .predicted_cached_tokens = attempt.prediction.cached_tokens,
                           .actual_cached_tokens = *cached_tokens,
                           .block_tokens = request.spec.model->block_tokens});
    decider_.OnFirstToken(*request.spec.model, attempt.prediction, *attempt.prompt_computed_at);
  }
  if (event.tokens.empty() && !cached_tokens.has_value()) return;
  effects_.Push(NotifyTokens{request.observer,
                             {.tokens = {event.tokens.begin(), event.tokens.end()},
                              .cached_token_count = cached_tokens,
                              .choice = index,
                              .logprobs = std::move(event.logprobs),
                              .written_token_count = written_tokens,
                              .miss = event.miss}});
}

void RequestTable::NoteTokens(Attempt& attempt, std::size_t count, Instant now) {
  Part& part = attempt.part;
  part.token_count += count;
  if (part.token_count >= RequestTableOptions::kTokensForTries * part.choices.count) {
    part.retry_count = 0;
    part.late_count = 0;
  }
  Worker* const worker = worker_registry_.Find(attempt.worker_id);
  if (worker == nullptr) return;
  const bool is_first = !attempt.prompt_computed_at.has_value();
  if (is_first) worker->first_tokens.OnFirstToken(attempt.prediction.decided_at, now);
  worker->first_tokens.OnToken(now);
  if (is_first) {
    attempt.is_overdue = false;
    if (worker->ledger->begun_count() == 0) worker->later_tokens.Begin(now);
    return;
  }
  worker->later_tokens.OnTokens(count, worker->ledger->begun_count(), worker->decode_step_seconds(), now);
  if (worker->later_tokens.IsPaid(now)) NoteServed(attempt, *worker, now);
}

void RequestTable::NoteServed(Attempt& attempt, Worker& worker, Instant now) {
  attempt.is_overdue = false;
  worker.ejection.OnServed(now);
  if (std::exchange(attempt.is_probe, false)) worker_registry_.Refresh(worker);
}

void RequestTable::OnPromptComputed(Attempt& attempt, Instant now) {
  if (attempt.prompt_computed_at.has_value()) return;
  attempt.prompt_computed_at = now;
  attempt.pending = {};  // the cache events of its blocks have already come
  attempt.charge.OnFirstToken();
  const GenerateSpec& spec = attempt.request->spec;
  Worker* const worker = worker_registry_.Find(attempt.worker_id);
  if (worker == nullptr) return;
  NoteHandover(attempt, *worker, now);
  if (!attempt.part.goes_on) {
    worker->totals.prompt_tokens += spec.generate.prompt.size();
    worker->totals.ttft_seconds += ToSeconds(now - attempt.prediction.decided_at);
    ++worker->totals.first_tokens;
  }
  if (spec.generate.cache_mode == wire::CacheMode::kOff) return;
  if (spec.computed_by != nullptr) spec.computed_by->Set(worker->hello.process_id);
  worker->view.OnComputed(spec.generate.block_hashes, now);
}

// With the first token, or as late as with the last.
void RequestTable::OnCacheOutcome(Attempt& attempt, const wire::TokenEvent& event, Instant now) {
  if (!event.cached_token_count.has_value() || std::exchange(attempt.cache_outcome_known, true)) return;
  decider_.OnOutcome(attempt.prediction, {std::min(*event.cached_token_count, attempt.prompt_token_count), event.miss},
                     *attempt.prompt_computed_at);
  Worker* const worker = worker_registry_.Find(attempt.worker_id);
  if (worker == nullptr) return;
  if (!attempt.part.goes_on) {
    worker->totals.cached_tokens += *event.cached_token_count;
    const std::uint32_t cached_tokens = std::min(*event.cached_token_count, attempt.prompt_token_count);
    worker->NoteOnlyHere(cached_tokens - std::min(cached_tokens, attempt.prediction.elsewhere_tokens), now);
  }
  if (attempt.request->spec.generate.cache_mode == wire::CacheMode::kOff) return;
  const auto change = worker->view.OnOutcome({.promised_at = attempt.prediction.decided_at,
                                              .promised = attempt.prediction.cached_tokens,
                                              .found = *event.cached_token_count,
                                              .arriving = attempt.prediction.arriving_tokens},
                                             now);
  if (change.has_value()) TellModeChange(*worker, *change, metrics_);
}

void RequestTable::NoteOutput(const Attempt& attempt, std::uint32_t choice, Instant now) {
  const GenerateSpec& spec = attempt.request->spec;
  Worker* const worker = worker_registry_.Find(attempt.worker_id);
  if (worker == nullptr || worker->view.mode() != WorkerMode::kPredicted) return;
  if (spec.generate.cache_mode == wire::CacheMode::kOff) return;
  const std::vector<TokenId>& output = attempt.request->choices[choice].output;
  if (output.empty()) return;
  // No token was sampled after the last one, so its KV was not computed.
  worker->view.OnComputed(HashesSoFar(spec, output, output.size() - 1), now);
}

std::optional<Decider::AttemptOutput> RequestTable::OutputOf(const Attempt& attempt, Instant now) {
  const Request& request = *attempt.request;
  if (request.spec.generate.sample_count > 1 || !attempt.prompt_computed_at.has_value()) return std::nullopt;
  const std::size_t tokens = request.spec.generate.prompt.size() + request.choices[0].output.size();
  return Decider::AttemptOutput{.tokens = static_cast<std::uint32_t>(tokens - attempt.prompt_token_count),
                                .first_token_at = *attempt.prompt_computed_at,
                                .ended_at = now};
}

void RequestTable::OnChoiceEnd(Attempt& attempt, ChoiceEnd end, Instant now) {
  Request& request = *attempt.request;
  if (Worker* const worker = worker_registry_.Find(attempt.worker_id)) NoteServed(attempt, *worker, now);
  NoteOutput(attempt, end.choice, now);
  decider_.OnAnswer(request.spec, static_cast<std::uint32_t>(request.choices[end.choice].output.size()),
                    attempt.prediction, OutputOf(attempt, now));
  request.choices[end.choice].ended = true;
  if (!HasOpenChoice(request, attempt.part.choices)) {
    if (attempt.cut_short) SendTo(attempt.worker_id, wire::Cancel{attempt.id});
    Forget(attempt);
  }
  if (HasOpenChoice(request, {0, request.spec.generate.sample_count})) {
    effects_.Push(NotifyChoiceEnd{request.observer, end});
  } else {
    return_gaps_.OnEnd({request.spec.generate.session_hash, request.spec.generate.tenant}, now);
    End(request, {.reason = end.reason, .error = std::nullopt, .stop_token = end.stop_token});
  }
}

void RequestTable::OnFailure(Attempt& attempt, const wire::TokenEvent& event, Instant now) {
  Request& request = *attempt.request;
  // If the client had cancelled, the request would be gone. So the worker gave it up.
  const bool given_up = event.finish == wire::FinishReason::kCancelled;
  const Error error =
      given_up ? WorkerLost()
               : event.error.value_or(Error{ErrorCode::kInternal, "the worker failed and gave no reason", ""});
  const bool is_full = error.code == ErrorCode::kOverloaded;
  const bool lacks_adapter = error.code == ErrorCode::kModelNotFound && request.spec.model->is_adapter();
  if (Worker* const worker = worker_registry_.Find(attempt.worker_id)) {
    if (is_full) worker->full_until = now + kFullTime;
    worker->is_leaving = worker->is_leaving || IsUnavailable(error);
    if (IsWorkersFault(error.code)) {
      attempt.is_probe = false;
      worker_registry_.NoteFailure(*worker, now);
    }
    if (lacks_adapter) worker_registry_.DropAdapter(*worker, request.spec.model->adapter());
    worker_registry_.Refresh(*worker);
  }
  if (is_full || lacks_adapter || IsUnavailable(error)) {
    Retry(attempt, is_full ? RetryReason::kOverloaded : RetryReason::kUnavailable, error, now);
  } else {
    Forget(attempt);
    End(request, {.reason = wire::FinishReason::kError, .error = error});
  }
}

Aftermath RequestTable::OnWorkerLost(const std::string& worker_id, Instant now) {
  holds_.OnWorkerLost(worker_id);
  copies_.OnWorkerLost(worker_id);
  std::vector<RequestId> lost;  // sorted, so that runs are reproducible
  for (auto& [id, attempt] : attempts_) {
    if (attempt.worker_id == worker_id) lost.push_back(id);
    if (attempt.following.has_value() && attempt.following->worker_id == worker_id) attempt.following->pending = {};
  }
  std::sort(lost.begin(), lost.end());
  Aftermath aftermath;
  for (const RequestId id : lost) {
    // The attempt may be gone: when a request ends, its other attempts end too.
    const auto found = attempts_.find(id);
    if (found == attempts_.end()) continue;
    switch (Retry(found->second, RetryReason::kWorkerLost, WorkerLost(), now)) {
      case Fate::kMoved: ++aftermath.moved; break;
      case Fate::kWaits: ++aftermath.waiting; break;
      case Fate::kFailed: ++aftermath.failed; break;
    }
  }
  return aftermath;
}

}  // namespace roost::router

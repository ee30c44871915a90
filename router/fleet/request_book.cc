#include "router/fleet/request_book.h"

#include <algorithm>
#include <utility>

#include "common/wire/codec.h"

namespace roost::router {

namespace {

// What the wire can carry, also with all of the output in the prompt.
Result<void> CheckBounds(const GenerateSpec& spec) {
  const std::size_t most = wire::WireLimits::kMaxPromptTokens;
  if (spec.prompt.empty()) return InvalidArgument("prompt", "has no tokens");
  if (spec.prompt.size() + spec.max_output_tokens > most) {
    return InvalidArgument("prompt", "{} tokens and {} of output are more than {}", spec.prompt.size(),
                           spec.max_output_tokens, most);
  }
  if (spec.max_output_tokens == 0) return InvalidArgument("max_tokens", "must be at least 1");
  if (spec.stop_tokens.size() > wire::WireLimits::kMaxStopTokens) {
    return InvalidArgument("stop", "{} stop tokens are more than {}", spec.stop_tokens.size(),
                           wire::WireLimits::kMaxStopTokens);
  }
  ROOST_CHECK(spec.block_hashes.size() == spec.prompt.size() / spec.model->block_tokens);
  return {};
}

Error WorkerLost() { return {ErrorCode::kUnavailable, "the worker was lost and no other can go on", ""}; }

WorkerView ViewOf(const Worker& worker, std::uint32_t matched_block_count) {
  const InFlightLedger& ledger = *worker.ledger;
  const wire::Load& load = worker.load;
  return {.slot = worker.slot,
          .matched_block_count = matched_block_count,
          .block_tokens = worker.hello.block_tokens,
          .queued_prefill_tokens = load.queued_prefill_tokens + ledger.uncovered_tokens(),
          .running_requests = load.running_requests,
          .waiting_requests = load.waiting_requests + ledger.uncovered_requests(),
          .in_flight_requests = ledger.request_count(),
          .max_running_requests = worker.hello.max_running_requests,
          .max_batch_tokens = worker.hello.max_batch_tokens,
          .free_block_count = load.free_block_count,
          .prefill_tokens_per_second = worker.rates.prefill_tokens_per_second(),
          .decode_step_seconds = worker.rates.decode_step_seconds(std::max(load.running_requests, 1U))};
}

std::vector<WorkerView> ViewsOf(std::span<Worker* const> workers, std::span<const WorkerMatch> matches) {
  std::unordered_map<WorkerSlot, std::uint32_t> depths;
  for (const WorkerMatch& match : matches) depths.emplace(match.worker, match.block_count);
  std::vector<WorkerView> views;
  views.reserve(workers.size());
  for (const Worker* worker : workers) {
    const auto depth = depths.find(worker->slot);
    views.push_back(ViewOf(*worker, depth == depths.end() ? 0 : depth->second));
  }
  return views;
}

// The request's prompt as its next attempt sees it: what was generated so far belongs to it.
std::vector<TokenId> PromptSoFar(const GenerateSpec& spec, const std::vector<TokenId>& output) {
  std::vector<TokenId> prompt;
  prompt.reserve(spec.prompt.size() + output.size());
  prompt.insert(prompt.end(), spec.prompt.begin(), spec.prompt.end());
  prompt.insert(prompt.end(), output.begin(), output.end());
  return prompt;
}

std::vector<BlockHash> HashesSoFar(const GenerateSpec& spec, const std::vector<TokenId>& output) {
  if (output.empty()) return spec.block_hashes;
  return HashBlocks(spec.root, PromptSoFar(spec, output), spec.model->block_tokens);
}

}  // namespace

RequestBook::RequestBook(RequestBookOptions options, std::uint64_t first_id, Roster& roster, const PrefixIndex& index,
                         Policy& policy, EffectQueue& effects, FleetMetrics& metrics)
    : options_(options),
      roster_(roster),
      index_(index),
      policy_(policy),
      effects_(effects),
      metrics_(metrics),
      next_id_(first_id) {}

RequestBook::~RequestBook() = default;

Result<RequestId> RequestBook::Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer,
                                      std::span<const WorkerMatch> matches, Instant now) {
  ROOST_RETURN_IF_ERROR(CheckBounds(spec));
  if (requests_.size() >= options_.max_requests) {
    return Error{ErrorCode::kOverloaded, fmt::format("{} requests are in flight already", requests_.size()), ""};
  }
  auto owned = std::make_unique<Request>();
  Request& request = *owned;
  request.id = NextId();
  request.spec = std::move(spec);
  request.observer = std::move(observer);
  if (!Dispatch(request, matches, now)) {
    return Error{ErrorCode::kUnavailable, fmt::format("no worker serves {} now", request.spec.model->name), ""};
  }
  requests_.emplace(request.id, std::move(owned));
  return request.id;
}

bool RequestBook::Dispatch(Request& request, std::span<const WorkerMatch> matches, Instant now) {
  std::vector<Worker*> workers = roster_.Serving(*request.spec.model);
  std::erase_if(workers, [&](const Worker* worker) { return request.refused_by.contains(worker->hello.worker_id); });
  if (workers.empty()) return false;

  const auto prompt_tokens = static_cast<std::uint32_t>(request.spec.prompt.size() + request.output.size());
  Decision decision = policy_.Choose({.prompt_token_count = prompt_tokens}, ViewsOf(workers, matches));
  const auto chosen =
      std::find_if(workers.begin(), workers.end(), [&](const Worker* worker) { return worker->slot == decision.slot; });
  ROOST_CHECK(chosen != workers.end(), "policy {} chose slot {}", policy_.name(), decision.slot.value());
  Worker& worker = **chosen;
  metrics_.OnDecision(policy_.name(), decision.reason);
  metrics_.OnSent(worker.hello.model, worker.hello.worker_id);

  // The first attempt has the request's own id.
  request.attempt_id = request.retry_count == 0 ? request.id : NextId();
  request.worker_id = worker.hello.worker_id;
  request.predicted_cached_tokens = decision.matched_tokens;
  request.charge = InFlightLedger::Add(worker.ledger, prompt_tokens - decision.matched_tokens, now);
  attempts_.emplace(request.attempt_id, &request);
  ++worker.requests_total;
  effects_.Send(request.worker_id, MakeAttempt(request));
  effects_.Push(NotifyDispatched{request.observer, {.worker_id = request.worker_id, .decision = std::move(decision)}});
  return true;
}

wire::Generate RequestBook::MakeAttempt(const Request& request) const {
  const GenerateSpec& spec = request.spec;
  const auto output_count = static_cast<std::uint32_t>(request.output.size());
  return {.request_id = request.attempt_id,
          .prompt = PromptSoFar(spec, request.output),
          .root = spec.root,
          .block_hashes = HashesSoFar(spec, request.output),
          .sampling = spec.sampling,
          .max_output_tokens = spec.max_output_tokens - output_count,
          .first_output_index = output_count,
          .stop_tokens = spec.stop_tokens,
          .ignore_eos = spec.ignore_eos,
          .expected_cached_tokens = request.predicted_cached_tokens,
          .deadline_ms = 0,
          .tenant = spec.tenant,
          .cache_mode = spec.cache_mode,
          .priority = spec.priority,
          .retention = spec.retention,
          .session_hash = spec.session_hash,
          .expect_return_ms = spec.expect_return_ms,
          .sample_count = 1};
}

RequestBook::Request* RequestBook::FindAttempt(const std::string& worker_id, RequestId attempt_id) {
  const auto found = attempts_.find(attempt_id);
  if (found == attempts_.end() || found->second->worker_id != worker_id) return nullptr;
  return found->second;
}

void RequestBook::OnEvent(const std::string& worker_id, wire::TokenEvent event, Instant now) {
  Request* const request = FindAttempt(worker_id, event.request_id);
  if (request == nullptr) return;
  if (!event.tokens.empty()) OnTokens(*request, event);
  if (event.finish.has_value()) {
    OnFinish(*request, event, now);
  } else if (request->output.size() >= request->spec.max_output_tokens) {
    // A worker that goes on past the limit is told to stop; the answer is complete.
    effects_.Send(worker_id, wire::Cancel{event.request_id});
    End(*request, {.reason = wire::FinishReason::kLength, .error = std::nullopt});
  }
}

void RequestBook::OnTokens(Request& request, wire::TokenEvent& event) {
  const std::size_t room = request.spec.max_output_tokens - request.output.size();
  if (event.tokens.size() > room) event.tokens.resize(room);
  if (event.tokens.empty()) return;
  request.output.insert(request.output.end(), event.tokens.begin(), event.tokens.end());
  std::optional<std::uint32_t> cached_tokens;
  if (!request.cache_outcome_told && event.cached_token_count.has_value()) {
    request.cache_outcome_told = true;
    cached_tokens = event.cached_token_count;
    metrics_.OnFirstToken(request.spec.model->name,
                          {.prompt_tokens = static_cast<std::uint32_t>(request.spec.prompt.size()),
                           .predicted_cached_tokens = request.predicted_cached_tokens,
                           .actual_cached_tokens = *cached_tokens});
  }
  effects_.Push(NotifyTokens{request.observer, std::move(event.tokens), cached_tokens});
}

void RequestBook::OnFinish(Request& request, const wire::TokenEvent& event, Instant now) {
  switch (*event.finish) {
    case wire::FinishReason::kStop:
    case wire::FinishReason::kLength: End(request, {.reason = *event.finish, .error = std::nullopt}); return;
    // Nobody asked for it, or the request would be gone: the worker gave it up.
    case wire::FinishReason::kCancelled:
      request.refused_by.insert(request.worker_id);
      Retry(request, RetryReason::kUnavailable, WorkerLost(), now);
      return;
    case wire::FinishReason::kError: break;
  }
  const Error error = event.error.value_or(Error{ErrorCode::kInternal, "the worker failed without a word", ""});
  const bool full = error.code == ErrorCode::kOverloaded;
  if (full || error.code == ErrorCode::kUnavailable) {
    request.refused_by.insert(request.worker_id);
    Retry(request, full ? RetryReason::kOverloaded : RetryReason::kUnavailable, error, now);
  } else {
    End(request, {.reason = wire::FinishReason::kError, .error = error});
  }
}

void RequestBook::Retry(Request& request, RetryReason reason, const Error& error, Instant now) {
  attempts_.erase(request.attempt_id);
  request.charge = {};
  if (request.retry_count < options_.max_retries) {
    ++request.retry_count;
    if (Dispatch(request, index_.Match(HashesSoFar(request.spec, request.output)), now)) {
      metrics_.OnRetry(reason);
      return;
    }
  }
  End(request, {.reason = wire::FinishReason::kError, .error = error});
}

void RequestBook::OnWorkerLost(const std::string& worker_id, Instant now) {
  std::vector<RequestId> lost;  // ascending, so that a run can be repeated
  for (const auto& [id, request] : requests_) {
    if (request->worker_id == worker_id) lost.push_back(id);
  }
  std::sort(lost.begin(), lost.end());
  for (const RequestId id : lost) Retry(*requests_.at(id), RetryReason::kWorkerLost, WorkerLost(), now);
}

void RequestBook::Cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Request& request = *found->second;
  effects_.Send(request.worker_id, wire::Cancel{request.attempt_id});
  End(request, {.reason = wire::FinishReason::kCancelled, .error = std::nullopt});
}

void RequestBook::EndAll(const Error& error) {
  while (!requests_.empty()) {
    Request& request = *requests_.begin()->second;
    effects_.Send(request.worker_id, wire::Cancel{request.attempt_id});
    End(request, {.reason = wire::FinishReason::kError, .error = error});
  }
}

void RequestBook::End(Request& request, GenerationEnd end) {
  attempts_.erase(request.attempt_id);
  effects_.Push(NotifyEnd{std::move(request.observer), std::move(end)});
  requests_.erase(request.id);
}

}  // namespace roost::router

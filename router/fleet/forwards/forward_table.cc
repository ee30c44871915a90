#include "router/fleet/forwards/forward_table.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "router/fleet/text_pieces.h"

namespace roost::router {
namespace {

// A request goes where its session went as long as that worker has at most a quarter more requests than the least
// loaded, or so many; and no more than it runs at a time, while the least loaded has fewer than that.
constexpr std::uint32_t kSessionSlack = 4;

// An answer takes about as long as computing 8 KiB of text: some 200 tokens, each as long as ten of a prompt.
constexpr std::uint64_t kAnswerPieces = 8192 / kPieceBytes;
constexpr std::uint32_t kOk = 200;
// A request found its text if at least this share of what was promised was cached. Tokens and bytes are not evenly
// spread.
constexpr double kFoundShare = 0.5;

Error NobodyHas(const ForwardSpec& spec) {
  return {ErrorCode::kUnavailable,
          fmt::format("no worker of the model '{}' that has {} is ready now", spec.model->name, spec.path), "model"};
}

// Those of its last report, and those sent since.
std::uint32_t RequestsAt(const Worker& worker) {
  const std::int64_t reported = std::int64_t{worker.load.running_requests} + worker.load.waiting_requests;
  const std::int64_t since = std::int64_t{worker.forward_count} - worker.reported_forward_count;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(reported + since, 0));
}

// The time of a request with so many pieces to compute, in eighths of a piece: its answer takes an eighth longer for
// each request that runs beside it, and waits for one of those when no place is free.
std::uint64_t CostAt(const Worker& worker, std::uint64_t pieces) {
  const std::uint64_t requests = RequestsAt(worker);
  const std::uint64_t places = std::max(worker.hello.max_running_requests, 1U);
  const std::uint64_t waits = requests < places ? 0 : requests + 1 - places;
  return 8 * pieces + kAnswerPieces * (8 + requests + 8 * waits);
}

bool HasRoom(const Worker& worker) { return RequestsAt(worker) < worker.hello.max_running_requests; }

// Highest random weight (Thaler, Ravishankar, A Name-Based Mapping Scheme for Rendezvous, 1996): all routers agree on
// the order, and a worker that comes or goes moves its own sessions only.
std::uint64_t WeightOf(const Worker& worker, std::uint64_t session) {
  const std::string& id = worker.hello.worker_id;
  return Mix64(session ^ XXH3_64bits(id.data(), id.size()));
}

}  // namespace

ForwardTable::ForwardTable(ForwardTableOptions options, std::uint64_t first_id, WorkerRegistry& registry,
                           EffectQueue& effects, FleetMetrics& metrics)
    : options_(options), registry_(registry), effects_(effects), metrics_(metrics), next_id_(first_id) {}

// ---- choice ----

std::vector<Worker*> ForwardTable::Candidates(const Request& request) {
  const ServedModel& model = *request.spec.model;
  std::vector<Worker*> candidates;
  registry_.ForEach([&](Worker& worker) {
    const std::vector<std::string>& routes = worker.hello.routes;
    if (worker.hello.model != model.model_name() || !registry_.IsServing(worker) || worker.is_unreachable) return;
    if (model.is_adapter() && !worker.adapters.contains(model.name)) return;
    if (std::find(routes.begin(), routes.end(), request.spec.path) == routes.end()) return;
    if (!request.tried.contains(worker.hello.worker_id)) candidates.push_back(&worker);
  });
  return candidates;
}

Worker* ForwardTable::Choose(Request& request, Instant now) {
  request.promise = {};
  std::vector<Worker*> workers = Candidates(request);
  if (workers.empty()) return nullptr;
  if (Worker* const known = ChooseByText(request, workers, now)) return known;
  std::rotate(workers.begin(), workers.begin() + static_cast<std::ptrdiff_t>(turn_++ % workers.size()), workers.end());
  const auto has_fewer = [](const Worker* a, const Worker* b) { return RequestsAt(*a) < RequestsAt(*b); };
  Worker* const least = *std::min_element(workers.begin(), workers.end(), has_fewer);
  if (!request.spec.session) return least;
  if (HasRoom(*least)) std::erase_if(workers, [](const Worker* worker) { return !HasRoom(*worker); });
  const std::uint32_t most = RequestsAt(*least) + std::max(kSessionSlack, RequestsAt(*least) / 4);
  std::erase_if(workers, [most](const Worker* worker) { return RequestsAt(*worker) > most; });
  const auto weighs_less = [session = *request.spec.session](const Worker* a, const Worker* b) {
    return WeightOf(*a, session) < WeightOf(*b, session);
  };
  return *std::max_element(workers.begin(), workers.end(), weighs_less);
}

// Chats that only have their instructions in common, or less than half of their texts, do not all go where the first
// one went: each has to be kept somewhere.
Worker* ForwardTable::ChooseByText(Request& request, const std::vector<Worker*>& workers, Instant now) {
  const std::vector<BlockHash>& pieces = request.spec.pieces;
  if (pieces.empty() || request.spec.model->index == nullptr) return nullptr;
  const std::vector<WorkerMatch> matches = request.spec.model->index->Match(pieces);
  const auto held_by = [&matches](const Worker& worker) -> std::size_t {
    const auto found = std::find_if(matches.begin(), matches.end(),
                                    [&worker](const WorkerMatch& match) { return match.worker == worker.slot; });
    return found == matches.end() ? 0 : found->block_count;
  };
  struct Prospect {
    Worker* worker;
    std::size_t held;
    std::uint64_t cost;
    std::uint64_t weight;
  };
  std::size_t most = 0;
  std::vector<Prospect> prospects;
  for (Worker* const worker : workers) {
    const std::size_t held = held_by(*worker);
    most = std::max(most, held);
    prospects.push_back(
        {worker, held, CostAt(*worker, pieces.size() - held), WeightOf(*worker, request.spec.session.value_or(0))});
  }
  if (most <= request.spec.instruction_pieces || 2 * most < pieces.size()) return nullptr;
  const Prospect& best = *std::min_element(prospects.begin(), prospects.end(), [](const auto& a, const auto& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.weight > b.weight;
  });
  request.promise = {.promised_at = now, .piece_count = best.held};
  if (best.held > 0) request.promise.used_at = best.worker->view.UsedAt(pieces[best.held - 1]);
  return best.worker;
}

// ---- to workers ----

Result<RequestId> ForwardTable::Submit(ForwardSpec spec, std::shared_ptr<ForwardObserver> observer, Instant now) {
  if (requests_.size() >= options_.max_requests) {
    return Error{ErrorCode::kOverloaded, fmt::format("the router has {} requests already", requests_.size()), ""};
  }
  if (spec.deadline && *spec.deadline <= now) {
    return Error{ErrorCode::kDeadlineExceeded, "the request's deadline passed before it could be sent", ""};
  }
  auto owned = std::make_unique<Request>();
  Request& request = *owned;
  request.id = RequestId(next_id_++);
  request.spec = std::move(spec);
  request.observer = std::move(observer);
  Worker* const worker = Choose(request, now);
  if (worker == nullptr) return NobodyHas(request.spec);
  requests_.emplace(request.id, std::move(owned));
  Send(request, *worker, now);
  return request.id;
}

void ForwardTable::Send(Request& request, Worker& worker, Instant now) {
  request.attempt = request.attempt_count++ == 0 ? request.id : RequestId(next_id_++);
  request.worker_id = worker.hello.worker_id;
  request.tried.insert(request.worker_id);
  attempts_.emplace(request.attempt, &request);
  const ForwardSpec& spec = request.spec;
  wire::Forward forward = spec.head;
  forward.request_id = request.attempt;
  forward.path = spec.path;
  forward.body_bytes = spec.body->size();
  forward.body = spec.body->substr(0, wire::kMaxForwardBytes);
  if (spec.deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*spec.deadline - now).count();
    forward.deadline_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(left, 1));
  }
  request.sent_bytes = forward.body.size();
  request.credit = wire::kForwardCredit - forward.body.size();
  effects_.Send(worker.identity, std::move(forward), spec.memory);
  ++worker.forward_count;
  ++worker.requests_total;
  registry_.NoteSent(worker, request.attempt);
  metrics_.OnSent(worker.hello.model, worker.hello.worker_id);
  SendBody(request);
}

void ForwardTable::SendBody(Request& request) {
  const Worker* const worker = registry_.Find(request.worker_id);
  if (worker == nullptr || request.spec.body == nullptr) return;
  const std::string& body = *request.spec.body;
  while (request.sent_bytes < body.size() && request.credit > 0) {
    const std::uint64_t size =
        std::min<std::uint64_t>({body.size() - request.sent_bytes, request.credit, wire::kMaxForwardBytes});
    effects_.Send(worker->identity,
                  wire::ForwardBody{.request_id = request.attempt, .body = body.substr(request.sent_bytes, size)},
                  request.spec.memory);
    request.sent_bytes += size;
    request.credit -= size;
  }
  FreeBody(request);
}

void ForwardTable::FreeBody(Request& request) {
  if (!request.has_answer || request.spec.body == nullptr || request.sent_bytes < request.spec.body->size()) return;
  request.spec.body = nullptr;
  request.spec.memory = nullptr;
}

void ForwardTable::Grant(RequestId id, std::size_t bytes) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const Request& request = *found->second;
  const Worker* const worker = registry_.Find(request.worker_id);
  if (worker == nullptr) return;
  effects_.Send(worker->identity,
                wire::ForwardCredit{.request_id = request.attempt, .bytes = static_cast<std::uint32_t>(bytes)});
}

// ---- from workers ----

ForwardTable::Request* ForwardTable::FindAttempt(const std::string& worker_id, RequestId attempt) {
  const auto found = attempts_.find(attempt);
  return found == attempts_.end() || found->second->worker_id != worker_id ? nullptr : found->second;
}

void ForwardTable::OnForwarded(const std::string& worker_id, wire::Forwarded message, Instant now) {
  Request* const request = FindAttempt(worker_id, message.request_id);
  if (request == nullptr) return;
  if (message.credit > 0) {
    request->credit += message.credit;
    SendBody(*request);
  }
  if (message.last && message.error && !request->has_answer) {
    const ErrorCode code = message.error->code;
    if (code == ErrorCode::kOverloaded) return void(Retry(*request, RetryReason::kOverloaded, *message.error, now));
    if (code == ErrorCode::kUnavailable) return void(Retry(*request, RetryReason::kUnavailable, *message.error, now));
    return End(*request, std::move(message.error));
  }
  ForwardPiece piece{.body = std::move(message.body)};
  if (message.status != 0 && !request->has_answer) {
    request->has_answer = true;
    piece.head = ForwardHead{static_cast<int>(message.status), std::move(message.content_type), worker_id};
    Worker* const worker = registry_.Find(worker_id);
    const bool is_computed = message.status == kOk && worker != nullptr;
    if (is_computed && !request->spec.pieces.empty()) worker->view.OnComputed(request->spec.pieces, now);
  }
  if (message.last) {
    piece.is_last = true;
    piece.usage = OnUsage(*request, message, now);
    piece.error = std::move(message.error);
  }
  if (piece.head || piece.is_last || !piece.body.empty())
    effects_.Push(NotifyForward{request->observer, std::move(piece)});
  if (!message.last) return FreeBody(*request);
  LeaveWorker(*request);
  attempts_.erase(request->attempt);
  requests_.erase(request->id);
}

// The router does not know how many tokens a piece has: it compares shares of the prompt.
std::optional<ForwardUsage> ForwardTable::OnUsage(const Request& request, const wire::Forwarded& message, Instant now) {
  Worker* const worker = registry_.Find(request.worker_id);
  if (message.prompt_tokens == 0 || worker == nullptr) return std::nullopt;
  const Promise& promise = request.promise;
  ForwardUsage usage{.prompt_tokens = message.prompt_tokens,
                     .cached_tokens = std::min(message.cached_tokens, message.prompt_tokens)};
  worker->totals.prompt_tokens += usage.prompt_tokens;
  worker->totals.cached_tokens += usage.cached_tokens;
  if (promise.piece_count > 0) {
    usage.promised_tokens = static_cast<std::uint32_t>(std::uint64_t{usage.prompt_tokens} * promise.piece_count /
                                                       request.spec.pieces.size());
  }
  metrics_.OnFirstToken(worker->hello.model, {.prompt_tokens = usage.prompt_tokens,
                                              .predicted_cached_tokens = usage.promised_tokens,
                                              .actual_cached_tokens = usage.cached_tokens,
                                              .block_tokens = kPieceTokens});
  if (usage.cached_tokens < kFoundShare * usage.promised_tokens && promise.used_at) {
    worker->view.ForgetUnusedSince(*promise.used_at);
  }
  const auto change = worker->view.OnOutcome(
      {.promised_at = promise.promised_at, .promised = usage.promised_tokens, .found = usage.cached_tokens}, now);
  if (change) TellModeChange(*worker, *change, metrics_);
  return usage;
}

void ForwardTable::OnWorkerLost(const std::string& worker_id, Instant now) {
  std::vector<Request*> lost;
  for (const auto& [id, request] : requests_) {
    if (request->worker_id == worker_id) lost.push_back(request.get());
  }
  const Error error{ErrorCode::kUnavailable, "the worker was lost", ""};
  for (Request* const request : lost) {
    request->tried.erase(worker_id);
    Retry(*request, RetryReason::kWorkerLost, error, now);
  }
}

bool ForwardTable::Retry(Request& request, RetryReason reason, const Error& error, Instant now) {
  LeaveWorker(request);
  attempts_.erase(request.attempt);
  request.worker_id.clear();
  const bool may_go_on = !request.has_answer && request.attempt_count < options_.max_attempts;
  Worker* const worker = may_go_on ? Choose(request, now) : nullptr;
  if (worker == nullptr) return End(request, error), false;
  metrics_.OnRetry(request.spec.model->model_name(), reason);
  Send(request, *worker, now);
  return true;
}

// ---- ends ----

void ForwardTable::LeaveWorker(const Request& request) {
  Worker* const worker = registry_.Find(request.worker_id);
  if (worker != nullptr && worker->forward_count > 0) --worker->forward_count;  // it may have begun anew
}

void ForwardTable::CancelAttempt(const Request& request) {
  if (const Worker* const worker = registry_.Find(request.worker_id)) {
    effects_.Send(worker->identity, wire::Cancel{request.attempt});
  }
}

void ForwardTable::Cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  CancelAttempt(*found->second);
  End(*found->second, Error{ErrorCode::kCancelled, "the client went away", ""});
}

void ForwardTable::End(Request& request, std::optional<Error> error) {
  LeaveWorker(request);
  attempts_.erase(request.attempt);
  effects_.Push(NotifyForward{std::move(request.observer), {.is_last = true, .error = std::move(error)}});
  requests_.erase(request.id);
}

void ForwardTable::Expire(Instant now) {
  std::vector<Request*> late;
  for (const auto& [id, request] : requests_) {
    if (request->spec.deadline && now >= *request->spec.deadline) late.push_back(request.get());
  }
  for (Request* const request : late) {
    CancelAttempt(*request);
    End(*request, Error{ErrorCode::kDeadlineExceeded, "the request's deadline passed before its answer ended", ""});
  }
}

void ForwardTable::EndAll(const Error& error) {
  while (!requests_.empty()) {
    Request& request = *requests_.begin()->second;
    CancelAttempt(request);
    End(request, error);
  }
}

}  // namespace roost::router

// The part of the request table that looks for tokens that stay away.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "router/fleet/requests/request_table.h"

namespace roost::router {

namespace {

// The mean time to the first token at the workers of the revision so far; 0 when none has sent one. For a fleet so
// young that the speed of its steps is not known yet.
double UsualFirstTokenSeconds(WorkerRegistry& registry, std::string_view revision) {
  WorkerTotals sum;
  for (const Worker* worker : registry.Serving(revision)) {
    sum.ttft_seconds += worker->totals.ttft_seconds;
    sum.first_tokens += worker->totals.first_tokens;
  }
  return sum.first_tokens == 0 ? 0 : sum.ttft_seconds / static_cast<double>(sum.first_tokens);
}

// Requests that have begun there get no tokens, or far fewer than its steps should bring.
bool LetsRequestsWait(const Worker& worker, Instant now) {
  return worker.ledger->begun_count() > 0 && worker.later_tokens.StayAway(worker.decode_step_seconds(), now);
}

Error Overdue() { return {ErrorCode::kUnavailable, "the worker does not answer and no other can continue", ""}; }

}  // namespace

void RequestTable::MoveOverdue(Instant now) {
  EndLateHandovers(now);
  for (const RequestId id : OverdueAttempts(now)) {
    const auto found = attempts_.find(id);
    if (found == attempts_.end()) continue;
    Attempt& attempt = found->second;
    Worker& worker = *worker_registry_.Find(attempt.worker_id);
    if (!std::exchange(attempt.is_overdue, true)) {
      attempt.is_probe = false;
      worker_registry_.NoteSilence(worker, now);
    }
    const Part& part = attempt.part;
    if (part.late_count >= options_.max_retries || part.loss_count >= RequestTableOptions::kMaxLosses) continue;
    if (worker_registry_.TakesRequests(worker) || !AnotherTakes(attempt)) continue;
    SendTo(attempt.worker_id, wire::Cancel{attempt.id});
    const bool has_begun = attempt.prompt_computed_at.has_value();
    Retry(attempt, has_begun ? RetryReason::kNoLaterToken : RetryReason::kNoFirstToken, Overdue(), now);
  }
}

std::vector<RequestId> RequestTable::OverdueAttempts(Instant now) {
  std::vector<RequestId> overdue;
  bool is_any_late = false;
  worker_registry_.ForEach([&](const Worker& worker) {
    is_any_late = is_any_late || (worker.ledger->request_count() > 0 && worker.first_tokens.IsSilent(now)) ||
                  LetsRequestsWait(worker, now);
  });
  if (!is_any_late) return overdue;
  for (const auto& [id, attempt] : attempts_) {
    const Worker* const worker = worker_registry_.Find(attempt.worker_id);
    if (worker != nullptr && IsOverdue(attempt, *worker, now)) overdue.push_back(id);
  }
  std::sort(overdue.begin(), overdue.end());
  return overdue;
}

bool RequestTable::IsOverdue(const Attempt& attempt, const Worker& worker, Instant now) const {
  return attempt.prompt_computed_at.has_value() ? LetsRequestsWait(worker, now)
                                                : IsFirstTokenOverdue(attempt, worker, now);
}

bool RequestTable::IsFirstTokenOverdue(const Attempt& attempt, const Worker& worker, Instant now) const {
  const Decider::Prediction& sent = attempt.prediction;
  if (!worker.first_tokens.IsSilent(now) || now - sent.decided_at < worker.first_tokens.least()) return false;
  const GenerateSpec& spec = attempt.request->spec;
  double expected = decider_.ExpectFirstToken(worker, *spec.model, attempt.prompt_token_count, now);
  if (expected <= 0) expected = UsualFirstTokenSeconds(worker_registry_, worker.revision);
  return worker.first_tokens.IsOverdue({.sent_at = sent.decided_at,
                                        .predicted_seconds = sent.in_seconds ? sent.ttft_seconds : 0,
                                        .expected_seconds = expected,
                                        .step_seconds = worker.present_step_seconds(),
                                        .is_constrained = spec.generate.constraint.has_value()},
                                       now);
}

bool RequestTable::AnotherTakes(const Attempt& attempt) {
  const RouteQuery query = WishesOf(attempt.request->spec);
  const std::vector<Worker*> workers = worker_registry_.Serving(attempt.request->spec.model->revision);
  return std::any_of(workers.begin(), workers.end(), [&](const Worker* worker) {
    return worker->hello.worker_id != attempt.worker_id && worker_registry_.TakesRequests(*worker) &&
           MayTake(query, ViewOf(*worker));
  });
}

}  // namespace roost::router

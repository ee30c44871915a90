// The part of the request table that has workers fetch blocks for requests, and expects prompts that they compute.
#include <algorithm>

#include "router/fleet/requests/request_table.h"

namespace roost::router {

Duration RequestTable::PatienceFor(double seconds) {
  constexpr double kSlack = 4;
  constexpr double kMinSeconds = 1;
  constexpr double kMaxSeconds = 120;
  return FromSeconds(std::clamp(kSlack * seconds, kMinSeconds, kMaxSeconds));
}

void RequestTable::BeginPull(Attempt& attempt, Decision& decision, const Worker& worker,
                             std::span<const BlockHash> hashes, Instant now) {
  if (!decision.pull.has_value()) {
    const std::uint32_t blocks = decision.matched_tokens / worker.hello.block_tokens;
    if (decision.arriving_tokens > 0) attempt.hold = holds_.Join(worker, hashes.first(blocks));
    return;
  }
  if (decision.pull->source == worker.slot) return;  // from its disk: the worker does that unasked
  const double seconds = decision.pull->price.seconds;
  attempt.hold = holds_.Start(
      worker, *decision.pull, attempt.request->spec, hashes,
      {.purpose = wire::HoldPurpose::kRequest, .patience = PatienceFor(seconds)}, now,
      [this, id = attempt.id, seconds](const HoldEnd& end, Instant /*now*/) { OnPulled(id, end, seconds); });
  if (attempt.hold.has_value()) return;
  decision.pull.reset();
  decision.matched_tokens -= std::min(decision.matched_tokens, decision.arriving_tokens);
  decision.arriving_tokens = 0;
}

void RequestTable::ExpectPrompt(Attempt& attempt, const Decision& decision, const Worker& worker, Instant now) {
  if (!UsesCache(*attempt.request) || worker.view.mode() == WorkerMode::kBlind) return;
  PendingPrefixes::Coming coming;
  if (const std::optional<PrefixPull>& pull = decision.pull) {
    coming = {.block_count = pull->end_block(), .at = now + FromSeconds(pull->price.seconds)};
  }
  // After this time the prompt no longer counts as pending.
  attempt.pending_until = now + PatienceFor(decision.predicted_ttft_seconds);
  attempt.pending = Expect(worker_registry_.pending(), worker, attempt.request->spec.generate.block_hashes,
                           attempt.pending_until, coming);
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
  attempt.pending = Expect(worker_registry_.pending(), *worker, spec.generate.block_hashes, attempt.pending_until);
}

}  // namespace roost::router

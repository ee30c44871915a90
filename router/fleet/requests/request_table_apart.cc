// The part of the request table for prompts that are computed at another worker than their answers: see route/apart.h.
//
//   BeginApart ──► Hold that follows, to the worker for the answer
//   first token ─► GoOn: a decision anew, which finds the blocks there or on their way; what did not come is fetched or
//                  computed, as for any request that goes on elsewhere
//
// Engines' connectors bring the blocks of a prompt, and nothing behind it. So the answer begins anew at the other
// engine, with the same prompt and what the first one said of its blocks, and the first one's token is dropped: its
// request ends there, whose blocks a connector lets go once they are fetched. One that does not begin in time is
// computed as any other request, without the connector.
#include <algorithm>
#include <utility>

#include "router/fleet/requests/request_table.h"

namespace roost::router {

std::optional<Together> RequestTable::WhyTogether(const Request& request, const Part& part) {
  // Also where the worker for the prompt sent no token, so that none sends a request in a circle.
  if (HasOutput(request) || part.was_apart) return Together::kBegun;
  if (part.choices.count > 1) return Together::kChoices;
  if (request.spec.generate.max_output_tokens == 1) return Together::kOneToken;
  if (!UsesCache(request)) return Together::kCacheOff;
  return std::nullopt;
}

wire::RequestPart RequestTable::PartOf(const Attempt& attempt) {
  if (attempt.following.has_value()) return wire::RequestPart::kPrompt;
  return attempt.part.goes_on ? wire::RequestPart::kAnswer : wire::RequestPart::kWhole;
}

// The engine of the prompt holds its blocks itself.
std::string_view RequestTable::KvTransferFor(const Attempt& attempt, const Worker& worker) {
  const bool fetches = worker.hello.features.contains(wire::Feature::kConnector) &&
                       worker.hello.role != wire::WorkerRole::kPrefill && attempt.part.goes_on;
  return fetches ? std::string_view(attempt.part.kv_transfer) : std::string_view();
}

void RequestTable::BeginApart(Attempt& attempt, const Apart& apart, std::span<const BlockHash> hashes, Instant now) {
  Worker& worker = worker_registry_.At(apart.decode);
  const GenerateSpec& spec = attempt.request->spec;
  const double seconds = apart.prefill.ttft_seconds() + apart.follow.price.seconds;
  const Duration patience = PatienceFor(seconds);
  attempt.following = Following{.worker_id = worker.hello.worker_id, .by_connector = apart.by_connector};
  if (!apart.by_connector) Follow(attempt, worker, apart.follow, hashes, patience, now);
  const bool comes = apart.by_connector || attempt.following->hold.has_value();
  if (comes && worker.view.mode() != WorkerMode::kBlind) {
    attempt.following->pending = Expect(worker_registry_.pending(), worker, spec.generate.block_hashes, now + patience,
                                        {.block_count = apart.follow.end_block(), .at = now + FromSeconds(seconds)});
  }
  ++worker.coming_answers;
  worker_registry_.Refresh(worker);
}

void RequestTable::Follow(Attempt& attempt, const Worker& worker, const PrefixPull& follow,
                          std::span<const BlockHash> hashes, Duration patience, Instant now) {
  attempt.following->hold =
      holds_.Start(worker, follow, attempt.request->spec, hashes,
                   {.purpose = wire::HoldPurpose::kRequest, .patience = patience, .follows = true}, now,
                   [this, id = attempt.id, all = follow.end_block()](const HoldEnd& end, Instant /*now*/) {
                     const auto found = attempts_.find(id);
                     if (found == attempts_.end() || !found->second.following) return;
                     found->second.following->hold.reset();
                     if (end.block_count < all) found->second.following->pending = {};  // the rest does not come
                   });
}

void RequestTable::EndFollowing(Following& following) {
  following.pending = {};
  if (following.hold.has_value()) holds_.Leave(*std::exchange(following.hold, std::nullopt));
  Worker* const worker = worker_registry_.Find(following.worker_id);
  if (worker == nullptr || worker->coming_answers == 0) return;  // another process has its name
  --worker->coming_answers;
  worker_registry_.Refresh(*worker);
}

void RequestTable::DropForConnector(const Attempt& attempt, wire::TokenEvent& event) {
  if (!attempt.following.has_value() || !attempt.following->by_connector) return;
  event.tokens.resize(0);
  event.logprobs.clear();
}

// The engine waits for blocks that may never come, while others are served there: it is not late with all.
void RequestTable::EndLateHandovers(Instant now) {
  while (!handovers_due_.empty() && handovers_due_.begin()->first <= now) {
    const auto found = attempts_.find(handovers_due_.begin()->second);
    handovers_due_.erase(handovers_due_.begin());
    if (found == attempts_.end() || found->second.prompt_computed_at.has_value()) continue;
    SendTo(found->second.worker_id, wire::Cancel{found->first});
    Retry(found->second, RetryReason::kNoFirstToken,
          {ErrorCode::kUnavailable, "the blocks of the prompt did not come and no other worker can continue", ""}, now);
  }
}

void RequestTable::NoteHandover(const Attempt& attempt, Worker& worker, Instant now) {
  if (!attempt.part.goes_on || !worker.hello.features.contains(wire::Feature::kConnector)) return;
  constexpr double kWeight = 0.125;
  constexpr double kMost = 60;
  const double seconds = std::min(ToSeconds(now - attempt.prediction.decided_at), kMost);
  worker.handover_seconds += kWeight * (seconds - worker.handover_seconds);
}

// The blocks are expected at their worker until the answer has one.
void RequestTable::GoOn(Attempt& attempt, std::string kv_transfer, Instant now) {
  Request& request = *attempt.request;
  if (Worker* const worker = worker_registry_.Find(attempt.worker_id)) NoteServed(attempt, *worker, now);
  Following following = *std::exchange(attempt.following, std::nullopt);
  Part part = attempt.part;
  part.goes_on = true;
  part.was_apart = true;
  part.kv_transfer = std::move(kv_transfer);
  request.parts.push_back(part);
  Forget(attempt);
  const Sending sending = SendParts(request, Admission::kAnyway, now);
  EndFollowing(following);
  if (sending == Sending::kSent) return;
  if (sending == Sending::kNoWorker) {
    End(request, {.reason = wire::FinishReason::kError, .error = NobodyServes(*request.spec.model)});
  } else if (!request.waits) {
    EnqueueFirst(request, now);
  }
}

}  // namespace roost::router

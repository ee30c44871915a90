// The part of the request table for prompts that are computed at another worker than their answers: see route/apart.h.
//
//   BeginApart ──► Hold that follows, to the worker for the answer
//   first token ─► GoOn: a decision anew, which finds the blocks there or on their way; what did not come is fetched or
//                  computed, as for any request that goes on elsewhere
#include <utility>

#include "router/fleet/requests/request_table.h"

namespace roost::router {

std::optional<Together> RequestTable::WhyTogether(const Request& request, const Part& part) {
  // Also where the worker for the prompt sent no token, so that none sends a request in a circle.
  if (HasOutput(request) || part.goes_on) return Together::kBegun;
  if (part.choices.count > 1) return Together::kChoices;
  if (request.spec.generate.max_output_tokens == 1) return Together::kOneToken;
  if (!UsesCache(request)) return Together::kCacheOff;
  return std::nullopt;
}

wire::RequestPart RequestTable::PartOf(const Attempt& attempt) {
  if (attempt.following.has_value()) return wire::RequestPart::kPrompt;
  return attempt.part.goes_on ? wire::RequestPart::kAnswer : wire::RequestPart::kWhole;
}

void RequestTable::BeginApart(Attempt& attempt, const Apart& apart, std::span<const BlockHash> hashes, Instant now) {
  Worker& worker = worker_registry_.At(apart.decode);
  const GenerateSpec& spec = attempt.request->spec;
  const double seconds = apart.prefill.ttft_seconds() + apart.follow.price.seconds;
  const Duration patience = PatienceFor(seconds);
  attempt.following = Following{.worker_id = worker.hello.worker_id};
  attempt.following->hold =
      holds_.Start(worker, apart.follow, spec, hashes,
                   {.purpose = wire::HoldPurpose::kRequest, .patience = patience, .follows = true}, now,
                   [this, id = attempt.id, all = apart.follow.end_block()](const HoldEnd& end, Instant /*now*/) {
                     const auto found = attempts_.find(id);
                     if (found == attempts_.end() || !found->second.following) return;
                     found->second.following->hold.reset();
                     if (end.block_count < all) found->second.following->pending = {};  // the rest does not come
                   });
  if (attempt.following->hold.has_value() && worker.view.mode() != WorkerMode::kBlind) {
    attempt.following->pending = Expect(worker_registry_.pending(), worker, spec.generate.block_hashes, now + patience,
                                        {.block_count = apart.follow.end_block(), .at = now + FromSeconds(seconds)});
  }
  ++worker.coming_answers;
  worker_registry_.Refresh(worker);
}

void RequestTable::EndFollowing(Following& following) {
  following.pending = {};
  if (following.hold.has_value()) holds_.Leave(*std::exchange(following.hold, std::nullopt));
  Worker* const worker = worker_registry_.Find(following.worker_id);
  if (worker == nullptr || worker->coming_answers == 0) return;  // another process has its name
  --worker->coming_answers;
  worker_registry_.Refresh(*worker);
}

// The blocks are expected at their worker until the answer has one.
void RequestTable::GoOn(Attempt& attempt, Instant now) {
  Request& request = *attempt.request;
  if (Worker* const worker = worker_registry_.Find(attempt.worker_id)) NoteServed(attempt, *worker, now);
  Following following = *std::exchange(attempt.following, std::nullopt);
  Part part = attempt.part;
  part.goes_on = true;
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

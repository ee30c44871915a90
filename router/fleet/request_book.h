// The requests on their way: each is at exactly one worker at a time, as an attempt with an id of its own on the wire,
// so that what a lost attempt still sends can not be mistaken for the next one's.
//
//   Submit ──► attempt 1 ──► tokens ──► end                            what the client sees
//                 │ worker lost, or full, or leaving
//                 └──► attempt 2: prompt + tokens so far ──► tokens ──► end
//
// Every accepted request ends exactly once: it leaves the book in the same call that queues its NotifyEnd, and nothing
// is queued for a request that is not in the book.
//
// Not thread-safe. What is given to the constructor outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/in_flight.h"
#include "router/fleet/roster.h"
#include "router/index/prefix_index.h"
#include "router/route/policy.h"

namespace roost::router {

struct RequestBookOptions {
  std::uint32_t max_requests = 16384;  // over it Submit answers kOverloaded
  std::uint32_t max_retries = 2;       // further attempts of one request
};

class RequestBook {
 public:
  // `first_id` is random, so that ids of an earlier router process mean nothing.
  RequestBook(RequestBookOptions options, std::uint64_t first_id, Roster& roster, const PrefixIndex& index,
              Policy& policy, EffectQueue& effects, FleetMetrics& metrics);
  ~RequestBook();

  // kUnavailable: no ready worker serves the model. kOverloaded: too many requests. kInvalidArgument: more than the
  // wire can carry. Then the observer hears nothing. `matches` are the index's answer for the prompt; a stale one costs
  // a poorer decision.
  [[nodiscard]] Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer,
                                         std::span<const WorkerMatch> matches, Instant now);
  void Cancel(RequestId id);

  // What a worker says about one of its attempts. Events of attempts that are not (any more) at this worker are
  // ignored.
  void OnEvent(const std::string& worker_id, wire::TokenEvent event, Instant now);
  // The worker is out of the roster: its requests go elsewhere, or end.
  void OnWorkerLost(const std::string& worker_id, Instant now);

  // Ends everything with `error`.
  void EndAll(const Error& error);

  [[nodiscard]] std::size_t size() const { return requests_.size(); }

 private:
  struct Request {
    RequestId id;
    GenerateSpec spec;
    std::shared_ptr<GenerationObserver> observer;
    std::vector<TokenId> output;
    bool cache_outcome_told = false;
    std::uint32_t retry_count = 0;
    std::set<std::string> refused_by;  // workers that were full or leaving

    // The attempt.
    RequestId attempt_id;
    std::string worker_id;
    std::uint32_t predicted_cached_tokens = 0;
    InFlightLedger::Charge charge;
  };
  using Requests = std::unordered_map<RequestId, std::unique_ptr<Request>>;

  [[nodiscard]] RequestId NextId() { return RequestId(next_id_++); }
  [[nodiscard]] Request* FindAttempt(const std::string& worker_id, RequestId attempt_id);

  // Chooses a worker, sends, charges. False when no worker may take it.
  [[nodiscard]] bool Dispatch(Request& request, std::span<const WorkerMatch> matches, Instant now);
  [[nodiscard]] wire::Generate MakeAttempt(const Request& request) const;
  // After an attempt came to nothing: another one, or the end with `error`.
  void Retry(Request& request, RetryReason reason, const Error& error, Instant now);
  // Forgets the request; `request` dangles afterwards.
  void End(Request& request, GenerationEnd end);

  void OnTokens(Request& request, wire::TokenEvent& event);
  void OnFinish(Request& request, const wire::TokenEvent& event, Instant now);

  const RequestBookOptions options_;
  Roster& roster_;
  const PrefixIndex& index_;
  Policy& policy_;
  EffectQueue& effects_;
  FleetMetrics& metrics_;

  std::uint64_t next_id_;
  Requests requests_;
  std::unordered_map<RequestId, Request*> attempts_;  // one per request
};

}  // namespace roost::router

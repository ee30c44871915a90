// The open requests. Each choice of a request is at no more than one worker at a time, as part of an attempt. An
// attempt has its own id on the wire, so that late messages of a lost attempt can not be mistaken for those of the next
// one.
//
//   Submit ─┬─────────────► attempt 1 ──► tokens ──► end
//           └► RequestQueue ┘ ▲  │ worker lost, or full, or leaving
//              while no worker│  └──► attempt 2: prompt + tokens so far ──► tokens ──► end
//              has room ◄─────┘       while no worker takes it, it waits like a new one, before all others
//
// A request with several choices begins as one attempt, so that the choices share the prompt's prefill. Once one of
// them has tokens, their continuations have no common prompt any more: after a failure each open choice continues as an
// attempt of its own. If one of them finds no worker, the request ends.
//
// A stream stays with the model revision that began it. A request without tokens moves to another revision when no
// worker serves its own any more.
//
// Every accepted request ends exactly once: it leaves the book in the same call that queues its NotifyEnd, and nothing
// is queued for a request that is not in the book.
//
// A decision may have the prompt computed apart (route/apart.h): the attempt there ends with the first token, and the
// answer goes on as an attempt at another worker. That is no retry.
//
// A decision may let the worker fetch blocks for the request (hold_book.h): the Hold goes out right before the request.
// What does not come, the worker computes; a retry decides anew. A decision may also start a copy of a prefix
// (prefix_copies.h).
//
// Not thread-safe. The constructor's arguments outlive it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "router/fleet/blocks/hold_book.h"
#include "router/fleet/blocks/prefix_copies.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/requests/admission_queues.h"
#include "router/fleet/requests/decider.h"
#include "router/fleet/requests/return_gaps.h"
#include "router/fleet/requests/tenant_shares.h"
#include "router/fleet/requests/worker_message.h"
#include "router/fleet/workers/in_flight.h"
#include "router/fleet/workers/worker_registry.h"
#include "router/index/pending_prefixes.h"
#include "router/index/prefix_index.h"
#include "router/route/policy.h"

namespace roost::router {

// Requests that have ended at the router, but for which workers still send tokens. Tokens that were already on their
// way are normal. If tokens still come after kPatience, the worker never got the Cancel, and the router sends it again.
//
// Not thread-safe. Bounded: with more than kMost such requests, all are forgotten, and their Cancel is only sent later.
class Orphans {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(1);
  static constexpr std::size_t kMost = 4096;

  // Tokens came for an ended request. True if the router should send the worker a Cancel now. It is true again after
  // each further kPatience.
  [[nodiscard]] bool OnTokens(RequestId id, Instant now) {
    if (since_.size() >= kMost) since_.clear();
    const auto [entry, is_new] = since_.try_emplace(id, now);
    if (is_new || now - entry->second < kPatience) return false;
    entry->second = now;
    return true;
  }
  // The worker has ended the request.
  void OnEnd(RequestId id) { since_.erase(id); }

  [[nodiscard]] std::size_t size() const { return since_.size(); }

 private:
  std::unordered_map<RequestId, Instant> since_;  // when the first such tokens came, or the last Cancel was sent
};

struct RequestTableOptions {
  std::uint32_t max_requests = 10'000;  // above it Submit returns kOverloaded
  // Further attempts of one request after failures, and as many after first tokens that stayed away: a worker that is
  // slow is no failure. Refusals do not count, those of workers that leave only towards kMaxLosses. kTokensForTries
  // tokens after the last one give them all back, so that a long answer outlives many workers. kMaxLosses bounds what
  // is given back: a request that breaks its workers after some tokens must not go through a whole fleet.
  std::uint32_t max_retries = 2;
  static constexpr std::uint32_t kTokensForTries = 128;  // of each choice
  static constexpr std::uint32_t kMaxLosses = 16;
  // A worker has room while fewer requests than this wait there, counting those that it reported and those sent since.
  // A new request waits at the router only while no worker that serves its model or adapter has room, or behind others
  // that wait for it. A request that continues after a failure waits only while no worker takes requests.
  //
  // For a tenant within its share (see TenantShares) of which nothing waits at the router, a worker has room for one in
  // kReservePart more: so requests of another tenant that wait there do not make it wait.
  std::uint32_t worker_queue_bound = 128;
  static constexpr std::uint32_t kReservePart = 4;
  // Requests that may wait for one model, and for each adapter; above it Submit returns kOverloaded.
  std::uint32_t max_queue = 1024;
  // In the fleet at one time. While they are open, no further request fetches anything.
  std::size_t max_open_holds = HoldBook::kMaxOpen;
  Duration max_queue_wait = std::chrono::seconds(30);  // then the request ends with kOverloaded
  RoutingWishes routing;
};

[[nodiscard]] Error NobodyServes(const ServedModel& model);

class RequestTable {
 public:
  // `first_id` is random, so that a late message to an earlier router process matches no id.
  RequestTable(RequestTableOptions options, std::uint64_t first_id, WorkerRegistry& registry, Policy& policy,
               EffectQueue& effects, FleetMetrics& metrics);
  ~RequestTable();

  // kUnavailable: no ready worker serves the model. kOverloaded: too many requests, open or waiting. kDeadlineExceeded:
  // no time is left. kInvalidArgument: more than the wire can carry, or a constraint that no worker supports. On an
  // error the observer is not called. `matches` is the result of PrefixIndex::Match for the prompt; outdated matches
  // only make the decision less good.
  [[nodiscard]] Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer,
                                         std::span<const WorkerMatch> matches, Instant now);
  // The error with which Submit refuses every request now.
  [[nodiscard]] std::optional<Error> Refusal() const;
  void Cancel(RequestId id);
  // Lets the order's requests go on but leave nothing in a cache any more, wherever they are sent from now on; copies
  // of their prompts end. O(requests).
  void KeepOut(const EvictOrder& order, Instant now);

  // An event of an attempt. Events of attempts that are not, or no longer, at this worker are ignored. But a worker
  // that missed a Cancel gets it again: see Orphans.
  void OnEvent(const std::string& worker_id, wire::TokenEvent event, Instant now);
  // The worker left the registry: its requests move to other workers, or end. Counts what it had of each.
  Aftermath OnWorkerLost(const std::string& worker_id, Instant now);
  // Leaves out workers whose tokens stay away (see FirstTokens and LaterTokens). Requests that wait for them move to
  // other workers, if any takes them. O(requests) while there is such a worker.
  void MoveOverdue(Instant now);

  // Sends waiting requests while workers have room. O(workers) for each model that has waiting requests.
  void DispatchWaiting(Instant now);
  // The same for one worker, which has just reported. O(log workers), plus the cost of sending.
  void DispatchWaitingTo(const Worker& worker, Instant now);
  // Ends Holds without an answer, requests that have waited too long (with kUnavailable when no worker serves their
  // model any more) and those whose deadline has passed.
  void Expire(Instant now);

  // Ends all requests with `error`.
  void EndAll(const Error& error);

  [[nodiscard]] std::size_t size() const { return requests_.size(); }
  // The queues of the models for which requests wait.
  [[nodiscard]] const AdmissionQueues& waiting() const { return waiting_; }
  [[nodiscard]] AdmissionQueues& waiting() { return waiting_; }
  // Shared with operators' orders: see Orders.
  [[nodiscard]] const Decider& decider() const { return decider_; }
  [[nodiscard]] Decider& decider() { return decider_; }
  [[nodiscard]] const PrefixCopies& copies() const { return copies_; }
  [[nodiscard]] PrefixCopies& copies() { return copies_; }
  [[nodiscard]] HoldBook& holds() { return holds_; }

 private:
  struct Choice {
    std::vector<TokenId> output;
    bool ended = false;
  };
  // Choices of a request that are sent together.
  struct Part {
    ChoiceRange choices;            // either none of them has tokens, or it is a single choice
    std::uint32_t retry_count = 0;  // failed attempts of these choices, since they got their tries back
    std::uint32_t late_count = 0;   // attempts that were given up because tokens stayed away, since then too
    std::uint32_t loss_count = 0;   // of both kinds, ever
    std::size_t token_count = 0;    // since the last of them
    bool goes_on = false;           // its prompt was computed apart, and was counted there
    bool was_apart = false;         // that was tried: it is not tried again
    std::string kv_transfer = {};   // with goes_on: where the engine's connector finds the prompt's blocks
  };
  struct Request {
    RequestId id;
    GenerateSpec spec;
    std::shared_ptr<GenerationObserver> observer;
    std::vector<Choice> choices;
    std::vector<Part> parts;               // those that are at no worker
    bool waits = false;                    // in its revision's queue
    std::optional<Instant> wait_deadline;  // set when it waits for the first time
    bool was_sent = false;
    bool cache_outcome_told = false;
    bool prompt_logprobs_told = false;                 // also true if the request does not want them
    std::vector<wire::TokenLogprobs> prompt_logprobs;  // those that have come, until the observer gets them
    std::vector<RequestId> attempts;                   // those that are at workers now
  };
  // The worker to which the blocks of a prompt go that is computed apart.
  struct Following {
    std::string worker_id;
    PendingPrefixes::Guard pending = {};
    std::optional<std::uint64_t> hold = {};  // while it is open
    bool by_connector = false;               // see Apart
  };
  struct Attempt {
    RequestId id;
    Request* request = nullptr;
    Part part;
    std::string worker_id;
    std::uint32_t prompt_token_count = 0;  // with the output of earlier attempts
    Decider::Prediction prediction;
    InFlightLedger::Charge charge;
    PendingPrefixes::Guard pending;  // until its prompt is computed
    Instant pending_until{};
    std::optional<std::uint64_t> hold;   // that it waits for: its own, or another one's that brings the same blocks
    std::optional<Following> following;  // it computes the prompt alone
    std::optional<Instant> prompt_computed_at;
    bool cache_outcome_known = false;
    bool cut_short = false;   // the router ended a choice that its worker still computes
    bool is_probe = false;    // see Ejection
    bool is_overdue = false;  // its next token; counted against the worker once
  };
  using Requests = std::unordered_map<RequestId, std::unique_ptr<Request>>;
  // Matches in the revision's current index. The request's model may refer to an older one.
  [[nodiscard]] std::vector<WorkerMatch> MatchNow(const ServedModel& model, std::span<const BlockHash> hashes) const;
  [[nodiscard]] RequestId NextId() { return RequestId(next_id_++); }
  [[nodiscard]] Attempt* FindAttempt(const std::string& worker_id, RequestId attempt_id);
  [[nodiscard]] static bool HasOpenChoice(const Request& request, ChoiceRange range);
  [[nodiscard]] static bool HasOutput(const Request& request);
  [[nodiscard]] static bool UsesCache(const Request& request);
  // The prompt of an attempt with these choices: the request's, and what they have of their output.
  [[nodiscard]] static std::uint32_t TokensBefore(const Request& request, const Part& part);
  void SendTo(const std::string& worker_id, wire::RouterMessage message);

  // ---- the queue (request_table_queue.cc) ----
  [[nodiscard]] bool HasRoom(const Worker& worker) const;
  // The features that a worker must support for this request.
  [[nodiscard]] static RouteQuery WishesOf(const GenerateSpec& spec);
  // True if some worker may take the request, regardless of room.
  [[nodiscard]] bool MayBeTaken(const Request& request);
  [[nodiscard]] Error WhyNobody(const GenerateSpec& spec);
  // A request of the spec's session has come: says when the next one should, if that can be told and is left open.
  void ExpectReturn(GenerateSpec& spec, Instant now);
  [[nodiscard]] bool AnyHasRoom(const AdmissionQueues::QueueName& name);
  // Serving workers that take requests from this queue.
  [[nodiscard]] std::vector<Worker*> ServingQueue(const AdmissionQueues::QueueName& name);
  [[nodiscard]] QueuedRequest PlaceInQueue(Request& request, Instant now) const;
  [[nodiscard]] Result<void> Enqueue(Request& request, Instant now);
  // Adds the request before all others of its priority, even when the queue is full.
  void EnqueueFirst(Request& request, Instant now);
  // Does nothing when the request is not queued.
  void LeaveQueue(Request& request);
  // Sends the next request. False when none waits, or when it has to wait again.
  bool DispatchNext(const AdmissionQueues::QueueName& name, Instant now);
  // Moves requests whose revision has no worker left for them to another revision that can take them.
  void MoveWaiting(const AdmissionQueues::QueueName& name, Instant now);
  // Ends a request that has waited too long; `request` dangles afterwards.
  void EndWait(Request& request);
  [[nodiscard]] Error TooManyInFlight() const;

  enum class Admission : std::uint8_t { kWithRoom, kInReserve, kAnyway };
  enum class Sending : std::uint8_t { kSent, kNoRoom, kNoWorker };
  // Sends the parts that are at no worker. Parts that could not be sent stay in `parts`, and the result is not kSent.
  [[nodiscard]] Sending SendParts(Request& request, Admission admission, Instant now);
  // Places, prepares and dispatches the first part. `hashes` are those of prompt and output, `matches` is the result of
  // PrefixIndex::Match for them.
  [[nodiscard]] Sending SendFirstPart(Request& request, std::span<const BlockHash> hashes,
                                      std::span<const WorkerMatch> matches, Admission admission, Instant now);
  // The worker for the first part; empty: none may take it.
  [[nodiscard]] std::optional<Placement> Place(const Request& request, std::span<const BlockHash> hashes,
                                               std::span<const WorkerMatch> matches, Admission admission, Instant now);
  // Makes an attempt of the first part, and charges the worker.
  [[nodiscard]] Attempt& Prepare(Request& request, Placement& placement, std::span<const BlockHash> hashes,
                                 Instant now);
  // Sends the attempt, and tells the observer.
  void Dispatch(const Attempt& attempt, Placement& placement, std::span<const BlockHash> hashes, Instant now);
  [[nodiscard]] bool MayUseReserve(const GenerateSpec& spec) const;
  [[nodiscard]] std::uint32_t PriorityAtWorker(const GenerateSpec& spec, Instant now);
  // False when the request has tokens, or when no other served revision has the same tokenizer.
  [[nodiscard]] bool MoveToOtherRevision(Request& request);
  [[nodiscard]] std::optional<Placement> FindPlace(PlacementQuery query, Admission admission, Instant now);
  enum class Fate : std::uint8_t { kMoved, kWaits, kFailed };
  // After a failed attempt: makes further attempts for its open choices, or ends the request with `error`.
  Fate Retry(Attempt& attempt, RetryReason reason, const Error& error, Instant now);
  // May its choices be sent again?
  [[nodiscard]] bool HasTries(const Part& part) const;
  [[nodiscard]] Error WhyNotAgain(const Request& request, const Part& part, const Error& error) const;
  [[nodiscard]] static std::vector<ChoiceRange> RangesLeft(const Attempt& attempt);
  // The attempt is over; `attempt` dangles afterwards.
  void Forget(Attempt& attempt);
  // Forgets the request and cancels its attempts; `request` dangles afterwards.
  void End(Request& request, GenerationEnd end);

  // ---- blocks and prompts that come (request_table_blocks.cc) ----
  // The time within which something should be done that was predicted to take `seconds`, with slack.
  [[nodiscard]] static Duration PatienceFor(double seconds);
  // Has the chosen worker fetch what the decision says, or lets the attempt wait for what comes to it anyway. If the
  // Hold can not be sent, the decision expects nothing from it any more.
  void BeginPull(Attempt& attempt, Decision& decision, const Worker& worker, std::span<const BlockHash> hashes,
                 Instant now);
  // The worker will hold the prompt's blocks.
  void ExpectPrompt(Attempt& attempt, const Decision& decision, const Worker& worker, Instant now);
  void OnPulled(RequestId attempt_id, const HoldEnd& end, double predicted_seconds);

  // ---- prompts apart (request_table_apart.cc) ----
  // A reason not to compute the part's prompt apart.
  [[nodiscard]] static std::optional<Together> WhyTogether(const Request& request, const Part& part);
  [[nodiscard]] static wire::RequestPart PartOf(const Attempt& attempt);
  // Expects the prompt's blocks at the worker for the answer, which is told to follow them or has a connector.
  void BeginApart(Attempt& attempt, const Apart& apart, std::span<const BlockHash> hashes, Instant now);
  void Follow(Attempt& attempt, const Worker& worker, const PrefixPull& follow, std::span<const BlockHash> hashes,
              Duration patience, Instant now);
  void EndFollowing(Following& following);
  // The prompt is computed, and its first token has come; `attempt` dangles afterwards.
  void GoOn(Attempt& attempt, std::string kv_transfer, Instant now);
  // The attempt's worker passes it on to its engine's connector, which then fetches blocks. Mostly empty.
  [[nodiscard]] static std::string_view KvTransferFor(const Attempt& attempt, const Worker& worker);
  // Takes the event's tokens away, if the answer begins anew elsewhere.
  static void DropForConnector(const Attempt& attempt, wire::TokenEvent& event);
  // Its first token has come.
  static void NoteHandover(const Attempt& attempt, Worker& worker, Instant now);
  // Sends requests again, without the connector, whose engines did not get the blocks in time.
  void EndLateHandovers(Instant now);

  // ---- tokens that stay away (request_table_overdue.cc) ----
  // In the order of their ids, so that runs are reproducible.
  [[nodiscard]] std::vector<RequestId> OverdueAttempts(Instant now);
  [[nodiscard]] bool IsOverdue(const Attempt& attempt, const Worker& worker, Instant now) const;
  [[nodiscard]] bool IsFirstTokenOverdue(const Attempt& attempt, const Worker& worker, Instant now) const;
  // True if a worker other than the attempt's takes requests like this one now.
  [[nodiscard]] bool AnotherTakes(const Attempt& attempt);

  // ---- what workers send (request_table_events.cc) ----
  void OnOrphan(const std::string& worker_id, const wire::TokenEvent& event, Instant now);
  // An error when an event lacks log probabilities that the request wants.
  [[nodiscard]] static Result<void> CheckLogprobs(const Request& request, const wire::TokenEvent& event);
  // Collects the prompt's log probabilities from the event, and passes them to the observer when they are complete.
  void OnPromptLogprobs(Request& request, wire::TokenEvent& event);
  void OnTokens(Attempt& attempt, wire::TokenEvent& event, Instant now);
  // The attempt's worker is not silent: the attempt got `count` tokens.
  void NoteTokens(Attempt& attempt, std::size_t count, Instant now);
  // The attempt got its tokens as it should, all of them or so far.
  void NoteServed(Attempt& attempt, Worker& worker, Instant now);
  // Called with each event that proves that the prompt is computed; only the attempt's first one has an effect.
  void OnPromptComputed(Attempt& attempt, Instant now);
  void OnCacheOutcome(Attempt& attempt, const wire::TokenEvent& event, Instant now);
  // One choice is complete; `attempt` may dangle afterwards.
  void OnChoiceEnd(Attempt& attempt, ChoiceEnd end, Instant now);
  // Empty if the request has several choices.
  [[nodiscard]] static std::optional<Decider::AttemptOutput> OutputOf(const Attempt& attempt, Instant now);
  // The worker now has the KV of prompt and output. Has an effect only in predicted mode.
  void NoteOutput(const Attempt& attempt, std::uint32_t choice, Instant now);
  // The worker gave up all of the attempt; `attempt` dangles afterwards.
  void OnFailure(Attempt& attempt, const wire::TokenEvent& event, Instant now);

  const RequestTableOptions options_;
  WorkerRegistry& worker_registry_;
  EffectQueue& effects_;
  FleetMetrics& metrics_;
  Decider decider_;
  AdmissionQueues waiting_;
  HoldBook holds_;
  PrefixCopies copies_;
  TenantShares tenant_shares_;
  ReturnGaps return_gaps_;

  std::uint64_t next_id_;
  Requests requests_;
  std::unordered_map<RequestId, Attempt> attempts_;
  std::set<std::pair<Instant, RequestId>> deadlines_;      // of requests that have one
  std::set<std::pair<Instant, RequestId>> handovers_due_;  // attempts whose engines fetch blocks; some may be gone
  Orphans orphans_;
};

}  // namespace roost::router

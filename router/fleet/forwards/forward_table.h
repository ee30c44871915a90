// The open requests that workers hand on to their engines unread.
//
//   Submit ─► attempt 1 ─► Forward, ForwardBody … ─► worker     chosen by its text, its session and the workers' load
//                │  worker lost, full or away, and nothing of an answer came
//                └► attempt 2 at another worker ─► head ─► bytes … ─► end
//
// The body is held until the answer has begun and all of the body was sent: until then another worker can get it. Of
// the answer, at most wire::kForwardCredit bytes are on their way to the client; its observer says what has left.
//
// No request waits here: one that no worker takes ends. Every accepted request ends exactly once: it leaves the table
// in the call that queues its last piece.
//
// Where the router does not read a model's prompts, the pieces of their texts (text_pieces.h) are looked up in the same
// index as blocks of tokens. A worker has those of the requests that it has answered, and what the engine tells of
// cached tokens corrects that (OnUsage).
//
// Not thread-safe. The constructor's arguments outlive it. A submission and a retry take O(workers), an answer's
// beginning O(pieces).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/effects.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/workers/worker_registry.h"

namespace roost::router {

struct ForwardTableOptions {
  std::uint32_t max_requests = 10'000;  // above it Submit returns kOverloaded
  std::uint32_t max_attempts = 4;       // of one request
};

class ForwardTable {
 public:
  // `first_id` is random, as RequestTable's, and far from its.
  ForwardTable(ForwardTableOptions options, std::uint64_t first_id, WorkerRegistry& registry, EffectQueue& effects,
               FleetMetrics& metrics);

  // kUnavailable: no worker that has the path serves the model now. kOverloaded, kDeadlineExceeded as RequestTable. On
  // an error the observer is not called.
  [[nodiscard]] Result<RequestId> Submit(ForwardSpec spec, std::shared_ptr<ForwardObserver> observer, Instant now);
  // Unknown ids are ignored, here and below: the request may have just ended.
  void Cancel(RequestId id);
  // The client has taken so many bytes of the answer.
  void Grant(RequestId id, std::size_t bytes);

  void OnForwarded(const std::string& worker_id, wire::Forwarded message, Instant now);
  // The worker left the registry.
  void OnWorkerLost(const std::string& worker_id, Instant now);
  // Ends requests whose deadline has passed. O(requests).
  void Expire(Instant now);
  void EndAll(const Error& error);

  [[nodiscard]] std::size_t size() const { return requests_.size(); }

 private:
  // The beginning of a prompt's text that its worker should have computed.
  struct Promise {
    Instant promised_at{};
    std::size_t piece_count = 0;
    std::optional<Instant> used_at = {};  // the last of these pieces, before
  };
  struct Request {
    RequestId id;
    ForwardSpec spec;
    std::shared_ptr<ForwardObserver> observer;
    RequestId attempt;
    std::string worker_id;
    std::set<std::string> tried;  // workers; one that was lost may come back
    std::uint32_t attempt_count = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t credit = 0;  // of the body
    bool has_answer = false;
    Promise promise = {};  // of this attempt
  };
  using Requests = std::unordered_map<RequestId, std::unique_ptr<Request>>;

  // The worker for a request: one that has not been tried; null when there is none.
  [[nodiscard]] Worker* Choose(Request& request, Instant now);
  // The one that is done first, where most of the text is known to be somewhere; else null.
  [[nodiscard]] Worker* ChooseByText(Request& request, const std::vector<Worker*>& workers, Instant now);
  [[nodiscard]] std::vector<Worker*> Candidates(const Request& request);
  void Send(Request& request, Worker& worker, Instant now);
  void SendBody(Request& request);
  void FreeBody(Request& request);
  // Ends the attempt, and makes another one or ends the request with `error`. True when it goes on.
  bool Retry(Request& request, RetryReason reason, const Error& error, Instant now);
  // The engine tells what it found; compares it with the promise.
  [[nodiscard]] std::optional<ForwardUsage> OnUsage(const Request& request, const wire::Forwarded& message,
                                                    Instant now);
  void LeaveWorker(const Request& request);
  void CancelAttempt(const Request& request);
  void End(Request& request, std::optional<Error> error);
  [[nodiscard]] Request* FindAttempt(const std::string& worker_id, RequestId attempt);

  const ForwardTableOptions options_;
  WorkerRegistry& registry_;
  EffectQueue& effects_;
  FleetMetrics& metrics_;
  std::uint64_t next_id_;
  std::size_t turn_ = 0;  // of equal workers
  Requests requests_;
  std::unordered_map<RequestId, Request*> attempts_;
};

}  // namespace roost::router

// The fleet's metrics. The core calls this interface, so that it needs no metrics library and tests can observe it;
// registry_fleet_metrics.h publishes the values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/wire/link_guard.h"
#include "router/fleet/fleet_reasons.h"
#include "router/fleet/fleet_standing.h"
#include "router/fleet/worker_mode.h"
#include "router/route/decision_audit.h"
#include "router/route/policy.h"

namespace roost::router {

// Compares the prediction of cached tokens with the report of a request's first token.
struct CacheOutcome {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t predicted_cached_tokens = 0;
  std::uint32_t actual_cached_tokens = 0;
  std::uint32_t block_tokens = 1;  // a worker may find up to one token less than these beyond the blocks it reports
};

// The time from the decision to the first token, the mean time between two tokens, or the time of a pull.
struct TimeOutcome {
  double predicted_seconds = 0;
  double actual_seconds = 0;
};

// The indexes of all models.
struct IndexUse {
  std::uint64_t block_count = 0;  // distinct
  std::uint64_t memory_bytes = 0;
  std::uint64_t shed_blocks_total = 0;  // workers' blocks that were left out because memory was full
};

// Two interfaces, of requests and of workers. All functions do nothing here; override those of interest. Callers
// serialise the calls, except OnDecisionSeconds, OnMalformedMessage, OnUnknownMessage and OnPeerRefused, which any
// thread may call.
class RequestMetrics {
 public:
  virtual ~RequestMetrics() = default;
  virtual void OnDecision(std::string_view /*policy*/, DecisionReason /*reason*/) {}
  virtual void OnDecisionAudit(const std::string& /*model*/, const Decision& /*decision*/,
                               const DecisionAudit& /*audit*/) {}
  virtual void OnTtft(const std::string& /*model*/, const TimeOutcome& /*outcome*/) {}
  virtual void OnItl(const std::string& /*model*/, const TimeOutcome& /*outcome*/) {}
  virtual void OnDecisionSeconds(double /*seconds*/) {}
  virtual void OnSent(const std::string& /*model*/, const std::string& /*worker_id*/) {}
  virtual void OnFirstToken(const std::string& /*model*/, const CacheOutcome& /*outcome*/) {}
  virtual void OnCacheOff(const std::string& /*model*/) {}
  virtual void OnCopied(const std::string& /*model*/, std::uint32_t /*tokens*/) {}
  virtual void OnPull(const std::string& /*model*/, PullOutcome /*outcome*/, std::uint64_t /*tokens*/) {}
  // From the Hold of a request to its last block.
  virtual void OnPullSeconds(const std::string& /*model*/, const TimeOutcome& /*outcome*/) {}
  virtual void OnRetry(const std::string& /*model*/, RetryReason /*reason*/) {}
  virtual void OnQueueWait(const std::string& /*model*/, double /*seconds*/) {}
  virtual void OnQueueRefused(const std::string& /*model*/, QueueRefusal /*refusal*/) {}
  virtual void SetQueued(const std::string& /*model*/, std::uint32_t /*requests*/) {}
};

class WorkerMetrics {
 public:
  virtual ~WorkerMetrics() = default;
  virtual void OnWorkerLost(const std::string& /*model*/, LostReason /*reason*/) {}
  virtual void OnHandover(const std::string& /*model*/, HandoverKind /*kind*/, HandoverEnd /*end*/) {}
  virtual void OnResync(ResyncReason /*reason*/) {}
  virtual void OnModeChange(WorkerMode /*to*/, ModeReason /*reason*/) {}
  virtual void OnIndexEvents(std::uint64_t /*stored_blocks*/, std::uint64_t /*removed_blocks*/) {}
  virtual void OnMalformedMessage() {}
  virtual void OnUnknownMessage() {}
  virtual void OnPeerRefused(wire::PeerRefusal /*refusal*/) {}
  virtual void SetWorkers(const std::string& /*model*/, const WorkerCounts& /*counts*/) {}
  // The model is served here no more: removes the time series of its workers' counts.
  virtual void ForgetModel(const std::string& /*model*/) {}
  virtual void SetIndex(const IndexUse& /*use*/) {}
  virtual void SetInFlight(const std::string& /*model*/, const std::string& /*worker_id*/, std::uint32_t /*requests*/) {
  }
  virtual void SetCacheValue(const std::string& /*model*/, const std::string& /*worker_id*/, double /*seconds*/) {}
  virtual void SetMode(const std::string& /*model*/, const std::string& /*worker_id*/, WorkerMode /*mode*/) {}
  // The worker is gone: removes its time series.
  virtual void ForgetWorker(const std::string& /*model*/, const std::string& /*worker_id*/) {}
};

class FleetMetrics : public RequestMetrics, public WorkerMetrics {};

}  // namespace roost::router

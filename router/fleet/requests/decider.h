// Chooses the worker for a request: asks the policy, compares its choice with the best candidate and with round robin,
// and logs the decision so that it can be explained later.
//
//   Decide ──► Placement ──► OnOutcome, OnFirstToken, OnAnswer: compare prediction and outcome
//     └─ log, counters          └─ log, counters, lengths of answers
//
// Not thread-safe. The constructor's arguments outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_metrics.h"
#include "router/fleet/requests/block_losses.h"
#include "router/fleet/workers/worker_registry.h"
#include "router/route/answer_lengths.h"
#include "router/route/apart.h"
#include "router/route/decision_audit.h"
#include "router/route/log/decision_log.h"
#include "router/route/policy.h"

namespace roost::router {

// The input of a decision about one attempt.
struct PlacementQuery {
  const GenerateSpec& spec;
  std::uint32_t prompt_token_count = 0;  // including the tokens that earlier attempts generated
  std::uint32_t sample_count = 1;
  std::uint32_t retry_count = 0;
  std::span<const WorkerMatch> matches = {};  // deepest first
  std::uint32_t waiting_bound = kNoBound;     // see RouteQuery
  bool may_pull = true;                       // a Hold can be sent
  std::optional<Together> together = {};      // a reason not to compute its prompt apart
  std::span<const HeldBlocks> held = {};      // of workers whose matches were cut; see WorkerRegistry::CutToResumable
};

// Says if workers may fetch blocks for a request. Copies and warm-ups fetch regardless.
enum class RequestPulls : std::uint8_t { kOff, kOn };

// The operator's wishes for the policy.
struct RoutingWishes {
  std::uint32_t min_copies = 1;  // see RouteQuery
  SloBounds slo;
  RequestPulls pulls = RequestPulls::kOn;
};

struct Placement {
  Worker& worker;
  Decision decision;
  std::uint64_t number = 0;  // in the log
  Instant decided_at{};
};

class Decider {
 public:
  Decider(const RoutingWishes& wishes, WorkerRegistry& registry, Policy& policy, RequestMetrics& metrics)
      : wishes_(wishes), worker_registry_(registry), policy_(policy), metrics_(metrics) {}

  // Empty when no worker may take it.
  [[nodiscard]] std::optional<Placement> Decide(const PlacementQuery& query, Instant now);

  // The decision that a request with this prompt would get now. It is neither logged nor counted, and changes nothing.
  [[nodiscard]] std::optional<Decision> Ask(const ServedModel& model, std::uint32_t prompt_token_count,
                                            std::span<const BlockHash> block_hashes,
                                            std::span<const WorkerMatch> matches);
  // The seconds that the worker needs for the first token of a prompt that it got before, by its last report, if it
  // finds nothing of it in its cache: that may have been evicted since, and attention reads it all the same. 0 while no
  // worker's speed is known.
  [[nodiscard]] double ExpectFirstToken(const Worker& worker, const ServedModel& model, std::uint32_t prompt_tokens,
                                        Instant now) const;
  // The worker that the request would go to; null when there is none.
  [[nodiscard]] Worker* BestFor(const ServedModel& model, std::span<const BlockHash> block_hashes,
                                std::span<const WorkerMatch> matches);

  // The part of a placement that is kept until its first token.
  struct Prediction {
    std::uint64_t number = 0;
    Instant decided_at{};
    double ttft_seconds = 0;
    double itl_seconds = 0;   // mean time between tokens
    bool in_seconds = false;  // see Decision
    std::uint32_t cached_tokens = 0;
    std::uint32_t arriving_tokens = 0;  // the last of these, which come from another worker
    std::uint32_t elsewhere_tokens = 0;
  };
  [[nodiscard]] static Prediction PredictionOf(const Placement& placement);
  // It is known how many tokens an attempt found cached, with its first token or later.
  struct Found {
    std::uint32_t cached_tokens = 0;
    wire::PromptMiss miss = wire::PromptMiss::kNone;
  };
  void OnOutcome(const Prediction& prediction, const Found& found, Instant first_token_at);
  // The attempt has no outcome and will have none; `why` is a literal.
  void OnNoOutcome(std::uint64_t number, std::string_view why) { log_.SetNoOutcome(number, why); }
  // The blocks have come that the decision let the worker fetch, or will not. `predicted_seconds` is of all of them.
  void OnPulled(const ServedModel& model, std::uint64_t number, const Pull& pull, double predicted_seconds);
  // The same as OnOutcome of a request's first attempt that has one. The token came at `at`.
  void OnFirstToken(const ServedModel& model, const Prediction& prediction, Instant at);

  // The tokens that an attempt gave to an answer that has ended, and when.
  struct AttemptOutput {
    std::uint32_t tokens = 0;
    Instant first_token_at{};
    Instant ended_at{};
  };
  // An answer has ended as its request wished, after so many tokens. `output` is of the attempt that ended it, if
  // the attempt computed no other answer beside: others would share its steps.
  void OnAnswer(const GenerateSpec& spec, std::uint32_t answer_tokens, const Prediction& prediction,
                const std::optional<AttemptOutput>& output);

  [[nodiscard]] const DecisionLog& log() const { return log_; }
  [[nodiscard]] BlockLosses& losses() { return losses_; }
  [[nodiscard]] std::string_view policy_name() const { return policy_.name(); }

 private:
  // Workers for prompts alone take whole requests only where there are no others.
  [[nodiscard]] static Stage StageIn(const FleetView& fleet) {
    return fleet.has_roles() ? Stage::kAnswer : Stage::kWhole;
  }
  // Has the decision's prompt computed apart, if that costs less.
  static void ConsiderApart(const RouteQuery& query, const FleetView& fleet, const std::optional<Together>& together,
                            Decision& decision);
  [[nodiscard]] const Transfers* TransfersOrNone() const {
    return wishes_.pulls == RequestPulls::kOn ? &worker_registry_.transfers() : nullptr;
  }
  // The deepest match of another worker that takes requests; null: there is none.
  [[nodiscard]] const WorkerMatch* MatchElsewhere(const RouteQuery& query, const Worker& chosen) const;
  [[nodiscard]] std::uint64_t Log(const PlacementQuery& query, const Decision& decision, const DecisionAudit& audit,
                                  const WorkerMatch* elsewhere, Instant now);

  const RoutingWishes wishes_;
  WorkerRegistry& worker_registry_;
  Policy& policy_;
  RequestMetrics& metrics_;
  DecisionAuditor auditor_;
  DecisionLog log_;
  BlockLosses losses_;
  AnswerLengths lengths_;
};

}  // namespace roost::router

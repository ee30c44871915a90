#include "router/route/policy.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::router {

bool MayTake(const RouteQuery& query, const WorkerView& worker) {
  const bool is_for_prompts = worker.role == wire::WorkerRole::kPrefill;
  if (query.stage != Stage::kWhole && is_for_prompts != (query.stage == Stage::kFirstToken)) return false;
  if (worker.max_sample_count < query.sample_count || worker.waiting_requests >= query.waiting_bound) return false;
  if (!query.adapter.empty() && (worker.adapters == nullptr || !worker.adapters->contains(query.adapter))) return false;
  return worker.features.contains(query.needs);
}

PromptOnWorker PromptOn(const RouteQuery& query, const WorkerMatch& match) {
  return {query.prompt_token_count, match.block_count, match.pending_block_count, query.answer, query.slo,
          match.pending_seconds};
}

PromptOnWorker PromptOn(const RouteQuery& query, WorkerSlot slot) { return PromptOn(query, MatchOf(query, slot)); }

WorkerMatch MatchOf(const RouteQuery& query, WorkerSlot slot) {
  const auto found = std::find_if(query.matches.begin(), query.matches.end(),
                                  [slot](const WorkerMatch& match) { return match.worker == slot; });
  return found == query.matches.end() ? WorkerMatch() : *found;
}

std::string_view NameOf(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kDeepestMatch: return "deepest_match";
    case DecisionReason::kMinLoad: return "least_load";
    case DecisionReason::kNearTie: return "near_tie";
    case DecisionReason::kOnlyWorker: return "only_worker";
    case DecisionReason::kPull: return "pull";
    case DecisionReason::kRestore: return "restore";
    case DecisionReason::kApart: return "apart";
    case DecisionReason::kReplicate: return "replicate";
    case DecisionReason::kMinCost: return "least_cost";
    case DecisionReason::kRotation: return "rotation";
    case DecisionReason::kRandom: return "random";
    case DecisionReason::kHash: return "hash";
    case DecisionReason::kSession: return "session";
    case DecisionReason::kOverBound: return "over_bound";
    case DecisionReason::kHistory: return "history";
    case DecisionReason::kImbalance: return "imbalance";
    case DecisionReason::kSticky: return "sticky";
    case DecisionReason::kUnsticky: return "unsticky";
  }
  return "unknown";
}

}  // namespace roost::router

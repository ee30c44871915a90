// dynamo: the least cost of NVIDIA Dynamo's kv router (lib/kv-router/src/scheduling/selector/default.rs), in blocks; a
// random one of several equals:
//
//   cost = prefill_load_scale · (raw prefill blocks - overlap credit) + decode blocks
//
//   raw prefill blocks   of the worker's active prefill and of the whole prompt
//   overlap credit       credit · blocks of the prompt that the worker holds; no decay, no other tiers
//   decode blocks        of the contexts that run there; those of the prompt are the same for all workers and left out
//
// Defaults as in Dynamo 1.2.1 (its page on configuration and tuning): scale 1, credit 1, decay 0, weight of active
// requests 0, temperature 0.
//
// dynamo-credit: the same with a credit of 1.5, the best of its project's own tuning on traces of agents (pull request
// 11714 of July 2026, which allows credits above 1 and took away the floor of 0 for the prefill).
#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

constexpr double kPrefillLoadScale = 1;
constexpr double kDefaultCredit = 1;
constexpr double kTunedCredit = 1.5;

double CostOf(const RouteQuery& query, const Prospect& prospect, double overlap_credit) {
  const WorkerView& worker = *prospect.worker;
  const double block_tokens = worker.block_tokens;
  const double raw_prefill_blocks =
      static_cast<double>(worker.queued_prefill_tokens + query.prompt_token_count) / block_tokens;
  const double credit = overlap_credit * static_cast<double>(prospect.matched_blocks);
  const double decode_blocks = static_cast<double>(worker.running_context_tokens) / block_tokens;
  return kPrefillLoadScale * (raw_prefill_blocks - credit) + decode_blocks;
}

class Dynamo final : public ScanningPolicy {
 public:
  Dynamo(std::string_view name, double overlap_credit, std::uint64_t seed)
      : ScanningPolicy(name, seed), overlap_credit_(overlap_credit) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& query, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    const auto cost = [&](const Prospect& prospect) { return CostOf(query, prospect, overlap_credit_); };
    return {Least(prospects, cost), DecisionReason::kMinCost};
  }

 private:
  const double overlap_credit_;
};

}  // namespace

std::unique_ptr<Policy> MakeDynamo(std::uint64_t seed) {
  return std::make_unique<Dynamo>("dynamo", kDefaultCredit, seed);
}

std::unique_ptr<Policy> MakeDynamoCredit(std::uint64_t seed) {
  return std::make_unique<Dynamo>("dynamo-credit", kTunedCredit, seed);
}

}  // namespace roost::router

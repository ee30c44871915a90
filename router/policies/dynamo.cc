// dynamo: the least cost of NVIDIA Dynamo's kv router (lib/kv-router/src/scheduling/selector/default.rs), in blocks; a
// random one of several equals:
//
//   cost = prefill_load_scale · max(raw prefill blocks - overlap credit, 0) + decode blocks
//
//   raw prefill blocks   of the worker's active prefill and of the whole prompt
//   overlap credit       credit · blocks of the prompt that the worker holds; no decay, no other tiers
//   decode blocks        of the contexts that run there; those of the prompt are the same for all workers and left out
//
// Defaults as in Dynamo: scale 1, credit 1, decay 0, weight of active requests 0, temperature 0.
#include <algorithm>

#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

constexpr double kPrefillLoadScale = 1;
constexpr double kOverlapCredit = 1;

double CostOf(const RouteQuery& query, const Prospect& prospect) {
  const WorkerView& worker = *prospect.worker;
  const double block_tokens = worker.block_tokens;
  const double raw_prefill_blocks =
      static_cast<double>(worker.queued_prefill_tokens + query.prompt_token_count) / block_tokens;
  const double credit = kOverlapCredit * static_cast<double>(prospect.matched_blocks);
  const double decode_blocks = static_cast<double>(worker.running_context_tokens) / block_tokens;
  return kPrefillLoadScale * std::max(raw_prefill_blocks - credit, 0.0) + decode_blocks;
}

class Dynamo final : public ScanningPolicy {
 public:
  explicit Dynamo(std::uint64_t seed) : ScanningPolicy("dynamo", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& query, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    return {Least(prospects, [&](const Prospect& prospect) { return CostOf(query, prospect); }),
            DecisionReason::kLeastCost};
  }
};

}  // namespace

std::unique_ptr<Policy> MakeDynamo(std::uint64_t seed) { return std::make_unique<Dynamo>(seed); }

}  // namespace roost::router

// The decision: a pure function of a query and the fleet's views. No thread, socket or clock; randomness is a
// parameter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/rng.h"

namespace roost::router {

// One worker that may take the request: what it reported, plus what this router sent since.
struct WorkerView {
  WorkerSlot slot;
  std::uint32_t matched_block_count = 0;  // of this query's leading blocks
  std::uint32_t pending_block_count = 0;  // of these, the last ones are still being computed there
  std::uint32_t block_tokens = 16;
  std::uint64_t queued_prefill_tokens = 0;  // reported, and charged since
  std::uint32_t running_requests = 0;
  std::uint32_t waiting_requests = 0;
  std::uint32_t in_flight_requests = 0;  // of this router
  std::uint32_t max_running_requests = 1;
  std::uint32_t max_batch_tokens = 0;  // token budget of one step; 0: not told
  std::uint32_t free_block_count = 0;
  // Fitted online from the steps that the worker reports; zero until known.
  double prefill_tokens_per_second = 0;
  double decode_step_seconds = 0;
};

struct RouteQuery {
  std::uint32_t prompt_token_count = 0;
};

// Why a worker was chosen; a label of roost_router_decisions_total.
enum class DecisionReason : std::uint8_t {
  kDeepestMatch,  // held the longest prefix, and was the cheapest
  kLeastLoad,     // nothing useful matched, or the match was not worth the wait
  kNearTie,       // as good as the best within the tie margin
  kOnlyWorker,
  kRotation,  // round robin's turn
  kRandom,
};
[[nodiscard]] std::string_view NameOf(DecisionReason reason);

struct Candidate {
  WorkerSlot slot;
  std::uint32_t matched_tokens = 0;
  std::uint32_t pending_tokens = 0;  // of these, still being computed there
  double wait_seconds = 0;
  double prefill_seconds = 0;
  [[nodiscard]] double ttft_seconds() const { return wait_seconds + prefill_seconds; }
};

struct Decision {
  WorkerSlot slot;
  DecisionReason reason = DecisionReason::kOnlyWorker;
  std::uint32_t matched_tokens = 0;  // predicted cached tokens
  double predicted_ttft_seconds = 0;
  std::vector<Candidate> candidates;  // those that were compared; may be empty for policies that do not compare
};

class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // `workers` is not empty. Callers serialise calls.
  [[nodiscard]] virtual Decision Choose(const RouteQuery& query, std::span<const WorkerView> workers) = 0;
};

// "cache-aware", "round-robin", "random", "least-loaded". kInvalidArgument names the known ones.
[[nodiscard]] Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, std::uint64_t seed);

}  // namespace roost::router

// Replays a trace on the real prefix cache of one worker, one request after the other: each is matched, its missing
// blocks and its answer's blocks are committed, then all are released. No time passes, so the result shows the cache
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "deploy/roostctl/workload/trace.h"
#include "worker/cache/eviction/eviction.h"

namespace roost::workload {

struct HitCount {
  std::uint64_t prompt_token_count = 0;
  std::uint64_t hit_token_count = 0;  // prompt tokens in matched blocks
  // The time to compute them, in that of tokens at the beginning of a prompt.
  double prompt_cost = 0;
  double hit_cost = 0;

  [[nodiscard]] double hit_ratio() const {
    return prompt_token_count == 0 ? 0 : static_cast<double>(hit_token_count) / static_cast<double>(prompt_token_count);
  }
  // The share of the time to compute the prompts that hits save.
  [[nodiscard]] double saved_ratio() const { return prompt_cost == 0 ? 0 : hit_cost / prompt_cost; }
};

struct ReplayResult : HitCount {
  std::uint64_t evicted_block_count = 0;
  std::vector<HitCount> tenants;  // by number in the trace
};

// Replays on a pool of `block_count` blocks. A request larger than the pool keeps what fits. Tenant t owns
// tenant_shares[t - 1] of the pool, as group t of `eviction`; tenants without a share are in group 0. `cost` is that of
// the trace's blocks; `eviction` is told.
[[nodiscard]] ReplayResult Replay(const Trace& trace, std::uint32_t block_count,
                                  std::unique_ptr<worker::EvictionPolicy> eviction,
                                  std::span<const double> tenant_shares = {}, worker::RecomputeCost cost = {});

// The same with knowledge of the future: evicts the leaf whose next use is farthest (Belady, A study of replacement
// algorithms for a virtual-storage computer, 1966). O(log n) per block. Close to a bound, but not quite one, because
// with prefixes the farthest is not always the best choice.
[[nodiscard]] ReplayResult ReplayWithForesight(const Trace& trace, std::uint32_t block_count,
                                               worker::RecomputeCost cost = {});

}  // namespace roost::workload

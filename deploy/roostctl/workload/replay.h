// Replays a trace on the real prefix cache of one worker: one request after the other, each matched, its missing blocks
// committed, its answer's blocks too, then all let go. No time passes, so what is seen is the cache alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "deploy/roostctl/workload/trace.h"
#include "worker/cache/eviction.h"

namespace roost::workload {

struct HitCount {
  std::uint64_t prompt_token_count = 0;
  std::uint64_t hit_token_count = 0;  // prompt tokens in blocks that were matched

  [[nodiscard]] double hit_ratio() const {
    return prompt_token_count == 0 ? 0 : static_cast<double>(hit_token_count) / static_cast<double>(prompt_token_count);
  }
};

struct ReplayResult : HitCount {
  std::uint64_t evicted_block_count = 0;
  std::vector<HitCount> tenants;  // by their numbers in the trace
};

// On a pool of `block_count` blocks. A request that is larger than the pool keeps what fits. Tenant t has
// tenant_shares[t - 1] of the pool as its own, in `eviction`'s group t; those without a share are in group 0.
[[nodiscard]] ReplayResult Replay(const Trace& trace, std::uint32_t block_count,
                                  std::unique_ptr<worker::EvictionPolicy> eviction,
                                  std::span<const double> tenant_shares = {});

// The same with what no policy can know: the block goes whose next use is farthest, leaves only (Belady, A study of
// replacement algorithms for a virtual-storage computer, 1966). O(log n) per block. Not quite a bound, because with
// prefixes the best choice is not always the farthest, but close to one.
[[nodiscard]] ReplayResult ReplayWithForesight(const Trace& trace, std::uint32_t block_count);

}  // namespace roost::workload

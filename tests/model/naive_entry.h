// A block of the naive cache (naive_cache.h), and the timers that it has.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "worker/cache/tenant_blocks.h"

namespace roost::testing_support {

// The end of a retention or a hold, in whole ticks of the real cache's timers: never early, at most one tick late.
struct NaiveTimer {
  std::int64_t end_tick = 0;
  std::uint64_t number = 0;  // timers that were set before
};

// A ready block, or a partial one.
struct NaiveEntry {
  BlockId block;
  BlockHash hash;  // of a full block
  BlockHash root;
  std::optional<BlockId> parent;
  std::vector<TokenId> prefix;  // all tokens from the root to the end of this block
  std::uint32_t group = 0;
  worker::TenantId tenant = {};
  std::uint32_t references = 1;
  std::uint32_t wants = 0;
  bool has_pin = false;
  std::optional<NaiveTimer> hold;  // while it is young
  bool held = false;
  bool reserved = false;  // was held because it is young, is in use, and will be held again
  std::uint64_t stored_at = 0;
  std::optional<NaiveTimer> retention;
  std::uint32_t retention_priority = 0;
  bool in_prompt = true;  // in the prompt of the request that released it last
  std::uint64_t idle_since = 0;
  std::uint32_t placed_by = 0;  // the priority at that time
};

}  // namespace roost::testing_support

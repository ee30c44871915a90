// The KV events of vLLM 0.11 to 0.33, as cache changes. Fields by release:
//
//   0.11   arrays: ["BlockStored", block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium],
//          ["BlockRemoved", block_hashes, medium], ["AllBlocksCleared"]
//   later  + lora_name (0.14) + extra_keys (0.17) + group_idx (0.20, in BlockRemoved too) + kv_cache_spec_kind and
//          kv_cache_spec_sliding_window (0.22)
//   0.24   maps with "type"
//   later  + locality (0.26) + ownership (0.29) + session_id (0.30) + lookahead_token_ids (0.33)
//
// Before 0.17 no event tells of a salt: blocks of salted requests look as if they had none.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "worker/foreign/cache_change.h"

namespace roost::worker::foreign {

// An EventDecoder.
[[nodiscard]] Result<std::vector<CacheChange>> DecodeVllmEvents(std::span<const std::byte> payload);

}  // namespace roost::worker::foreign

// The KV events of SGLang 0.5.23, as cache changes: maps with "type", as vLLM's, and these differences:
//
//   hashes      signed 64-bit integers
//   medium      GPU, CPU_PINNED, DISK or EXTERNAL
//   cache_salt  a text in the event, instead of extra keys
//
// Before issue 39991 was closed, blocks of an adapter may have the hashes of the base model's.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "worker/foreign/cache_change.h"

namespace roost::worker::foreign {

// An EventDecoder.
[[nodiscard]] Result<std::vector<CacheChange>> DecodeSglangEvents(std::span<const std::byte> payload);

}  // namespace roost::worker::foreign

// What the index tells a routing decision: which worker holds how much of a prompt.
#pragma once

#include <cstdint>

#include "common/base/ids.h"

namespace roost {

// How many leading blocks of a query a worker holds; at least 1 in a match list.
struct WorkerMatch {
  WorkerSlot worker;
  std::uint32_t block_count = 0;
  std::uint32_t pending_block_count = 0;  // how many of these, at the end, are still being computed; see
                                          // PendingPrefixes
};

}  // namespace roost

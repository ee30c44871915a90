// The blocks that a request leaves to the disk when it ends.
#pragma once

#include <vector>

#include "worker/cache/prefix_cache.h"
#include "worker/disk/write_queue.h"
#include "worker/sched/sequence.h"

namespace roost::worker {

// Front to back. A block that any request has found counts as found, also when the one that computed it ends. The
// sequence still has its blocks. O(its blocks).
[[nodiscard]] std::vector<DiskOffer> EndedBlocks(const PrefixCache& cache, const Sequence& sequence);

}  // namespace roost::worker

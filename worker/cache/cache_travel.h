// Blocks that travel between workers, as the cache knows them. Who asks for a block knows its hash alone, so its tokens
// are not compared.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

// The ready block with this hash and root that follows `parent`, or begins a prompt.
[[nodiscard]] std::optional<BlockRef> FindFollower(const PrefixCache& cache, BlockHash hash, BlockHash root,
                                                   std::optional<BlockId> parent);
// The ready blocks up to the one with this hash, front to back; none when it is not ready. O(blocks).
[[nodiscard]] std::vector<BlockRef> PathTo(const PrefixCache& cache, BlockHash hash);
// Says of each of these prefixes, which are in the cache, what another worker must know to hold it. Together they have
// at most `most_hashes` blocks: those that do not fit behind the ones before them are left out. O(blocks told).
void DescribePrefixes(PrefixCache& cache, std::size_t most_hashes, std::vector<wire::UsedPrefix>& prefixes);
// Describes a whole ready block.
[[nodiscard]] ReadyBlock Describe(const BlockTree& tree, BlockId block);

}  // namespace roost::worker

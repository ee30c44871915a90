// Views of the whole tree of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wire/messages.h"
#include "worker/cache/block_tree.h"

namespace roost::worker {

// All ready blocks as runs, parents before children. O(ready blocks).
[[nodiscard]] std::vector<wire::StoredRun> Snapshot(const BlockTree& tree);

// The prefixes that requests found most often, the most used first, at most `most`. A prefix ends at a block after
// which more than one request continued differently from the others. The longest of equally used prefixes comes
// first. O(blocks + found · log most); walking to the first blocks to read their tokens adds at most kMaxFrontSteps.
inline constexpr std::size_t kMaxFrontSteps = std::size_t{1} << 16U;
[[nodiscard]] std::vector<wire::UsedPrefix> MostUsed(const BlockTree& tree, std::uint32_t most,
                                                     wire::PrefixTokens tokens);

}  // namespace roost::worker

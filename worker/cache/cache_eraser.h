// Takes blocks out of the prefix cache, whatever keeps them: those an operator erases, and wrong ones. Blocks leave the
// tree back to front, so that it is prefix-closed after each of them, and an erasure can pause anywhere. A block that
// is in use leaves the tree at once, and is free when its last holder releases it: a holder of such a block has no
// ready block there any more (see PrefixCache::IsReady), and commits nothing after it. It is no eviction: the ghosts do
// not remember it.
//
//   erased      its pin ends, its tokens are overwritten, and nothing tells that it was here
//   discarded   its pin stays, for the block that will be computed in its place
//
// Call an erasure again, with the same values, until it is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/prefix/block_hash.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

// A part of an erasure: at most `budget` blocks, which is counted down.
struct EraseStep {
  std::uint32_t budget = 0;
  std::uint32_t freed = 0;
  std::uint32_t busy = 0;  // left the tree, and are still held
};
enum class EraseProgress : std::uint8_t { kComplete, kUnfinished };

class CacheEraser {
 public:
  // The cache outlives it.
  explicit CacheEraser(PrefixCache& cache) : cache_(cache), tree_(cache.tree_), claims_(cache.claims_) {}

  // Erases the prompt that is all of `chain`: its last full block with everything behind it, then its earlier blocks,
  // back to front, that have no child left. If the last full block is not ready, the prompt's ready blocks go in the
  // same way, after partial blocks behind them that hold nothing but the prompt. For a prompt without a full block,
  // all blocks that begin like it go. Pins of the blocks end, also of those that are not there. O(chain + erased
  // blocks).
  [[nodiscard]] EraseProgress ErasePrompt(const BlockChain& chain, EraseStep& step);

  // The hashes of the blocks up to the one with this hash, front to back; it alone when it is not ready. O(chain).
  [[nodiscard]] std::vector<BlockHash> ChainTo(BlockHash hash) const;
  // Erases the last block of such a chain with everything behind it, then the blocks before it, back to front, that
  // have no child left. Pins of the blocks end, also of those that are not there. `chain` is not empty. O(chain +
  // erased blocks).
  [[nodiscard]] EraseProgress EraseChain(std::span<const BlockHash> chain, EraseStep& step);

  // Erases all blocks that were committed for the tenant, with everything behind them. O(erased blocks).
  [[nodiscard]] EraseProgress EraseTenant(TenantId tenant, EraseStep& step);

  // Discards what the caller computed of `chain` from block `first` on, because it may be wrong. The ready blocks from
  // there on leave with all their descendants, and so does a partial block after the chain's last ready block that
  // begins like the chain. O(blocks that leave + hashes).
  void Discard(const BlockChain& chain, std::uint32_t first);
  // Discards all blocks that came from this source, with all behind them. Returns how many left. O(blocks).
  std::uint32_t DiscardFrom(SourceId source);

 private:
  [[nodiscard]] EraseProgress EraseTree(std::uint32_t first, EraseStep& step);
  void EraseLeaf(std::uint32_t block, EraseStep& step);
  [[nodiscard]] EraseProgress EraseBehind(const BlockChain& chain, std::uint32_t count, std::uint32_t parent,
                                          EraseStep& step);
  [[nodiscard]] EraseProgress EraseChildless(std::uint32_t last, EraseStep& step);
  void ForgetMissing(std::span<const BlockHash> hashes);
  [[nodiscard]] std::optional<std::uint32_t> FirstLike(std::uint32_t parent, BlockHash root,
                                                       std::span<const TokenId> tokens) const;
  [[nodiscard]] std::optional<std::uint32_t> FindPartialOf(const BlockChain& chain, std::uint32_t count,
                                                           std::uint32_t parent) const;
  void DiscardTree(std::uint32_t first);
  void DiscardLeaf(std::uint32_t block);

  PrefixCache& cache_;
  BlockTree& tree_;
  Claims& claims_;
};

}  // namespace roost::worker

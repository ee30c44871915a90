#include "worker/cache/cache_eraser.h"

#include <algorithm>

namespace roost::worker {

EraseProgress CacheEraser::ErasePrompt(const BlockChain& chain, EraseStep& step) {
  std::uint32_t parent = kNoBlock;
  std::uint32_t count = 0;
  while (count < chain.hashes.size()) {
    const std::optional<std::uint32_t> block = tree_.FindByHash(chain.hashes[count]);
    if (!block || !tree_.Holds(*block, parent, chain.RootAt(count), cache_.TokensOf(chain, count))) break;
    parent = *block;
    ++count;
  }
  EraseProgress progress = EraseProgress::kComplete;
  if (count > 0 && count == chain.hashes.size()) {
    const std::uint32_t last = parent;
    parent = tree_[last].parent;
    progress = EraseTree(last, step);
  } else {
    progress = EraseBehind(chain, count, parent, step);
  }
  if (progress == EraseProgress::kComplete) progress = EraseChildless(parent, step);
  if (progress == EraseProgress::kComplete) ForgetMissing(chain.hashes);
  return progress;
}

std::vector<BlockHash> CacheEraser::ChainTo(BlockHash hash) const {
  std::vector<BlockHash> chain = {hash};
  const std::optional<std::uint32_t> last = tree_.FindByHash(hash);
  if (!last) return chain;
  for (std::uint32_t block = tree_[*last].parent; block != kNoBlock; block = tree_[block].parent) {
    chain.push_back(tree_[block].hash);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

EraseProgress CacheEraser::EraseChain(std::span<const BlockHash> chain, EraseStep& step) {
  EraseProgress progress = EraseProgress::kComplete;
  if (const std::optional<std::uint32_t> last = tree_.FindByHash(chain.back())) progress = EraseTree(*last, step);
  // After a pause the last blocks are gone: the front ends where a block is left.
  const auto is_left = [this](BlockHash hash) { return tree_.FindByHash(hash).has_value(); };
  const auto left = std::find_if(chain.rbegin(), chain.rend(), is_left);
  if (progress == EraseProgress::kComplete && left != chain.rend()) {
    progress = EraseChildless(*tree_.FindByHash(*left), step);
  }
  if (progress == EraseProgress::kComplete) ForgetMissing(chain);
  return progress;
}

EraseProgress CacheEraser::EraseTenant(TenantId tenant, EraseStep& step) {
  while (const std::optional<std::uint32_t> top = cache_.tenants_.FirstTop(tenant)) {
    if (EraseTree(*top, step) == EraseProgress::kUnfinished) return EraseProgress::kUnfinished;
  }
  return EraseProgress::kComplete;
}

// `first` and all behind it.
EraseProgress CacheEraser::EraseTree(std::uint32_t first, EraseStep& step) {
  std::uint32_t block = first;
  while (step.budget > 0) {
    if (tree_[block].children != kNoBlock) {
      block = tree_[block].children;
      continue;
    }
    const std::uint32_t parent = tree_[block].parent;
    EraseLeaf(block, step);
    if (block == first) return EraseProgress::kComplete;
    block = parent;
  }
  return EraseProgress::kUnfinished;
}

void CacheEraser::EraseLeaf(std::uint32_t block, EraseStep& step) {
  if (!tree_.IsPartial(block)) claims_.ForgetPin(tree_[block].hash);
  ++(claims_.IsIdle(block) ? step.freed : step.busy);
  --step.budget;
  DiscardLeaf(block);
  tree_.Wipe(block);
}

// The first child of `parent` in scope `root` that begins with `tokens`.
std::optional<std::uint32_t> CacheEraser::FirstLike(std::uint32_t parent, BlockHash root,
                                                    std::span<const TokenId> tokens) const {
  const std::uint32_t child = tree_.Neighbours(parent, root, tokens).after;
  if (child == kNoBlock || tree_[child].root != root) return std::nullopt;
  const std::span<const TokenId> stored = tree_.TokensOf(child);
  const bool begins_so = stored.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), stored.begin());
  return begins_so ? std::optional(child) : std::nullopt;
}

// `parent` is the last ready one of the chain's full blocks, the first `count`, or there is none. Erases its children
// that hold nothing but the prompt; for a prompt without a full block, those that begin with all of it.
EraseProgress CacheEraser::EraseBehind(const BlockChain& chain, std::uint32_t count, std::uint32_t parent,
                                       EraseStep& step) {
  const auto rest = chain.tokens.subspan(std::size_t{count} * tree_.block_tokens());
  for (std::size_t length = 1; length < tree_.block_tokens() && length <= rest.size(); ++length) {
    const bool is_whole_prompt = length == chain.tokens.size();
    while (const std::optional<std::uint32_t> child = FirstLike(parent, chain.RootAt(count), rest.first(length))) {
      if (!is_whole_prompt && tree_.TokensOf(*child).size() > length) break;
      if (EraseTree(*child, step) == EraseProgress::kUnfinished) return EraseProgress::kUnfinished;
    }
  }
  return EraseProgress::kComplete;
}

// `last` and the blocks before it, as long as nothing stands behind them.
EraseProgress CacheEraser::EraseChildless(std::uint32_t last, EraseStep& step) {
  std::uint32_t block = last;
  while (block != kNoBlock && tree_[block].children == kNoBlock) {
    if (step.budget == 0) return EraseProgress::kUnfinished;
    const std::uint32_t parent = tree_[block].parent;
    EraseLeaf(block, step);
    block = parent;
  }
  return EraseProgress::kComplete;
}

// Nothing is left to say that these blocks were here, or to pin them when they come again.
void CacheEraser::ForgetMissing(std::span<const BlockHash> hashes) {
  for (const BlockHash hash : hashes) {
    if (tree_.FindByHash(hash)) continue;
    claims_.ForgetPin(hash);
    cache_.ghosts_.Forget(hash.low);
  }
}

// ---- blocks that may be wrong ----

void CacheEraser::Discard(const BlockChain& chain, std::uint32_t first) {
  std::uint32_t parent = kNoBlock;
  std::uint32_t index = 0;
  while (index < chain.hashes.size()) {
    const std::optional<std::uint32_t> block = cache_.FindVerified(chain, index, parent);
    if (!block) break;
    if (index == first) return DiscardTree(*block);
    parent = *block;
    ++index;
  }
  while (const std::optional<std::uint32_t> partial = FindPartialOf(chain, index, parent)) DiscardTree(*partial);
}

std::uint32_t CacheEraser::DiscardFrom(SourceId source) {
  const std::uint32_t before = cache_.ready_count();
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    if (tree_[block].ready && tree_[block].source == source) DiscardTree(block);
  }
  return before - cache_.ready_count();
}

// Discards children before parents.
void CacheEraser::DiscardTree(std::uint32_t first) {
  std::uint32_t block = first;
  while (tree_[first].ready) {
    const BlockNode& node = tree_[block];
    if (node.children != kNoBlock) {
      block = node.children;
    } else {
      const std::uint32_t parent = node.parent;
      DiscardLeaf(block);
      block = parent;
    }
  }
}

// A pin stays in the table, for the block that will be computed in place of this one.
void CacheEraser::DiscardLeaf(std::uint32_t block) {
  const std::uint32_t parent = tree_[block].parent;
  claims_.EndPin(block);
  const bool idle = claims_.IsIdle(block);
  if (idle) claims_.OnDiscarded(block);
  cache_.Remove(block);
  if (idle) {
    cache_.pool_.Free(BlockId(block));
  } else {
    cache_.pool_.MakeStale(BlockId(block));
  }
  if (parent != kNoBlock) claims_.OnChildLost(parent);
}

// A partial block that is a child of `parent` and holds only tokens that the chain has after its first `count` blocks.
std::optional<std::uint32_t> CacheEraser::FindPartialOf(const BlockChain& chain, std::uint32_t count,
                                                        std::uint32_t parent) const {
  const auto rest = chain.tokens.subspan(std::min(chain.tokens.size(), std::size_t{count} * tree_.block_tokens()));
  const auto begin = rest.first(std::min<std::size_t>(rest.size(), tree_.block_tokens()));
  const auto [before, after] = tree_.Neighbours(parent, chain.RootAt(count), begin);
  for (const std::uint32_t block : {before, after}) {
    if (block == kNoBlock || !tree_.IsPartial(block) || tree_[block].root != chain.RootAt(count)) continue;
    const auto stored = tree_.TokensOf(block);
    if (stored.size() <= begin.size() && std::equal(stored.begin(), stored.end(), begin.begin())) return block;
  }
  return std::nullopt;
}

}  // namespace roost::worker

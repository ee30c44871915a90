// The part of the prefix cache that erases what an operator names: a prompt, a block, or all blocks of a tenant. Blocks
// leave the tree back to front, so that it is prefix-closed after each of them, and an erasure can pause anywhere.
#include <algorithm>

#include "worker/cache/prefix_cache.h"

namespace roost::worker {

EraseProgress PrefixCache::ErasePrompt(const BlockChain& chain, EraseStep& step) {
  std::uint32_t parent = kNoBlock;
  std::uint32_t count = 0;
  while (count < chain.hashes.size()) {
    const std::optional<std::uint32_t> block = nodes_.FindByHash(chain.hashes[count]);
    if (!block || !Holds(*block, chain, count, parent)) break;
    parent = *block;
    ++count;
  }
  EraseProgress progress = EraseProgress::kComplete;
  if (count > 0 && count == chain.hashes.size()) {
    const std::uint32_t last = parent;
    parent = nodes_[last].parent;
    progress = EraseTree(last, step);
  } else {
    progress = EraseBehind(chain, count, parent, step);
  }
  if (progress == EraseProgress::kComplete) progress = EraseChildless(parent, step);
  if (progress == EraseProgress::kComplete) ForgetMissing(chain.hashes);
  return progress;
}

std::vector<BlockHash> PrefixCache::ChainTo(BlockHash hash) const {
  std::vector<BlockHash> chain = {hash};
  const std::optional<std::uint32_t> last = nodes_.FindByHash(hash);
  if (!last) return chain;
  for (std::uint32_t block = nodes_[*last].parent; block != kNoBlock; block = nodes_[block].parent) {
    chain.push_back(nodes_[block].hash);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

EraseProgress PrefixCache::EraseChain(std::span<const BlockHash> chain, EraseStep& step) {
  EraseProgress progress = EraseProgress::kComplete;
  if (const std::optional<std::uint32_t> last = nodes_.FindByHash(chain.back())) progress = EraseTree(*last, step);
  // After a pause the last blocks are gone: the front ends where a block is left.
  const auto is_left = [this](BlockHash hash) { return nodes_.FindByHash(hash).has_value(); };
  const auto left = std::find_if(chain.rbegin(), chain.rend(), is_left);
  if (progress == EraseProgress::kComplete && left != chain.rend()) {
    progress = EraseChildless(*nodes_.FindByHash(*left), step);
  }
  if (progress == EraseProgress::kComplete) ForgetMissing(chain);
  return progress;
}

EraseProgress PrefixCache::EraseTenant(TenantId tenant, EraseStep& step) {
  while (const std::optional<std::uint32_t> top = tenants_.FirstTop(tenant)) {
    if (EraseTree(*top, step) == EraseProgress::kUnfinished) return EraseProgress::kUnfinished;
  }
  return EraseProgress::kComplete;
}

// `first` and all behind it.
EraseProgress PrefixCache::EraseTree(std::uint32_t first, EraseStep& step) {
  std::uint32_t block = first;
  while (step.budget > 0) {
    if (nodes_[block].children != kNoBlock) {
      block = nodes_[block].children;
      continue;
    }
    const std::uint32_t parent = nodes_[block].parent;
    EraseLeaf(block, step);
    if (block == first) return EraseProgress::kComplete;
    block = parent;
  }
  return EraseProgress::kUnfinished;
}

void PrefixCache::EraseLeaf(std::uint32_t block, EraseStep& step) {
  if (!nodes_.IsPartial(block)) claims_.ForgetPin(nodes_[block].hash);
  const auto tokens = std::span(tokens_).subspan(std::size_t{block} * nodes_.block_tokens, nodes_.block_tokens);
  ++(claims_.IsIdle(block) ? step.freed : step.busy);
  --step.budget;
  DiscardLeaf(block);
  std::fill(tokens.begin(), tokens.end(), TokenId{0});
}

// `parent` is the last ready one of the chain's full blocks, the first `count`, or there is none. Erases its children
// that hold nothing but the prompt; for a prompt without a full block, those that begin with all of it.
EraseProgress PrefixCache::EraseBehind(const BlockChain& chain, std::uint32_t count, std::uint32_t parent,
                                       EraseStep& step) {
  const auto rest = chain.tokens.subspan(std::size_t{count} * nodes_.block_tokens);
  for (std::size_t length = 1; length < nodes_.block_tokens && length <= rest.size(); ++length) {
    const bool is_whole_prompt = length == chain.tokens.size();
    while (const std::optional<std::uint32_t> child = FirstLike(parent, chain.RootAt(count), rest.first(length))) {
      if (!is_whole_prompt && StoredTokens(*child).size() > length) break;
      if (EraseTree(*child, step) == EraseProgress::kUnfinished) return EraseProgress::kUnfinished;
    }
  }
  return EraseProgress::kComplete;
}

// `last` and the blocks before it, as long as nothing stands behind them.
EraseProgress PrefixCache::EraseChildless(std::uint32_t last, EraseStep& step) {
  std::uint32_t block = last;
  while (block != kNoBlock && nodes_[block].children == kNoBlock) {
    if (step.budget == 0) return EraseProgress::kUnfinished;
    const std::uint32_t parent = nodes_[block].parent;
    EraseLeaf(block, step);
    block = parent;
  }
  return EraseProgress::kComplete;
}

// Nothing is left to say that these blocks were here, or to pin them when they come again.
void PrefixCache::ForgetMissing(std::span<const BlockHash> hashes) {
  for (const BlockHash hash : hashes) {
    if (nodes_.FindByHash(hash)) continue;
    claims_.ForgetPin(hash);
    ghosts_.Forget(hash.low);
  }
}

}  // namespace roost::worker

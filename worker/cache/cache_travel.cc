#include "worker/cache/cache_travel.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::worker {

std::optional<BlockRef> FindFollower(const PrefixCache& cache, BlockHash hash, BlockHash root,
                                     std::optional<BlockId> parent) {
  const std::optional<std::uint32_t> block = cache.tree().FindByHash(hash);
  if (!block) return std::nullopt;
  const BlockNode& node = cache.tree()[*block];
  if (node.root != root || node.parent != (parent ? parent->value() : kNoBlock)) return std::nullopt;
  return cache.pool().RefTo(BlockId(*block));
}

std::vector<BlockRef> PathTo(const PrefixCache& cache, BlockHash hash) {
  std::vector<BlockRef> path;
  std::uint32_t block = cache.tree().FindByHash(hash).value_or(kNoBlock);
  for (; block != kNoBlock; block = cache.tree()[block].parent) path.push_back(cache.pool().RefTo(BlockId(block)));
  std::reverse(path.begin(), path.end());
  return path;
}

ReadyBlock Describe(const BlockTree& tree, BlockId block) {
  const BlockNode& node = tree[block.value()];
  ROOST_CHECK(node.ready && !tree.IsPartial(block.value()), "block {} is not ready", block.value());
  const bool begins_scope = node.parent == kNoBlock || tree[node.parent].root != node.root;
  return {.position = node.position,
          .hash = node.hash,
          .parent = begins_scope ? node.root : tree[node.parent].hash,
          .root = node.root,
          .tenant = node.tenant,
          .tokens = tree.TokensOf(block.value())};
}

}  // namespace roost::worker

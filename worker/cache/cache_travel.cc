#include "worker/cache/cache_travel.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

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

namespace {

void DescribePrefix(PrefixCache& cache, std::span<const BlockRef> path, wire::UsedPrefix& prefix) {
  const BlockTree& tree = cache.tree();
  const auto node = [&](std::size_t i) -> const BlockNode& { return tree[path[i].block.value()]; };
  prefix.root = node(0).root;
  for (std::size_t i = 0; i < path.size(); ++i) {
    prefix.hashes.push_back(node(i).hash);
    const bool begins_own = !prefix.own && node(i).root != prefix.root;
    if (begins_own) prefix.own = {.first_block = static_cast<std::uint32_t>(i), .root = node(i).root};
  }
  prefix.tenant = cache.tenants().name(node(path.size() - 1).tenant);
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(cache.AgeOf(path.back().block)).count();
  prefix.age_ms = std::min(static_cast<std::uint64_t>(age), wire::kMaxKeepMs);
}

}  // namespace

void DescribePrefixes(PrefixCache& cache, std::size_t most_hashes, std::vector<wire::UsedPrefix>& prefixes) {
  std::vector<wire::UsedPrefix> described;
  for (wire::UsedPrefix& prefix : prefixes) {
    if (prefix.block_count > most_hashes) continue;
    most_hashes -= prefix.block_count;
    const std::vector<BlockRef> path = PathTo(cache, prefix.hash);
    DescribePrefix(cache, path, described.emplace_back(std::move(prefix)));
  }
  prefixes = std::move(described);
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

#include "worker/cache/cache_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

template <typename... Args>
Error Broken(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInternal, fmt::format(format, std::forward<Args>(args)...), "prefix_cache"};
}

// The used blocks where a prefix ends for MostUsed: every child was found less often, by more than one request, or
// there is none. A prefix that was computed in pieces has pieces that were each found once less than the piece before.
// A drop by one is therefore not an end of use.
std::vector<std::uint32_t> EndsOfUse(const BlockTree& tree) {
  constexpr std::uint32_t kStrayHits = 1;
  std::vector<bool> goes_on(tree.size());
  const auto is_used = [&tree](std::uint32_t block) {
    return tree[block].ready && !tree.IsPartial(block) && tree[block].hit_count > 0;
  };
  for (std::uint32_t block = 0; block < tree.size(); ++block) {
    const std::uint32_t parent = tree[block].parent;
    if (!is_used(block) || parent == kNoBlock) continue;
    if (tree[block].hit_count + kStrayHits >= tree[parent].hit_count) goes_on[parent] = true;
  }
  std::vector<std::uint32_t> ends;
  for (std::uint32_t block = 0; block < tree.size(); ++block) {
    if (is_used(block) && !goes_on[block]) ends.push_back(block);
  }
  return ends;
}

// The first block on the path to `block`; nothing if the path is longer than `steps_left`, which is counted down.
std::optional<std::uint32_t> FrontOf(const BlockTree& tree, std::uint32_t block, std::size_t& steps_left) {
  for (; tree[block].parent != kNoBlock; block = tree[block].parent) {
    if (steps_left == 0) return std::nullopt;
    --steps_left;
  }
  return block;
}

// ---- invariants of the tree: its links, positions and index ----

Result<void> CheckNode(const BlockTree& tree, std::uint32_t block) {
  const BlockNode& node = tree[block];
  if (tree.IsPartial(block)) {
    if (node.children != kNoBlock) return Broken("partial block {} has children", block);
  } else if (tree.FindByHash(node.hash) != block) {
    return Broken("block {} is not in the index under its hash", block);
  }
  if (node.parent == kNoBlock) {
    if (node.position != 0) return Broken("block {} at position {} has no parent", block, node.position);
  } else {
    const BlockNode& parent = tree[node.parent];
    if (!parent.ready) return Broken("block {} is ready, its parent {} is not", block, node.parent);
    if (parent.position + 1 != node.position) {
      return Broken("block {} does not continue its parent {}", block, node.parent);
    }
  }
  std::vector<std::uint32_t> children;
  tree.AppendChildren(block, children);
  for (const std::uint32_t child : children) {
    if (!tree[child].ready || tree[child].parent != block)
      return Broken("child {} of block {} is linked wrongly", child, block);
  }
  return {};
}

// Walks the tree from the front: every ready block must be found exactly once. The walk stops after as many blocks as
// there are, so a cycle can not make it endless.
Result<void> CheckTree(const BlockTree& tree) {
  std::uint32_t ready_count = 0;
  for (std::uint32_t block = 0; block < tree.size(); ++block) {
    if (!tree[block].ready) continue;
    ready_count += tree.IsPartial(block) ? 0 : 1;
    ROOST_RETURN_IF_ERROR(CheckNode(tree, block));
  }
  std::vector<std::uint32_t> blocks;
  tree.AppendChildren(kNoBlock, blocks);
  for (const std::uint32_t block : blocks) {
    if (!tree[block].ready || tree[block].parent != kNoBlock) return Broken("block {} is no first block", block);
  }
  std::uint32_t full = 0;
  for (std::size_t seen = 0; !blocks.empty() && seen <= tree.size(); ++seen) {
    const std::uint32_t block = blocks.back();
    blocks.pop_back();
    full += tree.IsPartial(block) ? 0 : 1;
    tree.AppendChildren(block, blocks);
  }
  if (!blocks.empty() || full != ready_count || full != tree.by_hash().size())
    return Broken("{} ready blocks, {} in the tree, {} in the index", ready_count, full, tree.by_hash().size());
  return {};
}

}  // namespace

// In preorder. A run goes from a block down to its first child, and on to a leaf; each other child begins a run.
std::vector<wire::StoredRun> Snapshot(const BlockTree& tree) {
  std::vector<wire::StoredRun> runs;
  std::vector<std::uint32_t> beginnings;
  tree.AppendChildren(kNoBlock, beginnings);
  while (!beginnings.empty()) {
    std::uint32_t block = beginnings.back();
    beginnings.pop_back();
    if (tree.IsPartial(block)) continue;
    wire::StoredRun& run = runs.emplace_back();
    run.first_position = tree[block].position;
    while (block != kNoBlock) {
      run.hashes.push_back(tree[block].hash);
      const std::size_t first_child = beginnings.size();
      tree.AppendChildren(block, beginnings);
      block = kNoBlock;
      while (beginnings.size() > first_child && tree.IsPartial(beginnings.back())) beginnings.pop_back();
      if (beginnings.size() > first_child) {
        block = beginnings.back();
        beginnings.pop_back();
      }
    }
  }
  return runs;
}

std::vector<wire::UsedPrefix> MostUsed(const BlockTree& tree, std::uint32_t most, wire::PrefixTokens tokens) {
  std::vector<std::uint32_t> ends = EndsOfUse(tree);
  const auto end = ends.begin() + std::min<std::ptrdiff_t>(most, std::ssize(ends));
  std::partial_sort(ends.begin(), end, ends.end(), [&tree](std::uint32_t a, std::uint32_t b) {
    const auto key = [&tree](std::uint32_t block) {
      return std::make_tuple(tree[block].hit_count, tree[block].position, tree[block].hash);
    };
    return key(a) > key(b);
  });
  std::vector<wire::UsedPrefix> prefixes;
  std::size_t steps_left = kMaxFrontSteps;
  for (auto block = ends.begin(); block != end; ++block) {
    const BlockNode& node = tree[*block];
    wire::UsedPrefix& prefix = prefixes.emplace_back();
    prefix.hash = node.hash;
    prefix.block_count = node.position + 1;
    prefix.hits = node.hit_count;
    if (tokens == wire::PrefixTokens::kOmit) continue;
    const std::span<const TokenId> last = tree.TokensOf(*block);
    prefix.last_tokens.assign(last.begin(), last.end());
    const std::optional<std::uint32_t> front = FrontOf(tree, *block, steps_left);
    if (!front || *front == *block) continue;
    const std::span<const TokenId> first = tree.TokensOf(*front);
    prefix.first_tokens.assign(first.begin(), first.end());
  }
  return prefixes;
}

// ---- invariants ----

Result<void> PrefixCache::CheckInvariants(std::span<const std::uint32_t> expected_references) const {
  ROOST_RETURN_IF_ERROR(CheckReferences(expected_references));
  BlockHash digest;
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    if (tree_[block].ready && !tree_.IsPartial(block)) digest = digest ^ tree_[block].hash;
  }
  if (digest != digest_) return Broken("digest is {}, should be {}", digest_.ToHex(), digest.ToHex());
  ROOST_RETURN_IF_ERROR(CheckTree(tree_));
  ROOST_RETURN_IF_ERROR(CheckTenants());
  return claims_.Check();
}

// The pool agrees with the block tables and with the tree, and a holder of a child also holds its parent.
Result<void> PrefixCache::CheckReferences(std::span<const std::uint32_t> expected) const {
  std::uint32_t free_count = 0;
  std::uint32_t referenced_count = 0;
  std::vector<std::uint64_t> of_children(tree_.size());
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    const BlockId id(block);
    const std::uint32_t references = pool_.references(id);
    if (references != expected[block]) {
      return Broken("block {} has {} references, {} tables hold it", block, references, expected[block]);
    }
    free_count += pool_.IsFree(id) ? 1 : 0;
    referenced_count += references > 0 ? 1 : 0;
    const BlockNode& node = tree_[block];
    if (node.ready && pool_.IsFree(id)) return Broken("block {} is ready and free", block);
    if (!node.ready && !pool_.IsFree(id) && references == 0)
      return Broken("block {} is lost: not ready, not free", block);
    if (node.ready && node.parent != kNoBlock) of_children[node.parent] += references;
  }
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    if (of_children[block] > expected[block]) {
      return Broken("block {} has {} holders, its children {}", block, expected[block], of_children[block]);
    }
  }
  if (free_count != pool_.free_count() || referenced_count != pool_.referenced_count()) {
    return Broken("counted {} free and {} referenced, the pool says {} and {}", free_count, referenced_count,
                  pool_.free_count(), pool_.referenced_count());
  }
  return {};
}

// Each tenant has as many tops as there are blocks of it behind none of it, and every block is a user.
Result<void> PrefixCache::CheckTenants() const {
  struct Counts {
    std::uint32_t blocks = 0;
    std::uint32_t tops = 0;
  };
  std::map<TenantId, Counts> counts;
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    const BlockNode& node = tree_[block];
    if (!node.ready) continue;
    Counts& of_tenant = counts[node.tenant];
    ++of_tenant.blocks;
    of_tenant.tops += IsTop(tree_, node) ? 1 : 0;
  }
  for (const auto& [tenant, counted] : counts) {
    if (counted.blocks > tenants_.user_count(tenant) || counted.tops != tenants_.top_count(tenant)) {
      return Broken("tenant {} has {} blocks of {} users, and {} tops", tenant.value(), counted.blocks,
                    tenants_.user_count(tenant), counted.tops);
    }
  }
  return {};
}

}  // namespace roost::worker

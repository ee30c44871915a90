// The parts of the prefix cache that read the whole tree: the snapshot, the most used prefixes, and the invariants.
#include "worker/cache/prefix_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace roost::worker {
namespace {

template <typename... Args>
Error Broken(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInternal, fmt::format(format, std::forward<Args>(args)...), "prefix_cache"};
}

}  // namespace

// In preorder. A run goes from a block down to its first child, and on to a leaf; each other child begins a run.
std::vector<wire::StoredRun> PrefixCache::Snapshot() const {
  std::vector<wire::StoredRun> runs;
  std::vector<std::uint32_t> beginnings;
  siblings_.Append(first_blocks_, beginnings);
  while (!beginnings.empty()) {
    std::uint32_t block = beginnings.back();
    beginnings.pop_back();
    if (nodes_.IsPartial(block)) continue;
    wire::StoredRun& run = runs.emplace_back();
    run.first_position = nodes_[block].position;
    while (block != kNoBlock) {
      run.hashes.push_back(nodes_[block].hash);
      const std::size_t first_child = beginnings.size();
      siblings_.Append(nodes_[block].children, beginnings);
      block = kNoBlock;
      while (beginnings.size() > first_child && nodes_.IsPartial(beginnings.back())) beginnings.pop_back();
      if (beginnings.size() > first_child) {
        block = beginnings.back();
        beginnings.pop_back();
      }
    }
  }
  return runs;
}

// A prefix that was computed in pieces has pieces that were each found once less than the piece before. A drop by one
// is therefore not an end of use.
std::vector<std::uint32_t> PrefixCache::EndsOfUse() const {
  constexpr std::uint32_t kStrayHits = 1;
  std::vector<bool> goes_on(pool_.block_count());
  const auto is_used = [this](std::uint32_t block) {
    return nodes_[block].ready && !nodes_.IsPartial(block) && nodes_[block].hit_count > 0;
  };
  for (std::uint32_t block = 0; block < pool_.block_count(); ++block) {
    const std::uint32_t parent = nodes_[block].parent;
    if (!is_used(block) || parent == kNoBlock) continue;
    if (nodes_[block].hit_count + kStrayHits >= nodes_[parent].hit_count) goes_on[parent] = true;
  }
  std::vector<std::uint32_t> ends;
  for (std::uint32_t block = 0; block < pool_.block_count(); ++block) {
    if (is_used(block) && !goes_on[block]) ends.push_back(block);
  }
  return ends;
}

std::optional<std::uint32_t> PrefixCache::FrontOf(std::uint32_t block, std::size_t& steps_left) const {
  for (; nodes_[block].parent != kNoBlock; block = nodes_[block].parent) {
    if (steps_left == 0) return std::nullopt;
    --steps_left;
  }
  return block;
}

std::vector<wire::UsedPrefix> PrefixCache::MostUsed(std::uint32_t most, wire::PrefixTokens tokens) const {
  std::vector<std::uint32_t> ends = EndsOfUse();
  const auto end = ends.begin() + std::min<std::ptrdiff_t>(most, std::ssize(ends));
  std::partial_sort(ends.begin(), end, ends.end(), [this](std::uint32_t a, std::uint32_t b) {
    const auto key = [this](std::uint32_t block) {
      return std::make_tuple(nodes_[block].hit_count, nodes_[block].position, nodes_[block].hash);
    };
    return key(a) > key(b);
  });
  std::vector<wire::UsedPrefix> prefixes;
  std::size_t steps_left = kMaxFrontSteps;
  for (auto block = ends.begin(); block != end; ++block) {
    const BlockNode& node = nodes_[*block];
    wire::UsedPrefix& prefix = prefixes.emplace_back();
    prefix.hash = node.hash;
    prefix.block_count = node.position + 1;
    prefix.hits = node.hit_count;
    if (tokens == wire::PrefixTokens::kOmit) continue;
    const std::span<const TokenId> last = StoredTokens(*block);
    prefix.last_tokens.assign(last.begin(), last.end());
    const std::optional<std::uint32_t> front = FrontOf(*block, steps_left);
    if (!front || *front == *block) continue;
    const std::span<const TokenId> first = StoredTokens(*front);
    prefix.first_tokens.assign(first.begin(), first.end());
  }
  return prefixes;
}

Result<void> PrefixCache::CheckInvariants(std::span<const std::uint32_t> expected_references) const {
  std::uint32_t free_count = 0;
  std::uint32_t referenced_count = 0;
  std::uint32_t ready_count = 0;
  BlockHash digest;
  for (std::uint32_t block = 0; block < pool_.block_count(); ++block) {
    const BlockId id(block);
    if (pool_.references(id) != expected_references[block]) {
      return Broken("block {} has {} references, {} tables hold it", block, pool_.references(id),
                    expected_references[block]);
    }
    free_count += pool_.IsFree(id) ? 1 : 0;
    referenced_count += pool_.references(id) > 0 ? 1 : 0;
    if (nodes_[block].ready && !nodes_.IsPartial(block)) {
      ++ready_count;
      digest = digest ^ nodes_[block].hash;
    }
    ROOST_RETURN_IF_ERROR(CheckNode(block));
  }
  if (free_count != pool_.free_count() || referenced_count != pool_.referenced_count()) {
    return Broken("counted {} free and {} referenced, the pool says {} and {}", free_count, referenced_count,
                  pool_.free_count(), pool_.referenced_count());
  }
  if (ready_count != nodes_.by_hash.size())
    return Broken("{} ready blocks, {} in the index", ready_count, nodes_.by_hash.size());
  if (digest != digest_) return Broken("digest is {}, should be {}", digest_.ToHex(), digest.ToHex());
  ROOST_RETURN_IF_ERROR(CheckTree());
  ROOST_RETURN_IF_ERROR(CheckTenants());
  return claims_.Check();
}

// Each tenant has as many tops as there are blocks of it behind none of it, and every block is a user.
Result<void> PrefixCache::CheckTenants() const {
  struct Counts {
    std::uint32_t blocks = 0;
    std::uint32_t tops = 0;
  };
  std::map<TenantId, Counts> counts;
  for (const BlockNode& node : nodes_.by_number) {
    if (!node.ready) continue;
    Counts& of_tenant = counts[node.tenant];
    ++of_tenant.blocks;
    of_tenant.tops += IsTop(node) ? 1 : 0;
  }
  for (const auto& [tenant, counted] : counts) {
    if (counted.blocks > tenants_.user_count(tenant) || counted.tops != tenants_.top_count(tenant)) {
      return Broken("tenant {} has {} blocks of {} users, and {} tops", tenant.value(), counted.blocks,
                    tenants_.user_count(tenant), counted.tops);
    }
  }
  return {};
}

// Walks the tree from the front: every ready block must be found exactly once. The walk stops after as many blocks as
// there are, so a cycle can not make it endless.
Result<void> PrefixCache::CheckTree() const {
  std::vector<std::uint32_t> blocks;
  siblings_.Append(first_blocks_, blocks);
  for (const std::uint32_t block : blocks) {
    if (!nodes_[block].ready || nodes_[block].parent != kNoBlock) return Broken("block {} is no first block", block);
  }
  std::uint32_t full = 0;
  for (std::size_t seen = 0; !blocks.empty() && seen <= nodes_.size(); ++seen) {
    const std::uint32_t block = blocks.back();
    blocks.pop_back();
    full += nodes_.IsPartial(block) ? 0 : 1;
    siblings_.Append(nodes_[block].children, blocks);
  }
  if (!blocks.empty() || full != nodes_.by_hash.size())
    return Broken("{} ready blocks, {} in the tree", nodes_.by_hash.size(), full);
  return {};
}

Result<void> PrefixCache::CheckNode(std::uint32_t block) const {
  const BlockNode& node = nodes_[block];
  const BlockId id(block);
  if (!node.ready) {
    if (!pool_.IsFree(id) && pool_.references(id) == 0) return Broken("block {} is lost: not ready, not free", block);
    return {};
  }
  if (pool_.IsFree(id)) return Broken("block {} is ready and free", block);
  if (nodes_.IsPartial(block)) {
    if (node.children != kNoBlock) return Broken("partial block {} has children", block);
  } else if (nodes_.FindByHash(node.hash) != block) {
    return Broken("block {} is not in the index under its hash", block);
  }
  if (node.parent == kNoBlock) {
    if (node.position != 0) return Broken("block {} at position {} has no parent", block, node.position);
  } else {
    const BlockNode& parent = nodes_[node.parent];
    if (!parent.ready) return Broken("block {} is ready, its parent {} is not", block, node.parent);
    if (parent.position + 1 != node.position) {
      return Broken("block {} does not continue its parent {}", block, node.parent);
    }
  }
  return CheckChildren(block);
}

// The tree of children is complete, and a holder of a child also holds its parent.
Result<void> PrefixCache::CheckChildren(std::uint32_t block) const {
  std::vector<std::uint32_t> children;
  siblings_.Append(nodes_[block].children, children);
  std::uint64_t references = 0;
  for (const std::uint32_t child : children) {
    const BlockNode& node = nodes_[child];
    if (!node.ready || node.parent != block) return Broken("child {} of block {} is linked wrongly", child, block);
    references += pool_.references(BlockId(child));
  }
  if (references > pool_.references(BlockId(block))) {
    return Broken("block {} has {} holders, its children {}", block, pool_.references(BlockId(block)), references);
  }
  return {};
}

}  // namespace roost::worker

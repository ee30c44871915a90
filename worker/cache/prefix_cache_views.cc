// The parts of the prefix cache that read the whole tree: the snapshot, the most used prefixes, and the invariants.
#include "worker/cache/prefix_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
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
    if (IsPartial(block)) continue;
    wire::StoredRun& run = runs.emplace_back();
    run.first_position = nodes_[block].position;
    while (block != kNoBlock) {
      run.hashes.push_back(nodes_[block].hash);
      const std::size_t first_child = beginnings.size();
      siblings_.Append(nodes_[block].children, beginnings);
      block = kNoBlock;
      while (beginnings.size() > first_child && IsPartial(beginnings.back())) beginnings.pop_back();
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
    return nodes_[block].ready && !IsPartial(block) && nodes_[block].hit_count > 0;
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
    const Node& node = nodes_[*block];
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
    if (nodes_[block].ready && !IsPartial(block)) {
      ++ready_count;
      digest = digest ^ nodes_[block].hash;
    }
    ROOST_RETURN_IF_ERROR(CheckNode(block));
  }
  if (free_count != pool_.free_count() || referenced_count != pool_.referenced_count()) {
    return Broken("counted {} free and {} referenced, the pool says {} and {}", free_count, referenced_count,
                  pool_.free_count(), pool_.referenced_count());
  }
  if (ready_count != index_.size()) return Broken("{} ready blocks, {} in the index", ready_count, index_.size());
  if (digest != digest_) return Broken("digest is {}, should be {}", digest_.ToHex(), digest.ToHex());
  ROOST_RETURN_IF_ERROR(CheckTree());
  ROOST_RETURN_IF_ERROR(CheckTenants());
  ROOST_RETURN_IF_ERROR(CheckRetention());
  return CheckTotals();
}

Result<void> PrefixCache::CheckRetention() const {
  std::vector<std::uint32_t> kept_children(nodes_.size());
  std::uint32_t kept = 0;
  for (std::uint32_t block = 0; block < nodes_.size(); ++block) {
    if (!retained_.IsKept(block)) continue;
    ++kept;
    if (nodes_[block].parent != kNoBlock) ++kept_children[nodes_[block].parent];
  }
  for (std::uint32_t block = 0; block < nodes_.size(); ++block) {
    const bool is_own =
        retention_timers_.IsSet(BlockId(block)) && nodes_[block].retention_priority > kDefaultRetentionPriority;
    const bool should_keep = is_own || kept_children[block] > 0;
    if (is_own != retained_.IsOwn(block) || should_keep != retained_.IsKept(block) ||
        kept_children[block] != retained_.kept_children(block)) {
      return Broken("block {} is retained {}, with {} children that are", block, is_own, kept_children[block]);
    }
  }
  if (kept != retained_.kept_count()) return Broken("{} blocks are retained", kept);
  return {};
}

Result<void> PrefixCache::CheckTotals() const {
  std::vector<std::uint32_t> ready(groups_.size());
  std::uint32_t pinned = 0;
  std::uint32_t pinned_for_children = 0;
  std::uint32_t idle_pinned = 0;
  std::vector<std::uint32_t> held(groups_.size());
  std::vector<std::uint32_t> reserved(groups_.size());
  for (std::uint32_t block = 0; block < nodes_.size(); ++block) {
    const Node& node = nodes_[block];
    if (!node.ready) continue;
    ++ready[node.group];
    pinned += node.pinned ? 1 : 0;
    pinned_for_children += node.pinned && !node.has_pin ? 1 : 0;
    idle_pinned += node.pinned && IsIdle(block) ? 1 : 0;
    held[node.group] += holds_.IsHeld(BlockId(block)) ? 1 : 0;
    reserved[node.group] += holds_.IsReserved(BlockId(block)) ? 1 : 0;
  }
  for (std::uint32_t group = 0; group < groups_.size(); ++group) {
    const Group& counted = groups_[group];
    if (ready[group] != counted.ready_count || held[group] != counted.held_count ||
        reserved[group] != counted.reserved_count) {
      return Broken("group {} has {} ready, {} held and {} reserved blocks", group, ready[group], held[group],
                    reserved[group]);
    }
  }
  if (pinned != pinned_count_ || idle_pinned != idle_pinned_ || pinned_for_children != pinned_for_children_) {
    return Broken("{} blocks are pinned, {} of them idle, {} for their children", pinned, idle_pinned,
                  pinned_for_children);
  }
  if (std::accumulate(held.begin(), held.end(), 0U) != holds_.held_count()) {
    return Broken("{} blocks are held, the groups say otherwise", holds_.held_count());
  }
  if (PinCount() > pin_limit_) return Broken("{} blocks are or will be pinned, of at most {}", PinCount(), pin_limit_);
  return {};
}

// Each tenant has as many tops as there are blocks of it behind none of it, and every block is a user.
Result<void> PrefixCache::CheckTenants() const {
  struct Counts {
    std::uint32_t blocks = 0;
    std::uint32_t tops = 0;
  };
  std::map<TenantId, Counts> counts;
  for (const Node& node : nodes_) {
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
    full += IsPartial(block) ? 0 : 1;
    siblings_.Append(nodes_[block].children, blocks);
  }
  if (!blocks.empty() || full != index_.size()) return Broken("{} ready blocks, {} in the tree", index_.size(), full);
  return {};
}

Result<void> PrefixCache::CheckNode(std::uint32_t block) const {
  const Node& node = nodes_[block];
  const BlockId id(block);
  if (!node.ready) {
    if (!pool_.IsFree(id) && pool_.references(id) == 0) return Broken("block {} is lost: not ready, not free", block);
    return {};
  }
  if (pool_.IsFree(id)) return Broken("block {} is ready and free", block);
  if (IsPartial(block)) {
    if (node.children != kNoBlock || node.pinned) return Broken("partial block {} has children or a pin", block);
  } else if (FindByHash(node.hash) != id) {
    return Broken("block {} is not in the index under its hash", block);
  }
  ROOST_RETURN_IF_ERROR(CheckHold(block));
  if (node.parent == kNoBlock) {
    if (node.position != 0) return Broken("block {} at position {} has no parent", block, node.position);
  } else {
    const Node& parent = nodes_[node.parent];
    if (!parent.ready) return Broken("block {} is ready, its parent {} is not", block, node.parent);
    if (parent.position + 1 != node.position) {
      return Broken("block {} does not continue its parent {}", block, node.parent);
    }
  }
  return CheckChildren(block);
}

// A held block is idle, not pinned, and has a reason to be held. The block before it is held too, unless it is in use
// or pinned.
Result<void> PrefixCache::CheckHold(std::uint32_t block) const {
  const BlockId id(block);
  std::vector<std::uint32_t> children;
  siblings_.Append(nodes_[block].children, children);
  const auto held_children = static_cast<std::uint32_t>(
      std::count_if(children.begin(), children.end(), [this](auto child) { return holds_.IsHeld(BlockId(child)); }));
  if (held_children != holds_.held_children(id)) {
    return Broken("block {} has {} held children, {} counted", block, held_children, holds_.held_children(id));
  }
  const bool may_be_held = IsIdle(block) && !nodes_[block].pinned;
  if (holds_.IsHeld(id) && !(may_be_held && (holds_.IsYoung(id) || held_children > 0))) {
    return Broken("block {} is held without a reason", block);
  }
  if (holds_.IsReserved(id) && (IsIdle(block) || !holds_.IsYoung(id))) {
    return Broken("block {} has its hold reserved, and is not young or not in use", block);
  }
  if (may_be_held && held_children > 0 && !holds_.IsHeld(id)) {
    return Broken("block {} is not held, {} of its children are", block, held_children);
  }
  return {};
}

// The tree of children is complete, and a holder of a child also holds its parent.
Result<void> PrefixCache::CheckChildren(std::uint32_t block) const {
  std::vector<std::uint32_t> children;
  siblings_.Append(nodes_[block].children, children);
  std::uint64_t references = 0;
  std::uint32_t pinned = 0;
  for (const std::uint32_t child : children) {
    const Node& node = nodes_[child];
    if (!node.ready || node.parent != block) return Broken("child {} of block {} is linked wrongly", child, block);
    references += pool_.references(BlockId(child));
    pinned += node.pinned ? 1 : 0;
  }
  if (references > pool_.references(BlockId(block))) {
    return Broken("block {} has {} holders, its children {}", block, pool_.references(BlockId(block)), references);
  }
  if (nodes_[block].has_pin != (nodes_[block].pinned && pins_.Contains(nodes_[block].hash))) {
    return Broken("block {} is pinned by its hash, or not, other than the pin table says", block);
  }
  if (pinned != nodes_[block].pinned_children || (pinned > 0 && !nodes_[block].pinned)) {
    return Broken("block {} has {} pinned children", block, pinned);
  }
  return {};
}

}  // namespace roost::worker

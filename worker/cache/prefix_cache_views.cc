// The parts of the prefix cache that look at the whole tree: the snapshot and the invariants.
#include "worker/cache/prefix_cache.h"

#include <fmt/format.h>

namespace roost::worker {
namespace {

template <typename... Args>
Error Broken(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInternal, fmt::format(format, std::forward<Args>(args)...), "prefix_cache"};
}

}  // namespace

// Preorder without a stack: down to the first child while there is one, which makes one run; then up to the nearest
// ancestor with another sibling, which begins the next.
std::vector<wire::StoredRun> PrefixCache::Snapshot() const {
  std::vector<wire::StoredRun> runs;
  std::uint32_t block = first_of_roots_;
  while (block != kNoBlock) {
    wire::StoredRun& run = runs.emplace_back();
    run.first_position = nodes_[block].position;
    std::uint32_t last = block;
    for (; block != kNoBlock; block = nodes_[block].first_child) {
      run.hashes.push_back(nodes_[block].hash);
      last = block;
    }
    while (last != kNoBlock && nodes_[last].next_sibling == kNoBlock) last = nodes_[last].parent;
    if (last != kNoBlock) block = nodes_[last].next_sibling;
  }
  return runs;
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
    if (nodes_[block].ready) {
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
  const std::optional<BlockId> victim = eviction_->Victim(EvictionGroup(0));
  if (victim.has_value() != (pool_.idle_count() > 0)) return Broken("{} idle blocks", pool_.idle_count());
  if (victim && nodes_[victim->value()].first_child != kNoBlock) return Broken("victim {} is no leaf", victim->value());
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
  if (index_.Find(node.hash) != id) return Broken("block {} is not in the index under its hash", block);
  if (node.parent == kNoBlock) {
    if (node.position != 0) return Broken("block {} at position {} has no parent", block, node.position);
  } else {
    const Node& parent = nodes_[node.parent];
    if (!parent.ready) return Broken("block {} is ready, its parent {} is not", block, node.parent);
    if (parent.position + 1 != node.position || parent.root != node.root) {
      return Broken("block {} does not continue its parent {}", block, node.parent);
    }
  }
  return CheckChildren(block);
}

// The children's list is whole, and whoever holds a child holds the parent.
Result<void> PrefixCache::CheckChildren(std::uint32_t block) const {
  std::uint32_t previous = kNoBlock;
  std::uint64_t references = 0;
  for (std::uint32_t child = nodes_[block].first_child; child != kNoBlock; child = nodes_[child].next_sibling) {
    const Node& node = nodes_[child];
    if (!node.ready || node.parent != block || node.previous_sibling != previous) {
      return Broken("child {} of block {} is linked wrongly", child, block);
    }
    references += pool_.references(BlockId(child));
    previous = child;
  }
  if (references > pool_.references(BlockId(block))) {
    return Broken("block {} has {} holders, its children {}", block, pool_.references(BlockId(block)), references);
  }
  return {};
}

}  // namespace roost::worker

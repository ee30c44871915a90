#include "worker/disk/disk_index.h"

#include <utility>

#include "common/base/check.h"

namespace roost::worker {

const DiskIndex::Node* DiskIndex::Find(BlockHash hash) const {
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? nullptr : &nodes_[found->second];
}

DiskIndex::Node* DiskIndex::Find(BlockHash hash) {
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? nullptr : &nodes_[found->second];
}

bool DiskIndex::Takes(const DiskBlock& block) const {
  if (by_hash_.contains(block.hash)) return false;
  if (block.position == 0) return true;
  const Node* const before = Find(block.before);
  return before != nullptr && before->block.position + 1 == block.position;
}

void DiskIndex::Add(const DiskBlock& block, DiskPlace place) {
  ROOST_CHECK(Takes(block), "block {} at {}", block.hash.ToHex(), block.position);
  std::uint32_t index = static_cast<std::uint32_t>(nodes_.size());
  if (free_.empty()) {
    nodes_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  const std::uint32_t parent = block.position == 0 ? kNone : by_hash_.at(block.before);
  std::uint32_t& head = HeadOf(parent);
  nodes_[index] = {.block = block, .place = place, .parent = parent, .next = head};
  if (head != kNone) nodes_[head].previous = index;
  head = index;
  by_hash_.emplace(block.hash, index);
  digest_ = digest_ ^ block.hash;
}

void DiskIndex::RemoveLeaf(std::uint32_t node) {
  const Node& leaf = nodes_[node];
  if (leaf.next != kNone) nodes_[leaf.next].previous = leaf.previous;
  (leaf.previous == kNone ? HeadOf(leaf.parent) : nodes_[leaf.previous].next) = leaf.next;
  digest_ = digest_ ^ leaf.block.hash;
  by_hash_.erase(leaf.block.hash);
  free_.push_back(node);
}

void DiskIndex::RemoveTree(BlockHash hash, const std::function<void(const Node&)>& visit) {
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return;
  const std::uint32_t top = found->second;
  std::uint32_t next = top;
  while (true) {
    while (nodes_[next].first_child != kNone) next = nodes_[next].first_child;
    const std::uint32_t leaf = next;
    next = nodes_[leaf].parent;
    visit(nodes_[leaf]);
    RemoveLeaf(leaf);
    if (leaf == top) return;
  }
}

bool DiskIndex::IsLeaf(BlockHash hash) const {
  const Node* const node = Find(hash);
  return node != nullptr && node->first_child == kNone;
}

std::vector<BlockHash> DiskIndex::PathBefore(BlockHash hash) const {
  std::vector<BlockHash> path;
  const Node* const node = Find(hash);
  if (node == nullptr) return path;
  for (std::uint32_t before = node->parent; before != kNone; before = nodes_[before].parent) {
    path.push_back(nodes_[before].block.hash);
  }
  return path;
}

std::vector<BlockHash> DiskIndex::FirstBlocks() const {
  std::vector<BlockHash> hashes;
  for (std::uint32_t node = first_blocks_; node != kNone; node = nodes_[node].next) {
    hashes.push_back(nodes_[node].block.hash);
  }
  return hashes;
}

std::vector<BlockHash> DiskIndex::TopsOf(std::uint64_t tenant) const {
  std::vector<BlockHash> hashes;
  for (const auto& [hash, index] : by_hash_) {
    const Node& node = nodes_[index];
    if (node.block.tenant != tenant) continue;
    if (node.parent == kNone || nodes_[node.parent].block.tenant != tenant) hashes.push_back(hash);
  }
  return hashes;
}

// Depth first; a run goes on along first children.
std::vector<wire::StoredRun> DiskIndex::Runs() const {
  std::vector<wire::StoredRun> runs;
  std::vector<std::uint32_t> begins;
  for (std::uint32_t node = first_blocks_; node != kNone; node = nodes_[node].next) begins.push_back(node);
  while (!begins.empty()) {
    std::uint32_t node = begins.back();
    begins.pop_back();
    wire::StoredRun& run = runs.emplace_back();
    run.first_position = nodes_[node].block.position;
    for (; node != kNone; node = nodes_[node].first_child) {
      run.hashes.push_back(nodes_[node].block.hash);
      const std::uint32_t first = nodes_[node].first_child;
      if (first == kNone) break;
      for (std::uint32_t other = nodes_[first].next; other != kNone; other = nodes_[other].next) {
        begins.push_back(other);
      }
    }
  }
  return runs;
}

}  // namespace roost::worker

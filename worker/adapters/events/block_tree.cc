#include "worker/adapters/events/block_tree.h"

#include <xxhash.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "common/base/check.h"
#include "common/wire/codec.h"

namespace roost::worker::adapters {
namespace {

constexpr std::size_t kMaxHashes = wire::WireLimits::kMaxHashesPerRun;

// Cuts an event with too many hashes into several.
void AppendSplit(wire::CacheEvent event, std::vector<wire::CacheEvent>& events) {
  std::vector<BlockHash> stored = std::move(event.stored.hashes);
  std::vector<BlockHash> removed = std::move(event.removed);
  const bool is_stored = event.kind == wire::CacheEvent::Kind::kStored;
  const std::vector<BlockHash>& all = is_stored ? stored : removed;
  const std::uint32_t first_position = event.stored.first_position;
  for (std::size_t begin = 0; begin < all.size(); begin += kMaxHashes) {
    const std::size_t end = std::min(begin + kMaxHashes, all.size());
    wire::CacheEvent& part = events.emplace_back();
    part.kind = event.kind;
    if (is_stored) part.stored.first_position = first_position + static_cast<std::uint32_t>(begin);
    std::vector<BlockHash>& hashes = is_stored ? part.stored.hashes : part.removed;
    hashes.assign(all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

// The hash of the block of ours before this one; zero for a first one.
BlockHash ParentHash(const TreeBlock& block) {
  return block.identity.block_count == 1 ? BlockHash() : block.parent->identity.hash;
}

template <typename Block>
void PushChildren(const TreeBlock& block, std::vector<Block*>& stack) {
  for (Block* child = block.first_child; child != nullptr; child = child->next) stack.push_back(child);
}

template <typename Block>
Block* TakeLast(std::vector<Block*>& stack) {
  Block* last = stack.back();
  stack.pop_back();
  return last;
}

}  // namespace

std::size_t BlockTree::NameHasher::operator()(const std::string& name) const noexcept {
  return XXH3_64bits_withSeed(name.data(), name.size(), BlockHashHasher::ProcessSeed());
}

TreeBlock* BlockTree::Find(std::string_view name) {
  const auto found = blocks_.find(std::string(name));
  return found == blocks_.end() ? nullptr : &found->second;
}

TreeBlock* BlockTree::Add(std::string_view name, TreeBlock* parent, BlockIdentity identity,
                          std::optional<LeftOut> left_out) {
  const auto [entry, is_new] = blocks_.try_emplace(std::string(name));
  ROOST_CHECK(is_new, "a block is added twice");
  TreeBlock& block = entry->second;
  block.name = &entry->first;
  block.identity = std::move(identity);
  block.left_out = left_out;
  block.parent = parent;
  if (parent != nullptr) {
    block.next = std::exchange(parent->first_child, &block);
    if (block.next != nullptr) block.next->previous = &block;
  }
  return &block;
}

bool BlockTree::Holds(std::string_view name) {
  const TreeBlock* block = Find(name);
  return block != nullptr && block->copies > 0 && !block->doubted;
}

void BlockTree::AddCopy(TreeBlock& block) {
  const bool was_there = block.copies > 0 && !block.doubted;
  block.doubted = false;
  ++block.copies;
  ++copy_count_;
  if (was_there) return;
  ++held_count_;
  ShowIfReached(block);
}

void BlockTree::RemoveCopy(TreeBlock& block) {
  ROOST_CHECK(block.copies > 0);
  if (block.doubted) TrustCopies();
  --copy_count_;
  if (--block.copies > 0 && counts_copies_) return;
  block.doubted = block.copies > 0;
  --held_count_;
  if (block.visible) Hide(block);
  Drop(&block);
}

void BlockTree::TrustCopies() {
  counts_copies_ = true;
  for (auto& [name, block] : blocks_) {
    if (!std::exchange(block.doubted, false)) continue;
    ++held_count_;
    ShowIfReached(block);
  }
}

void BlockTree::ShowIfReached(TreeBlock& block) {
  if (block.parent == nullptr || block.parent->visible) Show(block);
}

void BlockTree::Clear() {
  for (auto& [name, block] : blocks_) {
    if (block.visible && block.parent == nullptr) Hide(block);
  }
  ROOST_CHECK(shown_.empty() && digest_ == BlockHash(), "{} blocks are still visible", shown_.size());
  blocks_.clear();
  copy_count_ = 0;
  held_count_ = 0;
}

void BlockTree::Drop(TreeBlock* block) {
  while (block != nullptr && block->copies == 0 && block->first_child == nullptr) {
    TreeBlock* parent = block->parent;
    if (block->previous != nullptr) {
      block->previous->next = block->next;
    } else if (parent != nullptr) {
      parent->first_child = block->next;
    }
    if (block->next != nullptr) block->next->previous = block->previous;
    blocks_.erase(blocks_.find(*block->name));
    block = parent;
  }
}

// Those above it are visible.
void BlockTree::Show(TreeBlock& top) {
  std::vector<TreeBlock*> stack{&top};
  while (!stack.empty()) {
    TreeBlock& block = *TakeLast(stack);
    if (block.copies > 0 && !block.doubted && !block.left_out && Reveal(block)) PushChildren(block, stack);
  }
}

void BlockTree::Hide(TreeBlock& top) {
  std::vector<TreeBlock*> hidden;  // parents before children
  std::vector<TreeBlock*> stack{&top};
  while (!stack.empty()) {
    TreeBlock& block = *TakeLast(stack);
    if (!block.visible) continue;
    hidden.push_back(&block);
    PushChildren(block, stack);
  }
  for (auto block = hidden.rbegin(); block != hidden.rend(); ++block) Conceal(**block);
}

// False: another block claims its hash.
bool BlockTree::Reveal(TreeBlock& block) {
  const BlockIdentity& identity = block.identity;
  if (!identity.is_whole()) return block.visible = true;
  const BlockHash parent = ParentHash(block);
  const std::uint32_t position = identity.position();
  const auto [entry, is_new] = shown_.try_emplace(identity.hash, Shown{parent, position, 0});
  Shown& shown = entry->second;
  if (shown.parent != parent || shown.position != position) return false;
  ++shown.count;
  block.visible = true;
  if (block.watched) turned_.push_back({*block.name, identity.hash});
  if (!is_new) return true;
  digest_ = digest_ ^ identity.hash;
  log_.AddStored(identity.hash, position, position == 0 ? std::nullopt : std::optional<BlockHash>(parent));
  return true;
}

void BlockTree::Conceal(TreeBlock& block) {
  block.visible = false;
  if (!block.identity.is_whole()) return;
  const auto shown = shown_.find(block.identity.hash);
  const bool is_removed = --shown->second.count == 0;
  if (block.watched) turned_.push_back({*block.name, block.identity.hash, is_removed});
  if (!is_removed) return;
  shown_.erase(shown);
  digest_ = digest_ ^ block.identity.hash;
  log_.AddRemoved(block.identity.hash);
}

void BlockTree::TakeEvents(std::vector<wire::CacheEvent>& events) {
  std::vector<wire::CacheEvent> taken;
  log_.TakeTo(taken);
  for (wire::CacheEvent& event : taken) {
    if (event.stored.hashes.size() <= kMaxHashes && event.removed.size() <= kMaxHashes) {
      events.push_back(std::move(event));
    } else {
      AppendSplit(std::move(event), events);
    }
  }
}

std::vector<wire::StoredRun> BlockTree::Snapshot() const {
  std::vector<wire::StoredRun> runs;
  std::unordered_set<BlockHash, BlockHashHasher> told;
  std::vector<const TreeBlock*> stack;
  for (const auto& [name, root] : blocks_) {
    if (!root.visible || root.parent != nullptr) continue;
    std::optional<BlockHash> last;  // the end of the last run
    stack.push_back(&root);
    while (!stack.empty()) {
      const TreeBlock& block = *TakeLast(stack);
      if (!block.visible) continue;
      PushChildren(block, stack);
      const BlockIdentity& identity = block.identity;
      if (!identity.is_whole() || !told.insert(identity.hash).second) continue;
      const bool goes_on = last && identity.position() > 0 && *last == ParentHash(block);
      if (!goes_on || runs.back().hashes.size() == kMaxHashes) runs.push_back({identity.position(), {}});
      runs.back().hashes.push_back(identity.hash);
      last = identity.hash;
    }
  }
  return runs;
}

}  // namespace roost::worker::adapters

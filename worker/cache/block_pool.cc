#include "worker/cache/block_pool.h"

#include "common/base/check.h"

namespace roost::worker {

BlockPool::BlockPool(std::uint32_t block_count) : entries_(block_count) {
  free_.reserve(block_count);
  for (std::uint32_t id = block_count; id-- > 0;) free_.push_back(id);
}

std::optional<BlockId> BlockPool::Allocate() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t id = free_.back();
  free_.pop_back();
  entries_[id].references = 1;
  ++referenced_count_;
  if (notes_emptied_) emptied_.emplace_back(id);
  return BlockId(id);
}

void BlockPool::AddReference(BlockId block) {
  Entry& entry = entries_[Checked(block)];
  ROOST_CHECK(!entry.free(), "block {} is free", block.value());
  if (entry.references++ == 0) ++referenced_count_;
}

std::uint32_t BlockPool::DropReference(BlockId block) {
  Entry& entry = entries_[Checked(block)];
  ROOST_CHECK(!entry.free() && entry.references > 0, "block {} has no reference", block.value());
  if (--entry.references == 0) --referenced_count_;
  return entry.references;
}

void BlockPool::Free(BlockId block) {
  Entry& entry = entries_[Checked(block)];
  ROOST_CHECK(entry.references == 0, "block {} has {} references", block.value(), entry.references);
  entry.references = kFree;
  ++entry.generation;
  free_.push_back(block.value());
  if (notes_emptied_) emptied_.push_back(block);
}

void BlockPool::MakeStale(BlockId block) {
  Entry& entry = entries_[Checked(block)];
  ROOST_CHECK(!entry.free(), "block {} is free", block.value());
  ++entry.generation;
}

std::uint32_t BlockPool::Checked(BlockId block) const {
  ROOST_CHECK(block.value() < entries_.size(), "block {} of {}", block.value(), entries_.size());
  return block.value();
}

}  // namespace roost::worker

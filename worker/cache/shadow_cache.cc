#include "worker/cache/shadow_cache.h"

#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

// Keys are halves of block hashes, and the index spreads entries by this half.
BlockHash HashOf(std::uint64_t key) { return {0, key}; }

}  // namespace

ShadowCache::ShadowCache(std::uint32_t entry_count, Ranking ranking)
    : ranking_(ranking), index_(entry_count), lists_(entry_count, 1), entries_(entry_count) {
  ROOST_CHECK(entry_count > 0);
}

void ShadowCache::Use(const ShadowUse& use, const ReuseModel& model) {
  const std::optional<BlockId> held =
      index_.Find(HashOf(use.key), [&](BlockId entry) { return entries_[entry.value()].key == use.key; });
  hits_ = held ? hits_ + 1 : 0;
  const BlockId entry = held ? *held : TakeEntry(model, use.time.request);
  if (held) {
    lists_.Erase(entry);
  } else {
    index_.Insert(HashOf(use.key), entry);
    entries_[entry.value()] = {.key = use.key, .position = use.position, .parent = std::nullopt, .child_count = 0};
  }
  LinkLatestTo(entry);
  const TreePlace place = entries_[entry.value()].child_count == 0 ? TreePlace::kLeaf : TreePlace::kInner;
  lists_.PushBack(0, use.reuse_class, entry, use.time, place);
  latest_ = entry;
}

std::uint32_t ShadowCache::EndRequest() {
  latest_.reset();
  return std::exchange(hits_, 0);
}

// A parent must have a lower position than its child, whatever the caller says, so there is always a leaf.
void ShadowCache::LinkLatestTo(BlockId parent) {
  if (!latest_) return;
  Entry& child = entries_[latest_->value()];
  if (child.parent || entries_[parent.value()].position >= child.position) return;
  child.parent = parent;
  ++entries_[parent.value()].child_count;
}

BlockId ShadowCache::TakeEntry(const ReuseModel& model, std::uint64_t request) {
  if (index_.size() < entries_.size()) return BlockId(index_.size());
  const std::optional<BlockId> entry = lists_.FirstToGo(0, ranking_, model, request);
  ROOST_CHECK(entry.has_value());
  Evict(*entry);
  return *entry;
}

void ShadowCache::Evict(BlockId entry) {
  if (latest_ == entry) latest_.reset();
  lists_.Erase(entry);
  index_.Erase(HashOf(entries_[entry.value()].key), entry);
  const std::optional<BlockId> parent = entries_[entry.value()].parent;
  if (parent && --entries_[parent->value()].child_count == 0) lists_.BecomeLeaf(*parent);
}

}  // namespace roost::worker

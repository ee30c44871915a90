#include "worker/cache/shadow_cache.h"

#include "common/base/check.h"

namespace roost::worker {
namespace {

// Keys are halves of block hashes; the index spreads by them.
BlockHash HashOf(std::uint64_t key) { return {0, key}; }

}  // namespace

ShadowCache::ShadowCache(std::uint32_t entry_count, Ranking ranking)
    : ranking_(ranking), index_(entry_count), lists_(entry_count, 1), keys_(entry_count) {
  ROOST_CHECK(entry_count > 0);
}

ShadowCache::Access ShadowCache::Use(std::uint64_t key, std::uint32_t reuse_class, ReleaseTime time,
                                     const ReuseModel& model) {
  const std::optional<BlockId> held = index_.Find(HashOf(key));
  const BlockId entry = held ? *held : TakeEntry(model, time.request);
  if (held) {
    lists_.Erase(entry);
  } else {
    index_.Insert(HashOf(key), entry);
    keys_[entry.value()] = key;
  }
  lists_.PushBack(0, reuse_class, entry, time, TreePlace::kLeaf);
  return held ? Access::kHit : Access::kMiss;
}

BlockId ShadowCache::TakeEntry(const ReuseModel& model, std::uint64_t request) {
  if (index_.size() < keys_.size()) return BlockId(index_.size());
  const std::optional<BlockId> entry = lists_.FirstToGo(0, ranking_, model, request);
  ROOST_CHECK(entry.has_value());
  lists_.Erase(*entry);
  index_.Erase(HashOf(keys_[entry->value()]));
  return *entry;
}

}  // namespace roost::worker

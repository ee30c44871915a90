// The part of the prefix cache that retains blocks for longer, or less long, than the eviction policy would.
#include <algorithm>

#include "common/base/check.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

std::uint32_t PrefixCache::PriorityOf(std::uint32_t block) const {
  if (retention_timers_.IsSet(BlockId(block))) return nodes_[block].retention_priority;
  return kDefaultRetentionPriority;
}

BlockOrigin PrefixCache::OriginOf(std::uint32_t block, const RequestUse& use) const {
  const Node& node = nodes_[block];
  const std::uint64_t end = std::uint64_t{node.position} * block_tokens_ + node.token_count;
  return end <= use.prompt_token_count ? BlockOrigin::kPrompt : BlockOrigin::kDecode;
}

// Front to back, so that of a prefix that has no room the front is retained. Once a block has no room, none after it
// has.
void PrefixCache::RetainAll(std::span<const BlockId> blocks, const RequestUse& use, const RequestRetention& retention) {
  if (!retention.prompt.end && !retention.decode.end) return;
  bool has_room = true;
  for (const BlockId id : blocks) {
    const std::uint32_t block = id.value();
    if (!nodes_[block].ready) continue;
    const bool is_prompt = OriginOf(block, use) == BlockOrigin::kPrompt;
    const BlockRetention& hint = is_prompt ? retention.prompt : retention.decode;
    if (!hint.end) continue;
    has_room = has_room && Retain(block, hint, retention.tenant);
    counters_.refused_retentions += has_room ? 0 : 1;
  }
}

// The higher priority and the later end of two retentions apply. `block` is not in idle_. False when the tenant has no
// room for it; then nothing changes.
bool PrefixCache::Retain(std::uint32_t block, const BlockRetention& retention, TenantId tenant) {
  ROOST_CHECK(retention.priority <= kMaxRetentionPriority, "priority {}", retention.priority);
  if (!retention.end || *retention.end <= now_) return true;
  Node& node = nodes_[block];
  const BlockId id(block);
  if (retention.priority > kDefaultRetentionPriority && !retained_.IsOwn(block)) {
    if (!HasRoomToRetain(block, tenant)) return false;
    retained_.Keep(block, tenant, [this](std::uint32_t child) { return nodes_[child].parent; });
  }
  const bool retained = retention_timers_.IsSet(id);
  node.retention_priority = static_cast<std::uint8_t>(
      retained ? std::max<std::uint32_t>(node.retention_priority, retention.priority) : retention.priority);
  if (!retained || retention_timers_.DeadlineOf(id) < *retention.end) retention_timers_.Set(id, *retention.end);
  return true;
}

// The block and those before it that are not kept yet need room. O(room).
bool PrefixCache::HasRoomToRetain(std::uint32_t block, TenantId tenant) const {
  std::uint32_t room = retained_.RoomOf(tenant);
  for (; block != kNoBlock && !retained_.IsKept(block); block = nodes_[block].parent) {
    if (room-- == 0) return false;
  }
  return true;
}

void PrefixCache::StopRetaining(std::uint32_t block) {
  if (!retained_.IsOwn(block)) return;
  retained_.Release(block, [this](std::uint32_t child) { return nodes_[child].parent; });
}

void PrefixCache::EndRetention(BlockRef last, const RequestRetention& retention) {
  if (last.generation != pool_.generation(last.block) || !nodes_[last.block.value()].ready) return;
  for (std::uint32_t block = last.block.value(); block != kNoBlock; block = nodes_[block].parent) {
    // The cache does not record which request asked for a retention, so it compares priority and end.
    EndRetentionIf(block, nodes_[block].origin == BlockOrigin::kPrompt ? retention.prompt : retention.decode);
  }
}

// Ends the block's retention if its priority and end are these.
void PrefixCache::EndRetentionIf(std::uint32_t block, const BlockRetention& retention) {
  const BlockId id(block);
  if (!retention.end || !retention_timers_.IsSet(id)) return;
  const Duration rounded = retention_timers_.DeadlineOf(id) - *retention.end;
  if (rounded < Duration::zero() || rounded >= TimerWheel::kTick) return;
  if (nodes_[block].retention_priority != retention.priority) return;
  retention_timers_.Clear(id);
  StopRetaining(block);
  ReshelveByPriority(block);
}

// The block's retention is over. If its priority changes, it moves in idle_ as if it had been used now.
void PrefixCache::ReshelveByPriority(std::uint32_t block) {
  const Node& node = nodes_[block];
  const bool shelved_by_priority = IsEvictable(block) && node.wanted_count == 0;
  if (!shelved_by_priority || node.shelf_priority == PriorityOf(block)) return;
  idle_.Erase(BlockId(block));
  ShelveToEvict(block, LatestUse(block));
}

}  // namespace roost::worker

#include "worker/cache/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

constexpr auto kPinnedRank = static_cast<std::uint8_t>(kHeldRank + 1);
constexpr std::uint32_t kOneOwner = 0;

template <typename... Args>
Error BrokenClaim(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInternal, fmt::format(format, std::forward<Args>(args)...), "claims"};
}

std::uint32_t ShareOf(double share, std::uint32_t block_count) {
  return static_cast<std::uint32_t>(share * block_count);
}

std::vector<std::uint32_t> SharesInBlocks(std::span<const double> shares, std::uint32_t block_count) {
  std::vector<std::uint32_t> blocks(1, block_count);
  for (const double share : shares) {
    ROOST_CHECK(share > 0 && share <= 1, "share {}", share);
    blocks.push_back(std::min(blocks[0], ShareOf(share, block_count)));
    blocks[0] -= blocks.back();
  }
  return blocks;
}

}  // namespace

// ---- what happens to a block ----

Claims::Claims(BlockTree& tree, const BlockPool& pool, TenantBlocks& tenants, const CacheOptions& options,
               std::unique_ptr<EvictionPolicy> eviction)
    : tree_(tree),
      pool_(pool),
      tenants_(tenants),
      min_hold_(options.min_hold),
      held_share_limit_(options.held_share_limit),
      pin_limit_(ShareOf(options.pinned_share_limit, tree.size())),
      retention_limit_(ShareOf(options.retained_share_limit, tree.size())),
      all_retention_limit_(std::max(retention_limit_, ShareOf(kMostRetainedShare, tree.size()))),
      pinned_(tree.size()),
      held_(tree.size()),
      retained_(tree.size()),
      lifetimes_(tree.size()),
      timers_(holds() ? 2 * tree.size() : tree.size(), Instant()),
      idle_(tree.size(), static_cast<std::uint32_t>(options.group_shares.size()) + 1, std::move(eviction)) {
  ROOST_CHECK(held_share_limit_ >= 0 && held_share_limit_ <= 1, "held_share_limit {}", held_share_limit_);
  ROOST_CHECK(options.retained_share_limit >= 0 && options.retained_share_limit <= 1, "retained_share_limit {}",
              options.retained_share_limit);
  ROOST_CHECK(options.group_shares.size() < std::numeric_limits<std::uint8_t>::max());
  for (const std::uint32_t share : SharesInBlocks(options.group_shares, tree.size())) groups_.push_back({share});
}

// All claims end before the first block takes its new place. Holds end before retentions.
void Claims::AdvanceTo(Instant now) {
  ROOST_CHECK(now >= now_, "time goes back");
  now_ = now;
  expired_timers_.clear();
  timers_.Expire(now, expired_timers_);
  const std::uint32_t count = tree_.size();
  const auto is_hold = [count](TimerId timer) { return timer.value() >= count; };
  std::stable_partition(expired_timers_.begin(), expired_timers_.end(), is_hold);
  for (const TimerId timer : expired_timers_) {
    if (is_hold(timer)) {
      EndOwnHold(timer.value() - count);
    } else {
      StopRetaining(timer.value());
    }
  }
  for (const TimerId timer : expired_timers_) {
    const std::uint32_t block = timer.value() % count;
    EndNeedlessHolds(block);
    Reorder(block);
  }
  expired_pins_.clear();
  pins_.TakeExpired(now, expired_pins_);
  for (const BlockHash hash : expired_pins_) EndPinOf(hash);
}

void Claims::OnStored(std::uint32_t block) {
  ++groups_[tree_[block].group].ready_count;
  counted_need_ = {};
  if (!holds()) return;
  if (ages_.empty()) ages_.resize(tree_.size());
  ages_[block] = stored_count_++;
  timers_.Set(HoldTimer(block), now_ + min_hold_);
}

void Claims::OnIdle(std::uint32_t block, const RequestUse& use) {
  if (IsPinned(block)) {
    EndOwnHold(block);
  } else if (ShouldHold(block)) {
    Hold(block);
  }
  MakeEvictable(block, use);
}

void Claims::OnChildLost(std::uint32_t block) {
  if (IsIdle(block) && !IsPinned(block) && tree_[block].IsLeaf()) idle_.BecomeLeaf(BlockId(block));
}

void Claims::OnEvicted(std::uint32_t block) {
  idle_.Evict(BlockId(block));
  EndHold(block);
}

void Claims::OnRemoved(std::uint32_t block) {
  --groups_[tree_[block].group].ready_count;
  EndOwnHold(block);
  StopRetaining(block);
  timers_.Clear(RetentionTimer(block));
  if (holds()) timers_.Clear(HoldTimer(block));
  ROOST_CHECK(!held_.IsClaimed(block) && !pinned_.IsClaimed(block), "block {} is claimed", block);
}

// ---- the order of evictions ----

// Puts `block`, which is idle, in its place. A pinned block has none.
void Claims::MakeEvictable(std::uint32_t block, const RequestUse& use) {
  BlockNode& node = tree_[block];
  const BlockId id(block);
  node.rank = RankOf(block);
  if (node.rank == kPinnedRank) {
    ++idle_pinned_;
  } else if (node.rank == kHeldRank) {
    idle_.InsertHeld(id, EvictionGroup(node.group), PlaceOf(block), ages_[block]);
  } else if (node.rank == kWantedRank) {
    idle_.InsertWanted(id, EvictionGroup(node.group), PlaceOf(block));
  } else {
    idle_.Insert(id, UseOf(block, use), PlaceOf(block), node.rank);
  }
}

// Takes `block`, which is idle, out of its place.
void Claims::TakeOut(std::uint32_t block) {
  if (tree_[block].rank == kPinnedRank) {
    --idle_pinned_;
    return;
  }
  idle_.Erase(BlockId(block));
  EndHold(block);
}

// A claim of the block has come or gone. If that changes its rank, it moves as if it had been used now.
void Claims::Reorder(std::uint32_t block) {
  if (!IsIdle(block) || tree_[block].rank == RankOf(block)) return;
  idle_.Erase(BlockId(block));
  MakeEvictable(block, LatestUse(block));
}

std::uint8_t Claims::RankOf(std::uint32_t block) const {
  if (IsPinned(block)) return kPinnedRank;
  if (IsHeld(block)) return kHeldRank;
  return tree_[block].wanted_count > 0 ? kWantedRank : tree_[block].retention_priority;
}

TreePlace Claims::PlaceOf(std::uint32_t block) const {
  return tree_[block].IsLeaf() ? TreePlace::kLeaf : TreePlace::kInner;
}

BlockUse Claims::UseOf(std::uint32_t block, const RequestUse& use) const {
  const BlockNode& node = tree_[block];
  return {.key = node.hash.low,
          .position = node.position,
          .hit_count = node.hit_count,
          .origin = node.origin,
          .group = EvictionGroup(node.group),
          .request = use};
}

// The use by the request that used `block` last: only its time is known.
RequestUse Claims::LatestUse(std::uint32_t block) const {
  const std::uint32_t prompt_end = tree_[block].origin == BlockOrigin::kPrompt ? tree_[block].position + 1 : 0;
  return {.number = latest_request_, .prompt_token_count = prompt_end * tree_.block_tokens()};
}

std::optional<std::uint32_t> Claims::Victim(EvictionGroup group) {
  if (const auto unwanted = FirstVictim(group, IdleBlocks::Reach::kUnwanted)) return unwanted;
  return FirstVictim(group, IdleBlocks::Reach::kWanted);
}

std::optional<std::uint32_t> Claims::HeldVictim(EvictionGroup group) {
  return held_count() == 0 ? std::nullopt : FirstVictim(group, IdleBlocks::Reach::kHeld);
}

std::optional<std::uint32_t> Claims::FirstVictim(EvictionGroup group, IdleBlocks::Reach reach) {
  std::optional<std::uint32_t> victim;
  std::int64_t order = std::numeric_limits<std::int64_t>::min();
  for (std::uint32_t id = 0; id < group_count(); ++id) {
    const EvictionGroup giver(id);
    if (EvictionOrder(giver, group) <= order) continue;
    const std::optional<BlockId> block = idle_.Victim(giver, reach);
    if (!block) continue;
    victim = block->value();
    order = EvictionOrder(giver, group);
  }
  return victim;
}

// The group with the highest value gives way first to make space for `group`. `group` itself comes first if it is over
// its share, otherwise after all groups that are over theirs.
std::int64_t Claims::EvictionOrder(EvictionGroup giver, EvictionGroup group) const {
  const Group& state = groups_[giver.value()];
  const std::int64_t excess = std::int64_t{state.ready_count} - std::int64_t{state.share};
  if (giver != group) return excess > 0 ? excess : excess - 1;
  return excess > 0 ? std::numeric_limits<std::int64_t>::max() : 0;
}

// ---- held ----

// The blocks before `block` are still in use or pinned, and will be held because of it.
bool Claims::ShouldHold(std::uint32_t block) {
  if (held_.claimed_children(block) > 0 || held_.IsOwn(block)) return true;
  if (!IsYoung(block)) return false;
  const std::uint32_t group = tree_[block].group;
  const double share = static_cast<double>(groups_[group].share) / tree_.size();
  const auto limit = static_cast<std::uint32_t>(held_share_limit_ * (tree_.size() - pinned_count()) * share);
  const std::uint32_t need = HoldNeed(block);
  counted_need_ = {tree_[block].parent, need - 1};
  return held_.count(group) + need <= limit;
}

// The number of blocks that take a place if `block` is held: `block` and those before it, less those that are pinned or
// have a place already. A request releases its blocks back to front, so usually the need of the block after this one
// has just been counted.
std::uint32_t Claims::HoldNeed(std::uint32_t block) const {
  if (counted_need_.block == block) return counted_need_.need;
  std::uint32_t need = 1;
  for (std::uint32_t each = tree_[block].parent; each != kNoBlock && !IsPinned(each); each = tree_[each].parent) {
    need += held_.IsCounted(each) ? 0 : 1;
  }
  return need;
}

void Claims::Hold(std::uint32_t block) {
  const std::uint32_t group = tree_[block].group;
  counted_need_ = {};
  held_.Claim(block, tree_[block].parent, group);
  if (IsYoung(block)) held_.SetOwn(block, group);
}

// `block` is not in its place any more. A young one keeps its share of the group for when it is idle again.
void Claims::EndHold(std::uint32_t block) {
  if (!IsHeld(block)) return;
  counted_need_ = {};
  held_.Unclaim(block, tree_[block].parent);
  EndNeedlessHolds(tree_[block].parent);
}

// Ends holds that have no reason any more, from `last` on towards the front.
void Claims::EndNeedlessHolds(std::uint32_t last) {
  for (std::uint32_t block = last; block != kNoBlock && held_.IsNeedless(block); block = tree_[block].parent) {
    counted_need_ = {};
    held_.Unclaim(block, tree_[block].parent);
    Reorder(block);
  }
}

// `block` is old, pinned or leaves the tree: it needs no place of its own.
void Claims::EndOwnHold(std::uint32_t block) {
  if (!held_.IsOwn(block)) return;
  counted_need_ = {};
  held_.ClearOwn(block);
}

// ---- retained ----

void Claims::Retain(std::uint32_t block, const BlockRetention& retention, TenantId tenant) {
  refused_retentions_ += TryRetain(block, retention, tenant) ? 0 : 1;
}

// Front to back, so that of a prefix that has no room the front is retained. Once a block has no room, none after it
// has.
void Claims::RetainAll(std::span<const BlockId> blocks, const RequestUse& use, const RequestRetention& retention,
                       std::span<const FrontLifetime> lifetimes) {
  if (!lifetimes.empty() || !lifetimes_.empty()) KeepAlive(blocks, lifetimes, retention.tenant);
  if (!retention.prompt.end && !retention.decode.end) return;
  bool has_room = true;
  for (const BlockId id : blocks) {
    const std::uint32_t block = id.value();
    if (!tree_[block].ready) continue;
    const bool is_prompt = tree_[block].OriginFor(use, tree_.block_tokens()) == BlockOrigin::kPrompt;
    const BlockRetention& hint = is_prompt ? retention.prompt : retention.decode;
    if (!hint.end) continue;
    has_room = has_room && TryRetain(block, hint, retention.tenant);
    refused_retentions_ += has_room ? 0 : 1;
  }
}

// False when there is no room for it, the tenant's or all tenants'; then nothing changes.
bool Claims::TryRetain(std::uint32_t block, const BlockRetention& retention, TenantId tenant) {
  ROOST_CHECK(retention.priority <= kMaxRetentionPriority, "priority {}", retention.priority);
  if (!retention.end || *retention.end <= now_) return true;
  if (retention.priority > kDefaultRetentionPriority && !retained_.IsOwn(block)) {
    if (!HasRoomToRetain(block, tenant)) return false;
    retained_.SetOwn(block, tenant.value());
    for (std::uint32_t each = block; each != kNoBlock && !retained_.IsClaimed(each); each = tree_[each].parent) {
      retained_.Claim(each, tree_[each].parent, tenant.value());
      tenants_.Join(tenant);
    }
  }
  BlockNode& node = tree_[block];
  const TimerId timer = RetentionTimer(block);
  const bool is_first = !timers_.IsSet(timer);
  const auto priority = static_cast<std::uint8_t>(retention.priority);
  node.retention_priority = is_first ? priority : std::max(node.retention_priority, priority);
  if (is_first || timers_.DeadlineOf(timer) < *retention.end) timers_.Set(timer, *retention.end);
  return true;
}

// The block and those before it that are not kept yet need room. O(room).
bool Claims::HasRoomToRetain(std::uint32_t block, TenantId tenant) const {
  std::uint32_t room = std::min(retention_limit_ - std::min(retention_limit_, retained_count(tenant)),
                                all_retention_limit_ - std::min(all_retention_limit_, retained_count()));
  for (; block != kNoBlock && !retained_.IsClaimed(block); block = tree_[block].parent) {
    if (room-- == 0) return false;
  }
  return true;
}

// The retention's timer has ended, or will be cleared.
void Claims::StopRetaining(std::uint32_t block) {
  tree_[block].retention_priority = kDefaultRetentionPriority;
  lifetimes_.End(block);
  if (!retained_.IsOwn(block)) return;
  retained_.ClearOwn(block);
  for (std::uint32_t each = block; each != kNoBlock && retained_.IsNeedless(each); each = tree_[each].parent) {
    tenants_.Leave(TenantId(retained_.owner(each)));
    retained_.Unclaim(each, tree_[each].parent);
  }
}

void Claims::EndRetention(std::uint32_t last, const RequestRetention& retention) {
  for (std::uint32_t block = last; block != kNoBlock; block = tree_[block].parent) {
    // The cache does not record which request asked for a retention, so it compares priority and end.
    EndRetentionIf(block, tree_[block].origin == BlockOrigin::kPrompt ? retention.prompt : retention.decode);
  }
}

// Ends the block's retention if its priority and end are these. What has a lifetime stays for that.
void Claims::EndRetentionIf(std::uint32_t block, const BlockRetention& retention) {
  const TimerId timer = RetentionTimer(block);
  if (!retention.end || !timers_.IsSet(timer)) return;
  const Duration rounded = timers_.DeadlineOf(timer) - *retention.end;
  if (rounded < Duration::zero() || rounded >= TimerWheel::kTick) return;
  const Duration lifetime = lifetimes_.Of(block);
  if (lifetime > Duration::zero()) return timers_.Set(timer, now_ + lifetime);
  if (tree_[block].retention_priority != retention.priority) return;
  timers_.Clear(timer);
  StopRetaining(block);
  Reorder(block);
}

// ---- wanted ----

void Claims::Want(std::uint32_t block) {
  ++tree_[block].wanted_count;
  Reorder(block);
}

void Claims::Unwant(std::uint32_t block) {
  ROOST_CHECK(tree_[block].wanted_count > 0, "block {} is not wanted", block);
  --tree_[block].wanted_count;
  Reorder(block);
}

// ---- pinned ----

void Claims::Pin(std::span<const BlockHash> hashes, std::optional<Instant> end) {
  for (const BlockHash hash : hashes) {
    if (!HasRoomToPin(hash)) {
      ++refused_pins_;
      continue;
    }
    pins_.Add(hash, end);
    if (const std::optional<std::uint32_t> block = tree_.FindByHash(hash)) PinByHash(*block);
  }
}

bool Claims::HasRoomToPin(BlockHash hash) const {
  if (PinCount() < pin_limit_ || pins_.Contains(hash)) return true;
  const std::optional<std::uint32_t> block = tree_.FindByHash(hash);
  return block && IsPinned(*block);
}

void Claims::Unpin(std::span<const BlockHash> hashes) {
  for (auto hash = hashes.rbegin(); hash != hashes.rend(); ++hash) {
    pins_.Remove(*hash);
    EndPinOf(*hash);
  }
}

void Claims::UnpinAll() {
  std::vector<BlockHash> hashes;
  pins_.TakeAll(hashes);
  // Any order works: a block that stays pinned for a child is unpinned with that child.
  for (const BlockHash hash : hashes) EndPinOf(hash);
}

PinCounts Claims::PinsOf(std::span<const BlockHash> hashes) const {
  PinCounts counts;
  for (const BlockHash hash : hashes) {
    const std::optional<std::uint32_t> block = tree_.FindByHash(hash);
    const bool is_pinned = block ? IsPinned(*block) : pins_.Contains(hash);
    ++(!is_pinned ? counts.refused : block ? counts.kept : counts.awaited);
  }
  return counts;
}

void Claims::PinIfAwaited(std::uint32_t block) {
  if (pins_.Contains(tree_[block].hash)) PinByHash(block);
}

// `block` is ready, and its hash is in the pin table.
void Claims::PinByHash(std::uint32_t block) {
  if (!IsPinned(block)) {
    if (!PinParentsOf(block)) {
      ++refused_pins_;
      return;
    }
    PinBlock(block);
  }
  pinned_.SetOwn(block, kOneOwner);
}

// Pins the unpinned blocks in front of `block`, if there is space for all of them. Usually there are none; there are
// some when their pins ended before the blocks were ready.
bool Claims::PinParentsOf(std::uint32_t block) {
  const std::uint32_t parent = tree_[block].parent;
  std::size_t count = 0;
  for (std::uint32_t each = parent; each != kNoBlock && !IsPinned(each); each = tree_[each].parent) {
    // A block in front had its pin refused, so this one is refused too, without a walk to the root for each block.
    if (pins_.Contains(tree_[each].hash) || PinCount() + ++count > pin_limit_) return false;
  }
  for (std::uint32_t each = parent; each != kNoBlock && !IsPinned(each); each = tree_[each].parent) PinBlock(each);
  return true;
}

void Claims::PinBlock(std::uint32_t block) {
  const bool idle = IsIdle(block);
  if (idle) TakeOut(block);
  pinned_.Claim(block, tree_[block].parent, kOneOwner);
  counted_need_ = {};
  if (idle) OnIdle(block, LatestUse(block));
}

void Claims::UnpinBlock(std::uint32_t block) {
  const bool idle = IsIdle(block);
  if (idle) TakeOut(block);
  pinned_.Unclaim(block, tree_[block].parent);
  counted_need_ = {};
  if (idle) OnIdle(block, LatestUse(block));
}

void Claims::EndPinOf(BlockHash hash) {
  if (const std::optional<std::uint32_t> block = tree_.FindByHash(hash)) EndPin(*block);
}

// The block stays pinned for pinned children. Otherwise it is unpinned, and so are the parents that were pinned for
// this block alone.
void Claims::EndPin(std::uint32_t last) {
  if (!pinned_.IsOwn(last)) return;
  pinned_.ClearOwn(last);
  for (std::uint32_t block = last; block != kNoBlock && pinned_.IsNeedless(block); block = tree_[block].parent) {
    UnpinBlock(block);
  }
}

// ---- invariants ----

Result<void> Claims::Check() const {
  for (const ClaimLevel* level : {&pinned_, &held_, &retained_}) ROOST_RETURN_IF_ERROR(CheckLevel(*level));
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    ROOST_RETURN_IF_ERROR(CheckBlock(block));
    ROOST_RETURN_IF_ERROR(CheckHold(block));
  }
  return CheckTotals();
}

// The level knows how many children of each block are claimed. Only ready blocks have claims.
Result<void> Claims::CheckLevel(const ClaimLevel& level) const {
  std::vector<std::uint32_t> children(tree_.size());
  std::vector<std::uint32_t> counts;
  std::uint32_t claimed = 0;
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    if (!level.IsCounted(block)) continue;
    if (!tree_[block].ready) return BrokenClaim("block {} has a claim and is not ready", block);
    const std::uint32_t owner = level.owner(block);
    if (owner >= counts.size()) counts.resize(owner + 1);
    ++counts[owner];
    if (!level.IsClaimed(block)) continue;
    ++claimed;
    if (tree_[block].parent != kNoBlock) ++children[tree_[block].parent];
  }
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    if (children[block] != level.claimed_children(block)) {
      return BrokenClaim("block {} has {} claimed children, {} counted", block, children[block],
                         level.claimed_children(block));
    }
  }
  for (std::uint32_t owner = 0; owner < counts.size(); ++owner) {
    if (counts[owner] != level.count(owner)) return BrokenClaim("owner {} has {} claims", owner, counts[owner]);
  }
  if (claimed != level.claimed_count()) return BrokenClaim("{} blocks are claimed", claimed);
  return {};
}

// A block is pinned or retained for itself or for a child, and is in the place of its rank.
Result<void> Claims::CheckBlock(std::uint32_t block) const {
  const BlockNode& node = tree_[block];
  for (const ClaimLevel* level : {&pinned_, &retained_}) {
    const bool should_be = level->IsOwn(block) || level->claimed_children(block) > 0;
    if (should_be != level->IsClaimed(block))
      return BrokenClaim("block {} is pinned or retained without a reason", block);
  }
  const bool has_pin = IsPinned(block) && pins_.Contains(node.hash);
  if (pinned_.IsOwn(block) != has_pin) return BrokenClaim("block {} is pinned other than the pin table says", block);
  if (IsPinned(block) && tree_.IsPartial(block)) return BrokenClaim("partial block {} is pinned", block);
  const bool is_retained = timers_.IsSet(RetentionTimer(block));
  if (!is_retained && lifetimes_.Of(block) > Duration::zero())
    return BrokenClaim("block {} has an ended lifetime", block);
  if (!is_retained && node.retention_priority != kDefaultRetentionPriority) {
    return BrokenClaim("block {} has a priority without a retention", block);
  }
  if (retained_.IsOwn(block) != (node.retention_priority > kDefaultRetentionPriority)) {
    return BrokenClaim("block {} with priority {} is retained, or not", block, node.retention_priority);
  }
  if (IsIdle(block) && node.rank != RankOf(block)) {
    return BrokenClaim("block {} has rank {} and is in the place of {}", block, RankOf(block), node.rank);
  }
  return {};
}

// A held block is idle, not pinned, and has a reason to be held. The block before it is held too, unless it is in use
// or pinned. A young block has a place of its own while it is held, and may have one while it is in use.
Result<void> Claims::CheckHold(std::uint32_t block) const {
  const bool may_be_held = IsIdle(block) && !IsPinned(block);
  const bool has_child = held_.claimed_children(block) > 0;
  if (IsHeld(block) && !(may_be_held && (IsYoung(block) || has_child))) {
    return BrokenClaim("block {} is held without a reason", block);
  }
  if (may_be_held && has_child && !IsHeld(block)) return BrokenClaim("block {} is not held, its children are", block);
  const bool has_place = held_.IsOwn(block);
  if (has_place && !(IsYoung(block) && IsHeld(block) == IsIdle(block))) {
    return BrokenClaim("block {} has a place, and is not young or not held", block);
  }
  if (!has_place && IsHeld(block) && IsYoung(block)) return BrokenClaim("block {} is young and has no place", block);
  return {};
}

Result<void> Claims::CheckTotals() const {
  if (!lifetimes_.IsSound()) return BrokenClaim("lifetimes are not in order");
  std::vector<std::uint32_t> ready(groups_.size());
  std::uint32_t idle_pinned = 0;
  for (std::uint32_t block = 0; block < tree_.size(); ++block) {
    ready[tree_[block].group] += tree_[block].ready ? 1 : 0;
    idle_pinned += IsPinned(block) && IsIdle(block) ? 1 : 0;
    if (held_.IsCounted(block) && held_.owner(block) != tree_[block].group) {
      return BrokenClaim("the hold of block {} counts for group {}", block, held_.owner(block));
    }
  }
  for (std::uint32_t group = 0; group < groups_.size(); ++group) {
    if (ready[group] != groups_[group].ready_count) return BrokenClaim("group {} has {} blocks", group, ready[group]);
  }
  if (idle_pinned != idle_pinned_) return BrokenClaim("{} pinned blocks are idle", idle_pinned);
  if (PinCount() > pin_limit_)
    return BrokenClaim("{} blocks are or will be pinned, of at most {}", PinCount(), pin_limit_);
  return {};
}

}  // namespace roost::worker

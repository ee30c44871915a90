#include "worker/cache/claim_level.h"

#include "common/base/check.h"

namespace roost::worker {

void ClaimLevel::SetOwn(std::uint32_t block, std::uint32_t owner) {
  if (entries_.empty()) entries_.resize(block_count_);
  Entry& entry = entries_[block];
  if (entry.own) return;
  if (!entry.claimed) Count(block, owner);
  entry.own = true;
  ++own_count_;
}

void ClaimLevel::ClearOwn(std::uint32_t block) {
  if (!IsOwn(block)) return;
  Entry& entry = entries_[block];
  entry.own = false;
  --own_count_;
  if (!entry.claimed) --counts_[entry.owner];
}

void ClaimLevel::Claim(std::uint32_t block, std::uint32_t parent, std::uint32_t owner) {
  if (entries_.empty()) entries_.resize(block_count_);
  Entry& entry = entries_[block];
  ROOST_CHECK(!entry.claimed, "block {} is claimed already", block);
  if (!entry.own) Count(block, owner);
  entry.claimed = true;
  ++claimed_count_;
  if (parent != kNoBlock) ++entries_[parent].claimed_children;
}

void ClaimLevel::Unclaim(std::uint32_t block, std::uint32_t parent) {
  ROOST_CHECK(IsClaimed(block), "block {} is not claimed", block);
  Entry& entry = entries_[block];
  entry.claimed = false;
  --claimed_count_;
  if (!entry.own) --counts_[entry.owner];
  if (parent != kNoBlock) --entries_[parent].claimed_children;
}

void ClaimLevel::Count(std::uint32_t block, std::uint32_t owner) {
  entries_[block].owner = owner;
  if (owner >= counts_.size()) counts_.resize(owner + 1);
  ++counts_[owner];
}

}  // namespace roost::worker

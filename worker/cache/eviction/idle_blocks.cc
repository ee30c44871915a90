#include "worker/cache/eviction/idle_blocks.h"

#include <bit>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kWordsPerGroup = 2;

}  // namespace

IdleBlocks::IdleBlocks(std::uint32_t block_count, std::uint32_t group_count, std::unique_ptr<EvictionPolicy> policy)
    : lists_(block_count, group_count * kListsPerGroup),
      in_use_(std::size_t{group_count} * kWordsPerGroup),
      policy_(std::move(policy)) {
  static_assert(kListsPerGroup <= kWordsPerGroup * 64);
}

void IdleBlocks::Insert(BlockId block, const BlockUse& use, TreePlace place, std::uint32_t priority) {
  if (priority == kDefaultRetentionPriority) {
    policy_->Insert(block, use, place);
    return;
  }
  ROOST_CHECK(priority <= kMaxRetentionPriority, "priority {}", priority);
  const std::uint32_t list = use.group.value() * kListsPerGroup + priority;
  lists_.PushBack(list, block, place);
  NoteInUse(list);
}

void IdleBlocks::InsertWanted(BlockId block, EvictionGroup group, TreePlace place) {
  lists_.PushBack(group.value() * kListsPerGroup + kWantedRank, block, place);
}

void IdleBlocks::InsertHeld(BlockId block, EvictionGroup group, TreePlace place, std::uint64_t age_number) {
  lists_.Insert(group.value() * kListsPerGroup + kHeldRank, block, place, age_number);
}

void IdleBlocks::BecomeLeaf(BlockId block) {
  if (!lists_.Contains(block)) {
    policy_->BecomeLeaf(block);
    return;
  }
  lists_.BecomeLeaf(block);
  NoteInUse(lists_.ListOf(block));
}

void IdleBlocks::Erase(BlockId block) {
  if (lists_.Contains(block)) {
    lists_.Erase(block);
  } else {
    policy_->Erase(block);
  }
}

std::optional<BlockId> IdleBlocks::Victim(EvictionGroup group, Reach reach) {
  if (reach == Reach::kHeld) return lists_.FrontLeaf(group.value() * kListsPerGroup + kHeldRank);
  if (reach == Reach::kWanted) return lists_.FrontLeaf(group.value() * kListsPerGroup + kWantedRank);
  if (const auto low = FirstRetained(group, 0, kDefaultRetentionPriority)) return low;
  if (const auto plain = policy_->Victim(group)) return plain;
  return FirstRetained(group, kDefaultRetentionPriority + 1, kMaxRetentionPriority + 1);
}

void IdleBlocks::Evict(BlockId block) {
  if (lists_.Contains(block)) {
    lists_.Erase(block);
  } else {
    policy_->Evict(block);
  }
}

// The first leaf among the lists of priorities [first, last).
std::optional<BlockId> IdleBlocks::FirstRetained(EvictionGroup group, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t word = 0; word < kWordsPerGroup; ++word) {
    std::uint64_t& bits = in_use_[group.value() * kWordsPerGroup + word];
    for (std::uint64_t left = bits; left != 0; left &= left - 1) {
      const std::uint32_t priority = word * 64 + static_cast<std::uint32_t>(std::countr_zero(left));
      if (priority < first || priority >= last) continue;
      if (const auto block = lists_.FrontLeaf(group.value() * kListsPerGroup + priority)) return block;
      bits &= ~(std::uint64_t{1} << (priority % 64));
    }
  }
  return std::nullopt;
}

void IdleBlocks::NoteInUse(std::uint32_t list) {
  const std::uint32_t group = list / kListsPerGroup;
  const std::uint32_t priority = list % kListsPerGroup;
  if (priority >= kWantedRank) return;
  in_use_[group * kWordsPerGroup + priority / 64] |= std::uint64_t{1} << (priority % 64);
}

}  // namespace roost::worker

#include "worker/cache/structures/hash_index.h"

#include <bit>

#include "common/base/check.h"

namespace roost::worker {

HashIndex::HashIndex(std::uint32_t capacity)
    : capacity_(capacity), mask_(std::bit_ceil(std::size_t{capacity} * 4 / 3 + 1) - 1), slots_(mask_ + 1) {
  ROOST_CHECK(capacity <= 1U << 31U, "{} entries", capacity);
}

void HashIndex::Insert(BlockHash hash, BlockId block) {
  ROOST_CHECK(size_ < capacity_, "{} entries", size_);
  const std::uint32_t tag = TagOf(hash);
  std::size_t place = tag & mask_;
  while (slots_[place].block != kEmpty) place = (place + 1) & mask_;
  slots_[place] = {tag, block.value()};
  ++size_;
}

void HashIndex::Erase(BlockHash hash, BlockId block) {
  std::size_t hole = TagOf(hash) & mask_;
  while (slots_[hole].block != block.value()) {
    ROOST_CHECK(slots_[hole].block != kEmpty, "block {} is not there under {}", block.value(), hash.ToHex());
    hole = (hole + 1) & mask_;
  }
  // An entry after the hole moves into it unless its home lies after the hole, in (hole, next] in ring order.
  for (std::size_t next = (hole + 1) & mask_; slots_[next].block != kEmpty; next = (next + 1) & mask_) {
    const std::size_t distance_from_home = (next - slots_[next].tag) & mask_;
    const std::size_t distance_from_hole = (next - hole) & mask_;
    if (distance_from_home < distance_from_hole) continue;
    slots_[hole] = slots_[next];
    hole = next;
  }
  slots_[hole] = Slot{};
  --size_;
}

}  // namespace roost::worker
